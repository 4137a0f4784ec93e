/* SPDX-License-Identifier: MIT */
/*
 * lat - compares how long the same operation takes on several files or directories.
 *
 *     lat open FILE...      open, read of 64 KiB, close: median microseconds
 *     lat stat FILE...      stat
 *     lat readdir DIR...    a whole listing: entries per second
 *
 * Ratios are to the first argument and of time per file or entry: 2 is twice as slow, always.
 */
#include "bench/latency.h"

#include "base/base.h"

#include <getopt.h>
#include <stdio.h>

static const char *const names[] = {
	[LATENCY_OPEN] = "open",
	[LATENCY_STAT] = "stat",
	[LATENCY_READDIR] = "readdir",
};

static bool find_op(const char *name, enum latency_op *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (name && strcmp(names[i], name) == 0) {
			*ret = (enum latency_op)i;
			return true;
		}
	return false;
}

static int compare(enum latency_op op, char **paths, size_t n, unsigned rounds)
{
	AUTO(base_free) struct latency *l = calloc(n, sizeof(*l));
	const char *failed = paths[0];
	int r = l ? 0 : -ENOMEM;

	for (size_t i = 0; l && i < n; i++)
		l[i].path = paths[i];
	if (l)
		r = latency_measure(op, rounds, l, n, &failed);
	if (r < 0) {
		(void)fprintf(stderr, "lat: %s '%s': %s\n", names[op], failed, strerror(-r));
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		if (op == LATENCY_READDIR)
			printf("%12.0f entries/s", 1e6 / l[i].us);
		else
			printf("%10.3f us", l[i].us);
		printf("  %7.3f  %s\n", l[i].us / l[0].us, l[i].path);
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned rounds = LATENCY_ROUNDS;
	enum latency_op op;
	int opt;

	while ((opt = getopt(argc, argv, "n:")) == 'n')
		rounds = (unsigned)strtoul(optarg, NULL, 10);
	if (opt != -1 || !find_op(argv[optind], &op) || optind + 1 >= argc || rounds < 1 ||
	    rounds > LATENCY_ROUNDS_MAX) {
		(void)fputs("usage: lat [-n ROUNDS] open|stat|readdir PATH...\n", stderr);
		return 2;
	}
	return compare(op, argv + optind + 1, (size_t)(argc - optind - 1), rounds);
}
