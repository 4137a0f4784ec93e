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
	b->times = TIMES_NONE;
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
	free(b->children);
	free(b->child_fps);
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

int builder_append(struct snap_writer *w, struct builder *b, const struct snap_node *n,
                   const struct node_key *key, const uint8_t *listing, size_t len)
{
	int r = packer_add(&b->pack, n, b->children, listing, len, key);

	if (r < 0)
		return r;
	times_add(&b->times, n->totals.newest, w->horizon);
	atomic_fetch_add_explicit(&w->nodes_written, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->listings_written, 1, memory_order_relaxed);
	return 0;
}
