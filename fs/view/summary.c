/* SPDX-License-Identifier: MIT */
/* render_summary - a directory at a glance, for people. */
#include "fs/view/internal.h"

#include <inttypes.h>
#include <stdio.h>

enum {
	SHOWN = 5
};

static void put_problems(const struct scan_totals *t, struct text *out)
{
	if (t->errors)
		text_printf(out,
		            "Incomplete: %" PRIu64
		            " things could not be read, so the size is a lower bound.\n",
		            t->errors);
	if (t->vanished | t->changed | t->skipped)
		text_printf(out,
		            "%" PRIu64 " vanished, %" PRIu64 " changed, %" PRIu64
		            " skipped during the scan.\n",
		            t->vanished, t->changed, t->skipped);
	if (t->errors | t->vanished | t->changed | t->skipped)
		text_puts(out, "See errors.list.\n");
}

/* The first lines of children, with units. */
static int put_children(const struct usage_dir *d, struct text *out)
{
	struct usage_dir plain = *d;
	struct text all = { 0 };
	char *line, *end;
	int r;

	plain.raw = false;
	r = render_children(&plain, &all);
	text_add(&all, "", 1);
	if (r < 0 || all.failed) {
		text_done(&all);
		return r < 0 ? r : -ENOMEM;
	}
	line = all.p;
	for (int i = 0; i < SHOWN && *line; i++, line = end + 1) {
		char size[16], *tab = strchr(line, '\t');

		end = strchr(line, '\n');
		text_human(strtoull(line, NULL, 10), size);
		text_printf(out, "%12s  ", size);
		text_add(out, tab + 1, (size_t)(end - tab));
	}
	text_done(&all);
	return 0;
}

int render_summary(const struct usage_dir *d, struct text *out)
{
	const struct scan_totals *t = &d->node->totals;
	char bytes[16], apparent[16], shared[16], asof[32], newest[32];

	text_human(t->bytes, bytes);
	text_human(t->apparent, apparent);
	text_human(t->shared, shared);
	text_utc(d->asof, asof);
	text_utc(t->newest == INT64_MIN ? 0 : t->newest, newest);
	text_escaped_spaces(out, d->path, strlen(d->path));
	text_printf(out, "\n%s on disk, %s apparent", bytes, apparent);
	if (t->shared)
		text_printf(out, ", %s of it also linked from elsewhere", shared);
	text_printf(out,
	            "\n%" PRIu64 " files, %" PRIu64 " directories, %" PRIu64 " other entries\n",
	            t->files, t->dirs, t->entries - t->files - t->dirs);
	text_printf(out, "scanned %s, newest change %s\n", asof, newest);
	if (d->snapshot && d->snapshot->mode == SNAP_QUICK)
		text_puts(out,
		          "Approximate: taken with --quick, which misses what grew in place.\n");
	put_problems(t, out);
	return put_children(d, out);
}
