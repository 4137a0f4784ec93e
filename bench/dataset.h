/* SPDX-License-Identifier: MIT */
/*
 * dataset - the tree that the benchmarks scan, and the changes they make to it between scans.
 *
 * Model:   the root holds directories, each of these holds more, and every directory but the root
 *          holds files of one byte. A spec and a step give the same names, sizes and mtimes
 *          everywhere (modes follow the umask). No file name occurs twice, so no two directories
 *          are equal.
 *          The steps build on each other: built, one, deep, scattered; reset goes back to built.
 *          A step repeated after a reset gives the same tree again, so an index that has seen it
 *          finds nothing new: measure what a step adds in an index that has not.
 * Units:   bytes are file lengths, 45,000 for 45,000 files of one byte; dirs and entries include
 *          the root.
 * Owner:   nothing is kept; dirfd and path name the root as for openat(2).
 * Errors:  0 or -errno. What was made before an error stays.
 * Threads: no state; one call per tree at a time.
 */
#ifndef BENCH_DATASET_H
#define BENCH_DATASET_H

#include <signal.h>
#include <stdint.h>

struct dataset_spec {
	uint32_t tops;          /* directories in the root */
	uint32_t subs_per_top;  /* directories in each of them */
	uint32_t files_per_dir; /* in every directory but the root */
	uint32_t scattered;     /* files that the scattered change rewrites */
};

enum dataset_step {
	DATASET_BUILT,
	DATASET_ONE,       /* one file grew from 1 to 16 bytes */
	DATASET_DEEP,      /* and a directory at the bottom has a new file of 16 bytes */
	DATASET_SCATTERED, /* and files all over have 26 bytes, the one of DATASET_ONE among them */
};

struct dataset_totals {
	uint64_t entries, dirs, files, bytes;
};

/** 5,001 directories and 45,000 files: root + 50 + 50x99, 9 files in each but the root. */
struct dataset_spec dataset_spec_full(void);
/** The same shape with at least `entries` entries: at most 999 more (99 below 1,000 entries). */
struct dataset_spec dataset_spec_entries(uint64_t entries);

/** What a scan of the tree must find after a step. */
struct dataset_totals dataset_totals(const struct dataset_spec *spec, enum dataset_step step);

/** Make the tree in a new or empty directory. -EINTR once *stop is not 0; stop may be NULL. */
int dataset_build(int dirfd, const char *path, const struct dataset_spec *spec,
                  const volatile sig_atomic_t *stop);
/**
 * The same tree in a new or empty directory, as years of use would have left it: entries were made and
 * removed in no order, so neither inode numbers nor blocks follow the names. Always the same calls in
 * the same order. After an error, entries that are not of the data set may be left, too.
 */
int dataset_build_aged(int dirfd, const char *path, const struct dataset_spec *spec,
                       const volatile sig_atomic_t *stop);
/** Look at each entry in the first `tops` directories of the root: the kernel has them in its caches then. */
int dataset_look(int dirfd, const char *path, const struct dataset_spec *spec, uint32_t tops,
                 const volatile sig_atomic_t *stop);
/** What step adds to the one before it; nothing for DATASET_BUILT. */
int dataset_change(int dirfd, const char *path, const struct dataset_spec *spec,
                   enum dataset_step step);
/** Undo all changes. */
int dataset_reset(int dirfd, const char *path, const struct dataset_spec *spec);

#endif
