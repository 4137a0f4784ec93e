/* SPDX-License-Identifier: MIT */
/*
 * catalog - the rows about snapshots: which roots, when, what totals, how the scan went.
 *
 * Each row is sealed (seal.c) with the path of its root, and names the row before it, so that one that was
 * changed or is missing shows. What a scan cost is one text; one table here names all that is in it.
 */
#include "base/text.h"
#include "snapshot/internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

/* Of the statements here, and but for the first two and the sum of the insertion. */
enum {
	COL_ID,
	COL_PATH,
	COL_ROOT,
	COL_BEFORE,
	COL_MODE,
	COL_COMPLETE,
	COL_TIME,
	COL_NODE,
	COL_FP,
	COL_STATFS,
	COL_OPTIONS,
	COL_MARK,
	COL_COST,
	COL_TOTALS,
	COL_SUM = COL_TOTALS + TOTALS_FIELDS
};

enum {
	MARK_MAX = sizeof(((struct scan_mark *)NULL)->source) +
	           sizeof(((struct scan_mark *)NULL)->bytes)
};

#define COLUMNS "root, before, mode, complete, time, node, fp, statfs, options, mark, cost"

static const char *const mode_names[] = { "cold", "warm", "quick" };

/* -- what a scan cost -------------------------------------------------------------------------- */

typedef void emit_fn(void *ctx, const char *key, const char *value, bool text);

struct cost {
	const char *key;
	size_t offset;                                    /* in struct snap_details */
	size_t size;                                      /* of a text, 0: a number of 64 bits */
	const char *empty;                                /* what no text is called */
	uint64_t (*derive)(const struct snap_details *d); /* instead: follows from the others */
};

static uint64_t count_calls(const struct snap_details *d)
{
	return d->stats.openat + d->stats.statx + d->stats.getdents64;
}

#define DETAIL(member) offsetof(struct snap_details, member)
#define NUMBER(name)                                       \
	{                                                  \
		.key = #name, .offset = DETAIL(stats.name) \
	}
#define TEXT(name, ...)                                                                \
	{                                                                              \
		.key = #name, .offset = DETAIL(stats.name),                            \
		.size = sizeof(((struct snap_details *)NULL)->stats.name), __VA_ARGS__ \
	}

/* The order is a contract: keys are only ever appended. */
static const struct cost costs[] = {
	NUMBER(wall_ns),
	NUMBER(user_ns),
	NUMBER(sys_ns),
	NUMBER(peak_rss_kb),
	NUMBER(openat),
	NUMBER(statx),
	NUMBER(getdents64),
	NUMBER(close),
	{ .key = "syscalls", .derive = count_calls },
	{ .key = "nodes_written", .offset = DETAIL(nodes_written) },
	{ .key = "listings_written", .offset = DETAIL(listings_written) },
	{ .key = "index_bytes", .offset = DETAIL(index_bytes) },
	NUMBER(readers),
	TEXT(storage, .empty = "unknown"),
	TEXT(storage_evidence),
	NUMBER(steals),
	NUMBER(readers_changes),
	NUMBER(by_inode),
	NUMBER(cached_percent),
	NUMBER(blocked_ns),
	TEXT(readers_log),
	TEXT(source, .empty = "walk"),
	TEXT(source_evidence),
};

static void emit_number(emit_fn *emit, void *ctx, const char *key, int64_t v)
{
	char buf[24];

	(void)snprintf(buf, sizeof(buf), "%" PRId64, v);
	emit(ctx, key, buf, false);
}

static void emit_costs(const struct snap_details *d, emit_fn *emit, void *ctx)
{
	for (size_t i = 0; i < ARRAY_SIZE(costs); i++) {
		const struct cost *c = &costs[i];
		const char *text = (const char *)d + c->offset;

		if (c->size)
			emit(ctx, c->key, *text || !c->empty ? text : c->empty, true);
		else
			emit_number(emit, ctx, c->key,
			            (int64_t)(c->derive ? c->derive(d)
			                                : *(const uint64_t *)(const void *)text));
	}
}

/* A line of the stored text; a value is one line of it. */
static void put_cost(void *ctx, const char *key, const char *value, bool text)
{
	struct text *out = ctx;
	size_t at;

	(void)text;
	text_printf(out, "%s ", key);
	at = out->len;
	text_puts(out, value);
	for (; !out->failed && at < out->len; at++)
		if (out->p[at] == '\n')
			out->p[at] = ' ';
	text_puts(out, "\n");
}

