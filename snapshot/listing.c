/* SPDX-License-Identifier: MIT */
/*
 * listing - the canonical form of one directory: its own metadata, then its entries by name.
 *
 * One tree has exactly one such form, and it is what is hashed; docs/FORMAT.md draws it. Names are
 * coded against the name before; every RESTART entries one stands alone, so that a lookup in a
 * directory of a million entries decodes sixty-four of them.
 */
#include "snapshot/internal.h"

enum {
	F_TYPE = 7,
	F_SAME_OWNER = 1 << 3, /* uid, gid, mode as the entry before */
	F_BLOCKS = 1 << 4,     /* blocks follow from the size */
	F_MULTI = 1 << 5,
	F_SAME_MTIME = 1 << 6,
	F_PROBLEM = 1 << 7,
	M_ACL = 1 << 12, /* of the mode */
	ENTRY_MAX = 410,
};

/* What a file of this size takes when it lies in whole 4 KiB blocks. */
static uint64_t usual_blocks(uint64_t size)
{
	return (size / 4096 + (size % 4096 != 0)) * 8;
}

static uint16_t mode_word(const struct scan_meta *m)
{
	return (uint16_t)(m->mode | (m->acl ? M_ACL : 0));
}

static void set_mode(struct scan_meta *m, uint64_t word)
{
	m->mode = word & 07777;
	m->acl = word & M_ACL;
}

uint64_t names_hash(uint64_t before, const char *name, size_t len)
{
	return snap_hash(name, len, before);
}

int listing_begin(struct listing_encoder *e, struct bytes *out, const struct scan_dirinfo *dir,
                  uint64_t seed)
{
	const struct scan_meta *m = &dir->meta;
	uint8_t *p;
	int r = bytes_reserve(out, ENTRY_MAX);

	if (r < 0)
		return r;
	*e = (struct listing_encoder){ .out = out, .names = seed };
	p = out->p + out->len;
	p = varint_put(p, mode_word(m));
	p = varint_put(p, m->uid);
	p = varint_put(p, m->gid);
	p = varint_put(p, zigzag(m->mtime));
	p = varint_put(p, m->blocks);
	*p++ = dir->problem;
	if (dir->problem)
		p = varint_put(p, (uint64_t)dir->error);
	out->len = (size_t)(p - out->p);
	return 0;
}

const uint8_t *listing_head(const uint8_t *p, const uint8_t *end, struct snap_node *ret)
{
	uint64_t mode = 0, uid = 0, gid = 0, mtime = 0, error = 0;

	p = varint_get(p, end, &mode);
	p = varint_get(p, end, &uid);
	p = varint_get(p, end, &gid);
	p = varint_get(p, end, &mtime);
	p = varint_get(p, end, &ret->meta.blocks);
	if (!p || p == end)
		return NULL;
	ret->problem = *p++;
	if (ret->problem)
		p = varint_get(p, end, &error);
	set_mode(&ret->meta, mode);
	ret->meta.uid = (uint32_t)uid;
	ret->meta.gid = (uint32_t)gid;
	ret->meta.mtime = unzigzag(mtime);
	ret->error = (int)error;
	return p;
}

/* Shared and own length of a name: a nibble each, 15 meaning that a byte with the rest follows. */
static uint8_t *put_lengths(uint8_t *p, size_t shared, size_t rest)
{
	*p++ = (uint8_t)(MIN(shared, 15) << 4 | MIN(rest, 15));
	if (shared >= 15)
		*p++ = (uint8_t)(shared - 15);
	if (rest >= 15)
		*p++ = (uint8_t)(rest - 15);
	return p;
}

static const uint8_t *get_lengths(const uint8_t *p, const uint8_t *end, size_t *shared,
                                  size_t *rest)
{
	if (!p || p == end)
		return NULL;
	*shared = *p >> 4;
	*rest = *p++ & 15;
	if (*shared == 15) {
		if (p == end)
			return NULL;
		*shared += *p++;
	}
	if (*rest == 15) {
		if (p == end)
			return NULL;
		*rest += *p++;
	}
	return *shared + *rest > 0 && *shared + *rest <= 255 && *rest <= (size_t)(end - p) ? p
	                                                                                   : NULL;
}

static uint8_t *put_meta(struct listing_encoder *e, uint8_t *p, uint8_t *flags,
                         const struct scan_meta *m)
{
	uint16_t mode = mode_word(m);

	if (e->n % RESTART && m->uid == e->uid && m->gid == e->gid && mode == e->mode)
		*flags |= F_SAME_OWNER;
	if (m->blocks == usual_blocks(m->size))
		*flags |= F_BLOCKS;
	if (m->mtime == e->mtime)
		*flags |= F_SAME_MTIME;
	if (m->multi)
		*flags |= F_MULTI;
	p = varint_put(p, m->size);
	if (!(*flags & F_BLOCKS))
		p = varint_put(p, m->blocks);
	if (!(*flags & F_SAME_MTIME)) /* wraps around: any two times have a difference */
		p = varint_put(p, zigzag((int64_t)((uint64_t)m->mtime - (uint64_t)e->mtime)));
	if (!(*flags & F_SAME_OWNER)) {
		p = varint_put(p, mode);
		p = varint_put(p, m->uid);
		p = varint_put(p, m->gid);
	}
	if (m->multi) {
		p = varint_put(p, m->ino);
		p = varint_put(p, m->nlink);
	}
	e->mtime = m->mtime;
	e->uid = m->uid;
	e->gid = m->gid;
	e->mode = mode;
	return p;
}

