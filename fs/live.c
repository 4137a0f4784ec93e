/* SPDX-License-Identifier: MIT */
/*
 * live - the files in .telemetry, which change by themselves.
 *
 * LOOKUP makes the text, at most every 200 ms. Each new text has a number, which is part of the file's node
 * id, and stays for as long as the kernel knows that id: whoever has the file open reads the text he
 * opened, of the size that stat promised, however long he takes. A name is never cached, so whoever opens
 * it later gets the newest.
 */
#include "fs/request.h"

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

/* About the snapshot taken last, whichever root it is of; all zeros if there is none. */
static void emit_last(struct fs *fs, void (*emit)(void *, const char *, const char *, bool),
                      struct text *out)
{
	struct gen *g = view_now(&fs->view);
	const struct snap_info *last = NULL;
	struct snap_details none = { 0 };
	struct snap_info i;

	for (size_t n = 0; n < g->list.n; n++)
		if (!last || g->list.info[n]->id > last->id)
			last = g->list.info[n];
	if (!last)
		snap_info_fields(&(struct snap_info){ .details = &none }, emit, out);
	else if (snap_info_get(fs->s, last->id, &i) < 0) /* pruned a moment ago, or damaged */
		snap_info_fields(last, emit, out);
	else {
		snap_info_fields(&i, emit, out);
		snap_info_done(&i);
	}
	gen_put(&fs->view, g);
}

static void render_scan(struct fs *fs, struct text *out)
{
	emit_last(fs, emit_line, out);
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
	emit_last(fs, emit_storage, out);
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

static uint64_t resident_kb(struct fs *fs)
{
	unsigned long total = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	(void)fs;
	if (!f)
		return 0;
	if (fscanf(f, "%lu %lu", &total, &resident) != 2)
		resident = 0;
	(void)fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint64_t mount_uptime(struct fs *fs)
{
	return (uint64_t)MAX(0, (int64_t)time(NULL) - fs->start);
}

static uint64_t mount_rows(struct fs *fs)
{
	uint32_t rows;

	(void)pthread_rwlock_rdlock(&fs->rows.lock);
	rows = fs->rows.live;
	(void)pthread_rwlock_unlock(&fs->rows.lock);
	return rows;
}

static uint64_t mount_generation(struct fs *fs)
{
	struct gen *g = view_now(&fs->view);
	uint32_t number = g->number;

	gen_put(&fs->view, g);
	return number;
}

static uint64_t mount_made(struct fs *fs)
{
	struct gen *g = view_now(&fs->view);
	size_t n;

	(void)pthread_mutex_lock(&g->lock);
	n = g->n_virtuals;
	(void)pthread_mutex_unlock(&g->lock);
	gen_put(&fs->view, g);
	return n;
}

static uint64_t mount_nodes(struct fs *fs)
{
	return snap_cache_bytes(fs->s);
}

static uint64_t mount_texts(struct fs *fs)
{
	return texts_bytes(fs->texts);
}

/* A number of .telemetry/mount: a function, or a counter. */
static const struct {
	const char *key;
	uint64_t (*number)(struct fs *fs);
	size_t counter; /* offset in struct fs */
} mount_numbers[] = {
	/* clang-format off */
	{ "uptime",             mount_uptime, 0 },
	{ "generation",         mount_generation, 0 },
	{ "lookups",            NULL, offsetof(struct fs, count[C_LOOKUP]) },
	{ "getattrs",           NULL, offsetof(struct fs, count[C_GETATTR]) },
	{ "readdirs",           NULL, offsetof(struct fs, count[C_READDIR]) },
	{ "readdirplus",        NULL, offsetof(struct fs, count[C_READDIRPLUS]) },
	{ "reads",              NULL, offsetof(struct fs, count[C_READ]) },
	{ "forgets",            NULL, offsetof(struct fs, count[C_FORGET]) },
	{ "other",              NULL, offsetof(struct fs, count[C_OTHER]) },
	{ "directories_known",  mount_rows, 0 },
	{ "node_cache_bytes",   mount_nodes, 0 },
	{ "text_cache_bytes",   mount_texts, 0 },
	{ "snapshots_followed", NULL, offsetof(struct fs, snapshots_seen) },
	{ "notified",           NULL, offsetof(struct fs, notified) },
	{ "made_nodes",         mount_made, 0 },
	{ "resident_kb",        resident_kb, 0 },
	/* clang-format on */
};

static void render_mount(struct fs *fs, struct text *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(mount_numbers); i++) {
		const void *counter = (const char *)fs + mount_numbers[i].counter;

		line(out, mount_numbers[i].key,
		     mount_numbers[i].number ? mount_numbers[i].number(fs)
		                             : atomic_load((const _Atomic uint64_t *)counter));
	}
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
static_assert(ARRAY_SIZE(live_files) <= LIVE_FILES && (int)V_LIVE + (int)LIVE_FILES <= (int)V_USAGE,
              "each file in .telemetry has a text and a number of its own");

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

static struct live_text *find_text(const struct live *l, uint32_t number)
{
	struct live_text *t = l->newest;

	while (t && t->number != number)
		t = t->older;
	return t;
}

/* All that nobody knows any more, but for the newest. */
static void drop_unknown(struct live *l)
{
	for (struct live_text **at = &l->newest->older; *at;) {
		struct live_text *t = *at;

		if (t->lookups > 0) {
			at = &t->older;
			continue;
		}
		*at = t->older;
		free(t->p);
		free(t);
	}
}

static int renew(struct fs *fs, struct live *l, size_t i)
{
	struct live_text *old = l->newest, *t;
	struct text text = { 0 };

	live_files[i].render(fs, &text);
	if (!text.failed && old && old->len == text.len &&
	    (text.len == 0 || memcmp(old->p, text.p, text.len) == 0)) {
		text_done(&text);
		return 0;
	}
	t = text.failed ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		text_done(&text);
		return -ENOMEM;
	}
	do
		t->number = l->last_number = (l->last_number + 1) & GEN_MASK;
	while (find_text(l, t->number));
	(void)clock_gettime(CLOCK_REALTIME, &t->mtime);
	t->p = text.p;
	t->len = text.len;
	t->older = old;
	l->newest = t;
	drop_unknown(l);
	return 0;
}

static void tell(const struct live_text *t, struct live_stat *ret)
{
	*ret = (struct live_stat){ .number = t->number, .size = t->len, .mtime = t->mtime };
}

int live_lookup(struct fs *fs, size_t i, struct live_stat *ret)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct live *l = &fs->live[i];
	int r = 0;

	(void)pthread_mutex_lock(&fs->live_lock);
	if (!l->newest || now - l->made_ns > max_age_ns) {
		r = renew(fs, l, i);
		l->made_ns = now;
	}
	if (l->newest) { /* rather an old text than none */
		r = 0;
		l->newest->lookups++;
		tell(l->newest, ret);
	}
	(void)pthread_mutex_unlock(&fs->live_lock);
	return r;
}

