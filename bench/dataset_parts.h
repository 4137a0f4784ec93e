/* SPDX-License-Identifier: MIT */
/*
 * dataset_parts - what dataset.c and aged.c share: the names in the data set, and how it is written.
 *
 * Model:   directories and files are numbers, as drawn atop dataset.c.
 * Errors:  0 or -errno.
 */
#ifndef BENCH_DATASET_PARTS_H
#define BENCH_DATASET_PARTS_H

#include "bench/dataset.h"

#include <fcntl.h>
#include <stddef.h>

enum {
	NAME_BYTES = 64,
	OPEN_DIR = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

/** Path of a directory from the root. */
void dataset_dir_path(const struct dataset_spec *spec, uint32_t dir, char path[static NAME_BYTES]);
/** Name of a file in its directory. */
void dataset_file_name(uint32_t file, char name[static NAME_BYTES]);
/** Write size_bytes of text to a file; flags are added to those of the open. */
int dataset_write_file(int dirfd, const char *name, int flags, size_t size_bytes,
                       enum dataset_step step);
/** Make the directory at path, if it isn't there, and open it. A descriptor or -errno. */
int dataset_make_root(int dirfd, const char *path);
/** Give all directories the time of DATASET_BUILT: what is made in one changes its time. */
int dataset_set_times(int root, const struct dataset_spec *spec);
/** Give a file or directory the time of a step. */
int dataset_set_time(int fd, enum dataset_step step);

#endif
