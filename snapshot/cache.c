/* SPDX-License-Identifier: MIT */
/*
 * cache - packs in memory: loaded on demand, the least recently used dropped.
 *
 *     snap_node_get: ref -> pack (cached, or read and verified) -> pinned -> head, listing parsed
 *     snap_head_get: the same with the heads alone; the lists of the pack come when they are wanted
 *     snap_keyed_head_get: with heads and fingerprints; the lists are verified, but not unpacked
 *
 * All of it happens under the handle's lock but for unpacking, parsing, the index of a large directory.
 */
#include "snapshot/internal.h"

#include <zstd.h>

enum {
	BUCKETS = 4096,
	COPY_KEPT = 64 << 10, /* a larger buffer is given back at once */
};

/* Ids above those of any stored pack. */
#define VIRTUAL_FIRST (UINT64_C(1) << 48)

/* What unpacking needs: making it takes longer than unpacking, so a few wait for whoever needs one. */
struct unpacker {
	ZSTD_DCtx *zstd;
	struct bytes copy; /* of a row */
};

struct pack_cache {
	uint64_t next_virtual;
	struct snap_pack *bucket[BUCKETS];
	struct snap_pack *newest, *oldest;
	size_t bytes, limit;
	struct unpacker *idle[8];
	size_t n_idle;
};

struct pack_cache *cache_new(void)
{
	struct pack_cache *c = calloc(1, sizeof(*c));

	if (c)
		c->limit = CACHE_DEFAULT, c->next_virtual = VIRTUAL_FIRST;
	return c;
}

static void unpacker_free(struct unpacker *u)
{
	if (!u)
		return;
	(void)ZSTD_freeDCtx(u->zstd);
	free(u->copy.p);
	free(u);
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
	while (c->n_idle)
		unpacker_free(c->idle[--c->n_idle]);
	free(c);
}

/* Unpacking takes a while: not under the lock, so not from the row either. */
static int row_copy(struct pack_row *row, struct bytes *copy)
{
	uint8_t *p;

	copy->len = 0;
	if (bytes_reserve(copy, row->head_len + row->fps_len + row->list_len) < 0)
		return -ENOMEM;
	p = copy->p;
	row->head = memcpy(p, row->head, row->head_len);
	p += row->head_len;
	if (row->fps)
		row->fps = memcpy(p, row->fps, row->fps_len);
	if (row->list)
		row->list = memcpy(p + row->fps_len, row->list, row->list_len);
	return 0;
}

/* Both with the lock held. NULL: no memory. */
static struct unpacker *unpacker_take(struct pack_cache *c)
{
	struct unpacker *u = c->n_idle ? c->idle[--c->n_idle] : calloc(1, sizeof(*u));

	if (u && !u->zstd)
		u->zstd = ZSTD_createDCtx();
	if (u && u->zstd)
		return u;
	unpacker_free(u);
	return NULL;
}

static void unpacker_put(struct pack_cache *c, struct unpacker *u)
{
	if (c->n_idle < ARRAY_SIZE(c->idle) && u->copy.cap <= COPY_KEPT)
		c->idle[c->n_idle++] = u;
	else
		unpacker_free(u);
}