int live_stat(struct fs *fs, size_t i, uint32_t number, struct live_stat *ret)
{
	const struct live_text *t;

	(void)pthread_mutex_lock(&fs->live_lock);
	t = find_text(&fs->live[i], number);
	if (t)
		tell(t, ret);
	(void)pthread_mutex_unlock(&fs->live_lock);
	return t ? 0 : -ESTALE;
}

void live_forget(struct fs *fs, size_t i, uint32_t number, uint64_t n)
{
	struct live_text *t;

	(void)pthread_mutex_lock(&fs->live_lock);
	t = find_text(&fs->live[i], number);
	if (t) {
		t->lookups -= MIN(n, t->lookups);
		drop_unknown(&fs->live[i]);
	}
	(void)pthread_mutex_unlock(&fs->live_lock);
}

void live_read(struct fs *fs, size_t i, uint32_t number, fuse_req_t req, size_t size, off_t off)
{
	const struct live_text *t;

	(void)pthread_mutex_lock(&fs->live_lock);
	t = find_text(&fs->live[i], number);
	if (t)
		req_reply_part(req, t->p, t->len, size, off);
	else
		(void)fuse_reply_err(req, ESTALE);
	(void)pthread_mutex_unlock(&fs->live_lock);
}

void live_done(struct fs *fs)
{
	for (size_t i = 0; i < n_live_files; i++) {
		for (struct live_text *t = fs->live[i].newest, *older; t; t = older) {
			older = t->older;
			free(t->p);
			free(t);
		}
	}
}

bool fs_virtual_file(size_t i, const char **name, const char **help)
{
	if (i < n_usage_files) {
		*name = usage_files[i].name;
		*help = usage_file_help(&usage_files[i]);
		return true;
	}
	i -= n_usage_files;
	if (i >= n_live_files)
		return false;
	*name = live_files[i].name;
	*help = live_files[i].help;
	return true;
}
