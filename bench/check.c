/* SPDX-License-Identifier: MIT */
/*
 * check - totals and counts of every kind of run on a small tree, against a checked-in file.
 *
 * They are exact: a scan that makes one call more, or writes one node more, is another program. The
 * file is JSON with one run a line, so that a change of it reads well; times are printed only.
 */
#include "bench/bench.h"

#include <inttypes.h>

enum {
	SMALL_ENTRIES = 501
};

static int write_baseline(const struct table *runs, uint64_t entries, const char *path)
{
	struct text out = { 0 };
	int r;

	text_printf(&out, "{\n  \"entries\": %" PRIu64 ",\n  ", entries);
	table_json(runs, CHECKED, &out);
	text_puts(&out, "\n}\n");
	r = report_save(path, &out);
	text_done(&out);
	return r;
}

/* The counters of one run against its line. */
static bool is_same_bar(const struct table *runs, const struct bench_bar *bar, const char *line)
{
	bool same = true;

	for (const struct column *c = runs->columns; c < runs->columns + runs->n_columns; c++) {
		double now = column_number(c, bar), then;
		char start[64];
		const char *at;

		if (!(c->flags & CHECKED) || c->type != COUNT)
			continue;
		(void)snprintf(start, sizeof(start), "\"%s\": ", c->key);
		at = strstr(line, start);
		if (!at || sscanf(at + strlen(start), "%lf", &then) != 1) {
			printf("%s: %s is not in the file\n", bar->key, c->key);
			same = false;
		} else if (now != then) {
			printf("%s: %s is %.0f, not %.0f\n", bar->key, c->key, now, then);
			same = false;
		}
	}
	return same;
}

static int compare_baseline(const struct table *runs, const char *path)
{
	const struct bench_bar *bars[BARS_MAX];
	size_t n = 0, same = 0, listed = 0, cap = 0;
	FILE *in = fopen(path, "re");
	char *line = NULL, key[32];

	if (!in)
		return -errno;
	for (size_t i = 0; i < runs->n_rows; i++)
		if (table_row(runs, i))
			bars[n++] = table_row(runs, i);
	while (getline(&line, &cap, in) > 0) {
		if (sscanf(line, " {\"key\": \"%31[^\"]\"", key) != 1)
			continue;
		listed++;
		for (size_t i = 0; i < n; i++)
			same += strcmp(bars[i]->key, key) == 0 && is_same_bar(runs, bars[i], line);
	}
	free(line);
	(void)fclose(in);
	for (size_t i = 0; i < n; i++)
		printf("%-16s %8.1f ms\n", bars[i]->key, bars[i]->median.wall_ms);
	if (listed != n)
		printf("the file lists %zu runs, not %zu\n", listed, n);
	printf("%zu of %zu runs as in the file\n", same, n);
	return same == n && listed == n ? 0 : -EBADMSG;
}

int check_run(struct bench *b)
{
	struct table runs;
	int r;

	b->options.entries = SMALL_ENTRIES;
	b->options.no_peers = true;
	b->options.runs = 1;
	plan_bars(b);
	r = plan_build(b);
	if (r == 0)
		r = plan_run(b);
	if (r < 0)
		return r;
	if (b->wrong > 0)
		return -EBADMSG;
	runs = report_bars(b, "runs", NULL, BARS_OURS);
	r = b->options.check
	            ? compare_baseline(&runs, b->options.check)
	            : write_baseline(&runs, dataset_totals(&b->spec, DATASET_BUILT).entries,
	                             b->options.update);
	return fflush(stdout) == 0 ? r : -errno;
}
