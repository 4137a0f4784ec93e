/* SPDX-License-Identifier: MIT */
/* entry_codec - see entry_codec.h. */
#include "scanner/entry_codec.h"

#include "base/varint.h"

enum {
	F_TYPE = 7,
	F_SAME_OWNER = 1 << 3, /* uid, gid, mode as the entry before */
	F_BLOCKS = 1 << 4,     /* blocks follow from the size */
	F_MULTI = 1 << 5,
	F_SAME_MTIME = 1 << 6,
	F_PROBLEM = 1 << 7,
	M_ACL = 1 << 12, /* of the mode */
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

int listing_head_encode(struct bytes *out, const struct scan_dirinfo *dir)
{
	const struct scan_meta *m = &dir->meta;
	uint8_t *p;
	int r = bytes_reserve(out, ENTRY_MAX);

	if (r < 0)
		return r;
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

const uint8_t *listing_head_decode(const uint8_t *p, const uint8_t *end, struct scan_dirinfo *ret)
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

static uint8_t *put_meta(struct entry_encoder *e, uint8_t *p, uint8_t *flags,
                         const struct scan_meta *m)
{
	uint16_t mode = mode_word(m);

	if (e->n % ENTRY_RESTART && m->uid == e->uid && m->gid == e->gid && mode == e->mode)
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

static size_t shared_prefix(const struct entry_encoder *e, const struct scan_entry *entry)
{
	size_t n = 0, max = MIN(e->last_len, entry->name_len);

	while (n < max && e->last[n] == entry->name[n])
		n++;
	return n;
}

int entry_encode(struct entry_encoder *e, const struct scan_entry *entry, uint64_t place)
{
	size_t shared = 0;
	uint8_t *p, *flags;
	int r = entry->name_len < sizeof(e->last) ? bytes_reserve(e->out, ENTRY_MAX)
	                                          : -ENAMETOOLONG;

	if (r < 0)
		return r;
	p = e->out->p + e->out->len;
	if (e->n % ENTRY_RESTART == 0)
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
	} else if (e->places) {
		p = varint_put(p, place);
	}
	memcpy(e->last, entry->name, entry->name_len);
	e->last_len = entry->name_len;
	e->n++;
	e->out->len = (size_t)(p - e->out->p);
	return 0;
}

static const uint8_t *get_meta(struct entry_cursor *c, const uint8_t *p, const uint8_t *end,
                               uint8_t flags, struct scan_meta *m)
{
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
		c->mode = (uint16_t)mode;
		c->uid = (uint32_t)uid;
		c->gid = (uint32_t)gid;
	}
	m->multi = flags & F_MULTI;
	if (m->multi) {
		p = varint_get(p, end, &m->ino);
		p = varint_get(p, end, &nlink);
		m->nlink = (uint32_t)nlink;
	}
	c->mtime = (int64_t)((uint64_t)c->mtime + (uint64_t)unzigzag(mtime));
	m->mtime = c->mtime;
	set_mode(m, c->mode);
	m->uid = c->uid;
	m->gid = c->gid;
	return p;
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

static const uint8_t *get_name(struct entry_cursor *c, const uint8_t *p, char *name)
{
	size_t shared, rest;

	p = get_lengths(p, c->end, &shared, &rest);
	if (!p || shared > c->name_len || (c->next % ENTRY_RESTART == 0 && shared))
		return NULL;
	memcpy(name + shared, p, rest);
	name[shared + rest] = '\0';
	c->name_len = (uint16_t)(shared + rest);
	return is_name(name, c->name_len, shared) ? p + rest : NULL;
}

int entry_decode(struct entry_cursor *c, char name[256], struct scan_entry *ret)
{
	const uint8_t *p = c->p;
	uint64_t error = 0;
	uint8_t flags;

	if (p == c->end || c->next == c->n)
		return p == c->end && c->next == c->n ? 0 : -EUCLEAN;
	if (c->next % ENTRY_RESTART == 0)
		c->mtime = 0, c->uid = c->gid = 0, c->mode = 0;
	p = get_name(c, p, name);
	if (!p || p == c->end)
		return -EUCLEAN;
	flags = *p++;
	*ret = (struct scan_entry){ .name = name, .name_len = c->name_len, .type = flags & F_TYPE };
	if (flags & F_PROBLEM) {
		if (p == c->end)
			return -EUCLEAN;
		ret->problem = *p++;
		p = varint_get(p, c->end, &error);
		ret->error = (int)error;
	} else if (ret->type != SCAN_DIR) {
		p = get_meta(c, p, c->end, flags, &ret->meta);
	} else if (c->places) {
		p = varint_get(p, c->end, &c->place);
	}
	if (!p)
		return -EUCLEAN;
	c->p = p;
	c->next++;
	return 1;
}
