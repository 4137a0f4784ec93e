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
	SMALL_ENTRIES = 501,
	LINE_BYTES = 512
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

/* The line of the run with that key. */
static bool find_line(FILE *in, const char *key, char line[static LINE_BYTES])
{
	char start[64];

	(void)snprintf(start, sizeof(start), "{\"key\": \"%s\",", key);
	rewind(in);
	while (fgets(line, LINE_BYTES, in))
		if (strstr(line, start))
			return true;
	return false;
}

static bool find_value(const char *line, const char *name, double *ret)
{
	char start[64];
	const char *at;

	(void)snprintf(start, sizeof(start), "\"%s\": ", name);
	at = strstr(line, start);
	return at && sscanf(at + strlen(start), "%lf", ret) == 1;
}

static bool is_same_bar(const struct table *runs, const struct bench_bar *bar, FILE *in)
{
	char line[LINE_BYTES];
	bool same = true;

	if (!find_line(in, bar->key, line)) {
		printf("%s: not in the file\n", bar->key);
		return false;
	}
	for (size_t i = 0; i < runs->n_columns; i++) {
		const struct column *c = &runs->columns[i];
		double now = column_number(c, bar), then;

		if (!(c->flags & CHECKED) || c->type != COUNT)
			continue;
		if (!find_value(line, c->key, &then)) {
			printf("%s: %s is not in the file\n", bar->key, c->key);
			same = false;
		} else if (now != then) {
			printf("%s: %s is %.0f, not %.0f\n", bar->key, c->key, now, then);
			same = false;
		}
	}
	return same;
}

static size_t count_runs(FILE *in)
{
	char line[LINE_BYTES];
	size_t n = 0;

	rewind(in);
	while (fgets(line, sizeof(line), in))
		n += strstr(line, "{\"key\": ") != NULL;
	return n;
}

static int compare_baseline(const struct table *runs, const char *path)
{
	FILE *in = fopen(path, "re");
	size_t n = 0, same = 0, listed;

	if (!in)
		return -errno;
	for (size_t i = 0; i < runs->n_rows; i++) {
		const struct bench_bar *bar = table_row(runs, i);

		if (!bar)
			continue;
		n++;
		same += is_same_bar(runs, bar, in);
		printf("%-16s %8.1f ms\n", bar->key, bar->median.wall_ms);
	}
	listed = count_runs(in);
	(void)fclose(in);
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
	runs = report_bars(b, "runs", BARS_OURS);
	r = b->options.check
	            ? compare_baseline(&runs, b->options.check)
	            : write_baseline(&runs, dataset_totals(&b->spec, DATASET_BUILT).entries,
	                             b->options.update);
	return fflush(stdout) == 0 ? r : -errno;
}