static void read_cost(struct snap_details *d, const char *key, size_t key_len, const char *value,
                      size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(costs); i++) {
		const struct cost *c = &costs[i];
		char *at = (char *)d + c->offset;

		if (strlen(c->key) != key_len || memcmp(c->key, key, key_len) != 0)
			continue;
		if (c->size)
			(void)snprintf(at, c->size, "%.*s", (int)len, value);
		else if (!c->derive)
			*(uint64_t *)(void *)at = strtoull(value, NULL, 10);
		return;
	}
}

/* A key that is not known belongs to another version; one that is not there is 0 or empty. */
static void read_costs(sqlite3_stmt *st, struct snap_details *d)
{
	const char *p = (const char *)sqlite3_column_text(st, COL_COST), *end;

	for (; p && (end = strchr(p, '\n')); p = end + 1) {
		const char *space = memchr(p, ' ', (size_t)(end - p));

		if (space)
			read_cost(d, p, (size_t)(space - p), space + 1, (size_t)(end - space - 1));
	}
}

/* -- columns ----------------------------------------------------------------------------------- */

/* File system facts, little-endian numbers: see FORMAT.md. */
#define STATFS_FIELDS(f) \
	f(bsize) f(frsize) f(blocks) f(bfree) f(bavail) f(files) f(ffree) f(namemax)

enum {
#define COUNT_FIELD(name) +1
	N_STATFS = STATFS_FIELDS(COUNT_FIELD)
#undef COUNT_FIELD
};

static void statfs_pack(const struct statvfs *v, uint64_t out[N_STATFS])
{
#define PACK(name) *out++ = v->f_##name;
	STATFS_FIELDS(PACK)
#undef PACK
}

static void statfs_unpack(const uint64_t in[N_STATFS], struct statvfs *v)
{
#define UNPACK(name) v->f_##name = *in++;
	STATFS_FIELDS(UNPACK)
#undef UNPACK
	v->f_favail = v->f_ffree;
}

static void append_totals(sqlite3_str *sql, const char *type)
{
	for (size_t i = 0; i < TOTALS_FIELDS; i++)
		sqlite3_str_appendf(sql, ", %s%s", totals_fields[i].name, type);
}

/* Numbers are INTEGER, so that a foreign value reads as 0 rather than as text. */
int catalog_create(sqlite3 *db)
{
	sqlite3_str *sql = sqlite3_str_new(db);
	char *text;
	int r;

	sqlite3_str_appendall(sql,
	                      "CREATE TABLE snapshot(id INTEGER PRIMARY KEY AUTOINCREMENT,"
	                      " root INTEGER NOT NULL REFERENCES root(id), before INT, mode INT,"
	                      " complete INT, time INT, node INT, fp BLOB, statfs BLOB,"
	                      " options BLOB, mark BLOB, cost TEXT");
	append_totals(sql, " INT");
	sqlite3_str_appendall(sql, ", sum INT);"
	                           " CREATE INDEX snapshot_root ON snapshot(root, id);");
	text = sqlite3_str_finish(sql);
	r = text ? store_exec(db, text) : -ENOMEM;
	sqlite3_free(text);
	return r;
}

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

static int prepare(struct snap *s, sqlite3_str *sql, sqlite3_stmt **ret)
{
	char *text = sqlite3_str_finish(sql);
	int r = text ? snap_errno(sqlite3_prepare_v2(s->db, text, -1, ret, NULL)) : -ENOMEM;

	sqlite3_free(text);
	return r;
}

int catalog_select(struct snap *s, const char *condition, int64_t value, sqlite3_stmt **ret)
{
	sqlite3_str *sql = sqlite3_str_new(s->db);
	int r;

	*ret = NULL;
	sqlite3_str_appendall(sql, "SELECT s.id, r.path, " COLUMNS);
	append_totals(sql, "");
	sqlite3_str_appendf(sql, ", sum FROM snapshot s LEFT JOIN root r ON r.id = s.root WHERE %s",
	                    condition);
	r = prepare(s, sql, ret);
	if (r == 0)
		(void)sqlite3_bind_int64(*ret, 1, value);
	return r;
}

