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
#include <stdarg.h>

enum {
	EXIT_FINE,
	EXIT_WRONG,
	EXIT_USAGE
};

enum option_id {
	O_FORMAT = 256,
	O_OUTPUT,
	O_RUNS,
	O_ENTRIES,
	O_DATASET,
	O_DIR,
	O_KEEP,
	O_DROP,
	O_VERIFY,
	O_NO_PEERS,
	O_LIMIT,
	O_MOUNT,
	O_HDD,
	O_CHECK,
	O_UPDATE,
	O_VERSION,
	O_HELP,
};

static const struct option long_options[] = {
	{ "format", required_argument, NULL, O_FORMAT },
	{ "output", required_argument, NULL, O_OUTPUT },
	{ "runs", required_argument, NULL, O_RUNS },
	{ "entries", required_argument, NULL, O_ENTRIES },
	{ "dataset", required_argument, NULL, O_DATASET },
	{ "dir", required_argument, NULL, O_DIR },
	{ "keep", no_argument, NULL, O_KEEP },
	{ "drop-caches", no_argument, NULL, O_DROP },
	{ "verify-counts", no_argument, NULL, O_VERIFY },
	{ "no-peers", no_argument, NULL, O_NO_PEERS },
	{ "peer-limit", required_argument, NULL, O_LIMIT },
	{ "mount", no_argument, NULL, O_MOUNT },
	{ "hdd", no_argument, NULL, O_HDD },
	{ "check", required_argument, NULL, O_CHECK },
	{ "update", required_argument, NULL, O_UPDATE },
	{ "version", no_argument, NULL, O_VERSION },
	{ "help", no_argument, NULL, O_HELP },
	{ 0 },
};

static const char help[] =
	"usage: bench_tool [OPTION]...\n"
	"\n"
	"Builds a tree of 50,001 entries in a private folder, scans it in all ways, runs other programs\n"
	"on it, prints what each cost, and removes the folder.\n"
	"\n"
	"  --format FORMAT   table, markdown, json or html (default: table)\n"
	"  --output FILE     write the report to FILE\n"
	"  --runs N          rounds; medians are printed (default: 9, fewer on a slow machine)\n"
	"  --entries N       a tree of the same shape with at least N entries\n"
	"  --dataset DIR     measure on an existing tree, which is only read\n"
	"  --dir DIR         where the private folder is made (default: $TMPDIR or /tmp)\n"
	"  --keep            keep the private folder, and say where it is\n"
	"  --drop-caches     empty the kernel's caches before each run (root)\n"
	"  --verify-counts   count system calls with strace too, and compare\n"
	"  --no-peers        leave out other programs\n"
	"  --peer-limit S    end another program after S seconds (default: 60)\n"
	"  --mount           measure the mount instead: against a minimal FUSE program and the tree\n"
	"  --hdd             measure on a simulated rotational disk instead (root)\n"
	"  --check FILE      compare counts on a small tree with FILE; exit status 1 if they differ\n"
	"  --update FILE     write FILE anew\n"
	"  --version, --help\n";

/* -- options --------------------------------------------------------------------------------- */

static bool parse_number(const char *arg, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(arg, &end, 10);
	return *arg >= '0' && *arg <= '9' && *end == '\0' && errno == 0 && *ret >= min &&
	       *ret <= max;
}

static bool parse_unsigned(const char *arg, unsigned max, unsigned *ret)
{
	uint64_t n;

	if (!parse_number(arg, 1, max, &n))
		return false;
	*ret = (unsigned)n;
	return true;
}

static bool parse_format(const char *arg, enum bench_format *ret)
{
	static const char *const names[] = {
		[FORMAT_TABLE] = "table",
		[FORMAT_MARKDOWN] = "markdown",
		[FORMAT_JSON] = "json",
		[FORMAT_HTML] = "html",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(arg, names[i]) == 0) {
			*ret = (enum bench_format)i;
			return true;
		}
	return false;
}

static bool parse_value(struct bench_options *o, int option)
{
	switch (option) {
	case O_FORMAT:
		return parse_format(optarg, &o->format);
	case O_RUNS:
		o->budget_s = 0;
		return parse_unsigned(optarg, RUNS_MAX, &o->runs);
	case O_ENTRIES:
		return parse_number(optarg, 1, 100000000, &o->entries);
	case O_LIMIT:
		return parse_unsigned(optarg, 86400, &o->timeout_s);
	case O_OUTPUT:
		o->output = optarg;
		return true;
	case O_DATASET:
		o->tree = optarg;
		return true;
	case O_DIR:
		o->dir = optarg;
		return true;
	case O_CHECK:
		o->check = optarg;
		return true;
	case O_UPDATE:
		o->update = optarg;
		return true;
	default:
		return false;
	}
}

static bool parse_switch(struct bench_options *o, int option)
{
	switch (option) {
	case O_KEEP:
		return o->keep = true;
	case O_DROP:
		return o->drop_caches = true;
	case O_VERIFY:
		return o->verify = true;
	case O_NO_PEERS:
		return o->no_peers = true;
	case O_MOUNT:
		return o->mount = true;
	case O_HDD:
		return o->hdd = true;
	default:
		return false;
	}
}

static bool are_compatible(const struct bench_options *o)
{
	bool special = o->mount || o->hdd || o->check || o->update;

	if (o->mount + o->hdd + (o->check != NULL) + (o->update != NULL) > 1)
		return false;
	return !o->tree || !(special || o->entries);
}

/* Returns an exit status, or -1 to go on. */
static int parse_options(int argc, char **argv, struct bench_options *o)
{
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == O_HELP || option == O_VERSION) {
			(void)fputs(option == O_HELP ? help
			                             : "bench_tool " DISKTRACKER_VERSION "\n",
			            stdout);
			return fflush(stdout) == 0 ? EXIT_FINE : EXIT_WRONG;
		}
		if (parse_switch(o, option) || (optarg && parse_value(o, option)))
			continue;
		if (option != '?')
			(void)fprintf(stderr, "bench_tool: '%s' is no value for that option\n",
			              optarg);
		return EXIT_USAGE;
	}
	if (optind != argc || !are_compatible(o)) {
		(void)fputs("bench_tool: options don't fit together; see --help\n", stderr);
		return EXIT_USAGE;
	}
	return -1;
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
	b->options =
		(struct bench_options){ .runs = RUNS_DEFAULT, .budget_s = 40, .timeout_s = 60 };
	status = parse_options(argc, argv, &b->options);
	if (status < 0)
		status = run(b) < 0 || b->wrong > 0 ? EXIT_WRONG : EXIT_FINE;
	free(b);
	if (bench_interrupted)
		die_of_signal();
	return status;
}
