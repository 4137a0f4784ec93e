/* SPDX-License-Identifier: MIT */
/*
 * usage_files - the table of virtual files in .usage: lookup, readdir, getattr, read and help walk it.
 *
 * A text depends on the path and on snapshots alone, the shown one and those before it, so a reader sees one
 * moment.
 */
#include "fs/view/internal.h"

#include <assert.h>
#include <stdio.h>

static int put_number(struct text *out, int64_t v)
{
	text_i64(out, v);
	text_puts(out, "\n");
	return 0;
}

/* A time that is none, since there is nothing that could have one, is 0. */
static int64_t number_of(const struct scan_totals *t, const struct totals_field *f)
{
	int64_t v = totals_get(t, f);

	return f->how == TOTALS_TIME && v == INT64_MIN ? 0 : v;
}

static const struct totals_field *field_of(const char *name)
{
	for (size_t i = 0; i < TOTALS_FIELDS; i++)
		if (strcmp(totals_fields[i].name, name) == 0)
			return &totals_fields[i];
	return NULL;
}

bool usage_number(const struct scan_totals *t, const char *name, int64_t *ret)
{
	const struct totals_field *f = field_of(name);

	if (f)
		*ret = number_of(t, f);
	return f != NULL;
}

static int render_number(const struct usage_dir *d, struct text *out)
{
	int64_t v = 0;

	(void)usage_number(&d->node->totals, d->file->name, &v);
	return put_number(out, v);
}

/* The tree of growth keeps the signed difference where other trees have the sum of lengths. */
static int render_delta(const struct usage_dir *d, struct text *out)
{
	return put_number(out, unzigzag(d->node->totals.apparent));
}

static int render_asof(const struct usage_dir *d, struct text *out)
{
	return put_number(out, d->asof);
}

static int render_complete(const struct usage_dir *d, struct text *out)
{
	return put_number(out, d->node->totals.errors == 0);
}

static void stat_line(struct text *out, const char *key, int64_t v)
{
	text_puts(out, key);
	text_puts(out, " ");
	text_i64(out, v);
	text_puts(out, "\n");
}

/* All numbers in one read. Lines are only ever appended: the counters come in the order of totals_fields. */
static int render_stat(const struct usage_dir *d, struct text *out)
{
	const struct scan_totals *t = &d->node->totals;
	static const char *const last = "changed"; /* came later */

	for (const struct totals_field *f = totals_fields; f < totals_fields + TOTALS_FIELDS; f++)
		if (strcmp(f->name, last) != 0)
			stat_line(out, f->name, number_of(t, f));
	stat_line(out, "asof", d->asof);
	stat_line(out, "complete", t->errors == 0);
	stat_line(out, last, (int64_t)t->changed);
	stat_line(out, "snapshot", d->snapshot ? d->snapshot->id : 0);
	stat_line(out, "approximate", d->snapshot && d->snapshot->mode == SNAP_QUICK);
	return 0;
}

static const char readme[] =
	"This is a view of disk usage, made by disktracker from its newest snapshots.\n"
	"Every directory shows its total as its size; nothing here has contents.\n"
	"\n"
	"    ls -lhS                          what is largest right here\n"
	"    du -h --max-depth=2 | sort -h    the usual answer, at once\n"
	"    cat .usage/summary               this directory at a glance\n"
	"    cat SUBDIR/.usage/bytes          one number, for scripts\n"
	"    head .usage/top                  the largest directories anywhere below\n"
	"    head .usage/largest              the largest files anywhere below\n"
	"    cat .usage/errors.list           what could not be read\n"
	"    head .usage/growth/1d            what grew since yesterday; tail: what shrank\n"
	"    cat .usage/history               how this directory came to its size\n"
	"    ls .usage/at/prev                the same directory one snapshot ago\n"
	"    ls -lhS .growth/7d               only what changed this week, by growth (at the top)\n"
	"    cat .telemetry/scan              how the newest scan went (at the top)\n"
	"\n"
	"Every directory has .usage/, reachable by name though it is listed only at the top.\n"
	"Tables have the number first, a TAB, the path last; NAME.0 has raw names and NULs for xargs -0.\n"
	"\n"
	"Files in .usage:\n";

static int render_readme(const struct usage_dir *d, struct text *out)
{
	(void)d;
	text_puts(out, readme);
	for (size_t i = 0; i < n_usage_files; i++)
		text_printf(out, "    %-12s %s\n", usage_files[i].name,
		            usage_file_help(&usage_files[i]));
	text_puts(out, "\nThe manual is disktracker-files(5).\n");
	return 0;
}

