/* SPDX-License-Identifier: MIT */
/*
 * cache - packs in memory: loaded on demand, checked, decompressed, the least recently used dropped.
 *
 *     snap_node_get: ref -> pack (cached, or read and verified) -> pinned -> record parsed
 *
 * All of it happens under the handle's lock but for the parsing and the index of a large directory.
 */
#include "snapshot/internal.h"

#include <zstd.h>

enum {
	BUCKETS = 4096,
	RAW_MAX = 1 << 30
};

/* Ids above those of any stored pack. */
#define VIRTUAL_FIRST (UINT64_C(1) << 48)

struct pack_cache {
	uint64_t next_virtual;
	struct snap_pack *bucket[BUCKETS];
	struct snap_pack *newest, *oldest;
	size_t bytes, limit;
	struct ZSTD_DCtx_s *unpacker[8];
	size_t n_unpackers;
};

struct pack_cache *cache_new(void)
{
	struct pack_cache *c = calloc(1, sizeof(*c));

	if (c)
		c->limit = CACHE_DEFAULT, c->next_virtual = VIRTUAL_FIRST;
	return c;
}

void pack_free(struct snap_pack *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->index && i < p->n; i++)
		node_index_free(p->index[i]);
	free(p->index);
	free(p->data);
	free(p->offset);
	free(p->fps);
	free(p);
}

void cache_free(struct pack_cache *c)
{
	struct snap_pack *p, *older;

	if (!c)
		return;
	for (p = c->newest; p; p = older) {
		older = p->older;
		pack_free(p);
	}
	while (c->n_unpackers)
		(void)ZSTD_freeDCtx(c->unpacker[--c->n_unpackers]);
	free(c);
}

/* A row of the pack table. */
struct raw_pack {
	uint64_t id, sum;
	int codec;
	int64_t size;
	const uint8_t *fps, *data;
	size_t fps_len, len;
};

static int raw_from_row(sqlite3_stmt *row, struct raw_pack *ret)
{
	*ret = (struct raw_pack){
		.id = (uint64_t)sqlite3_column_int64(row, 0),
		.codec = sqlite3_column_int(row, 1),
		.size = sqlite3_column_int64(row, 2),
		.sum = (uint64_t)sqlite3_column_int64(row, 3),
		.fps = sqlite3_column_blob(row, 4),
		.data = sqlite3_column_blob(row, 5),
	};
	ret->fps_len = (size_t)sqlite3_column_bytes(row, 4);
	ret->len = (size_t)sqlite3_column_bytes(row, 5);
	return ret->size < 0 || ret->size > RAW_MAX || !ret->data || !ret->fps ? -EUCLEAN : 0;
}

/* Unpacking takes a while: not under the lock, so not from the row either. *ret is to be freed. */
static int raw_copy(struct raw_pack *raw, uint8_t **ret)
{
	uint8_t *p = malloc(raw->fps_len + raw->len);

	if (!p)
		return -ENOMEM;
	memcpy(p, raw->fps, raw->fps_len);
	memcpy(p + raw->fps_len, raw->data, raw->len);
	raw->fps = p;
	raw->data = p + raw->fps_len;
	*ret = p;
	return 0;
}

static int decompress(struct ZSTD_DCtx_s *zstd, const struct raw_pack *raw, struct snap_pack *p)
{
	size_t size = (size_t)raw->size;

	p->data = malloc(MAX(size, 1));
	if (!p->data)
		return -ENOMEM;
	if (raw->codec == CODEC_RAW && raw->len == size)
		memcpy(p->data, raw->data, size);
	else if (raw->codec != CODEC_ZSTD ||
	         ZSTD_decompressDCtx(zstd, p->data, size, raw->data, raw->len) != size)
		return -EUCLEAN;
	return 0;
}

