/* SPDX-License-Identifier: MIT */
/*
 * catalog - the rows about snapshots: which roots, when, what totals, how the scan went.
 *
 * One table of fields drives the columns, the insertion, the reading and the telemetry keys.
 */
#include "snapshot/internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

struct field {
	const char *name;
	size_t offset; /* of a 64-bit number in struct snap_info */
};

#define FIELD(column, member)                              \
	{                                                  \
		column, offsetof(struct snap_info, member) \
	}

static const struct field fields[] = {
	FIELD("time", time),
	FIELD("node", ref),
	FIELD("bytes", totals.bytes),
	FIELD("apparent", totals.apparent),
	FIELD("files", totals.files),
	FIELD("dirs", totals.dirs),
	FIELD("entries", totals.entries),
	FIELD("shared", totals.shared),
	FIELD("errors", totals.errors),
	FIELD("vanished", totals.vanished),
	FIELD("changed", totals.changed),
	FIELD("skipped", totals.skipped),
	FIELD("newest", totals.newest),
	FIELD("wall_ns", stats.wall_ns),
	FIELD("user_ns", stats.user_ns),
	FIELD("sys_ns", stats.sys_ns),
	FIELD("peak_rss_kb", stats.peak_rss_kb),
	FIELD("openat", stats.openat),
	FIELD("statx", stats.statx),
	FIELD("getdents64", stats.getdents64),
	FIELD("close", stats.close),
	FIELD("steals", stats.steals),
	FIELD("readers", stats.readers),
	FIELD("readers_changes", stats.readers_changes),
	FIELD("by_inode", stats.by_inode),
	FIELD("cached_percent", stats.cached_percent),
	FIELD("blocked_ns", stats.blocked_ns),
	FIELD("nodes_written", nodes_written),
	FIELD("listings_written", listings_written),
	FIELD("index_bytes", index_bytes),
};

enum {
	COL_ID,
	COL_ROOT,
	COL_MODE,
	COL_COMPLETE,
	COL_FP,
	COL_STATFS,
	COL_STORAGE,
	COL_EVIDENCE,
	COL_LOG,
	COL_OPTIONS,
	COL_FIELDS
};

static const char *const mode_names[] = { "cold", "warm", "quick" };

static int64_t *field_of(const struct snap_info *i, const struct field *f)
{
	return (int64_t *)(void *)((char *)(uintptr_t)i + f->offset);
}

/* Numbers are INTEGER, so that a foreign value reads as 0 rather than as text. */
int catalog_create(sqlite3 *db)
{
	sqlite3_str *sql = sqlite3_str_new(db);
	char *text;
	int r;

	sqlite3_str_appendall(sql,
	                      "CREATE TABLE snapshot(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	                      " root INTEGER NOT NULL REFERENCES root(id), mode INT, complete INT,"
	                      " fp BLOB, statfs BLOB, storage TEXT, storage_evidence TEXT,"
	                      " readers_log TEXT, options BLOB");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		sqlite3_str_appendf(sql, ", %s INT", fields[i].name);
	sqlite3_str_appendall(sql, "); CREATE INDEX snapshot_root ON snapshot(root, id);");
	text = sqlite3_str_finish(sql);
	r = text ? store_exec(db, text) : -ENOMEM;
	sqlite3_free(text);
	return r;
}

/* The id of a root; with create it is added. -ENOENT if there is none. Lock held. */
int catalog_root(struct snap *s, const char *path, bool create, int64_t *ret)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(s->db, "SELECT id FROM root WHERE path=?", -1, &st, NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC);
		rc = sqlite3_step(st);
	}
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	if (rc == SQLITE_ROW || rc != SQLITE_DONE)
		return snap_errno(rc);
	if (!create)
		return -ENOENT;
	rc = sqlite3_prepare_v2(s->db, "INSERT INTO root(path) VALUES (?)", -1, &st, NULL);
	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC);
		rc = sqlite3_step(st);
	}
	(void)sqlite3_finalize(st);
	*ret = sqlite3_last_insert_rowid(s->db);
	return snap_errno(rc);
}

/* The root node of the newest snapshot of a root. -ENOENT if there is none. Lock held. */
int catalog_latest(struct snap *s, int64_t root, uint64_t *ref, int64_t *time)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(
		s->db, "SELECT node, time FROM snapshot WHERE root=? ORDER BY id DESC LIMIT 1", -1,
		&st, NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, root);
		rc = sqlite3_step(st);
	}
	if (rc == SQLITE_ROW)
		*ref = (uint64_t)sqlite3_column_int64(st, 0), *time = sqlite3_column_int64(st, 1);
	(void)sqlite3_finalize(st);
	return rc == SQLITE_DONE ? -ENOENT : snap_errno(rc);
}

