/* SPDX-License-Identifier: MIT */
/*
 * record - the head of a node as it lies in a pack: totals, attributes, refs of the sub-directories.
 *
 * Refs are written as differences: sub-directories are stored shortly before their parent, so most take
 * two bytes. A sub-directory without a node (vanished, skipped) has its problem in that place. The
 * listing lies in another part of the pack.
 */
#include "snapshot/internal.h"

#include <endian.h>
#include <xxhash.h>

enum {
	R_LISTABLE = 1,
	R_OWNER = 2,
	R_COUNTERS = 4, /* errors, vanished, changed, skipped follow */
	R_SHARED = 8,
	R_LINKS = 16,   /* links leave this subtree */
	R_PARTIAL = 32, /* sums for the audience follow */
	R_KNOWN = R_LISTABLE | R_OWNER | R_COUNTERS | R_SHARED | R_LINKS | R_PARTIAL,
	HEAD_MAX = 16 * VARINT_MAX + AUDIENCE_MAX + sizeof(uint64_t),
};

/* Low bit clear: a ref. Low bit set: a problem and its errno. */
uint64_t child_word(const struct node_child *k)
{
	return k->ref ? k->ref << 1 : (uint64_t)k->error << 9 | (uint64_t)k->problem << 1 | 1;
}

struct node_child child_from_word(uint64_t word)
{
	if (!(word & 1))
		return (struct node_child){ .ref = word >> 1 };
	return (struct node_child){ .problem = (uint8_t)(word >> 1),
		                    .error = (int)(word >> 9 & 0xffff) };
}

static uint8_t *put_child(uint8_t *p, uint64_t *last, const struct node_child *k)
{
	if (!k->ref)
		return varint_put(p, child_word(k));
	p = varint_put(p, zigzag((int64_t)(k->ref - *last)) << 1);
	*last = k->ref;
	return p;
}

bool record_next_child(const uint8_t **p, const uint8_t *end, uint64_t *last_ref,
                       struct node_child *ret)
{
	uint64_t word = 0;

	*p = varint_get(*p, end, &word);
	if (!*p)
		return false;
	if (word & 1) {
		*ret = child_from_word(word);
		return ret->problem != SCAN_OK;
	}
	*ret = (struct node_child){ .ref = *last_ref + (uint64_t)unzigzag(word >> 1) };
	*last_ref = ret->ref;
	return ret->ref != 0;
}

int record_children(const struct snap_node *n, struct node_child **ret, size_t *cap)
{
	const uint8_t *p = n->children;
	uint64_t last = n->ref;
	int r = base_reserve(ret, cap, n->n_children, sizeof(**ret));

	for (uint64_t i = 0; r == 0 && i < n->n_children; i++)
		if (!record_next_child(&p, n->children_end, &last, &(*ret)[i]))
			r = -EUCLEAN;
	return r == 0 && p != n->children_end ? -EUCLEAN : r;
}

uint8_t *record_put_audience(uint8_t *p, const struct snap_node *n)
{
	uint64_t t[TOTALS_FIELDS], a[TOTALS_FIELDS], differ = 0;

	memcpy(t, &n->totals, sizeof(t));
	memcpy(a, &n->audience, sizeof(a));
	for (size_t i = 0; i < TOTALS_FIELDS; i++)
		differ |= (uint64_t)(t[i] != a[i]) << i;
	p = varint_put(p, differ);
	for (size_t i = 0; i < TOTALS_FIELDS; i++)
		if (t[i] != a[i])
			p = varint_put(p, zigzag((int64_t)(t[i] - a[i])));
	return p;
}

static const uint8_t *get_audience(const uint8_t *p, const uint8_t *end, struct snap_node *n)
{
	uint64_t a[TOTALS_FIELDS], differ = 0, d = 0;

	memcpy(a, &n->totals, sizeof(a));
	p = varint_get(p, end, &differ);
	if (differ == 0 || differ >> TOTALS_FIELDS)
		return NULL;
	for (size_t i = 0; i < TOTALS_FIELDS; i++) {
		if (!(differ >> i & 1))
			continue;
		p = varint_get(p, end, &d);
		a[i] -= (uint64_t)unzigzag(d);
		if (d == 0)
			return NULL;
	}
	memcpy(&n->audience, a, sizeof(a));
	return p;
}