/* The pack begins with the number of records and the length of each. */
static int find_records(struct snap_pack *p, size_t size)
{
	const uint8_t *at = p->data, *end = p->data + size;
	uint64_t n = 0, len = 0, sum = 0;

	at = varint_get(at, end, &n);
	if (!at || n > PACK_SLOTS_MAX)
		return -EUCLEAN;
	p->n = (size_t)n;
	p->offset = calloc(p->n + 1, sizeof(*p->offset));
	if (!p->offset)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++) {
		at = varint_get(at, end, &len);
		if (!at || len > size)
			return -EUCLEAN;
		p->offset[i] = (uint32_t)sum;
		sum += len;
		if (sum > size)
			return -EUCLEAN;
	}
	p->offset[p->n] = (uint32_t)sum;
	if (sum != (size_t)(end - at))
		return -EUCLEAN;
	for (size_t i = 0; i <= p->n; i++)
		p->offset[i] += (uint32_t)(at - p->data);
	return 0;
}

static int pack_fill(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct raw_pack *raw,
                     struct snap_pack *p)
{
	int r;

	p->id = raw->id;
	if (pack_sum(s->secret, raw->id, raw->fps, raw->fps_len, raw->data, raw->len) != raw->sum)
		return -EUCLEAN;
	r = decompress(zstd, raw, p);
	if (r == 0)
		r = find_records(p, (size_t)raw->size);
	if (r < 0)
		return r;
	if (raw->fps_len != p->n * FP_STORED)
		return -EUCLEAN;
	p->fps = malloc(MAX(raw->fps_len, 1));
	if (!p->fps)
		return -ENOMEM;
	memcpy(p->fps, raw->fps, raw->fps_len);
	p->bytes = sizeof(*p) + (size_t)raw->size + raw->fps_len + p->n * sizeof(*p->offset);
	return 0;
}

static int pack_new(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct raw_pack *raw,
                    struct snap_pack **ret)
{
	struct snap_pack *p = calloc(1, sizeof(*p));
	int r = p && zstd ? pack_fill(s, zstd, raw, p) : -ENOMEM;

	if (r < 0)
		pack_free(p);
	else
		*ret = p;
	return r;
}

/* Making an unpacker takes longer than unpacking: a few wait for whoever needs one. With the lock held. */
static struct ZSTD_DCtx_s *unpacker_take(struct pack_cache *c)
{
	return c->n_unpackers ? c->unpacker[--c->n_unpackers] : ZSTD_createDCtx();
}

static void unpacker_put(struct pack_cache *c, struct ZSTD_DCtx_s *zstd)
{
	if (zstd && c->n_unpackers < ARRAY_SIZE(c->unpacker))
		c->unpacker[c->n_unpackers++] = zstd;
	else
		(void)ZSTD_freeDCtx(zstd);
}

/* Verify and decode one row of the pack table. */
int pack_decode(struct snap *s, sqlite3_stmt *row, struct snap_pack **ret)
{
	struct raw_pack raw;
	struct ZSTD_DCtx_s *zstd;
	int r = raw_from_row(row, &raw);

	if (r < 0)
		return r;
	zstd = unpacker_take(s->cache);
	r = pack_new(s, zstd, &raw, ret);
	unpacker_put(s->cache, zstd);
	return r;
}

/*
 * Who holds a pin may give it back, or take another one, without the lock; the first pin on a pack is taken
 * under it, and so is the decision that nobody has one. What is over the limit goes with the next load.
 */
static void unpin(struct snap_pack *p)
{
	atomic_fetch_sub_explicit(&p->pins, 1, memory_order_release);
}

static void pin_add(struct snap_pack *p)
{
	atomic_fetch_add_explicit(&p->pins, 1, memory_order_relaxed);
}

static void list_remove(struct pack_cache *c, struct snap_pack *p)
{
	*(p->newer ? &p->newer->older : &c->newest) = p->older;
	*(p->older ? &p->older->newer : &c->oldest) = p->newer;
}

static void list_add(struct pack_cache *c, struct snap_pack *p)
{
	p->newer = NULL;
	p->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = p;
	c->newest = p;
}

static struct snap_pack *cache_find(struct pack_cache *c, uint64_t id)
{
	struct snap_pack *p = c->bucket[id % BUCKETS];