static size_t shared_prefix(const struct listing_encoder *e, const struct scan_entry *entry)
{
	size_t n = 0, max = MIN(e->last_len, entry->name_len);

	while (n < max && e->last[n] == entry->name[n])
		n++;
	return n;
}

int listing_add(struct listing_encoder *e, const struct scan_entry *entry)
{
	size_t shared = 0;
	uint8_t *p, *flags;
	int r = entry->name_len < sizeof(e->last) ? bytes_reserve(e->out, ENTRY_MAX)
	                                          : -ENAMETOOLONG;

	if (r < 0)
		return r;
	p = e->out->p + e->out->len;
	if (e->n % RESTART == 0)
		e->mtime = 0, e->uid = e->gid = 0, e->mode = 0;
	else
		shared = shared_prefix(e, entry);
	p = put_lengths(p, shared, entry->name_len - shared);
	memcpy(p, entry->name + shared, entry->name_len - shared);
	p += entry->name_len - shared;
	flags = p++;
	*flags = entry->type & F_TYPE;
	if (entry->problem) {
		*flags |= F_PROBLEM;
		*p++ = entry->problem;
		p = varint_put(p, (uint64_t)entry->error);
	} else if (entry->type != SCAN_DIR) {
		p = put_meta(e, p, flags, &entry->meta);
	} else {
		e->names = names_hash(e->names, entry->name, entry->name_len);
	}
	memcpy(e->last, entry->name, entry->name_len);
	e->last_len = entry->name_len;
	e->n++;
	e->out->len = (size_t)(p - e->out->p);
	return 0;
}

static const uint8_t *get_meta(struct snap_iter *it, const uint8_t *p, const uint8_t *end,
                               uint8_t flags)
{
	struct scan_meta *m = &it->e.meta;
	uint64_t mtime = 0, mode = 0, uid = 0, gid = 0, nlink = 0;

	p = varint_get(p, end, &m->size);
	m->blocks = usual_blocks(m->size);
	if (!(flags & F_BLOCKS))
		p = varint_get(p, end, &m->blocks);
	if (!(flags & F_SAME_MTIME))
		p = varint_get(p, end, &mtime);
	if (!(flags & F_SAME_OWNER)) {
		p = varint_get(p, end, &mode);
		p = varint_get(p, end, &uid);
		p = varint_get(p, end, &gid);
		it->mode = (uint16_t)mode;
		it->uid = (uint32_t)uid;
		it->gid = (uint32_t)gid;
	}
	m->multi = flags & F_MULTI;
	if (m->multi) {
		p = varint_get(p, end, &m->ino);
		p = varint_get(p, end, &nlink);
		m->nlink = (uint32_t)nlink;
	}
	it->mtime = (int64_t)((uint64_t)it->mtime + (uint64_t)unzigzag(mtime));
	m->mtime = it->mtime;
	set_mode(m, it->mode);
	m->uid = it->uid;
	m->gid = it->gid;
	return p;
}

/* The kid of the directory entry just decoded. */
static bool next_kid(struct snap_iter *it)
{
	struct node_kid k;

	if (!record_next_kid(&it->kp, it->node->kids_end, &it->last_ref, &k))
		return false;
	it->e.kid = k.ref;
	it->e.problem = k.problem;
	it->e.error = k.error;
	return true;
}

void snap_iter_init(struct snap_iter *it, const struct snap_node *n)
{
	it->node = n;
	it->p = n->entries;
	it->kp = n->kids;
	it->next = 0;
	it->last_ref = n->ref;
	it->e.name_len = 0;
}

/*
 * What a file system could list: no slash, no NUL, neither "." nor "..". The part that the name shares
 * with the one before was looked at then.
 */
static bool is_name(const char *name, size_t len, size_t shared)
{
	if (memchr(name + shared, '/', len - shared) || memchr(name + shared, '\0', len - shared))
		return false;
	return name[0] != '.' || !(len == 1 || (len == 2 && name[1] == '.'));
}

static const uint8_t *get_name(struct snap_iter *it, const uint8_t *p, const uint8_t *end)
{
	size_t shared, rest;

	p = get_lengths(p, end, &shared, &rest);
	if (!p || shared > it->e.name_len || (it->next % RESTART == 0 && shared))
		return NULL;
	memcpy(it->e.name + shared, p, rest);
	it->e.name[shared + rest] = '\0';
	it->e.name_len = (uint16_t)(shared + rest);
	return is_name(it->e.name, it->e.name_len, shared) ? p + rest : NULL;
}

