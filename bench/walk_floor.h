/* SPDX-License-Identifier: MIT */
/*
 * walk_floor - the least a complete scan can cost: read every directory, stat every entry, keep nothing.
 *
 * Model:   a yardstick, not a du: each name counts, hard links too, and mounts are crossed.
 * Units:   bytes of disk space.
 * Owner:   meant for a process of its own: it raises the limit of open descriptors.
 * Errors:  what can't be read is counted; a root that can't be opened ends the process.
 * Threads: starts its own; one call per process.
 */
#ifndef BENCH_WALK_FLOOR_H
#define BENCH_WALK_FLOOR_H

#include <stdint.h>

struct walk_floor_sums {
	uint64_t entries, dirs, bytes; /* the root included */
	uint64_t errors;
};

void walk_floor(const char *path, unsigned threads, struct walk_floor_sums *ret);

#endif
