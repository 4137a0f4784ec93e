/* SPDX-License-Identifier: MIT */
/*
 * targets - numbers from samples, and the goals they are held against.
 */
#include "bench/bench.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *v, size_t n)
{
	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

enum field {
	WALL,
	USER,
	SYS,
	RSS,
	SCAN
};

static double field_of(const struct bench_sample *s, enum field field)
{
	switch (field) {
	case WALL:
		return s->wall_ms;
	case USER:
		return s->user_ms;
	case SYS:
		return s->sys_ms;
	case RSS:
		return (double)s->rss_kb;
	default:
		return s->scan_ms;
	}
}

/* v becomes sorted. */
static double field_median(const struct bench_bar *bar, enum field field, double *v)
{
	for (size_t i = 0; i < bar->n; i++)
		v[i] = field_of(&bar->sample[i], field);
	return median_of(v, bar->n);
}

struct bench_median bench_median(const struct bench_bar *bar)
{
	double v[RUNS_MAX] = { 0 };
	struct bench_median m = { 0 };

	if (bar->n == 0)
		return m;
	m.wall_ms = field_median(bar, WALL, v);
	m.min_ms = v[0];
	m.max_ms = v[bar->n - 1];
	m.user_ms = field_median(bar, USER, v);
	m.sys_ms = field_median(bar, SYS, v);
	m.scan_ms = field_median(bar, SCAN, v);
	m.rss_kb = (uint64_t)field_median(bar, RSS, v);
	return m;
}

double bench_ratio(const struct bench_bar *bar, const struct bench_bar *base)
{
	double v[RUNS_MAX] = { 0 };
	size_t n = 0;

	if (!bar || !base)
		return 0;
	/* Samples are in the order of rounds; a bar that failed lacks the later ones. */
	for (size_t i = 0; i < MIN(bar->n, base->n); i++)
		if (bar->sample[i].round == base->sample[i].round && base->sample[i].wall_ms > 0)
			v[n++] = bar->sample[i].wall_ms / base->sample[i].wall_ms;
	return median_of(v, n);
}

/* -- goals ----------------------------------------------------------------------------------- */

static const struct target warm_targets[] = {
	{ "scan only, 2 readers / floor with 2 threads", "scan-2", "floor-2", 1.06, 0 },
	{ "scan only, 2 readers / fastest peer that stats", "scan-2", "fastest", 0.41, 0 },
	{ "scan only, 1 reader / floor with 1 thread", "scan-1", "floor-1", 1.02, 0 },
	{ "scan only, 1 reader / du", "scan-1", "du", 0.74, 0 },
	{ "scan and store, 2 readers / floor with 2 threads", "store-2", "floor-2", 1.12, 0 },
	{ "scan and store, 2 readers / du", "store-2", "du", 0.45, 0 },
	{ "scan and store, 2 readers / duc", "store-2", "duc", 0.40, 0 },
	{ "unchanged rescan / floor with 2 threads", "warm-unchanged", "floor-2", 1.06, 0 },
};

static const struct target cold_targets[] = {
	{ "caches dropped: scan only, auto / du", "scan-auto", "du", 0.36, 0 },
};

/* bar is the group of measures; what is measured is the ratio of its first one to its last. */
static const struct target hdd_targets[] = {
	{ "simulated disk: scan only, auto / 1 thread in directory order", HDD_FRESH, NULL, 0.11,
	  0 },
	{ "simulated disk, first half cached: the same", HDD_CACHED, NULL, 0.11, 0 },
	{ "simulated disk, aged image: the same", HDD_AGED, NULL, 0.11, 0 },
};

static size_t get_hdd_targets(const struct bench *b, struct target ret[static TARGETS_MAX])
{
	for (size_t i = 0; i < ARRAY_SIZE(hdd_targets); i++) {
		ret[i] = hdd_targets[i];
		for (size_t m = b->n_measures; m-- > 0;)
			if (strcmp(b->measure[m].group, ret[i].bar) == 0)
				ret[i].value = b->measure[m].ratio;
	}
	return ARRAY_SIZE(hdd_targets);
}

static double value_of(const struct bench *b, const struct target *t)
{
	const struct bench_bar *base = strcmp(t->base, "fastest") == 0 ? bench_fastest_peer(b)
	                                                               : bench_find_bar(b, t->base);

	return bench_ratio(bench_find_bar(b, t->bar), base);
}

static double largest_rss_mb(const struct bench *b)
{
	uint64_t kb = 0;

	for (size_t i = 0; i < b->n_bars; i++)
		if (b->bar[i].kind == BAR_SCAN || b->bar[i].kind == BAR_STORE)
			kb = MAX(kb, bench_median(&b->bar[i]).rss_kb);
	return (double)kb / 1024;
}

/* 8 MB on the data set, 4 MB and 16 bytes an entry on a larger tree. */
static double rss_limit_mb(const struct bench *b)
{
	return MAX(8, 4 + (double)b->bar[0].counts.entries * 16 / (1 << 20));
}

size_t targets_get(const struct bench *b, struct target ret[static TARGETS_MAX])
{
	const struct target *list = b->options.drop_caches ? cold_targets : warm_targets;
	size_t n = b->options.drop_caches ? ARRAY_SIZE(cold_targets) : ARRAY_SIZE(warm_targets);

	if (b->options.hdd)
		return get_hdd_targets(b, ret);
	if (b->rounds == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		ret[i] = list[i];
		ret[i].value = value_of(b, &ret[i]);
	}
	ret[n++] = (struct target){ "peak memory of any scan, in MB", NULL, NULL, rss_limit_mb(b),
		                    largest_rss_mb(b) };
	return n;
}
