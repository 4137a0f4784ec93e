/* SPDX-License-Identifier: MIT */
/*
 * bench_tool - what a scan costs on this machine, side by side with other programs and with the
 * least that is possible.
 *
 *     options             parse_options
 *     a private folder    workdir_make
 *     the tree            plan_build
 *     the rounds          plan_run, then verify_run, mount_run, hdd_run if asked for
 *     the report          report_write
 *     remove the folder   also after a failure or a signal
 */
#include "bench/bench.h"

#include <getopt.h>

enum {
	EXIT_FINE,
	EXIT_WRONG,
	EXIT_USAGE
};

/* -- options --------------------------------------------------------------------------------- */

enum option_type {
	SWITCH, /* bool */
	STRING, /* const char * */
	NUMBER, /* unsigned, from 1 */
	LARGE,  /* uint64_t, from 1 */
	FORMAT, /* enum table_format */
};

#define AT(field) offsetof(struct bench_options, field)

/* In the order of --help. */
/* clang-format off */
static const struct option_row {
	const char *name, *value;
	enum option_type type;
	size_t offset;
	uint64_t max;
	const char *help;
} rows[] = {
	{ "format", "FORMAT", FORMAT, AT(format), 0, "table, markdown, json or html (default: table)" },
	{ "output", "FILE", STRING, AT(output), 0, "write the report to FILE" },
	{ "runs", "N", NUMBER, AT(runs), RUNS_MAX,
	  "rounds; medians are printed (default: 9, fewer on a slow machine)" },
	{ "entries", "N", LARGE, AT(entries), 100000000, "a tree of the same shape with at least N entries" },
	{ "dataset", "DIR", STRING, AT(tree), 0, "measure on an existing tree, which is only read" },
	{ "dir", "DIR", STRING, AT(dir), 0, "where the private folder is made (default: $TMPDIR or /tmp)" },
	{ "keep", "", SWITCH, AT(keep), 0, "keep the private folder, and say where it is" },
	{ "drop-caches", "", SWITCH, AT(drop_caches), 0, "empty the kernel's caches before each run (root)" },
	{ "verify-counts", "", SWITCH, AT(verify), 0, "count system calls with strace too, and compare" },
	{ "no-peers", "", SWITCH, AT(no_peers), 0, "leave out other programs" },
	{ "peer-limit", "S", NUMBER, AT(timeout_s), 86400, "end another program after S seconds (default: 60)" },
	{ "mount", "", SWITCH, AT(mount), 0,
	  "measure the mount instead: against a minimal FUSE program and the tree" },
	{ "hdd", "", SWITCH, AT(hdd), 0, "measure on a simulated rotational disk instead (root)" },
	{ "check", "FILE", STRING, AT(check), 0,
	  "compare counts on a small tree with FILE; exit status 1 if they differ" },
	{ "update", "FILE", STRING, AT(update), 0, "write FILE anew" },
};
/* clang-format on */

enum {
	O_HELP = ARRAY_SIZE(rows),
	O_VERSION,
	OPTIONS,
	O_FIRST = 256, /* above all characters, so that '?' is none of them */
};

static int print_help(void)
{
	char option[32];

	(void)fputs(
		"usage: bench_tool [OPTION]...\n\n"
		"Builds a tree of 50,001 entries in a private folder, scans it in all ways, runs "
		"other programs\non it, prints what each cost, and removes the folder.\n\n",
		stdout);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(option, sizeof(option), "%s %s", rows[i].name, rows[i].value);
		printf("  --%-15s %s\n", option, rows[i].help);
	}
	(void)fputs("  --version, --help\n", stdout);
	return fflush(stdout) == 0 ? EXIT_FINE : EXIT_WRONG;
}

static bool parse_number(const char *arg, uint64_t max, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(arg, &end, 10);
	return *arg >= '0' && *arg <= '9' && *end == '\0' && errno == 0 && *ret >= 1 && *ret <= max;
}

static bool parse_format(const char *arg, enum table_format *ret)
{
	static const char *const names[] = {
		[FORMAT_TABLE] = "table",
		[FORMAT_MARKDOWN] = "markdown",
		[FORMAT_JSON] = "json",
		[FORMAT_HTML] = "html",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(arg, names[i]) == 0) {
			*ret = (enum table_format)i;
			return true;
		}
	return false;
}

static bool parse_value(struct bench_options *o, const struct option_row *row)
{
	void *at = (char *)o + row->offset;
	uint64_t n;

	switch (row->type) {
	case SWITCH:
		return *(bool *)at = true;
	case STRING:
		*(const char **)at = optarg;
		return true;
	case FORMAT:
		return parse_format(optarg, at);
	default:
		if (!parse_number(optarg, row->max, &n))
			return false;
		if (row->type == LARGE)
			*(uint64_t *)at = n;
		else
			*(unsigned *)at = (unsigned)n;
		return true;
	}
}

