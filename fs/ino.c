/* SPDX-License-Identifier: MIT */
/* ino - inode numbers: of the path, so that they stay from snapshot to snapshot and across remounts. */
#include "fs/internal.h"

static uint64_t usable(uint64_t h)
{
	return h > 1 ? h : h + 2; /* 0 and 1 mean other things to FUSE */
}

/* Keyed by the index, so that nobody can make two paths with one number. */
static uint64_t ino_top(struct snap *s)
{
	return usable(snap_hash("/", 1, snap_seed(s)));
}

uint64_t ino_child(uint64_t parent, const char *name, size_t len)
{
	return usable(snap_hash(name, len, parent));
}

uint64_t ino_of_path(struct snap *s, const char *path)
{
	uint64_t ino = ino_top(s);

	while (*path) {
		size_t len = strcspn(path, "/");

		if (len)
			ino = ino_child(ino, path, len);
		path += len;
		path += *path == '/';
	}
	return ino;
}

uint64_t ino_link(uint64_t root_ino, uint64_t ino)
{
	return usable(snap_hash(&ino, sizeof(ino), ~root_ino));
}

/* A slash cannot be in a name, so this is no other path's number. */
uint64_t ino_virtual(uint64_t dir, uint8_t virt)
{
	const char name[2] = { '/', (char)virt };

	return ino_child(dir, name, sizeof(name));
}

/* A generation's roots are found again by number; call before it is published. */
void ino_roots(struct snap *s, struct gen *g)
{
	for (size_t i = 0; i < g->list.n; i++)
		g->root_key[i] = ino_of_path(s, g->list.info[i]->root);
}
