/* SPDX-License-Identifier: MIT */
/*
 * gendata - makes the data set in DIR, or takes one of its steps, and prints what a scan must find.
 *
 *     gendata DIR                     50,001 entries
 *     gendata --entries 1000000 DIR   the same shape, larger; 501: the small fixture of the tests
 *     gendata --aged DIR              the same tree, made as years of use would have left it
 *     gendata --step one DIR          then deep, scattered, reset, remove; with the same --entries
 */
#include "base/base.h"
#include "bench/dataset.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

static int build(int dirfd, const char *path, const struct dataset_spec *spec)
{
	return dataset_build(dirfd, path, spec, NULL);
}

static int build_aged(int dirfd, const char *path, const struct dataset_spec *spec)
{
	return dataset_build_aged(dirfd, path, spec, NULL);
}

struct step {
	const char *name;
	int (*run)(int dirfd, const char *path, const struct dataset_spec *spec);
	enum dataset_step reached;
};

static const struct step steps[] = {
	{ "build", build, DATASET_BUILT },
	{ "one", dataset_change_one, DATASET_ONE },
	{ "deep", dataset_change_deep, DATASET_DEEP },
	{ "scattered", dataset_change_scattered, DATASET_SCATTERED },
	{ "reset", dataset_reset, DATASET_BUILT },
	{ "remove", dataset_remove, DATASET_BUILT },
};

static const struct step aged = { "build", build_aged, DATASET_BUILT };

static const struct step *find_step(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (strcmp(steps[i].name, name) == 0)
			return &steps[i];
	return NULL;
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
	(void)fputs(
		"usage: gendata [--entries N] [--aged | --step build|one|deep|scattered|reset|remove] "
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
	const struct step *step = &steps[0];
	struct dataset_totals t;
	int opt, r;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'n' && parse_entries(optarg, &spec))
			continue;
		if (opt == 'a' && (step = &aged))
			continue;
		if (opt == 's' && (step = find_step(optarg)))
			continue;
		return usage();
	}
	if (optind + 1 != argc)
		return usage();
	r = step->run(AT_FDCWD, argv[optind], &spec);
	if (r < 0) {
		(void)fprintf(stderr, "gendata: %s '%s': %s\n", step->name, argv[optind],
		              strerror(-r));
		return 1;
	}
	if (step->run == dataset_remove)
		return 0;
	t = dataset_totals(&spec, step->reached);
	printf("entries %" PRIu64 "\ndirs %" PRIu64 "\nfiles %" PRIu64 "\nbytes %" PRIu64 "\n",
	       t.entries, t.dirs, t.files, t.bytes);
	return 0;
}