static bool are_compatible(const struct bench_options *o)
{
	int special = o->mount + o->hdd + (o->check != NULL) + (o->update != NULL);

	return special <= 1 && !(o->tree && (special || o->entries));
}

/* Returns an exit status, or -1 to go on. */
static int parse_options(int argc, char **argv, struct bench_options *o)
{
	struct option options[OPTIONS + 1] = {
		[O_HELP] = { "help", no_argument, NULL, O_FIRST + O_HELP },
		[O_VERSION] = { "version", no_argument, NULL, O_FIRST + O_VERSION },
	};
	int option;

	for (int i = 0; i < (int)ARRAY_SIZE(rows); i++)
		options[i] =
			(struct option){ rows[i].name, rows[i].type != SWITCH, NULL, O_FIRST + i };
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == O_FIRST + O_HELP)
			return print_help();
		if (option == O_FIRST + O_VERSION)
			return puts("bench_tool " DISKTRACKER_VERSION) < 0 || fflush(stdout) != 0;
		if (option < O_FIRST)
			return EXIT_USAGE; /* getopt has said why */
		if (!parse_value(o, &rows[option - O_FIRST])) {
			(void)fprintf(stderr, "bench_tool: '%s' is no value for --%s\n", optarg,
			              rows[option - O_FIRST].name);
			return EXIT_USAGE;
		}
	}
	if (o->runs)
		o->budget_s = 0;
	else
		o->runs = RUNS_DEFAULT;
	if (optind == argc && are_compatible(o))
		return -1;
	if (optind < argc)
		(void)fprintf(stderr, "bench_tool: '%s' is no option; see --help\n", argv[optind]);
	else
		(void)fputs("bench_tool: options don't fit together; see --help\n", stderr);
	return EXIT_USAGE;
}

/* -- flow ------------------------------------------------------------------------------------ */

static int failed(const char *what, int error)
{
	bench_progress("%s", "");
	if (error == -EINTR && bench_interrupted)
		(void)fprintf(stderr, "bench_tool: interrupted\n");
	else
		(void)fprintf(stderr, "bench_tool: %s: %s\n", what, strerror(-error));
	return error;
}

static int measure(struct bench *b)
{
	int r = plan_build(b);

	if (r < 0)
		return failed(b->options.tree ? b->options.tree : "building the data set", r);
	machine_get(&b->machine, b->tree);
	if (b->options.mount) {
		r = mount_run(b);
		return r < 0 ? failed("measuring the mount", r) : 0;
	}
	plan_bars(b);
	r = plan_run(b);
	if (r < 0)
		return failed("measuring", r);
	r = b->options.verify ? verify_run(b) : 0;
	return r < 0 ? failed("counting with strace", r) : 0;
}

static int measure_and_report(struct bench *b)
{
	int r;

	if (b->options.check || b->options.update) {
		r = check_run(b);
		return r < 0 && r != -EBADMSG ? failed("check", r) : r;
	}
	if (b->options.hdd) {
		machine_get(&b->machine, b->work.path);
		r = hdd_run(b);
		if (r < 0)
			return failed("measuring on a simulated disk", r);
	} else {
		r = measure(b);
		if (r < 0)
			return r;
	}
	r = report_write(b);
	return r < 0 ? failed("writing the report", r) : 0;
}

static int run(struct bench *b)
{
	int r;

	bench_catch_signals();
	b->work.keep = b->options.keep;
	r = workdir_make(&b->work, b->options.dir);
	if (r < 0)
		return failed(b->options.dir ? b->options.dir : "making a private folder", r);
	r = measure_and_report(b);
	workdir_remove(&b->work);
	for (size_t i = 0; i < b->n_bars; i++)
		free(b->bar[i].sample);
	return r;
}

/* As a shell says it: who was ended by a signal dies of it. */
static void die_of_signal(void)
{
	(void)signal(bench_interrupted, SIG_DFL);
	(void)raise(bench_interrupted);
}

int main(int argc, char **argv)
{
	struct bench *b;
	int status;

	if (argc == 6 && strcmp(argv[1], "--child") == 0)
		return child_main(argv);
	b = calloc(1, sizeof(*b));
	if (!b)
		return EXIT_WRONG;
	b->options = (struct bench_options){ .budget_s = 40, .timeout_s = 60 };
	status = parse_options(argc, argv, &b->options);
	if (status < 0)
		status = run(b) < 0 || b->wrong > 0 ? EXIT_WRONG : EXIT_FINE;
	free(b);
	if (bench_interrupted)
		die_of_signal();
	return status;
}
