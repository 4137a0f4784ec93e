/* SPDX-License-Identifier: MIT */
/* cmd_list - the snapshots in the index, oldest first. */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>

struct list_args {
	const char *index;
	bool json;
};

static void put_json(struct text *out, const struct snap_info *i)
{
	char when[32];

	text_printf(out, "{\"id\":%" PRId64 ",\"utc\":\"%s\",\"time\":%" PRId64 ",", i->id,
	            tool_utc(i->time, when), i->time);
	text_json_field(out, "root", i->root, strlen(i->root));
	text_printf(out,
	            ",\"bytes\":%" PRIu64 ",\"files\":%" PRIu64
	            ",\"complete\":%d,\"approximate\":%d}\n",
	            i->totals.bytes, i->totals.files, i->complete, i->mode == SNAP_QUICK);
}

static void put_line(struct text *out, const struct snap_info *i)
{
	char when[32];

	text_printf(out, "%" PRId64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t", i->id,
	            tool_utc(i->time, when), i->totals.bytes, i->totals.files,
	            !i->complete            ? "incomplete"
	            : i->mode == SNAP_QUICK ? "approximate"
	                                    : "complete");
	text_escaped(out, i->root, strlen(i->root));
	text_puts(out, "\n");
}

static int run(int argc, char **argv)
{
	AUTO(snap_close) struct snap *s = NULL;
	struct list_args a = { 0 };
	struct snap_list l = { 0 };
	struct text out = { 0 };
	int r, status = tool_parse(&cmd_list, argc, argv, &a);

	if (status != TOOL_RUN)
		return status;
	if (tool_open_index(a.index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	r = snap_list_get(s, &l);
	if (r < 0)
		return tool_index_failed(s, r);
	for (size_t i = 0; i < l.n; i++)
		(a.json ? put_json : put_line)(&out, l.info[i]);
	for (size_t i = 0; i < l.n_damaged; i++)
		(void)fprintf(stderr,
		              "disktracker: snapshot %" PRId64
		              " is damaged and left out; 'disktracker check' says more\n",
		              l.damaged[i]);
	r = l.n_damaged ? EXIT_FAILED : EXIT_DONE;
	snap_list_done(&l);
	return tool_print(r, &out);
}

static const struct tool_option options[] = {
	TOOL_INDEX(offsetof(struct list_args, index)),
	{ "--json", NULL, "one JSON object per snapshot", tool_set_flag,
	  .at = offsetof(struct list_args, json) },
	{ 0 },
};

const struct command cmd_list = {
	.name = "list",
	.args = "",
	.help = "list the snapshots: id, UTC time, bytes, files, complete, root",
	.options = options,
	.run = run,
};
