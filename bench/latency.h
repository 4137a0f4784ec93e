/* SPDX-License-Identifier: MIT */
/*
 * latency - how long the same operation takes on several files or directories.
 *
 * Model:   turns are interleaved, round by round, so that what else the machine does hits all alike.
 *          One sample times several operations in a row, since reading the clock is not free beside
 *          a stat.
 * Units:   microseconds per file or per directory entry: medians.
 * Errors:  0 or -errno; then *failed is the path it happened on.
 */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stddef.h>
#include <stdint.h>

enum latency_op {
	LATENCY_OPEN,    /* open, read of 64 KiB, close */
	LATENCY_STAT,    /* lstat */
	LATENCY_READDIR, /* a whole listing, names only */
};

struct latency {
	const char *path;
	double us;       /* result */
	int64_t handled; /* files or entries per operation */
	double *samples; /* internal */
	size_t n;
};

int latency_measure(enum latency_op op, struct latency *l, size_t n, const char **failed);

#endif
