/* SPDX-License-Identifier: MIT */
/*
 * usage_files - the table of virtual files in .usage: lookup, readdir, getattr, read and help walk it.
 *
 * A text depends on the path and on snapshots alone, the shown one and those before it, so a reader sees one
 * moment.
 */
#include "fs/view/internal.h"

#include <stdio.h>

static int put_number(struct text *out, uint64_t v)
{
	text_u64(out, v);
	text_puts(out, "\n");
	return 0;
}

static int put_time(struct text *out, int64_t v)
{
	text_i64(out, v == INT64_MIN ? 0 : v);
	text_puts(out, "\n");
	return 0;
}

/* The tree of growth keeps the signed difference where other trees have the sum of lengths. */
static int render_delta(const struct usage_dir *d, struct text *out)
{
	text_i64(out, unzigzag(d->node->totals.apparent));
	text_puts(out, "\n");
	return 0;
}

#define NUMBER_FILE(name, member)                                             \
	static int render_##name(const struct usage_dir *d, struct text *out) \
	{                                                                     \
		return put_number(out, d->node->totals.member);               \
	}

NUMBER_FILE(bytes, bytes)
NUMBER_FILE(apparent, apparent)
NUMBER_FILE(files, files)
NUMBER_FILE(dirs, dirs)
NUMBER_FILE(entries, entries)
NUMBER_FILE(shared, shared)
NUMBER_FILE(error_count, errors)
NUMBER_FILE(vanished, vanished)
NUMBER_FILE(skipped, skipped)

static int render_newest(const struct usage_dir *d, struct text *out)
{
	return put_time(out, d->node->totals.newest);
}

static int render_asof(const struct usage_dir *d, struct text *out)
{
	return put_time(out, d->asof);
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

/* All numbers in one read. Lines are only ever appended. */
static int render_stat(const struct usage_dir *d, struct text *out)
{
	const struct scan_totals *t = &d->node->totals;

	stat_line(out, "bytes", (int64_t)t->bytes);
	stat_line(out, "apparent", (int64_t)t->apparent);
	stat_line(out, "files", (int64_t)t->files);
	stat_line(out, "dirs", (int64_t)t->dirs);
	stat_line(out, "entries", (int64_t)t->entries);
	stat_line(out, "shared", (int64_t)t->shared);
	stat_line(out, "errors", (int64_t)t->errors);
	stat_line(out, "vanished", (int64_t)t->vanished);
	stat_line(out, "skipped", (int64_t)t->skipped);
	stat_line(out, "newest", t->newest == INT64_MIN ? 0 : t->newest);
	stat_line(out, "asof", d->asof);
	stat_line(out, "complete", t->errors == 0);
	stat_line(out, "changed", (int64_t)t->changed);
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
		text_printf(out, "    %-12s %s\n", usage_files[i].name, usage_files[i].help);
	text_puts(out, "\nThe manual is disktracker-files(5).\n");
	return 0;
}

/* Sorted by name: readdir and help show this order. */
const struct usage_file usage_files[] = {
	/* clang-format off */
	{ "README",      render_readme,      .help = "one page: what is where, with commands to try", .path = true },
	{ "apparent",    render_apparent,    .help = "sum of file lengths, in bytes" },
	{ "asof",        render_asof,        .help = "when this was scanned, Unix time", .asof = true },
	{ "bytes",       render_bytes,       .help = "disk space in use, in bytes" },
	{ "children",    render_children,    .help = "direct sub-directories and files by size: bytes, name", .twin = true, .slow = true },
	{ "complete",    render_complete,    .help = "1, or 0 when a part could not be read" },
	{ "crowded",     render_crowded,     .help = "directories with the most direct entries: entries, path", .twin = true, .slow = true },
	{ "delta",       render_delta,       .help = "in .growth only: bytes grown, negative when shrunk", .grown = true },
	{ "dirs",        render_dirs,        .help = "number of directories below" },
	{ "entries",     render_entries,     .help = "number of files, directories and others below" },
	{ "errors",      render_error_count, .help = "number of things that could not be read" },
	{ "errors.list", render_errors,      .help = "what was unreadable, vanished, changed or skipped: reason, path", .twin = true, .slow = true },
	{ "files",       render_files,       .help = "number of regular files below" },
	{ "growth/1d",   render_growth_1d,   .help = "what explains the change of the last day: +/-bytes, path", .twin = true, .slow = true, .path = true, .asof = true },
	{ "growth/1h",   render_growth_1h,   .help = "... of the last hour", .twin = true, .slow = true, .path = true, .asof = true },
	{ "growth/30d",  render_growth_30d,  .help = "... of the last 30 days", .twin = true, .slow = true, .path = true, .asof = true },
	{ "growth/365d", render_growth_365d, .help = "... of the last 365 days", .twin = true, .slow = true, .path = true, .asof = true },
	{ "growth/7d",   render_growth_7d,   .help = "... of the last 7 days", .twin = true, .slow = true, .path = true, .asof = true },
	{ "history",     render_history,     .help = "snapshots in which it changed: time, bytes, files, snapshot", .slow = true, .path = true, .asof = true },
	{ "largest",     render_largest,     .help = "the 50 largest files below: bytes, path", .twin = true, .slow = true },
	{ "newest",      render_newest,      .help = "newest modification here or below, Unix time" },
	{ "shared",      render_shared,      .help = "bytes whose files also have a name elsewhere" },
	{ "skipped",     render_skipped,     .help = "number of things left out: mounts, exclusions" },
	{ "stat",        render_stat,        .help = "all numbers as \"key value\" lines, of one snapshot", .asof = true },
	{ "summary",     render_summary,     .help = "for people: sizes, counts, age, the five largest", .slow = true, .path = true, .asof = true },
	{ "top",         render_top,         .help = "the 50 largest directories below: bytes, path", .twin = true, .slow = true },
	{ "vanished",    render_vanished,    .help = "number of things that went away during the scan" },
	/* clang-format on */
};

const size_t n_usage_files = ARRAY_SIZE(usage_files);

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
	int r = access_ask(d, file, who);

	if (r == 0)
		r = usage_files[file & ~USAGE_TWIN].render(d, out);
	return r == 0 && out->failed ? -ENOMEM : r;
}
