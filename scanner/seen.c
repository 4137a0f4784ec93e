/* SPDX-License-Identifier: MIT */
/*
 * seen - remembers which directories were met, so that one that moves during the scan counts once.
 *
 * Only a 64-bit mix of device and inode is kept: for a million directories the chance that two of them
 * mix alike is 3e-8, and the result would be a directory marked as moved, never a silent wrong total.
 */
#include "scanner/internal.h"

static uint64_t mix(uint64_t dev, uint64_t ino)
{
	uint64_t h = ino + dev * 0x9E3779B97F4A7C15u;

	h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
	h = (h ^ h >> 27) * 0x94D049BB133111EBu;
	h ^= h >> 31;
	return h ? h : 1;
}

static bool insert(uint64_t *slot, size_t mask, uint64_t key)
{
	size_t i = (size_t)(key >> 8) & mask;

	while (slot[i] && slot[i] != key)
		i = (i + 1) & mask;
	if (slot[i])
		return false;
	slot[i] = key;
	return true;
}

static void grow(struct seen_shard *sh)
{
	size_t mask = sh->slot ? sh->mask * 2 + 1 : 63;
	uint64_t *slot = calloc(mask + 1, sizeof(*slot));

	if (!slot)
		return; /* the table only gets slower, until it is full; then nothing is remembered */
	for (size_t i = 0; sh->slot && i <= sh->mask; i++)
		if (sh->slot[i])
			(void)insert(slot, mask, sh->slot[i]);
	free(sh->slot);
	sh->slot = slot;
	sh->mask = mask;
}

/* True if the directory was met before; remembers it. */
bool seen_before(struct scan *s, uint64_t dev, uint64_t ino)
{
	uint64_t key = mix(dev, ino);
	struct seen_shard *sh = &s->seen[key % SEEN_SHARDS];
	bool fresh = true;

	(void)pthread_mutex_lock(&sh->lock);
	if (!sh->slot || sh->n * 4 >= (sh->mask + 1) * 3)
		grow(sh);
	if (sh->slot && sh->n < sh->mask)
		fresh = insert(sh->slot, sh->mask, key);
	sh->n += fresh;
	(void)pthread_mutex_unlock(&sh->lock);
	return !fresh;
}

int seen_init(struct scan *s)
{
	for (size_t i = 0; i < SEEN_SHARDS; i++)
		(void)pthread_mutex_init(&s->seen[i].lock, NULL);
	return 0;
}

void seen_done(struct scan *s)
{
	for (size_t i = 0; i < SEEN_SHARDS; i++) {
		free(s->seen[i].slot);
		(void)pthread_mutex_destroy(&s->seen[i].lock);
	}
}
