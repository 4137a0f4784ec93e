/* SPDX-License-Identifier: MIT */
/*
 * targets - the goals, and what was measured of each.
 */
#include "bench/bench.h"

#include <assert.h>

enum when {
	WARM = 1,
	COLD = 2,
	HDD = 4,
};

/*
 * The value is the ratio of bar to base. Base NULL: bar is a group of measures, and the value is the
 * ratio of its first one to its last. Bar NULL: the largest peak memory; its limit depends on the tree.
 */
static const struct {
	const char *text, *bar, *base;
	double limit;
	enum when when;
} goals[] = {
	{ "scan only, 2 readers / floor with 2 threads", "scan-2", "floor-2", 1.06, WARM },
	{ "scan only, 2 readers / fastest peer that stats", "scan-2", "fastest", 0.41, WARM },
	{ "scan only, 1 reader / floor with 1 thread", "scan-1", "floor-1", 1.02, WARM },
	{ "scan only, 1 reader / du", "scan-1", "du", 0.74, WARM },
	{ "scan and store, 2 readers / floor with 2 threads", "store-2", "floor-2", 1.12, WARM },
	{ "scan and store, 2 readers / du", "store-2", "du", 0.45, WARM },
	{ "scan and store, 2 readers / duc", "store-2", "duc", 0.40, WARM },
	{ "unchanged rescan / floor with 2 threads", "warm-unchanged", "floor-2", 1.06, WARM },
	{ "caches dropped: scan only, auto / du", "scan-auto", "du", 0.36, COLD },
	{ "peak memory of any scan, in MB", NULL, NULL, 0, WARM | COLD },
	{ "simulated disk: scan only, auto / 1 thread in directory order", HDD_FRESH, NULL, 0.11,
	  HDD },
	{ "simulated disk, first half cached: the same", HDD_CACHED, NULL, 0.11, HDD },
	{ "simulated disk, aged image: the same", HDD_AGED, NULL, 0.11, HDD },
};

static double measured_ratio(const struct bench *b, const char *group)
{
	for (size_t i = 0; i < b->n_measures; i++)
		if (strcmp(b->measure[i].group, group) == 0)
			return b->measure[i].ratio;
	return 0;
}

static double largest_rss_mb(const struct bench *b)
{
	double kb = 0;

	for (size_t i = 0; i < b->n_bars; i++)
		if (b->bar[i].kind & BARS_OURS)
			kb = MAX(kb, b->bar[i].median.rss_kb);
	return kb / 1024;
}

/* 8 MB on the data set, 4 MB and 16 bytes an entry on a larger tree. */
static double rss_limit_mb(const struct bench *b)
{
	return MAX(8, 4 + (double)b->bar[0].counts.entries * 16 / (1 << 20));
}

static double value_of(const struct bench *b, const char *bar, const char *base)
{
	if (!bar)
		return largest_rss_mb(b);
	if (!base)
		return measured_ratio(b, bar);
	return bench_ratio(bench_find_bar(b, bar), strcmp(base, "fastest") == 0
	                                                   ? bench_fastest_peer(b)
	                                                   : bench_find_bar(b, base));
}

size_t targets_get(const struct bench *b, struct target ret[static TARGETS_MAX])
{
	enum when when = b->options.hdd           ? HDD
	                 : b->rounds == 0         ? 0
	                 : b->options.drop_caches ? COLD
	                                          : WARM;
	size_t n = 0;

	static_assert(ARRAY_SIZE(goals) <= TARGETS_MAX, "all fit");
	for (size_t i = 0; i < ARRAY_SIZE(goals); i++) {
		struct target *t = &ret[n];

		if (!(goals[i].when & when))
			continue;
		*t = (struct target){ .text = goals[i].text,
			              .limit = goals[i].bar ? goals[i].limit : rss_limit_mb(b),
			              .value = value_of(b, goals[i].bar, goals[i].base) };
		t->measured = t->value > 0;
		t->met = t->measured && t->value <= t->limit;
		t->verdict = t->met ? "met" : t->measured ? "missed" : "not measured";
		n++;
	}
	return n;
}
