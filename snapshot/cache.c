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
	free(c);
}

static int decompress(struct snap *s, struct snap_pack *p, int codec, const void *data, size_t len,
                      size_t size)
{
	p->data = malloc(MAX(size, 1));
	if (!p->data)
		return -ENOMEM;
	if (codec == CODEC_RAW && len == size)
		memcpy(p->data, data, len);
	else if (codec != CODEC_ZSTD ||
	         ZSTD_decompressDCtx(s->unpack, p->data, size, data, len) != size)
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
	p->index = calloc(p->n + 1, sizeof(struct node_index *));
	if (!p->offset || !p->index)
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

static int pack_fill(struct snap *s, sqlite3_stmt *row, struct snap_pack *p)
{
	int codec = sqlite3_column_int(row, 1);
	int64_t size = sqlite3_column_int64(row, 2);
	const void *fps = sqlite3_column_blob(row, 4), *data = sqlite3_column_blob(row, 5);
	size_t fps_len = (size_t)sqlite3_column_bytes(row, 4),
	       len = (size_t)sqlite3_column_bytes(row, 5);
	int r;

	if (size < 0 || size > RAW_MAX || !data || !fps)
		return -EUCLEAN;
	p->id = (uint64_t)sqlite3_column_int64(row, 0);
	if (pack_sum(s->secret, p->id, fps, fps_len, data, len) !=
	    (uint64_t)sqlite3_column_int64(row, 3))
		return -EUCLEAN;
	r = decompress(s, p, codec, data, len, (size_t)size);
	if (r == 0)
		r = find_records(p, (size_t)size);
	if (r < 0)
		return r;
	if (fps_len != p->n * FP_STORED)
		return -EUCLEAN;
	p->fps = malloc(MAX(fps_len, 1));
	if (!p->fps)
		return -ENOMEM;
	memcpy(p->fps, fps, fps_len);
	p->bytes = sizeof(*p) + (size_t)size + fps_len + p->n * 12;
	return 0;
}

/* Verify and decode one row of the pack table. */
int pack_decode(struct snap *s, sqlite3_stmt *row, struct snap_pack **ret)
{
	struct snap_pack *p = calloc(1, sizeof(*p));
	int r = p ? pack_fill(s, row, p) : -ENOMEM;

	if (r < 0)
		pack_free(p);
	else
		*ret = p;
	return r;
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
	struct snap_pack *p = c->oldest, *newer;

	for (; p && c->bytes > c->limit; p = newer) {
		newer = p->newer;
		if (p->pins == 0)
			cache_drop(c, p);
	}
}

static int load(struct snap *s, uint64_t id, struct snap_pack **ret)
{
	struct pack_cache *c = s->cache;
	int rc, r = store_begin_read(s);

	if (r < 0)
		return r;
	(void)sqlite3_bind_int64(s->get_pack, 1, (int64_t)id);
	rc = sqlite3_step(s->get_pack);
	r = rc == SQLITE_ROW    ? pack_decode(s, s->get_pack, ret)
	    : rc == SQLITE_DONE ? -ESTALE
	                        : snap_errno(rc);
	(void)sqlite3_reset(s->get_pack);
	if (r < 0)
		return r;
	(*ret)->hash_next = c->bucket[id % BUCKETS];
	c->bucket[id % BUCKETS] = *ret;
	list_add(c, *ret);
	c->bytes += (*ret)->bytes;
	(*ret)->pins++;
	cache_shrink(c);
	(*ret)->pins--;
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
	struct pack_cache *c = s->cache;

	(void)pthread_mutex_lock(&s->lock);
	p->pins = 1;
	p->hash_next = c->bucket[p->id % BUCKETS];
	c->bucket[p->id % BUCKETS] = p;
	list_add(c, p);
	c->bytes += p->bytes;
	(void)pthread_mutex_unlock(&s->lock);
}

void snap_virtual_drop(struct snap *s, uint64_t ref)
{
	struct snap_pack *p;

	(void)pthread_mutex_lock(&s->lock);
	p = cache_find(s->cache, ref >> REF_SLOT_BITS);
	if (p)
		p->pins--;
	(void)pthread_mutex_unlock(&s->lock);
}

static int pin(struct snap *s, uint64_t ref, struct snap_pack **ret)
{
	uint64_t id = ref >> REF_SLOT_BITS;
	size_t slot = ref & (PACK_SLOTS_MAX - 1);
	int r = 0;

	(void)pthread_mutex_lock(&s->lock);
	*ret = cache_find(s->cache, id);
	if (!*ret) {
		r = id < VIRTUAL_FIRST ? load(s, id, ret) : -ESTALE;
	} else if (s->cache->newest != *ret) {
		list_remove(s->cache, *ret);
		list_add(s->cache, *ret);
	}
	if (r == 0 && (slot >= (*ret)->n || (*ret)->offset[slot] == (*ret)->offset[slot + 1]))
		r = -ESTALE;
	if (r == 0)
		(*ret)->pins++;
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

static void unpin(struct snap *s, struct snap_pack *p)
{
	(void)pthread_mutex_lock(&s->lock);
	p->pins--;
	if (s->cache->bytes > s->cache->limit)
		cache_shrink(s->cache);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Attach restart points to a large directory; made outside of the lock, the first one wins. */
static int add_index(struct snap *s, struct snap_node *n)
{
	size_t slot = n->ref & (PACK_SLOTS_MAX - 1);
	struct node_index *x;

	(void)pthread_mutex_lock(&s->lock);
	n->index = n->pack->index[slot];
	(void)pthread_mutex_unlock(&s->lock);
	if (n->index)
		return 0;
	x = node_index_new(n);
	if (!x)
		return -EUCLEAN;
	(void)pthread_mutex_lock(&s->lock);
	if (n->pack->index[slot]) {
		node_index_free(x);
	} else {
		n->pack->index[slot] = x;
		n->pack->bytes += x->bytes;
		s->cache->bytes += x->bytes;
	}
	n->index = n->pack->index[slot];
	(void)pthread_mutex_unlock(&s->lock);
	return 0;
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
		unpin(s, p);
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
	if (n->pack)
		unpin(s, n->pack);
	n->pack = NULL;
}

void snap_node_dup(struct snap *s, const struct snap_node *n, struct snap_node *ret)
{
	*ret = *n;
	if (!n->pack)
		return;
	(void)pthread_mutex_lock(&s->lock);
	n->pack->pins++;
	(void)pthread_mutex_unlock(&s->lock);
}

int snap_node_fingerprint(struct snap *s, uint64_t ref, struct snap_fingerprint *ret)
{
	struct snap_pack *p;
	int r = pin(s, ref, &p);

	if (r < 0)
		return r;
	memcpy(ret->b, p->fps + (ref & (PACK_SLOTS_MAX - 1)) * FP_STORED, sizeof(ret->b));
	unpin(s, p);
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
