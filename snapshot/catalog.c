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
	size_t offset; /* of a 64-bit number */
};

#define FIELD(type, column, member)                   \
	{                                             \
		column, offsetof(struct type, member) \
	}

static const struct field info_fields[] = {
	FIELD(snap_info, "time", time),
	FIELD(snap_info, "node", ref),
	FIELD(snap_info, "bytes", totals.bytes),
	FIELD(snap_info, "apparent", totals.apparent),
	FIELD(snap_info, "files", totals.files),
	FIELD(snap_info, "dirs", totals.dirs),
	FIELD(snap_info, "entries", totals.entries),
	FIELD(snap_info, "shared", totals.shared),
	FIELD(snap_info, "errors", totals.errors),
	FIELD(snap_info, "vanished", totals.vanished),
	FIELD(snap_info, "changed", totals.changed),
	FIELD(snap_info, "skipped", totals.skipped),
	FIELD(snap_info, "newest", totals.newest),
};

static const struct field detail_fields[] = {
	FIELD(snap_details, "wall_ns", stats.wall_ns),
	FIELD(snap_details, "user_ns", stats.user_ns),
	FIELD(snap_details, "sys_ns", stats.sys_ns),
	FIELD(snap_details, "peak_rss_kb", stats.peak_rss_kb),
	FIELD(snap_details, "openat", stats.openat),
	FIELD(snap_details, "statx", stats.statx),
	FIELD(snap_details, "getdents64", stats.getdents64),
	FIELD(snap_details, "close", stats.close),
	FIELD(snap_details, "steals", stats.steals),
	FIELD(snap_details, "readers", stats.readers),
	FIELD(snap_details, "readers_changes", stats.readers_changes),
	FIELD(snap_details, "by_inode", stats.by_inode),
	FIELD(snap_details, "cached_percent", stats.cached_percent),
	FIELD(snap_details, "blocked_ns", stats.blocked_ns),
	FIELD(snap_details, "nodes_written", nodes_written),
	FIELD(snap_details, "listings_written", listings_written),
	FIELD(snap_details, "index_bytes", index_bytes),
};

enum { /* of the statements here */
	COL_ID,
	COL_ROOT,
	COL_MODE,
	COL_COMPLETE,
	COL_FP,
	COL_FIELDS,
	COL_STATFS = COL_FIELDS + ARRAY_SIZE(info_fields), /* from here on details */
	COL_STORAGE,
	COL_EVIDENCE,
	COL_LOG,
	COL_OPTIONS,
	COL_DETAIL_FIELDS
};

#define INFO_COLUMNS   "mode, complete, fp"
#define DETAIL_COLUMNS ", statfs, storage, storage_evidence, readers_log, options"

static const char *const mode_names[] = { "cold", "warm", "quick" };

/* In a snap_info or its details. */
static int64_t *field_of(const void *p, const struct field *f)
{
	return (int64_t *)(void *)((char *)(uintptr_t)p + f->offset);
}

static void append_names(sqlite3_str *sql, const struct field *f, size_t n, const char *type)
{
	for (size_t i = 0; i < n; i++)
		sqlite3_str_appendf(sql, ", %s%s", f[i].name, type);
}

/* The columns from COL_MODE on. */
static void append_columns(sqlite3_str *sql, bool details)
{
	sqlite3_str_appendall(sql, INFO_COLUMNS);
	append_names(sql, info_fields, ARRAY_SIZE(info_fields), "");
	if (!details)
		return;
	sqlite3_str_appendall(sql, DETAIL_COLUMNS);
	append_names(sql, detail_fields, ARRAY_SIZE(detail_fields), "");
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
	append_names(sql, info_fields, ARRAY_SIZE(info_fields), " INT");
	append_names(sql, detail_fields, ARRAY_SIZE(detail_fields), " INT");
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

static sqlite3_stmt *prepare(struct snap *s, sqlite3_str *sql)
{
	sqlite3_stmt *st = NULL;
	char *text = sqlite3_str_finish(sql);

	if (text)
		(void)sqlite3_prepare_v2(s->db, text, -1, &st, NULL);
	sqlite3_free(text);
	return st;
}

static int why_not_prepared(struct snap *s)
{
	int r = snap_errno(sqlite3_errcode(s->db));

	return r ? r : -ENOMEM;
}

static sqlite3_stmt *prepare_insert(struct snap *s)
{
	sqlite3_str *sql = sqlite3_str_new(s->db);

	sqlite3_str_appendall(sql, "INSERT INTO snapshot(id, root, ");
	append_columns(sql, true);
	sqlite3_str_appendall(sql, ") VALUES (NULL");
	for (size_t i = COL_ROOT; i < COL_DETAIL_FIELDS + ARRAY_SIZE(detail_fields); i++)
		sqlite3_str_appendf(sql, ", ?%d", (int)(1 + i));
	sqlite3_str_appendall(sql, ")");
	return prepare(s, sql);
}

static void bind_fields(sqlite3_stmt *st, int column, const void *from, const struct field *f,
                        size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)sqlite3_bind_int64(st, 1 + column + (int)i, *field_of(from, &f[i]));
}