static uint8_t *put_head(uint8_t *p, const struct snap_node *n)
{
	const struct scan_totals *t = &n->totals;
	bool counters = totals_problems(t) > 0;

	p = varint_put(p, (n->world_listable ? R_LISTABLE : 0u) | (n->single_owner ? R_OWNER : 0u) |
	                          (counters ? R_COUNTERS : 0u) | (t->shared ? R_SHARED : 0u) |
	                          (n->links_leave ? R_LINKS : 0u) | (n->partial ? R_PARTIAL : 0u));
	p = varint_put(p, t->bytes);
	p = varint_put(p, t->apparent);
	p = varint_put(p, t->files);
	p = varint_put(p, t->dirs);
	p = varint_put(p, t->entries);
	p = varint_put(p, zigzag(t->newest));
	if (counters) {
		p = varint_put(p, t->errors);
		p = varint_put(p, t->vanished);
		p = varint_put(p, t->changed);
		p = varint_put(p, t->skipped);
	}
	if (t->shared)
		p = varint_put(p, t->shared);
	if (n->partial)
		p = record_put_audience(p, n);
	p = varint_put(p, n->n_entries);
	return varint_put(p, n->n_children);
}

int record_add(struct bytes *out, uint64_t self, const struct snap_node *n,
               const struct node_child *children)
{
	uint64_t last = self, names = htole64(n->names);
	uint8_t *p;
	int r = bytes_reserve(out, HEAD_MAX + n->n_children * VARINT_MAX);

	if (r < 0)
		return r;
	p = put_head(out->p + out->len, n);
	if (n->n_children) {
		memcpy(p, &names, sizeof(names));
		p += sizeof(names);
	}
	for (size_t i = 0; i < n->n_children; i++)
		p = put_child(p, &last, &children[i]);
	out->len = (size_t)(p - out->p);
	return 0;
}

/* What comes first in a head: up to the number of children. NULL when malformed. */
static const uint8_t *get_head(const uint8_t *p, const uint8_t *end, struct snap_node *ret)
{
	struct scan_totals *t = &ret->totals;
	uint64_t newest = 0, flags = 0;

	p = varint_get(p, end, &flags);
	if (flags & ~(uint64_t)R_KNOWN)
		return NULL;
	ret->world_listable = flags & R_LISTABLE;
	ret->single_owner = flags & R_OWNER;
	ret->links_leave = flags & R_LINKS;
	ret->partial = flags & R_PARTIAL;
	p = varint_get(p, end, &t->bytes);
	p = varint_get(p, end, &t->apparent);
	p = varint_get(p, end, &t->files);
	p = varint_get(p, end, &t->dirs);
	p = varint_get(p, end, &t->entries);
	p = varint_get(p, end, &newest);
	t->newest = unzigzag(newest);
	if (flags & R_COUNTERS) {
		p = varint_get(p, end, &t->errors);
		p = varint_get(p, end, &t->vanished);
		p = varint_get(p, end, &t->changed);
		p = varint_get(p, end, &t->skipped);
	}
	if (flags & R_SHARED)
		p = varint_get(p, end, &t->shared);
	if (!ret->partial)
		ret->audience = *t;
	else
		p = get_audience(p, end, ret);
	p = varint_get(p, end, &ret->n_entries);
	return varint_get(p, end, &ret->n_children);
}

/* Parse a node's head; ret->ref is set by the caller. 0 or -EUCLEAN. */
int record_parse(const uint8_t *p, const uint8_t *end, struct snap_node *ret)
{
	uint64_t names = 0;

	p = get_head(p, end, ret);
	if (!p || ret->n_children > ret->n_entries)
		return -EUCLEAN;
	if (ret->n_children) {
		if ((size_t)(end - p) < sizeof(names))
			return -EUCLEAN;
		memcpy(&names, p, sizeof(names));
		p += sizeof(names);
	}
	ret->names = le64toh(names);
	if (ret->n_children > (size_t)(end - p))
		return -EUCLEAN;
	ret->children = p;
	ret->children_end = end;
	return 0;
}

/* Attach the listing of a node whose head is known. 0 or -EUCLEAN. */
int record_listing(const uint8_t *p, const uint8_t *end, struct snap_node *ret)
{
	struct scan_dirinfo dir = { 0 };

	ret->listing = p;
	p = listing_head_decode(p, end, &dir);
	/* Each entry takes at least three bytes. */
	if (!p || ret->n_entries > (size_t)(end - p) / 3)
		return -EUCLEAN;
	ret->meta = dir.meta;
	ret->problem = dir.problem;
	ret->error = dir.error;
	ret->entries = p;
	ret->end = end;
	return 0;
}

uint32_t record_check(const struct snap_node *n)
{
	const struct {
		struct scan_totals totals;
		uint64_t listing_len, n_children;
	} v = { n->totals, (uint64_t)(n->end - n->listing), n->n_children };
	uint64_t audience = n->partial ? XXH3_64bits(&n->audience, sizeof(n->audience)) : 0;

	return (uint32_t)XXH3_64bits_withSeed(&v, sizeof(v), audience);
}
