/* SPDX-License-Identifier: MIT */
/*
 * child - one run of ours in a process of its own, so that memory and CPU time are those of the run.
 *
 *     bench_tool --child THREADS new|same|none INDEX TREE     scan, with the product's own libraries
 *     bench_tool --child THREADS floor - TREE                 the minimal loop
 *
 * The result goes to descriptor 3 as a struct: both ends are the same program.
 */
#include "bench/bench.h"
#include "bench/walk_floor.h"
#include "snapshot/snapshot.h"

enum {
	RESULT_FD = 3,
	A_THREADS = 2,
	A_MODE,
	A_INDEX,
	A_TREE
};

static const char *mode_of(const struct bench_bar *bar)
{
	switch (bar->kind) {
	case BAR_FLOOR:
		return "floor";
	case BAR_STORE:
		return bar->new_index ? "new" : "same";
	default:
		return "none";
	}
}

int child_args(struct child_args *a, const struct bench_bar *bar, const char *tree,
               const char *index)
{
	ssize_t len = readlink("/proc/self/exe", a->exe, sizeof(a->exe) - 1);

	if (len < 0)
		return -errno;
	a->exe[len] = '\0';
	(void)snprintf(a->threads, sizeof(a->threads), "%u", bar->threads);
	a->argv[0] = a->exe;
	a->argv[1] = (char *)(uintptr_t) "--child";
	a->argv[A_THREADS] = a->threads;
	a->argv[A_MODE] = (char *)(uintptr_t)mode_of(bar);
	a->argv[A_INDEX] = (char *)(uintptr_t)(index ? index : "-");
	a->argv[A_TREE] = (char *)(uintptr_t)tree;
	a->argv[A_TREE + 1] = NULL;
	return 0;
}

int child_run(const struct bench_bar *bar, const char *tree, const char *index, struct spawned *ret,
              struct child_result *result)
{
	struct child_args a;
	char problem[TEXT_BYTES];
	struct spawn s = { .argv = a.argv, .result = result, .result_bytes = sizeof(*result) };
	int r = child_args(&a, bar, tree, index);

	if (r == 0)
		r = bench_spawn(&s, ret);
	if (r == 0)
		ret->sample.scan_ms = (double)result->scan_ns / 1e6;
	if (r < 0 || ret->status == 0)
		return r;
	if (result->error < 0)
		return result->error;
	(void)fprintf(stderr, "bench_tool: a run failed: %s\n", spawned_problem(ret, &s, problem));
	return -EIO;
}

/* -- in the process of the run --------------------------------------------------------------- */

/* The product asks for reports on progress too, so a run here pays for them as well. */
static bool on_progress(void *ctx, const struct scan_progress *p)
{
	(void)ctx;
	(void)p;
	return false;
}

static void take_counts(const struct scan_report *rep, struct child_result *ret)
{
	const struct scan_totals *t = &rep->totals;
	const struct scan_stats *st = &rep->stats;

	ret->counts = (struct bench_counts){
		.files = t->files,
		.dirs = t->dirs + 1,
		.entries = t->entries + 1,
		.apparent = t->apparent,
		.bytes = t->bytes,
		.openat = st->openat,
		.statx = st->statx,
		.getdents = st->getdents64,
		.close = st->close,
		.errors = totals_problems(t),
		.readers = st->readers,
	};
	ret->scan_ns = st->wall_ns;
	memcpy(ret->storage, st->storage, sizeof(ret->storage));
	memcpy(ret->evidence, st->storage_evidence, sizeof(ret->evidence));
	(void)snprintf(ret->readers_log, sizeof(ret->readers_log), "%s", st->readers_log);
}

static int store(const char *tree, const struct scan_options *options, struct snap_writer *w,
                 struct child_result *ret)
{
	struct scan_report rep;
	struct snap_info info;
	int r = scan_run(tree, options, snap_write_sink(w), &rep);

	if (r < 0) {
		snap_write_abort(w);
		return r;
	}
	take_counts(&rep, ret);
	r = snap_write_commit(w, &rep, &info);
	scan_report_done(&rep);
	if (r < 0)
		return r;
	ret->counts.nodes_written = info.details->nodes_written;
	snap_info_done(&info);
	return 0;
}

static int scan_and_store(const char *tree, const char *index, const struct scan_options *options,
                          struct child_result *ret)
{
	AUTO(snap_close) struct snap *s = NULL;
	AUTO(base_free) char *root = NULL;
	struct snap_writer *w;
	int r = scan_root_path(tree, &root);

	if (r == 0)
		r = snap_open(index, SNAP_WRITE, &s);
	if (r == 0)
		r = snap_write_begin(s, root, SNAP_WARM, &w);
	if (r == 0)
		r = store(tree, options, w, ret);
	if (r == 0)
		ret->counts.index_bytes = snap_file_bytes(s);
	return r;
}

static int scan_only(const char *tree, const struct scan_options *options, struct child_result *ret)
{
	struct scan_report rep;
	int r = scan_run(tree, options, NULL, &rep);

	if (r < 0)
		return r;
	take_counts(&rep, ret);
	scan_report_done(&rep);
	return 0;
}

static void run_floor(const char *tree, unsigned threads, struct child_result *ret)
{
	struct walk_floor_sums sums;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	walk_floor(tree, threads, &sums);
	ret->scan_ns = clock_ns(CLOCK_MONOTONIC) - start;
	ret->counts.entries = sums.entries;
	ret->counts.dirs = sums.dirs;
	ret->counts.files = sums.entries - sums.dirs;
	ret->counts.bytes = sums.bytes;
	ret->counts.errors = sums.errors;
	ret->counts.readers = threads;
}

int child_main(char **argv)
{
	struct scan_options options = { .progress = on_progress };
	struct child_result result = { 0 };
	const char *mode = argv[A_MODE];

	options.threads = (unsigned)strtoul(argv[A_THREADS], NULL, 10);
	if (strcmp(mode, "floor") == 0)
		run_floor(argv[A_TREE], options.threads, &result);
	else if (strcmp(mode, "none") == 0)
		result.error = scan_only(argv[A_TREE], &options, &result);
	else
		result.error = scan_and_store(argv[A_TREE], argv[A_INDEX], &options, &result);
	if (write(RESULT_FD, &result, sizeof(result)) != (ssize_t)sizeof(result))
		return 1;
	return result.error < 0;
}
