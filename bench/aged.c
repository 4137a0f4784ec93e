/* SPDX-License-Identifier: MIT */
/*
 * aged - the data set as years of use would have left it. See dataset_build_aged() in dataset.h.
 *
 *     all there ever is    the data set, and filler beside it: more directories in each top, and as
 *                          many files again in each directory; all numbered through
 *     5 generations        each file takes its turn, in an order of the generation's own
 *       dir_lives          whether it is there in the end of the generation is drawn from its number
 *       take_turn          it is made, removed, or left as it is; its directory, too
 *     the last one         leaves the data set, and nothing else
 *
 * Nothing is remembered of an entry: what a generation before drew for it is drawn again.
 */
#include "base/base.h"
#include "bench/dataset_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
	GENERATIONS = 5,
	AWAY = 8, /* one in so many directories and files of the data set is missing for a generation */
	ROUNDS = 4, /* of a Feistel network: with fewer the order is not random */
	PATH_BYTES = 2 * NAME_BYTES,
};

/* What a number is drawn for: the same item gets another one for each. */
enum purpose {
	ORDER,
	DIR_LIVES,
	FILE_LIVES,
	BIRTH,
};

struct aging {
	int root;
	const struct dataset_spec *spec;
	uint32_t dirs_per_top;  /* the top itself, those of the data set, filler */
	uint32_t files_per_dir; /* those of the data set, then filler */
	unsigned generation;    /* the one that is being made; from 1 */
};

/* -- chance ---------------------------------------------------------------------------------- */

/* One step of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators". */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t draw(enum purpose purpose, unsigned generation, uint64_t item)
{
	return mix(mix((uint64_t)purpose << 32 | generation) ^ item);
}

/*
 * The i-th of the numbers below n in the order of a generation. A Feistel network permutes the
 * numbers below a power of four; what falls outside is permuted again until it is inside.
 */
static uint64_t shuffled(unsigned generation, uint64_t i, uint64_t n)
{
	unsigned half = 1;
	uint64_t mask;

	while (n > UINT64_C(1) << 2 * half)
		half++;
	mask = (UINT64_C(1) << half) - 1;
	do {
		for (unsigned round = 0; round < ROUNDS; round++) {
			uint64_t right = i & mask;

			right = draw(ORDER, generation * ROUNDS + round, right) ^ i >> half;
			i = (i & mask) << half | (right & mask);
		}
	} while (i >= n);
	return i;
}

/* -- what is there when ---------------------------------------------------------------------- */

static bool is_filler_dir(const struct aging *a, uint64_t dir)
{
	return dir % a->dirs_per_top > a->spec->subs_per_top;
}

/* Tops stay: all the others are in them. */
static bool dir_lives(const struct aging *a, uint64_t dir, unsigned generation)
{
	if (generation == 0)
		return false;
	if (is_filler_dir(a, dir))
		return generation < GENERATIONS && draw(DIR_LIVES, generation, dir) % 2;
	return generation == GENERATIONS || dir % a->dirs_per_top == 0 ||
	       draw(DIR_LIVES, generation, dir) % AWAY;
}

/* Of filler, half goes in each generation. The data set comes bit by bit, and some of it goes for a while. */
static bool file_lives(const struct aging *a, uint64_t dir, uint32_t file, unsigned generation)
{
	uint64_t item = dir * a->files_per_dir + file;

	if (!dir_lives(a, dir, generation))
		return false;
	if (is_filler_dir(a, dir) || file >= a->spec->files_per_dir)
		return generation < GENERATIONS && draw(FILE_LIVES, generation, item) % 2;
	return generation == GENERATIONS || (generation > draw(BIRTH, 0, item) % GENERATIONS &&
	                                     draw(FILE_LIVES, generation, item) % AWAY);
}

/* -- making and removing --------------------------------------------------------------------- */

static uint32_t number_in_data_set(const struct aging *a, uint64_t dir)
{
	return (uint32_t)(dir / a->dirs_per_top * (1 + a->spec->subs_per_top) +
	                  dir % a->dirs_per_top);
}