bool catalog_is_whole(struct snap *s, sqlite3_stmt *st)
{
	return seal_row(s->secret, st, COL_SUM) == (uint64_t)sqlite3_column_int64(st, COL_SUM) &&
	       sqlite3_column_type(st, COL_SUM) == SQLITE_INTEGER;
}

int64_t catalog_before(sqlite3_stmt *st)
{
	return sqlite3_column_int64(st, COL_BEFORE);
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
	size_t mark = (size_t)sqlite3_column_bytes(st, COL_MARK);
	uint64_t fs[N_STATFS];

	if (!d)
		return -ENOMEM;
	i->details = d;
	if (sqlite3_column_bytes(st, COL_STATFS) == sizeof(fs)) {
		memcpy(fs, sqlite3_column_blob(st, COL_STATFS), sizeof(fs));
		statfs_unpack(fs, &d->statvfs);
	}
	if (mark > sizeof(d->mark.source) && mark <= MARK_MAX) {
		const uint8_t *p = sqlite3_column_blob(st, COL_MARK);

		memcpy(d->mark.source, p, sizeof(d->mark.source) - 1);
		d->mark.len = (uint8_t)(mark - sizeof(d->mark.source));
		memcpy(d->mark.bytes, p + sizeof(d->mark.source), d->mark.len);
	}
	read_costs(st, d);
	d->stats.entries = i->totals.entries + 1;
	d->stats.dirs = i->totals.dirs + 1;
	return read_options(st, d);
}

int catalog_read(struct snap *s, sqlite3_stmt *st, bool details, struct snap_info *i)
{
	bool is_text = sqlite3_column_type(st, COL_PATH) == SQLITE_TEXT;
	const char *root = (const char *)sqlite3_column_text(st, COL_PATH);
	uint64_t totals[TOTALS_FIELDS];

	if (!catalog_is_whole(s, st) || !is_text || !root ||
	    strlen(root) != (size_t)sqlite3_column_bytes(st, COL_PATH) || !is_root_path(root) ||
	    sqlite3_column_bytes(st, COL_FP) != sizeof(i->fingerprint.b))
		return -EUCLEAN;
	i->root = strdup(root);
	if (!i->root)
		return -ENOMEM;
	i->id = sqlite3_column_int64(st, COL_ID);
	i->mode = (enum snap_mode)((unsigned)sqlite3_column_int(st, COL_MODE) %
	                           ARRAY_SIZE(mode_names));
	i->complete = sqlite3_column_int(st, COL_COMPLETE) != 0;
	i->time = sqlite3_column_int64(st, COL_TIME);
	i->ref = (uint64_t)sqlite3_column_int64(st, COL_NODE);
	memcpy(i->fingerprint.b, sqlite3_column_blob(st, COL_FP), sizeof(i->fingerprint.b));
	for (int n = 0; n < TOTALS_FIELDS; n++)
		totals[n] = (uint64_t)sqlite3_column_int64(st, COL_TOTALS + n);
	memcpy(&i->totals, totals, sizeof(totals));
	return details ? read_details(st, i) : 0;
}

int catalog_begin(struct snap *s, bool *whole)
{
	sqlite3_stmt *st;
	int rc, r = seal_meta_check(s->db, s->secret, whole);

	if (r < 0 || *whole)
		return r;
	r = catalog_select(s, "s.id >= ? ORDER BY s.id DESC LIMIT 1", 0, &st);
	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && !catalog_is_whole(s, st))
		r = -EUCLEAN;
	(void)sqlite3_finalize(st);
	return r ? r : snap_errno(rc);
}

int catalog_latest(struct snap *s, int64_t root, struct snap_info *ret)
{
	sqlite3_stmt *st;
	int rc = SQLITE_DONE, r = catalog_select(s, "s.root = ? ORDER BY s.id DESC", root, &st);

	if (r < 0)
		return r;
	do {
		rc = sqlite3_step(st);
		r = rc == SQLITE_ROW ? catalog_read(s, st, true, ret) : snap_errno(rc);
	} while (rc == SQLITE_ROW && r == -EUCLEAN);
	(void)sqlite3_finalize(st);
	return rc == SQLITE_DONE ? -ENOENT : r;
}

/* -- changing rows ----------------------------------------------------------------------------- */

