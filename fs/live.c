/* SPDX-License-Identifier: MIT */
/*
 * live - the files in .telemetry, which change by themselves.
 *
 * LOOKUP and GETATTR make the text, at most every 200 ms, and pin it; reads return the pinned text. So
 * the size that stat promised is the size that is read, whatever happens in between. The kernel asks for
 * attributes before a cached read and drops its pages when the time of modification has changed.
 */
#include "fs/internal.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t max_age_ns = 200000000;

static void emit_line(void *ctx, const char *key, const char *value, bool text)
{
	struct text *out = ctx;

	text_puts(out, key);
	text_puts(out, " ");
	if (text)
		text_escaped_spaces(out, value, strlen(value));
	else
		text_puts(out, value);
	text_puts(out, "\n");
}

static void line(struct text *out, const char *key, uint64_t v)
{
	text_printf(out, "%s %" PRIu64 "\n", key, v);
}

/* The snapshot taken last, whichever root it is of. */
static const struct snap_info *last_snapshot(const struct gen *g)
{
	static const struct snap_info none;
	const struct snap_info *last = &none;

	for (size_t i = 0; i < g->list.n; i++)
		if (g->list.info[i]->id > last->id)
			last = g->list.info[i];
	return last;
}

static void render_scan(struct fs *fs, struct text *out)
{
	struct gen *g = view_now(&fs->view);

	snap_info_fields(last_snapshot(g), emit_line, out);
	gen_put(&fs->view, g);
}

/* How the newest scan read what it read: the part of its fields that is about the disk. */
static void emit_storage(void *ctx, const char *key, const char *value, bool text)
{
	static const char *const keys[] = { "root",       "storage",        "storage_evidence",
		                            "readers",    "steals",         "readers_changes",
		                            "by_inode",   "cached_percent", "blocked_ns",
		                            "readers_log" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i], key) == 0)
			emit_line(ctx, key, value, text);
}

static void render_storage(struct fs *fs, struct text *out)
{
	struct gen *g = view_now(&fs->view);

	snap_info_fields(last_snapshot(g), emit_storage, out);
	gen_put(&fs->view, g);
}

static void render_index(struct fs *fs, struct text *out)
{
	struct gen *g = view_now(&fs->view);

	emit_line(out, "path", snap_path(fs->s), true);
	line(out, "bytes", snap_file_bytes(fs->s));
	line(out, "snapshots", g->all.n);
	line(out, "roots", g->list.n);
	gen_put(&fs->view, g);
}

static uint64_t resident_kb(void)
{
	unsigned long total = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%lu %lu", &total, &resident) != 2)
		resident = 0;
	(void)fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void render_mount(struct fs *fs, struct text *out)
{
	static const char *const names[C_MAX] = { "lookups", "getattrs", "readdirs", "readdirplus",
		                                  "reads",   "forgets",  "other" };
	struct gen *g = view_now(&fs->view);
	uint32_t rows;

	line(out, "uptime", (uint64_t)MAX(0, (int64_t)time(NULL) - fs->start));
	line(out, "generation", g->number);
	gen_put(&fs->view, g);
	for (size_t i = 0; i < C_MAX; i++)
		line(out, names[i], atomic_load(&fs->count[i]));
	(void)pthread_rwlock_rdlock(&fs->view.rows.lock);
	rows = fs->view.rows.live;
	(void)pthread_rwlock_unlock(&fs->view.rows.lock);
	line(out, "directories_known", rows);
	line(out, "node_cache_bytes", snap_cache_bytes(fs->s));
	line(out, "text_cache_bytes", texts_bytes(fs->texts));
	line(out, "snapshots_followed", atomic_load(&fs->snapshots_seen));
	line(out, "notified", atomic_load(&fs->notified));
	line(out, "resident_kb", resident_kb());
}

static void render_version(struct fs *fs, struct text *out)
{
	(void)fs;
	text_puts(out, DISKTRACKER_VERSION "\n");
}

static void render_readme_live(struct fs *fs, struct text *out)
{
	(void)fs;
	text_puts(out,
	          "Flat \"key value\" lines about this program; see disktracker-files(5).\n\n");
	for (size_t i = 0; i < n_live_files; i++) /* skip ".telemetry/" */
		text_printf(out, "    %-8s %s\n", live_files[i].name + 11, live_files[i].help);
}

static void render_progress(struct fs *fs, struct text *out)
{
	rescan_progress(fs, out);
}

static void render_rescan(struct fs *fs, struct text *out)
{
	(void)fs;
	(void)out;
}

/* Sorted by name. */
const struct live_file live_files[] = {
	/* clang-format off */
	{ ".telemetry/README",  render_readme_live, "what is here" },
	{ ".telemetry/index",   render_index,       "the index: path, size, snapshots" },
	{ ".telemetry/mount",   render_mount,       "this mount: requests, memory, snapshots followed" },
	{ ".telemetry/progress", render_progress,   "a scan that this mount runs: where it is" },
	{ ".telemetry/rescan",  render_rescan,      "write anything to scan the roots now (owner only)" },
	{ ".telemetry/scan",    render_scan,        "the newest scan: totals, system calls, times" },
	{ ".telemetry/storage", render_storage,     "what the newest scan's disk is, and how it was read" },
	{ ".telemetry/version", render_version,     "version of the program" },
	/* clang-format on */
};

const size_t n_live_files = ARRAY_SIZE(live_files);

mode_t live_mode(size_t i)
{
	return live_files[i].render == render_rescan ? 0200 : 0444;
}

int live_find(const char *name)
{
	for (size_t i = 0; i < n_live_files; i++)
		if (strcmp(live_files[i].name + 11, name) == 0)
			return (int)i;
	return -1;
}

static void renew(struct fs *fs, struct live *l, size_t i, uint64_t now)
{
	struct text t = { 0 };

	live_files[i].render(fs, &t);
	if (t.failed) {
		text_done(&t);
		return;
	}
	/* The time of modification tells the kernel to drop its pages, so it must change with the text. */
	if (!l->p || l->len != t.len || memcmp(l->p, t.p, t.len) != 0)
		(void)clock_gettime(CLOCK_REALTIME, &l->mtime);
	free(l->p);
	l->p = t.p;
	l->len = t.len;
	l->made_ns = now;
}

void live_refresh(struct fs *fs, size_t i, size_t *len, struct timespec *mtime)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct live *l = &fs->live[i];

	(void)pthread_mutex_lock(&fs->live_lock);
	if (!l->p || now - l->made_ns > max_age_ns)
		renew(fs, l, i, now);
	*len = l->len;
	*mtime = l->mtime;
	(void)pthread_mutex_unlock(&fs->live_lock);
}

void live_read(struct fs *fs, size_t i, fuse_req_t req, size_t size, off_t off)
{
	struct live *l = &fs->live[i];
	size_t at;

	(void)pthread_mutex_lock(&fs->live_lock);
	at = MIN((size_t)MAX(off, 0), l->len);
	(void)fuse_reply_buf(req, l->p + at, MIN(size, l->len - at));
	(void)pthread_mutex_unlock(&fs->live_lock);
}