static void dir_path(const struct aging *a, uint64_t dir, char path[static NAME_BYTES])
{
	uint64_t top = dir - dir % a->dirs_per_top;
	char name[NAME_BYTES];

	if (!is_filler_dir(a, dir)) {
		dataset_dir_path(a->spec, number_in_data_set(a, dir), path);
		return;
	}
	dataset_dir_path(a->spec, number_in_data_set(a, top), name);
	(void)snprintf(path, NAME_BYTES, "%.16s/x%02" PRIu64, name, dir % a->dirs_per_top);
}

static void file_path(const struct aging *a, uint64_t dir, uint32_t file,
                      char path[static PATH_BYTES])
{
	char folder[NAME_BYTES], name[NAME_BYTES];

	dir_path(a, dir, folder);
	if (is_filler_dir(a, dir) || file >= a->spec->files_per_dir)
		(void)snprintf(name, sizeof(name), "x%07" PRIu64, dir * a->files_per_dir + file);
	else
		dataset_file_name(number_in_data_set(a, dir) * a->spec->files_per_dir + file, name);
	(void)snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static int make_dir(const struct aging *a, uint64_t dir)
{
	uint64_t top = dir - dir % a->dirs_per_top;
	char path[NAME_BYTES];

	dir_path(a, top, path);
	if (mkdirat(a->root, path, 0777) < 0 && errno != EEXIST)
		return -errno;
	dir_path(a, dir, path);
	return dir != top && mkdirat(a->root, path, 0777) < 0 ? -errno : 0;
}

/* A directory is made for the first file in it. */
static int make_file(const struct aging *a, uint64_t dir, uint32_t file)
{
	char path[PATH_BYTES];
	int r;

	file_path(a, dir, file, path);
	r = dataset_write_file(a->root, path, O_CREAT | O_EXCL, 1, DATASET_BUILT);
	if (r != -ENOENT)
		return r;
	r = make_dir(a, dir);
	return r < 0 ? r : dataset_write_file(a->root, path, O_CREAT | O_EXCL, 1, DATASET_BUILT);
}

/* That it is gone already is right: its directory may have had its turn. */
static int remove_path(const struct aging *a, const char *path, int flags)
{
	return unlinkat(a->root, path, flags) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_dir(const struct aging *a, uint64_t dir)
{
	char path[PATH_BYTES];
	int r = 0;

	for (uint32_t file = 0; file < a->files_per_dir && r == 0; file++) {
		file_path(a, dir, file, path);
		r = remove_path(a, path, 0);
	}
	dir_path(a, dir, path);
	return r < 0 ? r : remove_path(a, path, AT_REMOVEDIR);
}

static int take_turn(const struct aging *a, uint64_t dir, uint32_t file)
{
	bool was = file_lives(a, dir, file, a->generation - 1);
	bool is = file_lives(a, dir, file, a->generation);
	char path[PATH_BYTES];

	/* With its first file, whether that was ever made or not. */
	if (file == 0 && dir_lives(a, dir, a->generation - 1) && !dir_lives(a, dir, a->generation))
		return remove_dir(a, dir);
	if (is == was)
		return 0;
	if (is)
		return make_file(a, dir, file);
	file_path(a, dir, file, path);
	return remove_path(a, path, 0);
}

static int run_generation(const struct aging *a, const volatile sig_atomic_t *stop)
{
	uint64_t n = (uint64_t)a->spec->tops * a->dirs_per_top * a->files_per_dir;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		uint64_t item = shuffled(a->generation, i, n);

		if (stop && *stop)
			return -EINTR;
		r = take_turn(a, item / a->files_per_dir, (uint32_t)(item % a->files_per_dir));
	}
	return r;
}

int dataset_build_aged(int dirfd, const char *path, const struct dataset_spec *spec,
                       const volatile sig_atomic_t *stop)
{
	AUTO(base_close) int root = dataset_make_root(dirfd, path);
	struct aging a = {
		.root = root,
		.spec = spec,
		.dirs_per_top = 1 + spec->subs_per_top + (spec->subs_per_top + 1) / 2,
		.files_per_dir = 2 * spec->files_per_dir,
	};
	int r = MIN(root, 0);

	assert(spec->files_per_dir > 0); /* directories come with their files */
	for (a.generation = 1; a.generation <= GENERATIONS && r == 0; a.generation++)
		r = run_generation(&a, stop);
	return r < 0 ? r : dataset_set_times(root, spec);
}
