/* SPDX-License-Identifier: MIT */
/*
 * dataset - see dataset.h.
 *
 *     spec -> numbers    directory d = top * (1 + subs_per_top) + sub; a top itself is its sub 0
 *                        files are numbered through: those of d begin at d * files_per_dir
 *     numbers -> names   "d0024", "d0024/d99", "d0024/d99/f0022499"
 *     build              top by top, by path from the root; times of directories last
 *     changes            rewrite files by their path from the root
 *     look               by their path, too: stat all, so that the kernel has them in its caches
 */
#include "base/base.h"
#include "bench/dataset_parts.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
	GROWN_BYTES = 16,
	SCATTERED_BYTES = 26,
	ENTRIES_PER_DIR = 10, /* itself and its files */
	STRIDE = 7919, /* prime, so that the scattered files hit both levels and no file twice */
	BUILT_TIME = 1767225600, /* 2026-01-01T00:00:00Z; each step is a second later */
};

static const char new_file[] = "new";

struct dataset_spec dataset_spec_full(void)
{
	return (struct dataset_spec){ 50, 99, 9, 100 };
}

/* 51 directories and 450 files, for tests. */
static struct dataset_spec small_spec(void)
{
	return (struct dataset_spec){ 5, 9, 9, 10 };
}

struct dataset_spec dataset_spec_entries(uint64_t entries)
{
	struct dataset_spec spec = entries < 1000 ? small_spec() : dataset_spec_full();
	uint64_t per_top = (uint64_t)ENTRIES_PER_DIR * (1 + spec.subs_per_top);
	uint64_t tops = (MAX(entries, 2) - 1 + per_top - 1) / per_top;

	spec.tops = (uint32_t)MIN(tops, UINT32_MAX / per_top);
	return spec;
}

static uint32_t dir_count(const struct dataset_spec *spec)
{
	return spec->tops * (1 + spec->subs_per_top);
}

static uint32_t file_count(const struct dataset_spec *spec)
{
	return dir_count(spec) * spec->files_per_dir;
}

struct dataset_totals dataset_totals(const struct dataset_spec *spec, enum dataset_step step)
{
	struct dataset_totals t = {
		.dirs = 1 + (uint64_t)dir_count(spec),
		.files = file_count(spec),
		.bytes = file_count(spec),
	};

	if (step >= DATASET_ONE)
		t.bytes += GROWN_BYTES - 1;
	if (step >= DATASET_DEEP) {
		t.bytes += GROWN_BYTES;
		t.files++;
	}
	if (step >= DATASET_SCATTERED)
		t.bytes += (uint64_t)(spec->scattered - 1) * (SCATTERED_BYTES - 1) +
		           (SCATTERED_BYTES - GROWN_BYTES);
	t.entries = t.dirs + t.files;
	return t;
}

/* The file that changes first: in the middle, in a directory at the bottom. */
static uint32_t one_file(const struct dataset_spec *spec)
{
	return file_count(spec) / 2 - 1;
}

static uint32_t scattered_file(const struct dataset_spec *spec, uint32_t i)
{
	return (uint32_t)((one_file(spec) + (uint64_t)i * STRIDE) % file_count(spec));
}

void dataset_file_name(uint32_t file, char name[static NAME_BYTES])
{
	(void)snprintf(name, NAME_BYTES, "f%07u", file);
}

void dataset_dir_path(const struct dataset_spec *spec, uint32_t dir, char path[static NAME_BYTES])
{
	uint32_t top = dir / (1 + spec->subs_per_top);
	uint32_t sub = dir % (1 + spec->subs_per_top);

	if (sub == 0)
		(void)snprintf(path, NAME_BYTES, "d%04u", top);
	else
		(void)snprintf(path, NAME_BYTES, "d%04u/d%02u", top, sub);
}

int dataset_set_time(int fd, enum dataset_step step)
{
	const struct timespec t = { BUILT_TIME + (time_t)step, 0 };

	return futimens(fd, (const struct timespec[2]){ t, t }) < 0 ? -errno : 0;
}

int dataset_write_file(int dirfd, const char *name, int flags, size_t size_bytes,
                       enum dataset_step step)
{
	static const char text[] = "abcdefghijklmnopqrstuvwxyz";
	AUTO(base_close) int fd = -1;
	ssize_t n;

	static_assert(sizeof(text) > SCATTERED_BYTES, "a file is a prefix of the text");
	fd = openat(dirfd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0666);
	if (fd < 0)
		return -errno;
	n = write(fd, text, size_bytes);
	if (n < 0)
		return -errno;
	if ((size_t)n < size_bytes)
		return -ENOSPC;
	return dataset_set_time(fd, step);
}

int dataset_set_times(int root, const struct dataset_spec *spec)
{
	char path[NAME_BYTES];
	int r = 0;

	for (uint32_t dir = 0; dir < dir_count(spec) && r == 0; dir++) {
		AUTO(base_close) int fd = -1;

		dataset_dir_path(spec, dir, path);
		fd = openat(root, path, OPEN_DIR);
		r = fd < 0 ? -errno : dataset_set_time(fd, DATASET_BUILT);
	}
	return r < 0 ? r : dataset_set_time(root, DATASET_BUILT);
}

int dataset_make_root(int dirfd, const char *path)
{
	int root;

	if (mkdirat(dirfd, path, 0777) < 0 && errno != EEXIST)
		return -errno;
	root = openat(dirfd, path, OPEN_DIR);
	return root < 0 ? -errno : root;
}

