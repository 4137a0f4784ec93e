/* SPDX-License-Identifier: MIT */
/* cmd_prune - remove old snapshots by rules, and give their space back. */
#include "tools/tool.h"

#include <getopt.h>
#include <inttypes.h>

struct prune_args {
	const char *index;
	struct snap_policy policy;
	bool dry_run, any;
};

static int parse_rule(struct prune_args *a, int option)
{
	uint64_t *const rule[] = { &a->policy.keep_last, &a->policy.keep_daily,
		                   &a->policy.keep_weekly, &a->policy.keep_monthly };
	static const char *const names[] = { "--keep-last", "--keep-daily", "--keep-weekly",
		                             "--keep-monthly" };

	a->any = true;
	if (option < 4)
		return tool_number(names[option], optarg, rule[option]);
	if (snap_parse_age(optarg, &a->policy.older_than) < 0 || a->policy.older_than == 0)
		return tool_fail(-1, "--older-than takes an age such as 90d, 12h, 8w, not", optarg,
		                 NULL);
	return 0;
}

static int parse(struct prune_args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "keep-last", required_argument, NULL, 0 },
		{ "keep-daily", required_argument, NULL, 1 },
		{ "keep-weekly", required_argument, NULL, 2 },
		{ "keep-monthly", required_argument, NULL, 3 },
		{ "older-than", required_argument, NULL, 4 },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "index", required_argument, NULL, 'i' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'i')
			a->index = optarg;
		else if (option == 'n')
			a->dry_run = true;
		else if (option > 4)
			return tool_usage(&cmd_prune);
		else if (parse_rule(a, option) < 0)
			return EXIT_USAGE;
	}
	if (optind != argc)
		return tool_usage(&cmd_prune);
	if (!a->any)
		return tool_fail(EXIT_USAGE, "prune needs a rule, such as --keep-daily 30", NULL,
		                 NULL);
	return EXIT_DONE;
}

static void report(const struct prune_args *a, const struct snap_pruned *p)
{
	char size[16];

	for (size_t i = 0; i < p->n; i++)
		(void)printf("%s %" PRId64 "\n", a->dry_run ? "would remove" : "removed",
		             p->ids[i]);
	if (p->n == 0)
		(void)puts("nothing to remove");
	else if (!a->dry_run)
		(void)printf("%zu snapshots, %" PRIu64 " directories, %s given back\n", p->n,
		             p->nodes, tool_human(p->bytes, size));
}

static int run(int argc, char **argv)
{
	AUTO(snap_close) struct snap *s = NULL;
	struct prune_args a = { 0 };
	struct snap_pruned p;
	bool said = false;
	int status = parse(&a, argc, argv), r;

	if (status != EXIT_DONE)
		return status;
	/* An index that does not exist is not to be made here. */
	if (tool_open_index(a.index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	snap_close(TAKE(s));
	if (tool_open_index(a.index, SNAP_WRITE, &s) < 0)
		return EXIT_FAILED;
	while ((r = snap_prune(s, &a.policy, (int64_t)time(NULL), a.dry_run, &p)) == -EBUSY)
		tool_wait(&said, "waiting: a scan is writing to the index", snap_path(s));
	if (r < 0)
		return tool_fail(EXIT_FAILED, "nothing was removed; index", snap_path(s),
		                 snap_strerror(r));
	report(&a, &p);
	snap_pruned_done(&p);
	return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
}

const struct command cmd_prune = {
	.name = "prune",
	.args = "[--index FILE] [--keep-last N] [--keep-daily N] [--keep-weekly N]\n"
		"                         [--keep-monthly N] [--older-than AGE] [--dry-run]",
	.help = "remove old snapshots and give their space back",
	.options =
		"  --keep-last N     keep the last N snapshots of each root\n"
		"  --keep-daily N    keep the last snapshot of each of the last N days that have one\n"
		"  --keep-weekly N   ... weeks\n"
		"  --keep-monthly N  ... months\n"
		"  --older-than AGE  remove only what is older (90d, 12h, 8w)\n"
		"  --dry-run         only say what would be removed\n"
		"The newest snapshot of each root always stays.\n",
	.run = run,
};