	while (p && p->id != id)
		p = p->hash_next;
	return p;
}

static void cache_drop(struct pack_cache *c, struct snap_pack *p)
{
	struct snap_pack **at = &c->bucket[p->id % BUCKETS];

	while (*at != p)
		at = &(*at)->hash_next;
	*at = p->hash_next;
	list_remove(c, p);
	c->bytes -= p->bytes;
	pack_free(p);
}

static void cache_shrink(struct pack_cache *c)
{
	struct snap_pack *p, *newer;

	for (p = c->oldest; p && c->bytes > c->limit; p = newer) {
		newer = p->newer;
		if (atomic_load_explicit(&p->pins, memory_order_acquire) == 0)
			cache_drop(c, p);
	}
}

static void cache_add(struct pack_cache *c, struct snap_pack *p)
{
	p->hash_next = c->bucket[p->id % BUCKETS];
	c->bucket[p->id % BUCKETS] = p;
	list_add(c, p);
	c->bytes += p->bytes;
}

static int read_row(struct snap *s, uint64_t id, struct raw_pack *raw, uint8_t **copy)
{
	int rc, r = store_begin_read(s);

	if (r < 0)
		return r;
	(void)sqlite3_bind_int64(s->get_pack, 1, (int64_t)id);
	rc = sqlite3_step(s->get_pack);
	r = rc == SQLITE_ROW    ? raw_from_row(s->get_pack, raw)
	    : rc == SQLITE_DONE ? -ESTALE
	                        : snap_errno(rc);
	if (r == 0)
		r = raw_copy(raw, copy);
	(void)sqlite3_reset(s->get_pack);
	return r;
}

/* Gives the lock up in between; another thread may load the same pack meanwhile, then that one stays. */
static int load(struct snap *s, uint64_t id, struct snap_pack **ret)
{
	AUTO(base_free) uint8_t *copy = NULL;
	struct ZSTD_DCtx_s *zstd;
	struct snap_pack *p = NULL;
	struct raw_pack raw;
	int r = read_row(s, id, &raw, &copy);

	if (r < 0)
		return r;
	zstd = unpacker_take(s->cache);
	(void)pthread_mutex_unlock(&s->lock);
	r = pack_new(s, zstd, &raw, &p);
	(void)pthread_mutex_lock(&s->lock);
	unpacker_put(s->cache, zstd);
	if (r < 0)
		return r;
	*ret = cache_find(s->cache, id);
	if (*ret) {
		pack_free(p);
		return 0;
	}
	cache_add(s->cache, p);
	*ret = p;
	return 0;
}

/* An id for a pack that is only in memory. */
uint64_t cache_virtual_id(struct snap *s)
{
	uint64_t id;

	(void)pthread_mutex_lock(&s->lock);
	id = s->cache->next_virtual++;
	(void)pthread_mutex_unlock(&s->lock);
	return id;
}

/* Such a pack stays pinned until snap_virtual_drop(). */
void cache_add_virtual(struct snap *s, struct snap_pack *p)
{
	(void)pthread_mutex_lock(&s->lock);
	pin_add(p);
	cache_add(s->cache, p);
	(void)pthread_mutex_unlock(&s->lock);
}

void snap_virtual_drop(struct snap *s, uint64_t ref)
{
	struct snap_pack *p;

	(void)pthread_mutex_lock(&s->lock);
	p = cache_find(s->cache, ref >> REF_SLOT_BITS);
	if (p)
		unpin(p);
	cache_shrink(s->cache);
	(void)pthread_mutex_unlock(&s->lock);
}

bool pack_has(const struct snap_pack *p, size_t slot)
{
	return slot < p->n && p->offset[slot] != p->offset[slot + 1];
}