/* Give the row that has the id now a sum. */
int catalog_seal(struct snap *s, int64_t id)
{
	sqlite3_stmt *st;
	uint64_t sum = 0;
	int rc, r = catalog_select(s, "s.id = ?", id, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		sum = seal_row(s->secret, st, COL_SUM);
	(void)sqlite3_finalize(st);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? -EUCLEAN : snap_errno(rc);
	return seal_set(s->db, "UPDATE snapshot SET sum=? WHERE id=?", (int64_t)sum, id);
}

/* The last snapshot that was ever stored: one that is missing must show later, too. */
static int last_id(struct snap *s, int64_t *ret)
{
	bool whole;
	int r = seal_meta_check(s->db, s->secret, &whole);

	return r ? r
	         : store_int(s->db,
	                     whole ? "SELECT value FROM meta WHERE key='last'"
	                           : "SELECT ifnull(max(id), 0) FROM snapshot",
	                     ret);
}

static int set_last(struct snap *s, int64_t id)
{
	int r = seal_set(s->db, "REPLACE INTO meta VALUES ('last', ?)", id, 0);

	return r ? r : seal_meta(s->db, s->secret);
}

static int prepare_insert(struct snap *s, sqlite3_stmt **ret)
{
	sqlite3_str *sql = sqlite3_str_new(s->db);

	sqlite3_str_appendall(sql, "INSERT INTO snapshot(" COLUMNS);
	append_totals(sql, "");
	sqlite3_str_appendall(sql, ") VALUES (?");
	for (int i = COL_ROOT + 1; i < COL_SUM; i++)
		sqlite3_str_appendall(sql, ", ?");
	sqlite3_str_appendall(sql, ")");
	return prepare(s, sql, ret);
}

static void bind_row(sqlite3_stmt *st, const struct snap_info *i, const uint64_t *fs,
                     const uint8_t *mark, const struct text *cost)
{
	enum {
		AT = 1 - COL_ROOT
	};
	const struct snap_details *d = i->details;

	(void)sqlite3_bind_int(st, AT + COL_MODE, (int)i->mode);
	(void)sqlite3_bind_int(st, AT + COL_COMPLETE, i->complete);
	(void)sqlite3_bind_int64(st, AT + COL_TIME, i->time);
	(void)sqlite3_bind_int64(st, AT + COL_NODE, (int64_t)i->ref);
	(void)sqlite3_bind_blob(st, AT + COL_FP, i->fingerprint.b, sizeof(i->fingerprint.b),
	                        SQLITE_STATIC);
	(void)sqlite3_bind_blob(st, AT + COL_STATFS, fs, N_STATFS * sizeof(*fs), SQLITE_STATIC);
	(void)sqlite3_bind_blob(st, AT + COL_OPTIONS, d->options, (int)d->options_len,
	                        SQLITE_STATIC);
	if (d->mark.source[0])
		(void)sqlite3_bind_blob(st, AT + COL_MARK, mark,
		                        (int)sizeof(d->mark.source) + d->mark.len, SQLITE_STATIC);
	(void)sqlite3_bind_text(st, AT + COL_COST, cost->p, (int)cost->len, SQLITE_STATIC);
	for (int n = 0; n < TOTALS_FIELDS; n++)
		(void)sqlite3_bind_int64(st, AT + COL_TOTALS + n,
		                         totals_get(&i->totals, &totals_fields[n]));
}

static int insert(struct snap *s, int64_t root, int64_t before, struct snap_info *i)
{
	const struct scan_mark *m = &i->details->mark;
	uint8_t mark[MARK_MAX];
	struct text cost = { 0 };
	uint64_t fs[N_STATFS];
	sqlite3_stmt *st = NULL;
	int r = prepare_insert(s, &st);

	statfs_pack(&i->details->statvfs, fs);
	memcpy(mark, m->source, sizeof(m->source));
	memcpy(mark + sizeof(m->source), m->bytes, sizeof(m->bytes));
	emit_costs(i->details, put_cost, &cost);
	if (r == 0 && cost.failed)
		r = -ENOMEM;
	if (r == 0) {
		bind_row(st, i, fs, mark, &cost);
		(void)sqlite3_bind_int64(st, 1, root);
		(void)sqlite3_bind_int64(st, 1 + COL_BEFORE - COL_ROOT, before);
		r = snap_errno(sqlite3_step(st));
		i->id = sqlite3_last_insert_rowid(s->db);
	}
	(void)sqlite3_finalize(st);
	text_done(&cost);
	return r;
}

int catalog_add(struct snap *s, int64_t root, struct snap_info *i)
{
	int64_t before = 0;
	int r = last_id(s, &before);

	if (r == 0)
		r = insert(s, root, before, i);
	if (r == 0)
		r = catalog_seal(s, i->id);
	return r == 0 ? set_last(s, i->id) : r;
}

/* What a row says was before it; of one that is damaged, the one that is. */
static int row_before(struct snap *s, int64_t id, int64_t *ret)
{
	sqlite3_stmt *st;
	int rc, r = catalog_select(s, "s.id = ?", id, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && catalog_is_whole(s, st)) {
		*ret = catalog_before(st);
		rc = SQLITE_DONE;
	} else if (snap_errno(rc) == 0) {
		char sql[80];

		(void)snprintf(sql, sizeof(sql),
		               "SELECT ifnull(max(id), 0) FROM snapshot WHERE id < %" PRId64, id);
		r = store_int(s->db, sql, ret);
	}
	(void)sqlite3_finalize(st);
	return r ? r : snap_errno(rc);
}

/* The row that follows a removed one takes over what that followed. One that is damaged stays as it is. */
static int follow(struct snap *s, int64_t removed, int64_t before)
{
	int64_t next = 0;
	sqlite3_stmt *st;
	int rc, r = catalog_select(s, "s.id > ? ORDER BY s.id LIMIT 1", removed, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && catalog_before(st) == removed && catalog_is_whole(s, st))
		next = sqlite3_column_int64(st, COL_ID);
	(void)sqlite3_finalize(st);
	if (snap_errno(rc) < 0)
		return snap_errno(rc);
	if (rc == SQLITE_DONE) /* the last one: it was damaged, or it would have been kept */
		return set_last(s, before);
	if (!next)
		return 0;
	r = seal_set(s->db, "UPDATE snapshot SET before=? WHERE id=?", before, next);
	return r ? r : catalog_seal(s, next);
}

/* Ids that ascend without one between them are taken as one. */
int catalog_remove(struct snap *s, const int64_t *ids, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n;) {
		int64_t before = 0;

		r = row_before(s, ids[i], &before);
		do {
			if (r == 0)
				r = seal_set(s->db, "DELETE FROM snapshot WHERE id=?", ids[i], 0);
		} while (++i < n && ids[i] == ids[i - 1] + 1 && r == 0);
		if (r == 0)
			r = follow(s, ids[i - 1], before);
	}
	return r;
}