/* File system facts, eight little-endian numbers: see FORMAT.md. */
static void statfs_pack(const struct statvfs *v, uint64_t out[8])
{
	out[0] = v->f_bsize;
	out[1] = v->f_frsize;
	out[2] = v->f_blocks;
	out[3] = v->f_bfree;
	out[4] = v->f_bavail;
	out[5] = v->f_files;
	out[6] = v->f_ffree;
	out[7] = v->f_namemax;
}

static void statfs_unpack(const uint64_t in[8], struct statvfs *v)
{
	v->f_bsize = in[0];
	v->f_frsize = in[1];
	v->f_blocks = in[2];
	v->f_bfree = in[3];
	v->f_bavail = in[4];
	v->f_files = in[5];
	v->f_favail = v->f_ffree = in[6];
	v->f_namemax = in[7];
}

static sqlite3_stmt *prepare_insert(struct snap *s)
{
	sqlite3_str *sql = sqlite3_str_new(s->db);
	sqlite3_stmt *st = NULL;
	char *text;

	sqlite3_str_appendall(sql,
	                      "INSERT INTO snapshot(id, root, mode, complete, fp, statfs, storage,"
	                      " storage_evidence, readers_log, options");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		sqlite3_str_appendf(sql, ", %s", fields[i].name);
	sqlite3_str_appendall(sql, ") VALUES (NULL, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		sqlite3_str_appendall(sql, ", ?");
	sqlite3_str_appendall(sql, ")");
	text = sqlite3_str_finish(sql);
	if (text)
		(void)sqlite3_prepare_v2(s->db, text, -1, &st, NULL);
	sqlite3_free(text);
	return st;
}

/* Add a snapshot row; sets i->id. Lock held, inside the writer's transaction. */
int catalog_add(struct snap *s, int64_t root, struct snap_info *i)
{
	sqlite3_stmt *st = prepare_insert(s);
	uint64_t fs[8];
	int rc;

	if (!st)
		return snap_errno(sqlite3_errcode(s->db)) ? snap_errno(sqlite3_errcode(s->db))
		                                          : -ENOMEM;
	statfs_pack(&i->statvfs, fs);
	(void)sqlite3_bind_int64(st, 1 + COL_ROOT, root);
	(void)sqlite3_bind_int(st, 1 + COL_MODE, (int)i->mode);
	(void)sqlite3_bind_int(st, 1 + COL_COMPLETE, i->complete);
	(void)sqlite3_bind_blob(st, 1 + COL_FP, i->fingerprint.b, sizeof(i->fingerprint.b),
	                        SQLITE_STATIC);
	(void)sqlite3_bind_blob(st, 1 + COL_STATFS, fs, sizeof(fs), SQLITE_STATIC);
	(void)sqlite3_bind_text(st, 1 + COL_STORAGE, i->stats.storage, -1, SQLITE_STATIC);
	(void)sqlite3_bind_blob(st, 1 + COL_OPTIONS, i->options, (int)i->options_len,
	                        SQLITE_STATIC);
	(void)sqlite3_bind_text(st, 1 + COL_LOG, i->stats.readers_log, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(st, 1 + COL_EVIDENCE, i->stats.storage_evidence, -1, SQLITE_STATIC);
	for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
		(void)sqlite3_bind_int64(st, (int)(1 + COL_FIELDS + f), *field_of(i, &fields[f]));
	rc = sqlite3_step(st);
	i->id = sqlite3_last_insert_rowid(s->db);
	(void)sqlite3_finalize(st);
	return snap_errno(rc);
}

static void copy_text(sqlite3_stmt *st, int column, char *ret, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(st, column);

	(void)snprintf(ret, size, "%s", text ? text : "");
}

/* As realpath(3) gives it: no empty component, none too long, no "." or "..". */
static bool is_root_path(const char *p)
{
	if (strlen(p) >= PATH_MAX || p[0] != '/')
		return false;
	if (p[1] == '\0')
		return true;
	while (*p == '/') {
		size_t len = strcspn(++p, "/");

		if (len == 0 || len > NAME_MAX ||
		    (p[0] == '.' && (len == 1 || (len == 2 && p[1] == '.'))))
			return false;
		p += len;
	}
	return true;
}

/* Words with a NUL after each; anything else is no words. */
static int read_options(sqlite3_stmt *st, struct snap_info *i)
{
	const char *words = sqlite3_column_blob(st, COL_OPTIONS);
	size_t len = (size_t)sqlite3_column_bytes(st, COL_OPTIONS);

	if (len == 0 || words[len - 1] != '\0')
		return 0;
	i->options = malloc(len);
	if (!i->options) {
		snap_info_done(i);
		return -ENOMEM;
	}
	memcpy(i->options, words, len);
	i->options_len = len;
	return 0;
}

static int read_row(sqlite3_stmt *st, struct snap_info *i)
{
	bool is_text = sqlite3_column_type(st, COL_ROOT) == SQLITE_TEXT;
	const char *root = (const char *)sqlite3_column_text(st, COL_ROOT);
	uint64_t fs[8];

	memset(i, 0, sizeof(*i));
	if (!is_text || !root || strlen(root) != (size_t)sqlite3_column_bytes(st, COL_ROOT) ||
	    !is_root_path(root))
		return -EUCLEAN;
	i->root = strdup(root);
	if (!i->root)
		return -ENOMEM;
	i->id = sqlite3_column_int64(st, COL_ID);
	i->mode = (enum snap_mode)((unsigned)sqlite3_column_int(st, COL_MODE) %
	                           ARRAY_SIZE(mode_names));
	i->complete = sqlite3_column_int(st, COL_COMPLETE) != 0;
	if (sqlite3_column_bytes(st, COL_FP) == sizeof(i->fingerprint.b))
		memcpy(i->fingerprint.b, sqlite3_column_blob(st, COL_FP), sizeof(i->fingerprint.b));
	if (sqlite3_column_bytes(st, COL_STATFS) == sizeof(fs)) {
		memcpy(fs, sqlite3_column_blob(st, COL_STATFS), sizeof(fs));
		statfs_unpack(fs, &i->statvfs);
	}
	copy_text(st, COL_STORAGE, i->stats.storage, sizeof(i->stats.storage));
	copy_text(st, COL_LOG, i->stats.readers_log, sizeof(i->stats.readers_log));
	copy_text(st, COL_EVIDENCE, i->stats.storage_evidence, sizeof(i->stats.storage_evidence));
	for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
		*field_of(i, &fields[f]) = sqlite3_column_int64(st, (int)(COL_FIELDS + f));
	i->stats.entries = i->totals.entries + 1;
	i->stats.dirs = i->totals.dirs + 1;
	return read_options(st, i);
}

static sqlite3_stmt *prepare_list(struct snap *s)
{
	sqlite3_str *sql = sqlite3_str_new(s->db);
	sqlite3_stmt *st = NULL;
	char *text;

	sqlite3_str_appendall(sql, "SELECT s.id, r.path, mode, complete, fp, statfs, storage,"
	                           " storage_evidence, readers_log, options");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		sqlite3_str_appendf(sql, ", %s", fields[i].name);
	sqlite3_str_appendall(sql, " FROM snapshot s JOIN root r ON r.id = s.root");
	sqlite3_str_appendall(sql, " ORDER BY s.id");
	text = sqlite3_str_finish(sql);
	if (text)
		(void)sqlite3_prepare_v2(s->db, text, -1, &st, NULL);
	sqlite3_free(text);
	return st;
}

static int new_info(sqlite3_stmt *st, struct snap_info **ret)
{
	struct snap_info *i = calloc(1, sizeof(*i));
	int r = i ? read_row(st, i) : -ENOMEM;

	if (r < 0)
		free(i);
	else
		*ret = i;
	return r;
}

/* A snapshot never changes and its id is never used again; *at goes along known, which is by id too. */
static struct snap_info *find_known(const struct snap_list *known, size_t *at, int64_t id)
{
	while (known && *at < known->n && known->info[*at]->id < id)
		(*at)++;
	if (!known || *at == known->n || known->info[*at]->id != id)
		return NULL;
	atomic_fetch_add(&known->info[*at]->users, 1);
	return known->info[*at];
}

static int read_rows(sqlite3_stmt *st, const struct snap_list *known, struct snap_list *ret)
{
	size_t cap = 0, at = 0;
	int rc = SQLITE_DONE, r = 0;

	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct snap_info *i;

		r = base_reserve(&ret->info, &cap, ret->n + 1, sizeof(*ret->info));
		if (r < 0)
			break;
		i = find_known(known, &at, sqlite3_column_int64(st, COL_ID));
		if (!i)
			r = new_info(st, &i);
		if (r == 0)
			ret->info[ret->n++] = i;
	}
	return r ? r : snap_errno(rc);
}

/* A mount keeps many lists: none takes more than it needs. */
static void trim(struct snap_list *l)
{
	struct snap_info **fit = l->n ? realloc(l->info, l->n * sizeof(*fit)) : NULL;

	if (fit)
		l->info = fit;
}

int snap_list_get(struct snap *s, struct snap_list *ret)
{
	return snap_list_refresh(s, NULL, ret);
}

int snap_list_refresh(struct snap *s, const struct snap_list *known, struct snap_list *ret)
{
	struct snap_list l = { 0 };
	sqlite3_stmt *st = NULL;
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = store_begin_read(s);
	if (r == 0) {
		st = prepare_list(s);
		r = st ? read_rows(st, known, &l) : snap_errno(sqlite3_errcode(s->db));
	}
	(void)sqlite3_finalize(st);
	(void)pthread_mutex_unlock(&s->lock);
	if (r < 0) {
		snap_list_done(&l);
		return r;
	}
	trim(&l);
	*ret = l;
	return 0;
}

void snap_info_done(struct snap_info *i)
{
	free(i->options);
	i->options = NULL;
	i->options_len = 0;
	free(i->root);
	i->root = NULL;
}

static void info_put(struct snap_info *i)
{
	if (atomic_fetch_sub(&i->users, 1) > 0)
		return;
	snap_info_done(i);
	free(i);
}

static bool has_root(const struct snap_list *l, const char *root)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->info[i]->root, root) == 0)
			return true;
	return false;
}