static int write_nth(int root, const struct dataset_spec *spec, uint32_t file, int flags,
                     size_t size_bytes, enum dataset_step step)
{
	char path[2 * NAME_BYTES], dir[NAME_BYTES], name[NAME_BYTES];

	dataset_dir_path(spec, file / spec->files_per_dir, dir);
	dataset_file_name(file, name);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return dataset_write_file(root, path, flags, size_bytes, step);
}

static int make_dir(int root, const struct dataset_spec *spec, uint32_t dir)
{
	char path[NAME_BYTES];

	dataset_dir_path(spec, dir, path);
	return mkdirat(root, path, 0777) < 0 ? -errno : 0;
}

static int fill_dir(int root, const struct dataset_spec *spec, uint32_t dir)
{
	int r = 0;

	for (uint32_t i = 0; i < spec->files_per_dir && r == 0; i++)
		r = write_nth(root, spec, dir * spec->files_per_dir + i, O_CREAT | O_EXCL, 1,
		              DATASET_BUILT);
	return r;
}

/* The files of a top come after its directories: on a new file system, inodes are in this order. */
static int build_top(int root, const struct dataset_spec *spec, uint32_t top)
{
	uint32_t dir = top * (1 + spec->subs_per_top);
	int r = make_dir(root, spec, dir);

	for (uint32_t sub = 1; sub <= spec->subs_per_top && r == 0; sub++) {
		r = make_dir(root, spec, dir + sub);
		if (r == 0)
			r = fill_dir(root, spec, dir + sub);
	}
	return r < 0 ? r : fill_dir(root, spec, dir);
}

int dataset_build(int dirfd, const char *path, const struct dataset_spec *spec,
                  const volatile sig_atomic_t *stop)
{
	AUTO(base_close) int root = dataset_make_root(dirfd, path);
	int r = MIN(root, 0);

	for (uint32_t top = 0; top < spec->tops && r == 0; top++)
		r = stop && *stop ? -EINTR : build_top(root, spec, top);
	return r < 0 ? r : dataset_set_times(root, spec);
}

/* Opens the directory that gets a new file: the last one. */
static int open_deep(int dirfd, const char *path, const struct dataset_spec *spec)
{
	AUTO(base_close) int root = openat(dirfd, path, OPEN_DIR);
	char name[NAME_BYTES];
	int fd;

	if (root < 0)
		return -errno;
	dataset_dir_path(spec, dir_count(spec) - 1, name);
	fd = openat(root, name, OPEN_DIR);
	return fd < 0 ? -errno : fd;
}

/* The first n of the scattered files; the very first is the one that changes alone. */
static int rewrite_files(int dirfd, const char *path, const struct dataset_spec *spec, uint32_t n,
                         size_t size_bytes, enum dataset_step step)
{
	AUTO(base_close) int root = openat(dirfd, path, OPEN_DIR);
	int r = root < 0 ? -errno : 0;

	for (uint32_t i = 0; i < n && r == 0; i++)
		r = write_nth(root, spec, scattered_file(spec, i), O_TRUNC, size_bytes, step);
	return r;
}

static int add_deep(int dirfd, const char *path, const struct dataset_spec *spec)
{
	AUTO(base_close) int fd = open_deep(dirfd, path, spec);
	int r = fd;

	if (r >= 0)
		r = dataset_write_file(fd, new_file, O_CREAT | O_TRUNC, GROWN_BYTES, DATASET_DEEP);
	return r < 0 ? r : dataset_set_time(fd, DATASET_DEEP);
}

int dataset_change(int dirfd, const char *path, const struct dataset_spec *spec,
                   enum dataset_step step)
{
	if (step == DATASET_BUILT)
		return 0;
	if (step == DATASET_DEEP)
		return add_deep(dirfd, path, spec);
	if (step == DATASET_ONE)
		return rewrite_files(dirfd, path, spec, 1, GROWN_BYTES, step);
	return rewrite_files(dirfd, path, spec, spec->scattered, SCATTERED_BYTES, step);
}

int dataset_reset(int dirfd, const char *path, const struct dataset_spec *spec)
{
	AUTO(base_close) int deep = open_deep(dirfd, path, spec);
	int r;

	if (deep < 0)
		return deep;
	if (unlinkat(deep, new_file, 0) < 0 && errno != ENOENT)
		return -errno;
	r = dataset_set_time(deep, DATASET_BUILT);
	return r < 0 ? r : rewrite_files(dirfd, path, spec, spec->scattered, 1, DATASET_BUILT);
}

/* -- caches ---------------------------------------------------------------------------------- */

static int look_at_dir(int root, const char *path)
{
	int fd = openat(root, path, OPEN_DIR), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	struct stat st;

	if (!dir) {
		r = -errno;
		base_close(fd);
		return r;
	}
	while (r == 0 && (e = readdir(dir)))
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = -errno;
	(void)closedir(dir);
	return r;
}

int dataset_look(int dirfd, const char *path, const struct dataset_spec *spec, uint32_t tops,
                 const volatile sig_atomic_t *stop)
{
	AUTO(base_close) int root = openat(dirfd, path, OPEN_DIR);
	uint32_t n = tops * (1 + spec->subs_per_top);
	char name[NAME_BYTES];
	int r = root < 0 ? -errno : 0;

	for (uint32_t dir = 0; dir < n && r == 0; dir++) {
		if (stop && *stop)
			return -EINTR;
		dataset_dir_path(spec, dir, name);
		r = look_at_dir(root, name);
	}
	return r;
}
