/* SPDX-License-Identifier: MIT */
/*
 * mark - a set of refs, a bit each, grouped by pack; private to snapshot/.
 *
 * Model:   prune and check walk all snapshots and visit each node once; memory is one bit a node and
 *          some 40 bytes a pack.
 */
#ifndef SNAPSHOT_MARK_H
#define SNAPSHOT_MARK_H

#include "snapshot/internal.h"

struct mark_pack {
	uint64_t id; /* 0: empty slot */
	uint64_t *bits;
	size_t words;
};

struct marks {
	struct mark_pack *slot;
	size_t n, mask;
};

/** Add ref; 1 if it is new, 0 if it was there, -ENOMEM. */
int marks_add(struct marks *m, uint64_t ref);
bool marks_has(const struct marks *m, uint64_t ref);
void marks_done(struct marks *m);

#endif
