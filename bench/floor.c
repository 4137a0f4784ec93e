/* SPDX-License-Identifier: MIT */
/*
 * floor - the minimal loop of walk_floor.h as a program.
 */
#include "bench/walk_floor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct walk_floor_sums sums;
	unsigned threads = 1;
	int opt;

	while ((opt = getopt(argc, argv, "j:")) == 'j')
		threads = (unsigned)strtoul(optarg, NULL, 10);
	if (opt != -1 || optind + 1 != argc || threads < 1 || threads > WALK_FLOOR_THREADS_MAX) {
		(void)fputs("usage: floor [-j THREADS] PATH\n", stderr);
		return 2;
	}
	walk_floor(argv[optind], threads, &sums);
	printf("entries %" PRIu64 "\ndirs %" PRIu64 "\nbytes %" PRIu64 "\nerrors %" PRIu64
	       "\nsteals %" PRIu64 "\n",
	       sums.entries, sums.dirs, sums.bytes, sums.errors, sums.steals);
	return sums.errors > 0;
}
