/* SPDX-License-Identifier: MIT */
/* cmd_list - the snapshots in the index, oldest first. */
#include "tools/tool.h"

#include <getopt.h>
#include <inttypes.h>

static void print_json(const struct snap_info *i)
{
	char when[32];
	bool lossy = false;

	(void)printf("{\"id\":%" PRId64 ",\"utc\":\"%s\",\"time\":%" PRId64 ",\"root\":", i->id,
	             tool_utc(i->time, when), i->time);
	tool_json_string(stdout, i->root, &lossy);
	if (lossy) {
		(void)fputs(",\"root_hex\":\"", stdout);
		for (const char *c = i->root; *c; c++)
			(void)printf("%02x", (unsigned char)*c);
		(void)fputc('"', stdout);
	}
	(void)printf(",\"bytes\":%" PRIu64 ",\"files\":%" PRIu64
	             ",\"complete\":%d,\"approximate\":%d}\n",
	             i->totals.bytes, i->totals.files, i->complete, i->mode == SNAP_QUICK);
}

static void print_line(const struct snap_info *i)
{
	char when[32];

	(void)printf("%" PRId64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t", i->id,
	             tool_utc(i->time, when), i->totals.bytes, i->totals.files,
	             !i->complete            ? "incomplete"
	             : i->mode == SNAP_QUICK ? "approximate"
	                                     : "complete");
	tool_put_escaped(stdout, i->root);
	(void)putchar('\n');
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "index", required_argument, NULL, 'i' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	AUTO(snap_close) struct snap *s = NULL;
	struct snap_list l = { 0 };
	const char *index = NULL;
	bool json = false;
	int option, r;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'i')
			index = optarg;
		else if (option == 'j')
			json = true;
		else
			return tool_usage(&cmd_list);
	}
	if (optind != argc)
		return tool_usage(&cmd_list);
	if (tool_open_index(index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	r = snap_list_get(s, &l);
	if (r < 0)
		return tool_fail(EXIT_FAILED, "index", snap_path(s), snap_strerror(r));
	for (size_t i = 0; i < l.n; i++)
		json ? print_json(l.info[i]) : print_line(l.info[i]);
	snap_list_done(&l);
	return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
}

const struct command cmd_list = {
	.name = "list",
	.args = "[--index FILE] [--json]",
	.help = "list the snapshots: id, UTC time, bytes, files, complete, root",
	.options =
		"  --index FILE      the index (default: $DISKTRACKER_INDEX, or the user's own)\n"
		"  --json            one JSON object per snapshot\n",
	.run = run,
};