static int pin(struct snap *s, uint64_t ref, struct snap_pack **ret)
{
	struct pack_cache *c = s->cache;
	uint64_t id = ref >> REF_SLOT_BITS;
	struct snap_pack *p;
	bool grown;
	int r = 0;

	(void)pthread_mutex_lock(&s->lock);
	p = cache_find(c, id);
	grown = !p;
	if (!p) {
		r = id < VIRTUAL_FIRST ? load(s, id, &p) : -ESTALE;
	} else if (c->newest != p) {
		list_remove(c, p);
		list_add(c, p);
	}
	if (r == 0 && !pack_has(p, ref & (PACK_SLOTS_MAX - 1)))
		r = -ESTALE;
	if (r == 0) {
		pin_add(p);
		*ret = p;
	}
	if (grown)
		cache_shrink(c);
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

/* Call with the lock held: the pack's restart points of a slot, x's if there were none. */
static const struct node_index *keep_index(struct snap *s, struct snap_pack *p, size_t slot,
                                           struct node_index *x)
{
	if (!p->index && x)
		p->index = calloc(p->n, sizeof(struct node_index *));
	if (!p->index)
		return NULL;
	if (!p->index[slot] && x) {
		p->index[slot] = x;
		p->bytes += x->bytes;
		s->cache->bytes += x->bytes;
	}
	return p->index[slot];
}

/* Attach restart points to a large directory; made outside of the lock, the first one wins. */
static int add_index(struct snap *s, struct snap_node *n)
{
	size_t slot = n->ref & (PACK_SLOTS_MAX - 1);
	struct node_index *x;

	(void)pthread_mutex_lock(&s->lock);
	n->index = keep_index(s, n->pack, slot, NULL);
	(void)pthread_mutex_unlock(&s->lock);
	if (n->index)
		return 0;
	x = node_index_new(n);
	if (!x)
		return -EUCLEAN;
	(void)pthread_mutex_lock(&s->lock);
	n->index = keep_index(s, n->pack, slot, x);
	(void)pthread_mutex_unlock(&s->lock);
	if (n->index != x)
		node_index_free(x);
	return n->index ? 0 : -ENOMEM;
}

int snap_node_get(struct snap *s, uint64_t ref, struct snap_node *ret)
{
	size_t slot = ref & (PACK_SLOTS_MAX - 1);
	struct snap_pack *p;
	int r = pin(s, ref, &p);

	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	ret->ref = ref;
	ret->pack = p;
	r = record_parse(p->data + p->offset[slot], p->data + p->offset[slot + 1], ret);
	if (r == 0 && ret->n_entries > RESTART)
		r = add_index(s, ret);
	if (r < 0)
		unpin(p);
	return r;
}

/* What is made up in memory may hold roots that its totals do not count. */
int snap_kid_get(struct snap *s, const struct snap_node *n, uint64_t ref, struct snap_node *ret)
{
	int r = snap_node_get(s, ref, ret);

	if (r == 0 && n->ref >> REF_SLOT_BITS < VIRTUAL_FIRST &&
	    ret->totals.dirs >= n->totals.dirs) {
		snap_node_put(s, ret);
		r = -EUCLEAN;
	}
	return r;
}

void snap_node_put(struct snap *s, struct snap_node *n)
{
	(void)s;
	if (n->pack)
		unpin(n->pack);
	n->pack = NULL;
}

void snap_node_dup(struct snap *s, const struct snap_node *n, struct snap_node *ret)
{
	(void)s;
	*ret = *n;
	if (n->pack)
		pin_add(n->pack);
}

int snap_node_fingerprint(struct snap *s, uint64_t ref, struct snap_fingerprint *ret)
{
	struct snap_pack *p;
	int r = pin(s, ref, &p);

	if (r < 0)
		return r;
	memcpy(ret->b, p->fps + (ref & (PACK_SLOTS_MAX - 1)) * FP_STORED, sizeof(ret->b));
	unpin(p);
	return 0;
}

void snap_cache_limit(struct snap *s, size_t bytes)
{
	(void)pthread_mutex_lock(&s->lock);
	s->cache->limit = bytes;
	cache_shrink(s->cache);
	(void)pthread_mutex_unlock(&s->lock);
}

size_t snap_cache_bytes(struct snap *s)
{
	size_t n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->cache->bytes;
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}