int snap_iter_next(struct snap_iter *it)
{
	const uint8_t *p = it->p, *end = it->node->end;
	uint64_t error = 0;
	uint8_t flags;

	if (p == end || it->next == it->node->n_entries)
		return p == end && it->next == it->node->n_entries ? 0 : -EUCLEAN;
	if (it->next % RESTART == 0)
		it->mtime = 0, it->uid = it->gid = 0, it->mode = 0;
	p = get_name(it, p, end);
	if (!p || p == end)
		return -EUCLEAN;
	flags = *p++;
	memset(&it->e.meta, 0, sizeof(it->e.meta));
	it->e.type = flags & F_TYPE;
	it->e.problem = SCAN_OK;
	it->e.error = 0;
	it->e.kid = 0;
	it->e.placed = it->e.type == SCAN_DIR && !(flags & F_PROBLEM);
	it->e.ordinal = it->next++;
	if (flags & F_PROBLEM) {
		if (p == end)
			return -EUCLEAN;
		it->e.problem = *p++;
		p = varint_get(p, end, &error);
		it->e.error = (int)error;
	}
	if (it->e.placed) {
		if (!next_kid(it))
			return -EUCLEAN;
	} else if (!(flags & F_PROBLEM)) {
		p = get_meta(it, p, end, flags);
	}
	if (!p)
		return -EUCLEAN;
	it->p = p;
	return 1;
}

void node_index_free(struct node_index *i)
{
	if (!i)
		return;
	free(i->at);
	free(i);
}

static int index_fill(struct node_index *x, const struct snap_node *n)
{
	struct snap_iter it;
	int r;

	snap_iter_init(&it, n);
	for (uint64_t i = 0; i < n->n_entries; i++) {
		if (i % RESTART == 0)
			x->at[i / RESTART] = (struct restart_point){
				.entry = (uint32_t)(it.p - n->entries),
				.kid = (uint32_t)(it.kp - n->kids),
				.last_ref = it.last_ref,
			};
		r = snap_iter_next(&it);
		if (r <= 0)
			return -EUCLEAN;
	}
	return it.p == n->end ? 0 : -EUCLEAN;
}

/* Restart points of a large directory, so that a lookup need not decode all before. NULL: no memory, damaged. */
struct node_index *node_index_new(const struct snap_node *n)
{
	struct node_index *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->n = (n->n_entries + RESTART - 1) / RESTART;
	x->at = calloc(x->n + 1, sizeof(*x->at));
	x->bytes = x->n * sizeof(*x->at) + sizeof(*x);
	if (!x->at || index_fill(x, n) < 0) {
		node_index_free(x);
		return NULL;
	}
	return x;
}

static void jump(struct snap_iter *it, uint64_t restart)
{
	const struct restart_point *at = &it->node->index->at[restart];

	it->p = it->node->entries + at->entry;
	it->kp = it->node->kids + at->kid;
	it->last_ref = at->last_ref;
	it->next = restart * RESTART;
	it->e.name_len = 0;
}

int snap_iter_seek(struct snap_iter *it, uint64_t ordinal)
{
	int r = 1;

	if (it->node->index && ordinal / RESTART < it->node->index->n)
		jump(it, ordinal / RESTART);
	else if (ordinal < it->next)
		snap_iter_init(it, it->node);
	while (it->next < ordinal && r > 0)
		r = snap_iter_next(it);
	return r < 0 ? r : 0;
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int c = memcmp(a, b, MIN(a_len, b_len));

	return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* Start at the last restart point whose name is not after the one sought. */
static int start_near(struct snap_iter *it, const char *name, size_t len)
{
	const struct node_index *x = it->node->index;
	uint64_t low = 0, high = x ? x->n : 0;
	int r;

	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;

		jump(it, mid);
		r = snap_iter_next(it);
		if (r <= 0)
			return -EUCLEAN;
		if (compare_names(it->e.name, it->e.name_len, name, len) <= 0)
			low = mid;
		else
			high = mid;
	}
	if (x && x->n)
		jump(it, low);
	return 0;
}

int snap_node_find(const struct snap_node *n, const char *name, size_t len, struct snap_entry *ret,
                   uint64_t *where)
{
	struct snap_iter it;
	int r, c = 1;

	snap_iter_init(&it, n);
	r = start_near(&it, name, len);
	if (r < 0)
		return r;
	while ((r = snap_iter_next(&it)) > 0) {
		c = compare_names(it.e.name, it.e.name_len, name, len);
		if (c >= 0)
			break;
	}
	if (r < 0)
		return r;
	if (where)
		*where = r ? it.e.ordinal : it.next;
	if (r == 0 || c != 0)
		return 0;
	*ret = it.e;
	return 1;
}
