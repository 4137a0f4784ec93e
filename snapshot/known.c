/* SPDX-License-Identifier: MIT */
/*
 * known - which fingerprints are stored already, and where. Workers ask it once per new directory.
 *
 * Sixteen shards with a lock each; open addressing, 28 bytes a node in slots of 32.
 */
#include "snapshot/internal.h"

enum {
	SHARDS = 16
};

struct slot {
	struct snap_fingerprint fp;
	uint64_t ref; /* 0: empty */
	uint32_t check;
};

struct shard {
	pthread_mutex_t lock;
	struct slot *slot; /* lock */
	size_t n, mask;    /* lock */
} PRIVATE_CACHE_LINE;

struct known {
	struct shard shard[SHARDS];
};

struct known *known_new(void)
{
	struct known *k = aligned_alloc(64, sizeof(*k));

	if (!k)
		return NULL;
	memset(k, 0, sizeof(*k));
	for (size_t i = 0; i < SHARDS; i++)
		(void)pthread_mutex_init(&k->shard[i].lock, NULL);
	return k;
}

void known_free(struct known *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < SHARDS; i++) {
		free(k->shard[i].slot);
		(void)pthread_mutex_destroy(&k->shard[i].lock);
	}
	free(k);
}

static struct shard *shard_of(struct known *k, const struct snap_fingerprint *fp)
{
	return &k->shard[fp->b[0] % SHARDS];
}

void known_lock(struct known *k, const struct snap_fingerprint *fp)
{
	(void)pthread_mutex_lock(&shard_of(k, fp)->lock);
}

void known_unlock(struct known *k, const struct snap_fingerprint *fp)
{
	(void)pthread_mutex_unlock(&shard_of(k, fp)->lock);
}

static struct slot *find(struct slot *slot, size_t mask, const struct snap_fingerprint *fp)
{
	uint64_t h;

	memcpy(&h, fp->b + 8, sizeof(h));
	for (size_t i = h & mask;; i = (i + 1) & mask)
		if (!slot[i].ref || memcmp(&slot[i].fp, fp, sizeof(*fp)) == 0)
			return &slot[i];
}

uint64_t known_find(struct known *k, const struct snap_fingerprint *fp, uint32_t *check)
{
	struct shard *sh = shard_of(k, fp);
	const struct slot *s;

	if (!sh->slot)
		return 0;
	s = find(sh->slot, sh->mask, fp);
	*check = s->check;
	return s->ref;
}

static int grow(struct shard *sh)
{
	size_t mask = sh->slot ? sh->mask * 2 + 1 : 31;
	struct slot *slot = calloc(mask + 1, sizeof(*slot));

	if (!slot)
		return -ENOMEM;
	for (size_t i = 0; sh->slot && i <= sh->mask; i++)
		if (sh->slot[i].ref)
			*find(slot, mask, &sh->slot[i].fp) = sh->slot[i];
	free(sh->slot);
	sh->slot = slot;
	sh->mask = mask;
	return 0;
}

int known_add(struct known *k, const struct node_key *key, uint64_t ref)
{
	struct shard *sh = shard_of(k, &key->fp);
	struct slot *s;
	int r;

	if (!sh->slot || (sh->n + 1) * 8 > (sh->mask + 1) * 7) {
		r = grow(sh);
		if (r < 0)
			return r;
	}
	s = find(sh->slot, sh->mask, &key->fp);
	sh->n += s->ref == 0;
	*s = (struct slot){ .fp = key->fp, .ref = ref, .check = key->check };
	return 0;
}
