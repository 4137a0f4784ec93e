/* SPDX-License-Identifier: MIT */
/*
 * gendata - makes the data set in DIR, or takes one of its steps, and prints what a scan must find.
 *
 *     gendata DIR                     50,001 entries
 *     gendata --entries 1000000 DIR   the same shape, larger; 501: the small fixture of the tests
 *     gendata --aged DIR              the same tree, made as years of use would have left it
 *     gendata --step one DIR          then deep, scattered, reset; with the same --entries
 */
#include "base/base.h"
#include "bench/dataset.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const steps[] = { "build", "one", "deep", "scattered", "reset" };

enum {
	RESET = ARRAY_SIZE(steps) - 1
};

static int find_step(const char *name)
{
	int i = RESET;

	while (i >= 0 && strcmp(steps[i], name) != 0)
		i--;
	return i;
}

static int run(int step, bool aged, const char *path, const struct dataset_spec *spec)
{
	if (step == RESET)
		return dataset_reset(AT_FDCWD, path, spec);
	if (step > 0)
		return dataset_change(AT_FDCWD, path, spec, (enum dataset_step)step);
	return (aged ? dataset_build_aged : dataset_build)(AT_FDCWD, path, spec, NULL);
}

static bool parse_entries(const char *text, struct dataset_spec *ret)
{
	char *end;

	errno = 0;
	*ret = dataset_spec_entries(strtoull(text, &end, 10));
	return errno == 0 && end != text && *end == '\0';
}

static int usage(void)
{
	(void)fputs("usage: gendata [--entries N] [--aged | --step build|one|deep|scattered|reset] "
	            "DIR\n",
	            stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "aged", no_argument, NULL, 'a' },
		{ "entries", required_argument, NULL, 'n' },
		{ "step", required_argument, NULL, 's' },
		{ 0 },
	};
	struct dataset_spec spec = dataset_spec_full();
	struct dataset_totals t;
	bool aged = false;
	int step = 0, opt, r;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'n' && parse_entries(optarg, &spec))
			continue;
		if (opt == 'a' && (aged = true))
			continue;
		if (opt == 's' && (step = find_step(optarg)) >= 0)
			continue;
		return usage();
	}
	if (optind + 1 != argc || (aged && step))
		return usage();
	r = run(step, aged, argv[optind], &spec);
	if (r < 0) {
		(void)fprintf(stderr, "gendata: %s '%s': %s\n", steps[step], argv[optind],
		              strerror(-r));
		return 1;
	}
	t = dataset_totals(&spec, step == RESET ? DATASET_BUILT : (enum dataset_step)step);
	printf("entries %" PRIu64 "\ndirs %" PRIu64 "\nfiles %" PRIu64 "\nbytes %" PRIu64 "\n",
	       t.entries, t.dirs, t.files, t.bytes);
	return 0;
}
