/* SPDX-License-Identifier: MIT */
/*
 * builder - packs: nodes are appended to the worker's own, which is compressed and inserted when full.
 */
#include "snapshot/writer.h"

struct builder *builder_of(struct snap_writer *w, unsigned worker)
{
	struct builder *b = atomic_load_explicit(&w->builder[worker], memory_order_relaxed);

	if (b)
		return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->id = atomic_fetch_add(&w->next_pack, 1);
	atomic_store(&w->builder[worker], b);
	return b;
}

void builder_free(struct snap_writer *w, struct builder *b)
{
	if (!b)
		return;
	snap_node_put(w->s, &b->near);
	free(b->spare);
	packer_done(&b->pack);
	free(b->scratch.p);
	free(b->kids);
	free(b->kid_fps);
	free(b);
}

/* Compressed before the lock is taken. */
static int insert_pack(struct snap_writer *w, const struct pack_row *row)
{
	int r;

	/* Where another worker's failure has rolled all back, nothing is to be begun. */
	(void)pthread_mutex_lock(&w->s->lock);
	r = store_in_write(w->s, 0);
	if (r == 0)
		r = store_in_write(w->s, pack_row_write(w->insert, row));
	(void)pthread_mutex_unlock(&w->s->lock);
	return r;
}

int builder_flush(struct snap_writer *w, struct builder *b)
{
	struct pack_row row;
	int r;

	if (b->pack.n == 0)
		return 0;
	r = packer_finish(&b->pack, w->s->secret, b->id, &row);
	if (r == 0)
		r = insert_pack(w, &row);
	packer_reset(&b->pack);
	b->id = atomic_fetch_add(&w->next_pack, 1);
	return r;
}

/* Nothing is taken from a row that is damaged, so that what is stored now is whole. */
static int add_row(struct snap_writer *w, struct known *k, sqlite3_stmt *st)
{
	static const uint8_t empty[FP_STORED];
	struct pack_row row;
	int r = pack_row_read(st, true, &row);

	if (r == 0 && !(pack_heads_are_whole(w->s, &row) && pack_lists_are_whole(w->s, &row)))
		r = -EUCLEAN;
	if (r < 0)
		return r == -EUCLEAN ? 0 : r;
	for (size_t i = 0; r == 0 && i < row.fps_len / FP_STORED; i++) {
		const uint8_t *p = row.fps + i * FP_STORED;
		struct node_key key = node_key_at(p);

		if (memcmp(p, empty, sizeof(empty)) != 0) /* else a slot that prune emptied */
			r = known_add(k, &key, row.id << REF_SLOT_BITS | i);
	}
	return r;
}

static int load_stored(struct snap_writer *w, struct known *k)
{
	sqlite3_stmt *st;
	int rc, r = 0;

	(void)pthread_mutex_lock(&w->s->lock);
	rc = sqlite3_prepare_v2(w->s->db, "SELECT " PACK_COLUMNS " FROM pack", -1, &st, NULL);
	while (r == 0 && snap_errno(rc) == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = add_row(w, k, st);
	(void)sqlite3_finalize(st);
	r = store_in_write(w->s, r ? r : snap_errno(rc));
	(void)pthread_mutex_unlock(&w->s->lock);
	return r;
}

int builder_stored(struct snap_writer *w, struct known **ret)
{
	struct known *k = atomic_load(&w->stored);
	int r = 0;

	if (k) {
		*ret = k;
		return 0;
	}
	(void)pthread_mutex_lock(&w->stored_lock);
	k = atomic_load(&w->stored);
	if (!k) {
		k = known_new();
		r = k ? load_stored(w, k) : -ENOMEM;
		if (r < 0) {
			known_free(k);
			k = NULL;
		}
		atomic_store(&w->stored, k);
	}
	(void)pthread_mutex_unlock(&w->stored_lock);
	*ret = k;
	return r;
}

int builder_append(struct snap_writer *w, struct builder *b, const struct snap_node *n,
                   const struct node_key *key, const uint8_t *listing, size_t len)
{
	int r = packer_add(&b->pack, n, b->kids, listing, len, key);

	if (r < 0)
		return r;
	atomic_fetch_add_explicit(&w->nodes_written, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->listings_written, 1, memory_order_relaxed);
	return 0;
}
