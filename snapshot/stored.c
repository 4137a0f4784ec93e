/* SPDX-License-Identifier: MIT */
/*
 * stored - is a node stored already? Asked for each that is not as in the previous snapshot.
 *
 *     newer than all that is stored? then not         (most changes; nothing is read)
 *     else: read before? -> the packs of the tail -> those that the lookup names -> read their fingerprints
 *     asked for several times as many nodes as there are packs, or the lookup is damaged: read all packs
 *
 * What is read is in proportion to what changed, however large the index. A hit is a whole fingerprint from a
 * pack whose sums are right; where the lookup is damaged it is not believed, and made again with the snapshot.
 *
 * The time that decides the first question is bounded by the time of the scan, so that one file dated in the
 * future does not take it away for ever: times later than the horizon are kept apart, until they have come.
 */
#include "snapshot/writer.h"

#include <limits.h>

enum {
	HORIZON = 86400, /* a clock may be wrong, and a scan take long */
	ASKED_MIN = 64,
	ASKED_A_PACK = 4, /* to ask takes a fraction of what reading a pack does */
};

/* -- times ----------------------------------------------------------------------------------- */

static const struct {
	const char *key;
	size_t offset;
} bounds_keys[] = {
	{ "newest", offsetof(struct node_times, newest) },
	{ "future_first", offsetof(struct node_times, future_first) },
	{ "future_last", offsetof(struct node_times, future_last) },
};

static int64_t *bound_at(struct node_times *t, size_t i)
{
	return (int64_t *)(void *)((char *)t + bounds_keys[i].offset);
}

void times_add(struct node_times *t, int64_t newest, int64_t horizon)
{
	if (newest <= horizon) {
		t->newest = MAX(t->newest, newest);
		return;
	}
	t->future_first = MIN(t->future_first, newest);
	t->future_last = MAX(t->future_last, newest);
}

static void times_merge(struct node_times *t, const struct node_times *more)
{
	t->newest = MAX(t->newest, more->newest);
	t->future_first = MIN(t->future_first, more->future_first);
	t->future_last = MAX(t->future_last, more->future_last);
}

/* What was the future may have come. */
static void times_pass(struct node_times *t, int64_t horizon)
{
	if (t->future_first > horizon)
		return;
	t->newest = MAX(t->newest, MIN(t->future_last, horizon));
	if (t->future_last > horizon)
		t->future_first = horizon + 1;
	else
		*t = (struct node_times){ t->newest, INT64_MAX, INT64_MIN };
}

static bool may_be_stored(const struct node_times *t, int64_t newest)
{
	return newest <= t->newest || newest >= t->future_first;
}

/* -- bounds in the index --------------------------------------------------------------------- */

static int meta_number(sqlite3_stmt *st, const char *key, int64_t *ret)
{
	int rc;

	(void)sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_reset(st);
	return snap_errno(rc);
}

/*
 * Pack ids are never used again, since a process that shows a pruned snapshot may still know them. An index
 * that says nothing of its times, or whose meta is damaged, is asked for each node, and meta is written anew.
 */
int stored_begin(struct snap_writer *w)
{
	struct node_times *t = &w->times;
	const struct node_times unknown = { INT64_MAX, INT64_MIN, INT64_MAX };
	int64_t next = 0, least = 0;
	sqlite3_stmt *st;
	int r = snap_errno(sqlite3_prepare_v2(
		w->s->db, "SELECT value FROM meta WHERE key=? AND typeof(value)='integer'", -1, &st,
		NULL));

	*t = unknown;
	if (r == 0)
		r = meta_number(st, "next_pack", &next);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(bounds_keys); i++)
		r = meta_number(st, bounds_keys[i].key, bound_at(t, i));
	(void)sqlite3_finalize(st);
	w->times_stored = *t;
	if (r == 0)
		r = store_int(w->s->db, "SELECT ifnull(max(id), 0) + 1 FROM pack", &least);
	if (r == 0)
		r = catalog_begin(w->s, &w->meta_is_whole);
	if (!w->meta_is_whole) {
		next = 0;
		*t = unknown;
		w->times_stored = (struct node_times){ 0 };
	}
	w->horizon = (int64_t)time(NULL) + HORIZON;
	times_pass(t, w->horizon);
	w->first_pack = (uint64_t)MAX(next, least);
	atomic_init(&w->next_pack, w->first_pack);
	return r;
}

static int store_number(struct snap *s, const char *key, int64_t value)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(s->db, "REPLACE INTO meta(value, key) VALUES (?, ?)", -1, &st,
	                            NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, value);
		(void)sqlite3_bind_text(st, 2, key, -1, SQLITE_STATIC);
		rc = sqlite3_step(st);
	}
	(void)sqlite3_finalize(st);
	return snap_errno(rc);
}

int stored_commit(struct snap_writer *w)
{
	uint64_t next = atomic_load(&w->next_pack);
	int r;

	if (atomic_load(&w->nodes_written) == 0 && w->meta_is_whole)
		return w->stored.damaged ? lookup_rebuild(w->s) : 0;
	for (size_t i = 0; i < SCAN_THREADS_MAX; i++) {
		const struct builder *b = atomic_load(&w->builder[i]);

		if (b)
			times_merge(&w->times, &b->times);
	}
	r = store_number(w->s, "next_pack", (int64_t)next);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(bounds_keys); i++)
		if (*bound_at(&w->times, i) != *bound_at(&w->times_stored, i))
			r = store_number(w->s, bounds_keys[i].key, *bound_at(&w->times, i));
	if (r < 0)
		return r;
	return w->stored.damaged ? lookup_rebuild(w->s) : lookup_extend(w->s, w->first_pack, next);
}

