/* SPDX-License-Identifier: MIT */
/* cmd_cat - prints virtual files without a mount. */
#include "tools/view.h"

struct cat_args {
	const char *index;
};

static int cat(struct tool_view *t, const char *word, struct text *out)
{
	const struct viewer who = { .uid = getuid(), .gid = getgid() };
	struct view_found found;
	int r, status = tool_view_find(t, word, &found);

	if (status != EXIT_DONE)
		return status;
	r = found.file < 0 ? -EISDIR : usage_text(&found.dir, (uint8_t)found.file, &who, out);
	view_found_done(&found);
	if (r == -EISDIR)
		return tool_fail(EXIT_FAILED, "a directory", word,
		                 "'disktracker ls' lists it; its numbers are in .usage");
	if (r < 0)
		return tool_fail(EXIT_FAILED, "no answer for", word,
		                 r == -EUCLEAN ? snap_strerror(r) : strerror(-r));
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct cat_args a = { 0 };
	struct text out = { 0 };
	struct tool_view t;
	int status = tool_parse(&cmd_cat, argc, argv, &a);

	if (status != TOOL_RUN)
		return status;
	status = tool_view_open(a.index, &t);
	for (char **word = argv + 1; status != EXIT_FAILED && *word; word++)
		if (cat(&t, *word, &out) != EXIT_DONE)
			status = EXIT_INCOMPLETE;
	tool_view_close(&t);
	/* Nothing printed is a failure, a part of it is not. */
	return tool_print(status == EXIT_INCOMPLETE && !out.len ? EXIT_FAILED : status, &out);
}

static const struct tool_option options[] = {
	TOOL_INDEX(offsetof(struct cat_args, index)),
	{ 0 },
};

const struct command cmd_cat = {
	.name = "cat",
	.args = "PATH...",
	.help = "print what a virtual file of a mount says, without a mount",
	.options = options,
	.more = "PATH is as on a mount: /srv/.usage/top, .usage/at/prev/.usage/summary (from where you are),\n"
		"/.growth/7d/srv/.usage/delta. The directory need not exist any more, but must have been scanned,\n"
		"or be above or in one that was. 'disktracker help files' lists what there is.\n",
	.run = run,
};