/* Sorted by name, windows by length: readdir and help show this order. */
const struct usage_file usage_files[] = {
	/* clang-format off */
	{ "README",      render_readme,      .help = "one page: what is where, with commands to try", .path = true },
	{ "apparent",     .render = render_number },
	{ "asof",        render_asof,        .help = "when this was scanned, Unix time", .asof = true },
	{ "bytes",        .render = render_number },
	{ "children",    render_children,    .help = "direct sub-directories and files by size: bytes, name", .twin = true, .slow = true },
	{ "complete",    render_complete,    .help = "1, or 0 when a part could not be read" },
	{ "crowded",     render_crowded,     .help = "directories with the most direct entries: entries, path", .twin = true, .slow = true },
	{ "delta",       render_delta,       .help = "in .growth only: bytes grown, negative when shrunk", .grown = true },
	{ "dirs",         .render = render_number },
	{ "entries",      .render = render_number },
	{ "errors",       .render = render_number },
	{ "errors.list", render_errors,      .help = "what was unreadable, vanished, changed or skipped: reason, path", .twin = true, .slow = true },
	{ "files",        .render = render_number },
#define GROWTH_ROW(name, seconds, words) \
	{ "growth/" name, render_growth, .help = "what explains the change of the last " words ": +/-bytes, path", .twin = true, .slow = true, .path = true, .asof = true },
	EACH_WINDOW(GROWTH_ROW)
#undef GROWTH_ROW
	{ "growth/span", render_span,       .help = "seconds that each window of growth really covers: window, seconds", .path = true, .asof = true },
	{ "history",     render_history,     .help = "snapshots in which it changed: time, bytes, files, snapshot", .slow = true, .path = true, .asof = true },
	{ "largest",     render_largest,     .help = "the 50 largest files below: bytes, path", .twin = true, .slow = true },
	{ "newest",       .render = render_number },
	{ "shared",       .render = render_number },
	{ "skipped",      .render = render_number },
	{ "stat",        render_stat,        .help = "all numbers as \"key value\" lines, of one snapshot", .asof = true },
	{ "summary",     render_summary,     .help = "for people: sizes, counts, age, the five largest", .slow = true, .path = true, .asof = true },
	{ "top",         render_top,         .help = "the 50 largest directories below: bytes, path", .twin = true, .slow = true },
	{ "vanished",     .render = render_number },
	/* clang-format on */
};

const size_t n_usage_files = ARRAY_SIZE(usage_files);
static_assert(ARRAY_SIZE(usage_files) <= 64,
              "whoever remembers which were read has a bit for each");
static_assert(ARRAY_SIZE(usage_files) < USAGE_TWIN, "the number of a twin is another one");

const char *usage_file_help(const struct usage_file *f)
{
	return f->help ? f->help : field_of(f->name)->help;
}

static const char growth_dir[] = "growth/";

enum usage_where usage_file_where(uint8_t file)
{
	const char *name = usage_files[file & ~USAGE_TWIN].name;

	return strncmp(name, growth_dir, sizeof(growth_dir) - 1) == 0 ? USAGE_GROWTH : USAGE_HERE;
}

void usage_file_name(uint8_t file, char buf[64])
{
	const char *name = usage_files[file & ~USAGE_TWIN].name;

	if (usage_file_where(file) == USAGE_GROWTH)
		name += sizeof(growth_dir) - 1;
	(void)snprintf(buf, 64, "%s%s", name, file & USAGE_TWIN ? ".0" : "");
}

int usage_file_find(enum usage_where where, const char *name)
{
	for (size_t i = 0; i < n_usage_files; i++) {
		for (unsigned twin = 0; twin <= usage_files[i].twin; twin++) {
			uint8_t file = (uint8_t)(i | (twin ? USAGE_TWIN : 0));
			char buf[64];

			if (usage_file_where(file) != where)
				continue;
			usage_file_name(file, buf);
			if (strcmp(buf, name) == 0)
				return file;
		}
	}
	return -1;
}

int usage_text(const struct usage_dir *d, uint8_t file, const struct viewer *who, struct text *out)
{
	struct usage_dir asked = *d;
	int r = access_ask(d, file, who);

	asked.file = &usage_files[file & ~USAGE_TWIN];
	if (r == 0)
		r = asked.file->render(&asked, out);
	return r == 0 && out->failed ? -ENOMEM : r;
}
