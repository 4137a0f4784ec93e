/* SPDX-License-Identifier: MIT */
/* cmd_check - verify the index and say which snapshots are whole. */
#include "tools/tool.h"

#include <inttypes.h>
#include <stdio.h>

struct check_args {
	const char *index;
};

static void show_progress(void *ctx, uint64_t packs)
{
	(void)ctx;
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r%" PRIu64 " packs\033[K", packs);
}

static int report(const struct snap *s, const struct snap_damage *d)
{
	bool sound = d->n == 0 && d->bad_packs == 0 && !d->bad_lookup && d->n_found == 0;
	struct text out = { 0 };

	if (isatty(STDERR_FILENO))
		(void)fputs("\r\033[K", stderr);
	text_printf(&out, "%" PRIu64 " packs, %" PRIu64 " directories verified\n", d->packs,
	            d->nodes);
	if (sound) {
		text_puts(&out, "the index is sound\n");
		return tool_print(EXIT_DONE, &out);
	}
	(void)tool_index_failed(s, -EUCLEAN);
	text_printf(&out, "%" PRIu64 " packs and %" PRIu64 " directories are damaged\n",
	            d->bad_packs, d->bad_nodes);
	if (d->bad_lookup)
		text_puts(
			&out,
			"The table that finds stored directories again is damaged; no snapshot is the worse for\n"
			"it, and a scan that meets the damage makes the table anew.\n");
	for (size_t i = 0; i < d->n_found; i++)
		text_printf(&out, "%s\n", d->found[i]);
	for (size_t i = 0; i < d->n; i++)
		text_printf(&out, "damaged snapshot %" PRId64 "\n", d->ids[i]);
	text_puts(
		&out,
		"Snapshots not named here are whole. Scan the roots again with --cold into a new index\n"
		"(--index NEW) and keep this one for its history; or restore it from a backup.\n");
	return tool_print(EXIT_FAILED, &out);
}

static int run(int argc, char **argv)
{
	AUTO(snap_close) struct snap *s = NULL;
	struct check_args a = { 0 };
	struct snap_damage d;
	int r, status = tool_parse(&cmd_check, argc, argv, &a);

	if (status != TOOL_RUN)
		return status;
	if (tool_open_index(a.index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	r = snap_check(s, show_progress, NULL, &d);
	if (r < 0)
		return tool_index_failed(s, r);
	status = report(s, &d);
	snap_damage_done(&d);
	return status;
}

static const struct tool_option options[] = {
	TOOL_INDEX(offsetof(struct check_args, index)),
	{ 0 },
};

const struct command cmd_check = {
	.name = "check",
	.args = "",
	.help = "verify the index and name damaged snapshots",
	.options = options,
	.run = run,
};