static int get_row(struct snap *s, int64_t id, struct snap_info *ret)
{
	sqlite3_stmt *st;
	int rc, r = catalog_select(s, "s.id = ?", id, &st);

	if (r < 0)
		return r;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		r = catalog_read(s, st, true, ret);
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

/* The order is a contract: keys are only ever appended. */
void snap_info_fields(const struct snap_info *i, emit_fn *emit, void *ctx)
{
	/* Places in totals_fields. */
#define PLACE(member) offsetof(struct scan_totals, member) / sizeof(uint64_t)
	static const uint8_t tree[] = { PLACE(entries),  PLACE(files),    PLACE(dirs),
		                        PLACE(bytes),    PLACE(apparent), PLACE(errors),
		                        PLACE(vanished), PLACE(changed),  PLACE(skipped) };
#undef PLACE
	char hex[33];

	for (size_t b = 0; b < sizeof(i->fingerprint.b); b++)
		(void)snprintf(hex + b * 2, 3, "%02x", i->fingerprint.b[b]);
	emit(ctx, "root", i->root ? i->root : "", true);
	emit_number(emit, ctx, "snapshot", i->id);
	emit(ctx, "fingerprint", i->ref ? hex : "", true);
	emit_number(emit, ctx, "time", i->time);
	emit(ctx, "mode", mode_names[i->mode], true);
	for (size_t n = 0; n < ARRAY_SIZE(tree); n++)
		emit_number(emit, ctx, totals_fields[tree[n]].name,
		            totals_get(&i->totals, &totals_fields[tree[n]]));
	emit_number(emit, ctx, "complete", i->complete);
	if (i->details)
		emit_costs(i->details, emit, ctx);
}
