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
	int r = -EIO;

	/* Where another worker's failure has rolled all back, nothing is to be begun: that failure counts. */
	(void)pthread_mutex_lock(&w->s->lock);
	if (!sqlite3_get_autocommit(w->s->db))
		r = pack_row_write(w->insert, row);
	r = writer_note_error(w, r);
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

static int load_stored(struct snap_writer *w, struct known *k)
{
	static const uint8_t empty[FP_STORED];
	sqlite3_stmt *st;
	int rc, r = 0;

	(void)pthread_mutex_lock(&w->s->lock);
	rc = sqlite3_prepare_v2(w->s->db, "SELECT id, fps FROM pack", -1, &st, NULL);
	while (r == 0 && snap_errno(rc) == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		uint64_t id = (uint64_t)sqlite3_column_int64(st, 0);
		const uint8_t *p = sqlite3_column_blob(st, 1);
		size_t n = (size_t)sqlite3_column_bytes(st, 1) / FP_STORED;

		for (size_t i = 0; r == 0 && i < n; i++, p += FP_STORED) {
			struct node_key key = node_key_at(p);

			if (memcmp(p, empty, sizeof(empty)) == 0) /* a slot that prune emptied */
				continue;
			r = known_add(k, &key, id << REF_SLOT_BITS | i);
		}
	}
	(void)sqlite3_finalize(st);
	(void)pthread_mutex_unlock(&w->s->lock);
	return r ? r : snap_errno(rc);
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
