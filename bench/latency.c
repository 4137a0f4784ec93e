/* SPDX-License-Identifier: MIT */
/*
 * latency - see latency.h.
 */
#include "bench/latency.h"
#include "bench/bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum {
	READ_BYTES = 64 * 1024,
	DENTS_BYTES = 32 * 1024,
	ROUNDS = 25,
};

struct scratch {
	_Alignas(8) char bytes[MAX(READ_BYTES, DENTS_BYTES)];
};

/* One operation. Returns how many things it handled (files, entries), or -errno. */
typedef int64_t operation(const char *path, struct scratch *scratch);

struct mode {
	operation *run;
	unsigned ops_per_sample, samples_per_turn;
};

static int64_t open_read_close(const char *path, struct scratch *scratch)
{
	AUTO(base_close) int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, scratch->bytes, READ_BYTES) < 0)
		return -errno;
	return 1;
}

static int64_t stat_path(const char *path, struct scratch *scratch)
{
	struct stat st;

	(void)scratch;
	return lstat(path, &st) < 0 ? -errno : 1;
}

static int64_t read_names(const char *path, struct scratch *scratch)
{
	AUTO(base_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent64 *d;
	int64_t names = 0;
	ssize_t len;

	if (fd < 0)
		return -errno;
	while ((len = getdents64(fd, scratch->bytes, DENTS_BYTES)) > 0)
		for (char *p = scratch->bytes; p < scratch->bytes + len; p += d->d_reclen) {
			d = (const struct dirent64 *)(const void *)p;
			names += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
		}
	return len < 0 ? -errno : names;
}

static const struct mode modes[] = {
	[LATENCY_OPEN] = { open_read_close, 8, 16 },
	[LATENCY_STAT] = { stat_path, 8, 16 },
	[LATENCY_READDIR] = { read_names, 1, 1 },
};

static int take_turn(const struct mode *mode, struct latency *l, struct scratch *scratch)
{
	for (unsigned i = 0; i < mode->samples_per_turn; i++) {
		uint64_t start = clock_ns(CLOCK_MONOTONIC);

		for (unsigned k = 0; k < mode->ops_per_sample; k++) {
			l->handled = mode->run(l->path, scratch);
			if (l->handled < 0)
				return (int)l->handled;
		}
		l->samples[l->n++] =
			(double)(clock_ns(CLOCK_MONOTONIC) - start) / 1000 / mode->ops_per_sample;
	}
	return 0;
}

static int take_turns(const struct mode *mode, struct latency *l, size_t n, const char **failed)
{
	struct scratch scratch;

	/* The first round warms up and does not count. */
	for (unsigned round = 0; round <= ROUNDS; round++)
		for (size_t i = 0; i < n; i++) {
			int r = take_turn(mode, &l[i], &scratch);

			*failed = l[i].path;
			if (r < 0)
				return r;
			if (round == 0)
				l[i].n = 0;
		}
	for (size_t i = 0; i < n; i++)
		l[i].us = median_of(l[i].samples, l[i].n) / (double)MAX(l[i].handled, 1);
	return 0;
}

int latency_measure(enum latency_op op, struct latency *l, size_t n, const char **failed)
{
	size_t samples = (size_t)ROUNDS * modes[op].samples_per_turn;
	AUTO(base_free) double *all = calloc(n * samples, sizeof(*all));

	*failed = l[0].path;
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		l[i] = (struct latency){ .path = l[i].path, .samples = all + i * samples };
	return take_turns(&modes[op], l, n, failed);
}