int snap_list_newest(const struct snap_list *all, struct snap_list *ret)
{
	struct snap_list l = { .info = calloc(all->n + 1, sizeof(*l.info)) };

	if (!l.info)
		return -ENOMEM;
	for (size_t i = all->n; i-- > 0;) {
		if (has_root(&l, all->info[i]->root))
			continue;
		atomic_fetch_add(&all->info[i]->users, 1);
		l.info[l.n++] = all->info[i];
	}
	trim(&l);
	*ret = l;
	return 0;
}

void snap_list_replace(struct snap_list *l, size_t i, struct snap_info *info)
{
	if (info)
		atomic_fetch_add(&info->users, 1);
	info_put(l->info[i]);
	l->info[i] = info;
}

void snap_list_done(struct snap_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		info_put(l->info[i]);
	free(l->info);
	l->info = NULL;
	l->n = 0;
}

typedef void emit_fn(void *ctx, const char *key, const char *value, bool text);

static void emit_number(emit_fn *emit, void *ctx, const char *key, int64_t v)
{
	char buf[24];

	(void)snprintf(buf, sizeof(buf), "%" PRId64, v);
	emit(ctx, key, buf, false);
}

static void emit_fields(const struct snap_info *i, emit_fn *emit, void *ctx,
                        const char *const *keys)
{
	for (; *keys; keys++)
		for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
			if (strcmp(fields[f].name, *keys) == 0)
				emit_number(emit, ctx, *keys, *field_of(i, &fields[f]));
}

