/* SPDX-License-Identifier: MIT */
/* cmd_check - verify the index and say which snapshots are whole. */
#include "tools/tool.h"

#include <getopt.h>
#include <inttypes.h>

static void show_progress(void *ctx, uint64_t packs)
{
	(void)ctx;
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r%" PRIu64 " packs\033[K", packs);
}

static int report(const struct snap *s, const struct snap_damage *d)
{
	if (isatty(STDERR_FILENO))
		(void)fputs("\r\033[K", stderr);
	(void)printf("%" PRIu64 " packs, %" PRIu64 " directories verified\n", d->packs, d->nodes);
	if (d->n == 0 && d->bad_packs == 0) {
		(void)puts("the index is sound");
		return EXIT_DONE;
	}
	(void)tool_fail(0, "index", snap_path(s), snap_strerror(-EUCLEAN));
	(void)printf("%" PRIu64 " packs and %" PRIu64 " directories are damaged\n", d->bad_packs,
	             d->bad_nodes);
	for (size_t i = 0; i < d->n; i++)
		(void)printf("damaged snapshot %" PRId64 "\n", d->ids[i]);
	(void)puts(
		"Snapshots not named here are whole. Scan the roots again with --cold into a new index\n"
		"(--index NEW) and keep this one for its history; or restore it from a backup.");
	return EXIT_FAILED;
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "index", required_argument, NULL, 'i' },
		{ NULL, 0, NULL, 0 },
	};
	AUTO(snap_close) struct snap *s = NULL;
	const char *index = NULL;
	struct snap_damage d;
	int option, r, status;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'i')
			return tool_usage(&cmd_check);
		index = optarg;
	}
	if (optind != argc)
		return tool_usage(&cmd_check);
	if (tool_open_index(index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	r = snap_check(s, show_progress, NULL, &d);
	if (r < 0)
		return tool_fail(EXIT_FAILED, "index", snap_path(s), snap_strerror(r));
	status = report(s, &d);
	snap_damage_done(&d);
	return status;
}

const struct command cmd_check = {
	.name = "check",
	.args = "[--index FILE]",
	.help = "verify the index and name damaged snapshots",
	.options =
		"  --index FILE      the index (default: $DISKTRACKER_INDEX, or the user's own)\n",
	.run = run,
};
