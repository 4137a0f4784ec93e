/* SPDX-License-Identifier: MIT */
/*
 * ino - inode numbers: of the path, so that they stay from snapshot to snapshot and across remounts.
 *
 *     key     of a directory: a keyed hash of its parent's key and its name; rows are found by it, and nobody is
 *             ever shown one
 *     number  what stat says: another keyed hash of the key, or for what is no directory of its directory's key
 *             and its name
 *
 * Both are SipHash-1-3 with keys that only the index knows, so no name can be chosen for the number it gets,
 * whatever numbers have been seen.
 */
#include "fs/internal.h"

#include <endian.h>

struct sip {
	uint64_t v[4];
};

static inline uint64_t turn(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void sip_round(struct sip *s)
{
	uint64_t *v = s->v;

	v[0] += v[1], v[1] = turn(v[1], 13) ^ v[0], v[0] = turn(v[0], 32);
	v[2] += v[3], v[3] = turn(v[3], 16) ^ v[2];
	v[0] += v[3], v[3] = turn(v[3], 21) ^ v[0];
	v[2] += v[1], v[1] = turn(v[1], 17) ^ v[2], v[2] = turn(v[2], 32);
}

static inline void sip_word(struct sip *s, uint64_t m)
{
	s->v[3] ^= m;
	sip_round(s);
	s->v[0] ^= m;
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012) of a number and a name. 0 and 1 mean other things to FUSE. */
static uint64_t sip(const uint64_t key[2], uint64_t first, const void *name, size_t len)
{
	struct sip s = {
		{ key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
		  key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573) }
	};
	const unsigned char *p = name;
	uint64_t m, last = (uint64_t)(len + 8) << 56;

	sip_word(&s, first);
	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&m, p, 8);
		sip_word(&s, le64toh(m));
	}
	while (len-- > 0)
		last |= (uint64_t)p[len] << (8 * len);
	sip_word(&s, last);
	s.v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(&s);
	m = s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
	return m > 1 ? m : m + 2;
}

void ino_init(struct inos *t, const struct snap *s)
{
	snap_derive(s, "mount: keys of directories", t->dirs);
	snap_derive(s, "mount: numbers of directories", t->numbers);
	snap_derive(s, "mount: numbers of entries", t->entries);
	snap_derive(s, "mount: numbers of inodes with several names", t->links);
}

uint64_t ino_key(const struct inos *t, uint64_t parent, const char *name, size_t len)
{
	return sip(t->dirs, parent, name, len);
}

uint64_t ino_key_path(const struct inos *t, const char *path)
{
	uint64_t key = ino_key(t, 0, "/", 1);

	while (*path) {
		size_t len = strcspn(path, "/");

		if (len)
			key = ino_key(t, key, path, len);
		path += len;
		path += *path == '/';
	}
	return key;
}

/* A slash cannot be in a name, so this is no other path's key. */
uint64_t ino_key_virtual(const struct inos *t, uint64_t dir, uint8_t virt)
{
	const char name[2] = { '/', (char)virt };

	return ino_key(t, dir, name, sizeof(name));
}

uint64_t ino_dir(const struct inos *t, uint64_t key, uint8_t twin)
{
	return sip(t->numbers, key, &twin, sizeof(twin));
}

uint64_t ino_row(const struct inos *t, const struct row *dir)
{
	return ino_dir(t, dir->key, dir->twin);
}

uint64_t ino_virtual(const struct inos *t, const struct row *dir, uint8_t virt)
{
	return ino_dir(t, ino_key_virtual(t, dir->key, virt), dir->twin);
}

uint64_t ino_entry(const struct inos *t, const struct row *dir, const char *name, size_t len)
{
	return sip(t->entries, dir->key + dir->twin, name, len);
}

uint64_t ino_link(const struct inos *t, uint64_t root, uint64_t ino)
{
	return sip(t->links, root, &ino, sizeof(ino));
}

void ino_roots(const struct inos *t, struct gen *g)
{
	for (size_t i = 0; i < g->list.n; i++)
		g->root_key[i] = ino_key_path(t, g->list.info[i]->root);
}
