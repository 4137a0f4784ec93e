/* SPDX-License-Identifier: MIT */
/*
 * plan - the bars, and the rounds in which they are measured.
 *
 *     plan_bars       what is there to measure
 *     plan_build      the tree
 *     plan_run        peers' totals once, which also warms up; then the rounds:
 *       fresh bars      each round starts with another one, so none always runs after the same
 *       warm bars       change the tree, scan it into the index that "auto cold" has just made
 *       reset           the tree is as before
 *
 * All bars take their turn in each round, so that what else the machine does hits all alike.
 */
#include "bench/bench.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

static const struct bench_bar own_bars[] = {
	{ "scan-1", "scan only, 1 reader", BAR_SCAN, .threads = 1 },
	{ "scan-2", "scan only, 2 readers", BAR_SCAN, .threads = 2 },
	{ "scan-4", "scan only, 4 readers", BAR_SCAN, .threads = 4 },
	{ "scan-8", "scan only, 8 readers", BAR_SCAN, .threads = 8 },
	{ "scan-auto", "scan only, auto", BAR_SCAN, .threads = 0 },
	{ "store-1", "serial cold", BAR_STORE, .threads = 1, .new_index = true },
	{ "store-2", "cold, 2 readers", BAR_STORE, .threads = 2, .new_index = true },
	{ "store-4", "cold, 4 readers", BAR_STORE, .threads = 4, .new_index = true },
	{ "store-8", "cold, 8 readers", BAR_STORE, .threads = 8, .new_index = true },
	{ "store-auto", "auto cold", BAR_STORE, .new_index = true },
	{ "warm-unchanged", "warm, unchanged", BAR_STORE, .step = DATASET_BUILT },
	{ "warm-one", "warm, 1 file changed", BAR_STORE, .step = DATASET_ONE },
	{ "warm-deep", "warm, deep change", BAR_STORE, .step = DATASET_DEEP },
	{ "warm-scattered", "warm, scattered changes", BAR_STORE, .step = DATASET_SCATTERED },
	{ "floor-1", "floor, 1 thread", BAR_FLOOR, .threads = 1 },
	{ "floor-2", "floor, 2 threads", BAR_FLOOR, .threads = 2 },
};

static bool is_warm(const struct bench_bar *bar)
{
	return bar->kind == BAR_STORE && !bar->new_index;
}

/* -- bars ------------------------------------------------------------------------------------ */

static void add_bar(struct bench *b, const struct bench_bar *bar)
{
	/* An existing tree is only read: what needs changes is left out. */
	if (b->options.tree && is_warm(bar) && bar->step != DATASET_BUILT)
		return;
	b->bar[b->n_bars++] = *bar;
}

void plan_bars(struct bench *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_bars); i++)
		add_bar(b, &own_bars[i]);
	for (size_t i = 0; i < PEERS && !b->options.no_peers; i++) {
		const struct peer *p = &bench_peers[i];

		peer_find(p, &b->work, &b->peer[i]);
		if (b->peer[i].path[0])
			add_bar(b, &(struct bench_bar){ .key = p->name,
			                                .label = p->name,
			                                .kind = BAR_PEER,
			                                .peer = p });
	}
}

/* -- the tree -------------------------------------------------------------------------------- */

int plan_build(struct bench *b)
{
	if (b->options.tree) {
		if (!realpath(b->options.tree, b->tree))
			return -errno;
		return 0;
	}
	b->spec =
		b->options.entries ? dataset_spec_entries(b->options.entries) : dataset_spec_full();
	(void)workdir_path(&b->work, "data", b->tree);
	bench_progress("building %llu entries",
	               (unsigned long long)dataset_totals(&b->spec, DATASET_BUILT).entries);
	return dataset_build(AT_FDCWD, b->tree, &b->spec, &bench_interrupted);
}

/* What a scan must have found. In an existing tree, what the first one found. */
static struct dataset_totals expected_totals(const struct bench *b, const struct bench_bar *bar)
{
	const struct bench_counts *first = &b->bar[0].counts;

	if (!b->options.tree)
		return dataset_totals(&b->spec, bar->step);
	return (struct dataset_totals){ first->entries, first->dirs, first->files,
		                        first->apparent };
}

void plan_check(struct bench *b, const struct bench_bar *bar, const struct bench_counts *c)
{
	struct dataset_totals want = expected_totals(b, bar);
	bool floor = bar->kind == BAR_FLOOR, existing = b->options.tree != NULL;
	/* One open and at most two reads a directory, one stat an entry; in any order. */
	const struct {
		const char *what;
		uint64_t is, least, most;
	} rules[] = {
		{ "files", c->files, want.files, want.files },
		{ "directories", c->dirs, want.dirs, want.dirs },
		{ "entries", c->entries, want.entries, want.entries },
		{ "bytes", floor ? want.bytes : c->apparent, want.bytes, want.bytes },
		{ "openat", c->openat, 0, c->dirs },
		{ "statx", c->statx, 0, c->entries },
		{ "getdents64", c->getdents, 0, 2 * c->dirs },
	};
	/* The floor crosses mounts: of an existing tree it may see more. */
	size_t n = floor && existing ? 0 : floor || existing ? 4 : ARRAY_SIZE(rules);

	for (size_t i = 0; i < n; i++)
		if (rules[i].is < rules[i].least || rules[i].is > rules[i].most)
			bench_wrong(b, "%s: %" PRIu64 " %s; must be %s%" PRIu64 "%s", bar->label,
			            rules[i].is, rules[i].what, rules[i].least ? "" : "at most ",
			            rules[i].most,
			            existing ? ", as in the first run: did the tree change?" : "");
}

