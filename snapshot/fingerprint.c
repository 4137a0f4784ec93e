/* SPDX-License-Identifier: MIT */
/*
 * fingerprint - the key of a node: XXH3-128 with the index's own random secret over
 *
 *     listing | for each sub-directory: its fingerprint, or its problem | sums for an audience
 *         | shared | changed | flags | listing length
 *
 * The secret keeps anybody from making two different subtrees that look alike. Everything that a node
 * stores follows from what is hashed: shared bytes and links that leave depend on names elsewhere, sums for
 * an audience on links too, and a name that was listed twice shows in the counter only, so they are hashed.
 */
#include "snapshot/internal.h"

#include <endian.h>
#include <xxhash.h>

static void put_child_key(uint8_t *p, const struct node_child *child,
                          const struct snap_fingerprint *fp)
{
	uint32_t error = htole32((uint32_t)child->error);

	if (child->ref) {
		memcpy(p, fp->b, sizeof(fp->b));
		return;
	}
	memset(p, 0, sizeof(fp->b));
	p[0] = child->problem;
	memcpy(p + 4, &error, sizeof(error));
}

/* A large listing is not copied beside the rest: the same hash, fed in two parts. */
static int hash_parts(const uint8_t *secret, const uint8_t *listing, size_t len,
                      const struct bytes *rest, XXH128_hash_t *ret)
{
	XXH3_state_t *state = XXH3_createState();

	if (!state)
		return -ENOMEM;
	(void)XXH3_128bits_reset_withSecret(state, secret, SECRET_SIZE);
	(void)XXH3_128bits_update(state, listing, len);
	(void)XXH3_128bits_update(state, rest->p, rest->len);
	*ret = XXH3_128bits_digest(state);
	(void)XXH3_freeState(state);
	return 0;
}

int fingerprint_node(const uint8_t *secret, struct bytes *scratch, const struct snap_node *n,
                     const struct node_child *children, const struct snap_fingerprint *child_fps,
                     struct snap_fingerprint *ret)
{
	size_t len = (size_t)(n->end - n->listing), copied = len <= PACK_TARGET ? len : 0;
	uint64_t flags = (n->links_leave ? 1u : 0u) | (n->partial ? 2u : 0u);
	uint64_t tail[] = { htole64(n->totals.shared), htole64(n->totals.changed), htole64(flags),
		            htole64(len) };
	XXH128_canonical_t canonical;
	XXH128_hash_t hash;
	uint8_t *p;
	int r;

	scratch->len = 0;
	r = bytes_reserve(scratch, copied + n->n_children * sizeof(child_fps->b) + AUDIENCE_MAX +
	                                   sizeof(tail));
	if (r < 0)
		return r;
	memcpy(scratch->p, n->listing, copied);
	p = scratch->p + copied;
	for (size_t i = 0; i < n->n_children; i++, p += sizeof(child_fps->b))
		put_child_key(p, &children[i], &child_fps[i]);
	if (n->partial)
		p = record_put_audience(p, n);
	memcpy(p, tail, sizeof(tail));
	scratch->len = (size_t)(p - scratch->p) + sizeof(tail);
	if (copied == len)
		hash = XXH3_128bits_withSecret(scratch->p, scratch->len, secret, SECRET_SIZE);
	else
		r = hash_parts(secret, n->listing, len, scratch, &hash);
	if (r < 0)
		return r;
	XXH128_canonicalFromHash(&canonical, hash);
	memcpy(ret->b, canonical.digest, sizeof(ret->b));
	return 0;
}

uint64_t pack_sum(const uint8_t *secret, uint64_t id, const void *a, size_t a_len, const void *b,
                  size_t b_len)
{
	uint64_t parts[3] = { htole64(id),
		              htole64(XXH3_64bits_withSecret(a, a_len, secret, SECRET_SIZE)),
		              htole64(XXH3_64bits_withSecret(b, b_len, secret, SECRET_SIZE)) };

	return XXH3_64bits_withSecret(parts, sizeof(parts), secret, SECRET_SIZE);
}

void snap_derive(const struct snap *s, const char *purpose, uint64_t ret[2])
{
	XXH128_hash_t h = XXH3_128bits_withSecret(purpose, strlen(purpose), s->secret, SECRET_SIZE);

	ret[0] = h.low64;
	ret[1] = h.high64;
}

uint64_t snap_hash(const void *p, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, len, seed);
}
