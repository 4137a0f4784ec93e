/* SPDX-License-Identifier: MIT */
/*
 * bars - what is asked of the bars and of other numbers: by key, the fastest, medians, ratios.
 */
#include "bench/bench.h"

#include <stdarg.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median_of(double *v, size_t n)
{
	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* The median of the number at an offset in all samples. */
static double median_at(const struct bench_bar *bar, size_t offset, double v[static RUNS_MAX])
{
	for (size_t i = 0; i < bar->n; i++)
		v[i] = *(const double *)(const void *)((const char *)&bar->sample[i] + offset);
	return median_of(v, bar->n);
}

void bench_median(struct bench_bar *bar)
{
	double v[RUNS_MAX] = { 0 };

	bar->median = (struct bench_sample){
		.user_ms = median_at(bar, offsetof(struct bench_sample, user_ms), v),
		.sys_ms = median_at(bar, offsetof(struct bench_sample, sys_ms), v),
		.scan_ms = median_at(bar, offsetof(struct bench_sample, scan_ms), v),
		.rss_kb = median_at(bar, offsetof(struct bench_sample, rss_kb), v),
	};
	bar->median.wall_ms = median_at(bar, offsetof(struct bench_sample, wall_ms), v);
	bar->min_ms = v[0];
	bar->max_ms = v[bar->n ? bar->n - 1 : 0];
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

const struct bench_bar *bench_find_bar(const struct bench *b, const char *key)
{
	for (size_t i = 0; i < b->n_bars; i++)
		if (strcmp(b->bar[i].key, key) == 0)
			return &b->bar[i];
	return NULL;
}

const struct bench_bar *bench_fastest_peer(const struct bench *b)
{
	const struct bench_bar *best = NULL;

	for (const struct bench_bar *bar = b->bar; bar < b->bar + b->n_bars; bar++)
		if (bar->kind == BAR_PEER && bar->peer->stats && !bar->failed && bar->n > 0 &&
		    (!best || bar->median.wall_ms < best->median.wall_ms))
			best = bar;
	return best;
}

void bench_measure(struct bench *b, const char *group, const char *name, double value,
                   const char *unit)
{
	struct measure *m = &b->measure[b->n_measures];

	if (b->n_measures == MEASURES_MAX)
		return;
	b->n_measures++;
	*m = (struct measure){ .value = value };
	(void)snprintf(m->group, sizeof(m->group), "%s", group);
	(void)snprintf(m->name, sizeof(m->name), "%s", name);
	(void)snprintf(m->unit, sizeof(m->unit), "%s", unit);
	for (size_t i = 0; i < b->n_measures; i++)
		if (strcmp(b->measure[i].group, group) == 0)
			b->measure[i].ratio = value > 0 ? b->measure[i].value / value : 0;
}

void bench_wrong(struct bench *b, const char *format, ...)
{
	va_list args;

	bench_progress("%s", "");
	(void)fputs("bench_tool: wrong: ", stderr);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
	b->wrong++;
}