/* Of the run that chose its readers itself. */
void plan_take_storage(struct bench *b, const struct child_result *result)
{
	memcpy(b->storage, result->storage, sizeof(b->storage));
	memcpy(b->evidence, result->evidence, sizeof(b->evidence));
	b->auto_readers = result->counts.readers;
}

/* -- one run --------------------------------------------------------------------------------- */

static void index_path(const struct bench *b, const struct bench_bar *bar, char *path)
{
	char name[NAME_MAX];

	(void)snprintf(name, sizeof(name), "%s.db", is_warm(bar) ? "store-auto" : bar->key);
	(void)workdir_path(&b->work, name, path);
}

static void remove_index(const char *path)
{
	static const char *const suffixes[] = { "", "-wal", "-shm" };
	char name[PATH_MAX + 8];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		(void)snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
		(void)unlink(name);
	}
}

static void take_result(struct bench *b, struct bench_bar *bar, const struct child_result *result)
{
	struct bench_counts last = bar->counts, now = result->counts;

	bar->counts = now;
	last.index_bytes = now.index_bytes; /* in pages; not worth a remark */
	bar->vary |= bar->n > 0 && memcmp(&last, &now, sizeof(now)) != 0;
	plan_check(b, bar, &now);
	if (strcmp(bar->key, "scan-auto") == 0)
		plan_take_storage(b, result);
}

static int run_own(struct bench *b, struct bench_bar *bar, struct spawned *done)
{
	struct child_result result;
	char index[PATH_MAX];
	int r;

	index_path(b, bar, index);
	if (bar->new_index)
		remove_index(index);
	r = child_run(bar, b->tree, index, done, &result);
	if (r == 0)
		take_result(b, bar, &result);
	else if (r != -EINTR)
		(void)fprintf(stderr, "bench_tool: %s: %s\n", bar->label, strerror(-r));
	return r;
}

static int run_peer(struct bench *b, struct bench_bar *bar, struct spawned *done)
{
	struct peer_args a;
	struct spawn s = { .argv = a.argv,
		           .home = b->work.path,
		           .timeout_s = b->options.timeout_s };
	int r;

	peer_args(&a, &b->peer[bar->peer - bench_peers], bar->peer->args, b->tree, &b->work);
	r = bench_spawn(&s, done);
	bar->failed = r == 0 && spawned_problem(done, &s, bar->problem);
	return r;
}

static int run_bar(struct bench *b, struct bench_bar *bar)
{
	struct spawned done;
	int r;

	if (bar->failed)
		return 0;
	bench_progress("round %u of %u: %s", b->rounds + 1, b->options.runs, bar->label);
	r = b->options.drop_caches ? bench_drop_caches() : 0;
	if (r == 0)
		r = bar->kind == BAR_PEER ? run_peer(b, bar, &done) : run_own(b, bar, &done);
	if (r < 0 || bar->failed)
		return r;
	done.sample.round = b->rounds;
	bar->sample[bar->n++] = done.sample;
	return 0;
}

/* -- rounds ---------------------------------------------------------------------------------- */

/* All that are warm, in order, or all others, beginning with another one in each round. */
static int run_bars(struct bench *b, bool warm)
{
	int r = 0;

	for (size_t i = 0; i < b->n_bars && r == 0; i++) {
		struct bench_bar *bar = &b->bar[warm ? i : (i + b->rounds) % b->n_bars];

		if (is_warm(bar) != warm)
			continue;
		r = dataset_change(AT_FDCWD, b->tree, &b->spec, bar->step);
		if (r == 0)
			r = run_bar(b, bar);
	}
	return r;
}

/* Peers add up disk space by rules of their own: once, untimed, with a look at the sum. */
static int compare_peers(struct bench *b)
{
	struct bench_bar first = b->bar[0];
	struct child_result result;
	struct spawned done;
	int r;

	bench_progress("comparing totals");
	r = tree_sums_get(b->tree, &b->sums);
	if (r == 0)
		r = child_run(&first, b->tree, NULL, &done, &result);
	if (r < 0)
		return r;
	b->bar[0].counts = result.counts; /* what later runs of an existing tree must find */
	b->sums.once = result.counts.bytes;
	for (size_t i = 0; i < b->n_bars && r == 0; i++) {
		struct bench_bar *bar = &b->bar[i];

		if (bar->kind == BAR_PEER)
			r = peer_compare(bar, &b->peer[bar->peer - bench_peers], b->tree, &b->work,
			                 &b->sums, b->options.timeout_s);
	}
	return r;
}

static bool is_enough(const struct bench *b, uint64_t start_ns)
{
	uint64_t seconds = (clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000000000u;

	return b->rounds >= b->options.runs ||
	       (b->options.budget_s && b->rounds >= 3 && seconds >= b->options.budget_s);
}

int plan_run(struct bench *b)
{
	struct machine_use use;
	int r = 0;

	for (size_t i = 0; i < b->n_bars && r == 0; i++) {
		b->bar[i].sample = calloc(b->options.runs, sizeof(*b->bar[i].sample));
		r = b->bar[i].sample ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = compare_peers(b);
	machine_use_get(&use);
	while (r == 0 && !is_enough(b, use.wall_ns)) {
		r = run_bars(b, false);
		if (r == 0)
			r = run_bars(b, true);
		if (r == 0 && !b->options.tree)
			r = dataset_reset(AT_FDCWD, b->tree, &b->spec);
		if (r == 0)
			b->rounds++;
	}
	b->foreign = machine_foreign(&use);
	for (size_t i = 0; i < b->n_bars; i++)
		bench_median(&b->bar[i]);
	bench_progress("%s", "");
	return r;
}