static void read_fields(sqlite3_stmt *st, int column, void *to, const struct field *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*field_of(to, &f[i]) = sqlite3_column_int64(st, column + (int)i);
}

/* Add a snapshot row, with details; sets i->id. Lock held, inside the writer's transaction. */
int catalog_add(struct snap *s, int64_t root, struct snap_info *i)
{
	const struct snap_details *d = i->details;
	sqlite3_stmt *st = prepare_insert(s);
	uint64_t fs[8];
	int rc;

	if (!st)
		return why_not_prepared(s);
	statfs_pack(&d->statvfs, fs);
	(void)sqlite3_bind_int64(st, 1 + COL_ROOT, root);
	(void)sqlite3_bind_int(st, 1 + COL_MODE, (int)i->mode);
	(void)sqlite3_bind_int(st, 1 + COL_COMPLETE, i->complete);
	(void)sqlite3_bind_blob(st, 1 + COL_FP, i->fingerprint.b, sizeof(i->fingerprint.b),
	                        SQLITE_STATIC);
	bind_fields(st, COL_FIELDS, i, info_fields, ARRAY_SIZE(info_fields));
	(void)sqlite3_bind_blob(st, 1 + COL_STATFS, fs, sizeof(fs), SQLITE_STATIC);
	(void)sqlite3_bind_text(st, 1 + COL_STORAGE, d->stats.storage, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(st, 1 + COL_EVIDENCE, d->stats.storage_evidence, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(st, 1 + COL_LOG, d->stats.readers_log, -1, SQLITE_STATIC);
	(void)sqlite3_bind_blob(st, 1 + COL_OPTIONS, d->options, (int)d->options_len,
	                        SQLITE_STATIC);
	bind_fields(st, COL_DETAIL_FIELDS, d, detail_fields, ARRAY_SIZE(detail_fields));
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
static int read_options(sqlite3_stmt *st, struct snap_details *d)
{
	const char *words = sqlite3_column_blob(st, COL_OPTIONS);
	size_t len = (size_t)sqlite3_column_bytes(st, COL_OPTIONS);

	if (len == 0 || words[len - 1] != '\0')
		return 0;
	d->options = malloc(len);
	if (!d->options)
		return -ENOMEM;
	memcpy(d->options, words, len);
	d->options_len = len;
	return 0;
}

static int read_details(sqlite3_stmt *st, struct snap_info *i)
{
	struct snap_details *d = calloc(1, sizeof(*d));
	uint64_t fs[8];

	if (!d)
		return -ENOMEM;
	i->details = d;
	if (sqlite3_column_bytes(st, COL_STATFS) == sizeof(fs)) {
		memcpy(fs, sqlite3_column_blob(st, COL_STATFS), sizeof(fs));
		statfs_unpack(fs, &d->statvfs);
	}
	copy_text(st, COL_STORAGE, d->stats.storage, sizeof(d->stats.storage));
	copy_text(st, COL_LOG, d->stats.readers_log, sizeof(d->stats.readers_log));
	copy_text(st, COL_EVIDENCE, d->stats.storage_evidence, sizeof(d->stats.storage_evidence));
	read_fields(st, COL_DETAIL_FIELDS, d, detail_fields, ARRAY_SIZE(detail_fields));
	d->stats.entries = i->totals.entries + 1;
	d->stats.dirs = i->totals.dirs + 1;
	return read_options(st, d);
}

int catalog_read(sqlite3_stmt *st, bool details, struct snap_info *i)
{
	bool is_text = sqlite3_column_type(st, COL_ROOT) == SQLITE_TEXT;
	const char *root = (const char *)sqlite3_column_text(st, COL_ROOT);

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
	read_fields(st, COL_FIELDS, i, info_fields, ARRAY_SIZE(info_fields));
	return details ? read_details(st, i) : 0;
}

int catalog_select(struct snap *s, bool details, const char *condition, int64_t id,
                   sqlite3_stmt **ret)
{
	sqlite3_str *sql = sqlite3_str_new(s->db);

	sqlite3_str_appendall(sql, "SELECT s.id, r.path, ");
	append_columns(sql, details);
	sqlite3_str_appendf(sql, " FROM snapshot s JOIN root r ON r.id = s.root WHERE %s",
	                    condition);
	*ret = prepare(s, sql);
	if (!*ret)
		return why_not_prepared(s);
	(void)sqlite3_bind_int64(*ret, 1, id);
	return 0;
}

static int get_row(struct snap *s, int64_t id, struct snap_info *ret)
{
	sqlite3_stmt *st;
	int rc, r = catalog_select(s, true, "s.id = ?", id, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = catalog_read(st, true, ret);
	else
		r = rc == SQLITE_DONE ? -ENOENT : snap_errno(rc);
	(void)sqlite3_finalize(st);
	return r;
}

int snap_info_get(struct snap *s, int64_t id, struct snap_info *ret)
{
	struct snap_info i = { 0 };
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = store_begin_read(s);
	if (r == 0)
		r = get_row(s, id, &i);
	(void)pthread_mutex_unlock(&s->lock);
	if (r < 0)
		snap_info_done(&i);
	else
		*ret = i;
	return r;
}

void snap_info_done(struct snap_info *i)
{
	if (i->details)
		free(i->details->options);
	free(i->details);
	i->details = NULL;
	free(i->root);
	i->root = NULL;
}

typedef void emit_fn(void *ctx, const char *key, const char *value, bool text);

static void emit_number(emit_fn *emit, void *ctx, const char *key, int64_t v)
{
	char buf[24];

	(void)snprintf(buf, sizeof(buf), "%" PRId64, v);
	emit(ctx, key, buf, false);
}

static void emit_fields(const void *from, const struct field *f, size_t n, emit_fn *emit, void *ctx,
                        const char *const *keys)
{
	for (; *keys; keys++)
		for (size_t i = 0; i < n; i++)
			if (strcmp(f[i].name, *keys) == 0)
				emit_number(emit, ctx, *keys, *field_of(from, &f[i]));
}

static void emit_details(const struct snap_details *d, emit_fn *emit, void *ctx)
{
	static const char *const scan[] = { "wall_ns",     "user_ns", "sys_ns",
		                            "peak_rss_kb", "openat",  "statx",
		                            "getdents64",  "close",   NULL };
	static const char *const written[] = { "nodes_written", "listings_written", "index_bytes",
		                               "readers", NULL };
	static const char *const storage[] = { "readers_changes", "by_inode", "cached_percent",
		                               "blocked_ns", NULL };
	const size_t n = ARRAY_SIZE(detail_fields);

	emit_fields(d, detail_fields, n, emit, ctx, scan);
	emit_number(emit, ctx, "syscalls",
	            (int64_t)(d->stats.openat + d->stats.statx + d->stats.getdents64));
	emit_fields(d, detail_fields, n, emit, ctx, written);
	emit(ctx, "storage", *d->stats.storage ? d->stats.storage : "unknown", true);
	emit(ctx, "storage_evidence", d->stats.storage_evidence, true);
	emit_number(emit, ctx, "steals", (int64_t)d->stats.steals);
	emit_fields(d, detail_fields, n, emit, ctx, storage);
	emit(ctx, "readers_log", d->stats.readers_log, true);
}

/* The order is a contract: keys are only ever appended. */
void snap_info_fields(const struct snap_info *i, emit_fn *emit, void *ctx)
{
	static const char *const tree[] = { "entries", "files",    "dirs",    "bytes",   "apparent",
		                            "errors",  "vanished", "changed", "skipped", NULL };
	char hex[33];

	for (size_t b = 0; b < sizeof(i->fingerprint.b); b++)
		(void)snprintf(hex + b * 2, 3, "%02x", i->fingerprint.b[b]);
	emit(ctx, "root", i->root ? i->root : "", true);
	emit_number(emit, ctx, "snapshot", i->id);
	emit(ctx, "fingerprint", i->ref ? hex : "", true);
	emit_number(emit, ctx, "time", i->time);
	emit(ctx, "mode", mode_names[i->mode], true);
	emit_fields(i, info_fields, ARRAY_SIZE(info_fields), emit, ctx, tree);
	emit_number(emit, ctx, "complete", i->complete);
	if (i->details)
		emit_details(i->details, emit, ctx);
}
