/* SPDX-License-Identifier: MIT */
/*
 * builder - packs: nodes are appended to the worker's own, which is compressed and inserted when full.
 */
#include "snapshot/writer.h"

enum {
	ZSTD_LEVEL = 1
};

struct builder *builder_of(struct snap_writer *w, unsigned worker)
{
	struct builder *b = atomic_load_explicit(&w->builder[worker], memory_order_relaxed);

	if (b)
		return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->zstd = ZSTD_createCCtx();
	b->id = atomic_fetch_add(&w->next_pack, 1);
	atomic_store(&w->builder[worker], b);
	return b;
}

void builder_free(struct builder *b)
{
	if (!b)
		return;
	(void)ZSTD_freeCCtx(b->zstd);
	free(b->data.p);
	free(b->lens.p);
	free(b->fps.p);
	free(b->scratch.p);
	free(b->packed.p);
	free(b->kids);
	free(b->kid_fps);
	free(b);
}

static int compress(struct builder *b, const void **data, size_t *len, int *codec)
{
	size_t bound = ZSTD_compressBound(b->scratch.len), n;

	*data = b->scratch.p;
	*len = b->scratch.len;
	*codec = CODEC_RAW;
	if (!b->zstd)
		return 0;
	b->packed.len = 0;
	if (bytes_reserve(&b->packed, bound) < 0)
		return -ENOMEM;
	n = ZSTD_compressCCtx(b->zstd, b->packed.p, b->packed.cap, b->scratch.p, b->scratch.len,
	                      ZSTD_LEVEL);
	if (ZSTD_isError(n) || n >= b->scratch.len)
		return 0;
	*data = b->packed.p;
	*len = n;
	*codec = CODEC_ZSTD;
	return 0;
}

static int assemble(struct builder *b)
{
	uint8_t head[VARINT_MAX];
	int r;

	b->scratch.len = 0;
	r = bytes_add(&b->scratch, head, (size_t)(varint_put(head, b->n) - head));
	if (r == 0)
		r = bytes_add(&b->scratch, b->lens.p, b->lens.len);
	return r == 0 ? bytes_add(&b->scratch, b->data.p, b->data.len) : r;
}

static int insert_pack(struct snap_writer *w, struct builder *b, const void *data, size_t len,
                       int codec)
{
	uint64_t sum = pack_sum(w->s->secret, b->id, b->fps.p, b->fps.len, data, len);
	int rc;

	(void)pthread_mutex_lock(&w->s->lock);
	if (sqlite3_get_autocommit(w->s->db)) { /* another worker's failure has rolled all back */
		(void)pthread_mutex_unlock(&w->s->lock);
		return -EIO;
	}
	(void)sqlite3_bind_int64(w->insert, 1, (int64_t)b->id);
	(void)sqlite3_bind_int(w->insert, 2, codec);
	(void)sqlite3_bind_int64(w->insert, 3, (int64_t)b->scratch.len);
	(void)sqlite3_bind_int64(w->insert, 4, (int64_t)sum);
	(void)sqlite3_bind_blob64(w->insert, 5, b->fps.p, b->fps.len, SQLITE_STATIC);
	(void)sqlite3_bind_blob64(w->insert, 6, data, len, SQLITE_STATIC);
	rc = sqlite3_step(w->insert);
	(void)sqlite3_reset(w->insert);
	(void)sqlite3_clear_bindings(w->insert);
	(void)pthread_mutex_unlock(&w->s->lock);
	return snap_errno(rc);
}

int builder_flush(struct snap_writer *w, struct builder *b)
{
	const void *data;
	size_t len;
	int codec, r;

	if (b->n == 0)
		return 0;
	r = assemble(b);
	if (r == 0)
		r = compress(b, &data, &len, &codec);
	if (r == 0)
		r = insert_pack(w, b, data, len, codec);
	b->data.len = b->lens.len = b->fps.len = 0;
	b->n = 0;
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
			struct node_key key;

			memcpy(key.fp.b, p, sizeof(key.fp.b));
			memcpy(&key.check, p + sizeof(key.fp.b), sizeof(key.check));
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
	uint8_t head[VARINT_MAX];
	size_t before = b->data.len;
	int r = record_add(&b->data, n->ref, n, b->kids, listing, len);

	if (r == 0)
		r = bytes_add(&b->lens, head,
		              (size_t)(varint_put(head, b->data.len - before) - head));
	if (r == 0)
		r = bytes_add(&b->fps, key->fp.b, sizeof(key->fp.b));
	if (r == 0)
		r = bytes_add(&b->fps, &key->check, sizeof(key->check));
	if (r < 0)
		return r;
	b->n++;
	atomic_fetch_add_explicit(&w->nodes_written, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->listings_written, 1, memory_order_relaxed);
	return 0;
}

bool builder_is_full(const struct builder *b)
{
	return b->n == PACK_SLOTS_MAX || b->data.len >= PACK_TARGET;
}