int pack_decode(struct snap *s, const struct pack_row *row, struct snap_pack **ret)
{
	struct unpacker *u = unpacker_take(s->cache);
	struct pack_lists lists = { 0 };
	struct snap_pack *p = NULL;
	int r;

	if (!u)
		return -ENOMEM;
	r = pack_row_unpack(s, u->zstd, row, NULL, &p, &lists);
	unpacker_put(s->cache, u);
	if (r == 0)
		(void)pack_lists_attach(p, &lists);
	pack_lists_done(&lists);
	if (r < 0)
		pack_free(p);
	else
		*ret = p;
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

static void hash_remove(struct pack_cache *c, const struct snap_pack *p)
{
	struct snap_pack **at = &c->bucket[p->id % BUCKETS];

	while (*at && *at != p)
		at = &(*at)->hash_next;
	if (*at)
		*at = p->hash_next;
}

static void cache_drop(struct pack_cache *c, struct snap_pack *p)
{
	hash_remove(c, p);
	list_remove(c, p);
	c->bytes -= p->bytes;
	pack_free(p);
}

/* Not to be found any more; goes when nobody has a pin on it. */
static void cache_forget(struct pack_cache *c, struct snap_pack *p)
{
	if (atomic_load_explicit(&p->pins, memory_order_acquire) == 0)
		cache_drop(c, p);
	else
		hash_remove(c, p);
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

enum want {
	WANT_HEADS,
	WANT_FPS,
	WANT_LISTS
};

static bool has(const struct snap_pack *p, enum want want)
{
	return p && (want == WANT_HEADS || (want == WANT_FPS ? p->lists.fps : p->lists.list));
}

static int read_row(struct snap *s, uint64_t id, enum want want, struct pack_row *row,
                    struct bytes *copy)
{
	bool lists = want != WANT_HEADS;
	int r = store_begin_read(s);

	if (r == 0)
		r = pack_row_find(s, id, lists, row);
	if (r == 0 && want == WANT_FPS) {
		r = pack_lists_are_whole(s, row) ? 0 : -EUCLEAN;
		row->list = NULL;
		row->list_len = 0;
	}
	if (r == 0)
		r = row_copy(row, copy);
	pack_row_done(s, lists);
	return store_in_write(s, r);
}

/* Give the lock up while unpacking. */
static int unpack(struct snap *s, struct unpacker *u, const struct pack_row *row,
                  struct snap_pack *p, struct snap_pack **made, struct pack_lists *lists)
{
	int r;

	if (p)
		pin_add(p);
	(void)pthread_mutex_unlock(&s->lock);
	r = pack_row_unpack(s, u->zstd, row, p, made, lists);
	(void)pthread_mutex_lock(&s->lock);
	if (p)
		unpin(p);
	return r;
}

/* Another thread may have loaded the same pack meanwhile: then that stays. */
static struct snap_pack *settle(struct snap *s, const struct pack_row *row, struct snap_pack *p,
                                struct snap_pack *made, struct pack_lists *lists)
{
	if (!p)
		p = cache_find(s->cache, row->id);
	if (p && p->sum != row->sum) {
		cache_forget(s->cache, p);
		p = NULL;
	}
	if (p) {
		pack_free(made);
	} else {
		p = made;
		cache_add(s->cache, p);
	}
	s->cache->bytes += pack_lists_attach(p, lists);
	return p;
}

/*
 * Load a pack, or what is wanted of it where p is one without. If p was pruned since, its heads go with
 * older lists: then all of it is loaded.
 */
static int load(struct snap *s, uint64_t id, enum want want, struct snap_pack *p,
                struct snap_pack **ret)
{
	struct unpacker *u = unpacker_take(s->cache);
	struct snap_pack *made = NULL;
	struct pack_lists lists = { 0 };
	struct pack_row row;
	int r = u ? read_row(s, id, want, &row, &u->copy) : -ENOMEM;

	if (r == 0 && p && p->sum != row.sum) {
		cache_forget(s->cache, p);
		p = NULL;
	}
	if (r == 0)
		r = unpack(s, u, &row, p, &made, &lists);
	if (r == 0)
		*ret = settle(s, &row, p, made, &lists);
	else
		pack_free(made);
	pack_lists_done(&lists);
	if (u)
		unpacker_put(s->cache, u);
	return r;
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
	if (p) { /* its id is never used again */
		unpin(p);
		cache_forget(s->cache, p);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

bool pack_has(const struct snap_pack *p, size_t slot)
{
	return slot < p->n && p->at[slot] != p->at[slot + 1];
}

static int pin(struct snap *s, uint64_t ref, enum want want, struct snap_pack **ret)
{
	struct pack_cache *c = s->cache;
	uint64_t id = ref >> REF_SLOT_BITS;
	struct snap_pack *p;
	bool grown;
	int r = 0;

	(void)pthread_mutex_lock(&s->lock);
	p = cache_find(c, id);
	grown = !has(p, want);
	if (p && c->newest != p) {
		list_remove(c, p);
		list_add(c, p);
	}
	if (grown)
		r = id < VIRTUAL_FIRST ? load(s, id, want, p, &p) : -ESTALE;
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

/* Takes over a pin on p. */
static int node_from(struct snap *s, struct snap_pack *p, uint64_t ref, bool listing,
                     struct snap_node *ret)
{
	size_t slot = ref & (PACK_SLOTS_MAX - 1);
	const struct pack_lists *l;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->ref = ref;
	ret->pack = p;
	r = record_parse(p->head + p->at[slot], p->head + p->at[slot + 1], ret);
	if (r == 0 && listing) {
		l = &p->lists;
		r = record_listing(l->list + l->at[slot], l->list + l->at[slot + 1], ret);
		if (r == 0 && ret->n_entries > RESTART)
			r = add_index(s, ret);
	}
	if (r < 0) { /* to be put again without harm */
		unpin(p);
		ret->pack = NULL;
	}
	return r;
}

static int get(struct snap *s, uint64_t ref, bool listing, struct snap_node *ret)
{
	struct snap_pack *p;
	int r = pin(s, ref, listing ? WANT_LISTS : WANT_HEADS, &p);

	return r < 0 ? r : node_from(s, p, ref, listing, ret);
}

int snap_node_get(struct snap *s, uint64_t ref, struct snap_node *ret)
{
	return get(s, ref, true, ret);
}

int snap_head_get(struct snap *s, uint64_t ref, struct snap_node *ret)
{
	return get(s, ref, false, ret);
}

static struct node_key key_of(const struct snap_pack *p, uint64_t ref)
{
	return node_key_at(p->lists.fps + (ref & (PACK_SLOTS_MAX - 1)) * FP_STORED);
}

int snap_keyed_head_get(struct snap *s, const struct snap_node *held, uint64_t ref,
                        struct snap_node *ret, struct node_key *key)
{
	struct snap_pack *p = held->pack;
	int r = 0;

	if (!p || p->id != ref >> REF_SLOT_BITS)
		r = pin(s, ref, WANT_FPS, &p);
	else if (pack_has(p, ref & (PACK_SLOTS_MAX - 1)))
		pin_add(p);
	else
		r = -ESTALE;
	if (r < 0)
		return r;
	*key = key_of(p, ref);
	return node_from(s, p, ref, false, ret);
}

/* What is made up in memory may hold roots that its totals do not count. */
static int get_child(struct snap *s, const struct snap_node *n, uint64_t ref, bool listing,
                     struct snap_node *ret)
{
	int r = get(s, ref, listing, ret);

	if (r == 0 && n->ref >> REF_SLOT_BITS < VIRTUAL_FIRST &&
	    ret->totals.dirs >= n->totals.dirs) {
		snap_node_put(s, ret);
		r = -EUCLEAN;
	}
	return r;
}

int snap_child_get(struct snap *s, const struct snap_node *n, uint64_t ref, struct snap_node *ret)
{
	return get_child(s, n, ref, true, ret);
}

int snap_child_head(struct snap *s, const struct snap_node *n, uint64_t ref, struct snap_node *ret)
{
	return get_child(s, n, ref, false, ret);
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

int snap_node_key(struct snap *s, uint64_t ref, struct node_key *ret)
{
	struct snap_pack *p;
	int r = pin(s, ref, WANT_FPS, &p);

	if (r < 0)
		return r;
	*ret = key_of(p, ref);
	unpin(p);
	return 0;
}

int snap_node_fingerprint(struct snap *s, uint64_t ref, struct snap_fingerprint *ret)
{
	struct node_key key;
	int r = snap_node_key(s, ref, &key);

	if (r == 0)
		*ret = key.fp;
	return r;
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