/* The order is a contract: keys are only ever appended. */
void snap_info_fields(const struct snap_info *i, emit_fn *emit, void *ctx)
{
	static const char *const tree[] = { "entries", "files",    "dirs",    "bytes",   "apparent",
		                            "errors",  "vanished", "changed", "skipped", NULL };
	static const char *const scan[] = { "wall_ns",     "user_ns", "sys_ns",
		                            "peak_rss_kb", "openat",  "statx",
		                            "getdents64",  "close",   NULL };
	static const char *const written[] = { "nodes_written", "listings_written", "index_bytes",
		                               "readers", NULL };
	static const char *const storage[] = { "readers_changes", "by_inode", "cached_percent",
		                               "blocked_ns", NULL };
	char hex[33];

	for (size_t b = 0; b < sizeof(i->fingerprint.b); b++)
		(void)snprintf(hex + b * 2, 3, "%02x", i->fingerprint.b[b]);
	emit(ctx, "root", i->root ? i->root : "", true);
	emit_number(emit, ctx, "snapshot", i->id);
	emit(ctx, "fingerprint", i->ref ? hex : "", true);
	emit_number(emit, ctx, "time", i->time);
	emit(ctx, "mode", mode_names[i->mode], true);
	emit_fields(i, emit, ctx, tree);
	emit_number(emit, ctx, "complete", i->complete);
	emit_fields(i, emit, ctx, scan);
	emit_number(emit, ctx, "syscalls",
	            (int64_t)(i->stats.openat + i->stats.statx + i->stats.getdents64));
	emit_fields(i, emit, ctx, written);
	emit(ctx, "storage", *i->stats.storage ? i->stats.storage : "unknown", true);
	emit(ctx, "storage_evidence", i->stats.storage_evidence, true);
	emit_number(emit, ctx, "steals", (int64_t)i->stats.steals);
	emit_fields(i, emit, ctx, storage);
	emit(ctx, "readers_log", i->stats.readers_log, true);
}