/* -- reading fingerprints -------------------------------------------------------------------- */

/* Nothing is taken from a row that is damaged, so that what is stored now is whole. */
static int add_row(struct snap_writer *w, sqlite3_stmt *st)
{
	static const uint8_t empty[FP_STORED];
	struct known *k = w->stored.known;
	struct pack_row row;
	int r = pack_row_read(st, true, &row);

	w->s->rows_read++;
	if (r == 0 && !(pack_heads_are_whole(w->s, &row) && pack_lists_are_whole(w->s, &row)))
		r = -EUCLEAN;
	if (r < 0)
		return r == -EUCLEAN ? 0 : r;
	for (size_t i = 0; r == 0 && i < row.fps_len / FP_STORED; i++) {
		const uint8_t *p = row.fps + i * FP_STORED;
		struct node_key key = node_key_at(p);

		if (memcmp(p, empty, sizeof(empty)) == 0) /* a slot that prune emptied */
			continue;
		known_lock(k, &key.fp);
		r = known_add(k, &key, row.id << REF_SLOT_BITS | i);
		known_unlock(k, &key.fp);
	}
	return r;
}

static int read_packs(struct snap_writer *w, uint64_t first, uint64_t last)
{
	sqlite3_stmt *st = w->stored.get;
	int rc, r = 0;

	(void)sqlite3_bind_int64(st, 1, (int64_t)first);
	(void)sqlite3_bind_int64(st, 2, (int64_t)last);
	while (r == 0 && (rc = sqlite3_step(st)) != SQLITE_DONE)
		r = rc == SQLITE_ROW ? add_row(w, st) : snap_errno(rc);
	(void)sqlite3_reset(st);
	return r;
}

static int read_all(struct snap_writer *w)
{
	int r = read_packs(w, 1, w->first_pack - 1);

	if (r == 0)
		atomic_store(&w->stored.all, true);
	return r;
}

static int read_tail(struct snap_writer *w)
{
	struct stored *st = &w->stored;
	int r = 0;

	if (st->opened)
		return 0;
	st->known = known_new();
	r = st->known ? snap_errno(sqlite3_prepare_v2(w->s->db,
	                                              "SELECT " PACK_COLUMNS
	                                              " FROM pack WHERE id BETWEEN ? AND ?",
	                                              -1, &st->get, NULL))
	              : -ENOMEM;
	if (r < 0)
		return r; /* and with it the scan ends */
	st->opened = true;
	r = lookup_open(w->s, &st->lookup);
	return r == 0 ? read_packs(w, st->lookup.covered + 1, w->first_pack - 1) : r;
}

/* Of those that the lookup names, the packs that were not read yet. */
static int read_named(struct snap_writer *w, const struct snap_fingerprint *fp)
{
	struct lookup *l = &w->stored.lookup;
	int r = lookup_find(w->s, l, fp);

	for (size_t i = 0; r == 0 && i < l->n_packs; i++) {
		r = marks_add(&w->stored.read, l->pack[i] << REF_SLOT_BITS);
		if (r > 0)
			r = read_packs(w, l->pack[i], l->pack[i]);
	}
	return r;
}

static int ask(struct snap_writer *w, const struct snap_fingerprint *fp)
{
	struct stored *st = &w->stored;
	int r = st->damaged ? -EUCLEAN : read_tail(w);

	if (r == 0 && ++st->asked > ASKED_MIN + ASKED_A_PACK * w->first_pack)
		return read_all(w);
	if (r == 0)
		r = read_named(w, fp);
	if (r != -EUCLEAN || !st->opened)
		return r;
	st->damaged = true;
	return read_all(w);
}

static uint64_t find(struct stored *st, const struct snap_fingerprint *fp, uint32_t *check)
{
	uint64_t ref;

	if (!atomic_load(&st->opened))
		return 0;
	known_lock(st->known, fp);
	ref = known_find(st->known, fp, check);
	known_unlock(st->known, fp);
	return ref;
}

int stored_find(struct snap_writer *w, const struct node_key *key, int64_t newest, uint64_t *ref,
                uint32_t *check)
{
	struct stored *st = &w->stored;
	int r = 0;

	*ref = 0;
	if (!may_be_stored(&w->times, newest))
		return 0;
	*ref = find(st, &key->fp, check);
	if (*ref || atomic_load(&st->all))
		return 0;
	(void)pthread_mutex_lock(&w->s->lock);
	r = store_in_write(w->s, 0);
	if (r == 0 && !atomic_load(&st->all))
		r = store_in_write(w->s, ask(w, &key->fp));
	(void)pthread_mutex_unlock(&w->s->lock);
	if (r == 0)
		*ref = find(st, &key->fp, check);
	return r;
}

void stored_done(struct stored *st)
{
	(void)sqlite3_finalize(st->get);
	known_free(st->known);
	lookup_close(&st->lookup);
	marks_done(&st->read);
}
