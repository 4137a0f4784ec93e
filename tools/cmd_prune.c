/* SPDX-License-Identifier: MIT */
/* cmd_prune - remove old snapshots by rules, and give their space back. */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>

struct prune_args {
	const char *index;
	struct snap_policy policy;
	bool dry_run;
};

static bool is_empty(const struct snap_policy *p)
{
	return !(p->keep_last | p->keep_daily | p->keep_weekly | p->keep_monthly) && !p->older_than;
}

static int report(const struct prune_args *a, const struct snap_pruned *p)
{
	struct text out = { 0 };
	char size[16];

	for (size_t i = 0; i < p->n; i++)
		text_printf(&out, "%s %" PRId64 "\n", a->dry_run ? "would remove" : "removed",
		            p->ids[i]);
	if (p->n == 0)
		text_puts(&out, "nothing to remove\n");
	else if (!a->dry_run)
		text_printf(&out, "%zu snapshots, %" PRIu64 " directories, %s given back\n", p->n,
		            p->nodes, tool_human(p->bytes, size));
	return tool_print(EXIT_DONE, &out);
}

static int failed(const struct snap *s, const char *what, int error)
{
	AUTO(base_free) char *reason = NULL;
	char size[16];

	if (error == -ENOSPC &&
	    asprintf(&reason, "%s: free some elsewhere on it, at most %s, and run it again",
	             snap_strerror(error), tool_human(snap_file_bytes(s), size)) < 0)
		reason = NULL;
	return tool_fail(EXIT_FAILED, what, snap_path(s), reason ? reason : snap_strerror(error));
}

static int run(int argc, char **argv)
{
	AUTO(snap_close) struct snap *s = NULL;
	struct prune_args a = { 0 };
	struct snap_pruned p;
	bool said = false;
	int r, status = tool_parse(&cmd_prune, argc, argv, &a);

	if (status != TOOL_RUN)
		return status;
	if (is_empty(&a.policy))
		return tool_fail(EXIT_USAGE, "prune needs a rule, such as --keep-daily 30", NULL,
		                 NULL);
	/* An index that does not exist is not to be made here. */
	if (tool_open_index(a.index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	snap_close(TAKE(s));
	if (tool_open_index(a.index, SNAP_WRITE, &s) < 0)
		return EXIT_FAILED;
	while ((r = snap_prune(s, &a.policy, (int64_t)time(NULL), a.dry_run, &p)) == -EBUSY)
		tool_wait(&said, "waiting: a scan is writing to the index", snap_path(s));
	if (r < 0)
		return failed(s, "nothing was removed; index", r);
	status = report(&a, &p);
	if (p.left < 0)
		status = failed(s, "not all could be removed; index", p.left);
	snap_pruned_done(&p);
	return status;
}

#define RULE(member) tool_set_number, .at = offsetof(struct prune_args, policy.member)

static const struct tool_option options[] = {
	{ "--keep-last", "N", "keep the last N snapshots of each root", RULE(keep_last) },
	{ "--keep-daily", "N", "keep the last snapshot of each of the last N days that have one",
	  RULE(keep_daily) },
	{ "--keep-weekly", "N", "... weeks", RULE(keep_weekly) },
	{ "--keep-monthly", "N", "... months", RULE(keep_monthly) },
	{ "--older-than", "AGE", "remove only what is older (90d, 12h, 8w)", tool_set_age,
	  .at = offsetof(struct prune_args, policy.older_than) },
	{ "--dry-run", NULL, "only say what would be removed", tool_set_flag,
	  .at = offsetof(struct prune_args, dry_run) },
	TOOL_INDEX(offsetof(struct prune_args, index)),
	{ 0 },
};

const struct command cmd_prune = {
	.name = "prune",
	.args = "",
	.help = "remove old snapshots and give their space back",
	.options = options,
	.more = "The newest snapshot of each root always stays.\n",
	.run = run,
};
