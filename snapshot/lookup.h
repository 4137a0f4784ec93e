/* SPDX-License-Identifier: MIT */
/*
 * lookup - which packs may hold a fingerprint, without reading them all; private to snapshot/.
 *
 * Model:   a run tells of all nodes in a range of packs: their hashes in order, each with its pack. Runs
 *          cover the packs from the first on without a gap; those after the last run, the tail, are few and
 *          are read themselves. A run is a function of its packs: it can be made again at any time.
 *          Each run is more than twice as large as the next, so there are few, and packs are taken up into a
 *          larger run a logarithmic number of times.
 * Errors:  0, -EUCLEAN when the table is damaged: then nothing it says is to be used, -ENOMEM, an SQLite one.
 * Threads: all calls with the handle's lock held, or alone.
 * Source:  the rows are drawn in docs/FORMAT.md.
 */
#ifndef SNAPSHOT_LOOKUP_H
#define SNAPSHOT_LOOKUP_H

#include "snapshot/internal.h"

enum {
	LOOKUP_FIRST = 256, /* packs; fewer are read in some milliseconds and need no run */
	LOOKUP_TAIL = 64,   /* so many more get one */
	LOOKUP_RUNS_MAX = 64
};

struct lookup_run {
	uint64_t id;
	uint64_t first, last; /* packs */
	uint64_t part_bits;   /* that many of a hash say which part */
};

struct lookup {
	struct lookup_run run[LOOKUP_RUNS_MAX]; /* the newest first */
	size_t n;
	uint64_t covered; /* the last pack that is in a run, 0 if there is none */
	sqlite3_stmt *get;
	uint64_t *pack; /* what lookup_find() found */
	size_t n_packs, cap;
};

/** Read what runs there are. To be closed in any case. */
int lookup_open(struct snap *s, struct lookup *ret);
void lookup_close(struct lookup *l);
/** Packs that may hold it, among them the one that does, into l->pack. */
int lookup_find(struct snap *s, struct lookup *l, const struct snap_fingerprint *fp);
/** In a transaction that wrote the packs from first on, before the pack next: take up the tail if it is long. */
int lookup_extend(struct snap *s, uint64_t first, uint64_t next);
/** Make it again from all packs, as one run. */
int lookup_rebuild(struct snap *s);
/** Does each run say what its packs say? */
int lookup_check(struct snap *s);

#endif
