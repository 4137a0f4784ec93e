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

struct counter {
	const char *name;
	size_t offset;
};

static const struct counter counters[] = {
	{ "files", offsetof(struct bench_counts, files) },
	{ "dirs", offsetof(struct bench_counts, dirs) },
	{ "bytes", offsetof(struct bench_counts, apparent) },
	{ "openat", offsetof(struct bench_counts, openat) },
	{ "statx", offsetof(struct bench_counts, statx) },
	{ "getdents64", offsetof(struct bench_counts, getdents) },
	{ "close", offsetof(struct bench_counts, close) },
	{ "nodes_written", offsetof(struct bench_counts, nodes_written) },
};

static uint64_t value_of(const struct bench_bar *bar, const struct counter *c)
{
	uint64_t v;

	memcpy(&v, (const char *)&bar->counts + c->offset, sizeof(v));
	return v;
}

static bool is_checked(const struct bench_bar *bar)
{
	return bar->kind == BAR_SCAN || bar->kind == BAR_STORE;
}

/* -- the file -------------------------------------------------------------------------------- */

static void write_bar(FILE *out, const struct bench_bar *bar, bool first)
{
	(void)fprintf(out, "%s\n    {\"key\": \"%s\"", first ? "" : ",", bar->key);
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		(void)fprintf(out, ", \"%s\": %" PRIu64, counters[i].name,
		              value_of(bar, &counters[i]));
	(void)fputc('}', out);
}

static int write_baseline(const struct bench *b, const char *path)
{
	FILE *out = fopen(path, "we");
	bool first = true;

	if (!out)
		return -errno;
	(void)fprintf(out, "{\n  \"entries\": %" PRIu64 ",\n  \"runs\": [",
	              dataset_totals(&b->spec, DATASET_BUILT).entries);
	for (size_t i = 0; i < b->n_bars; i++)
		if (is_checked(&b->bar[i])) {
			write_bar(out, &b->bar[i], first);
			first = false;
		}
	(void)fputs("\n  ]\n}\n", out);
	return fclose(out) == 0 ? 0 : -errno;
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

static bool find_value(const char *line, const char *name, uint64_t *ret)
{
	char start[64];
	const char *at;

	(void)snprintf(start, sizeof(start), "\"%s\": ", name);
	at = strstr(line, start);
	return at && sscanf(at + strlen(start), "%" SCNu64, ret) == 1;
}

/* -- comparing ------------------------------------------------------------------------------- */

static bool is_same_bar(const struct bench_bar *bar, FILE *in)
{
	char line[LINE_BYTES];
	bool same = true;

	if (!find_line(in, bar->key, line)) {
		printf("%s: not in the file\n", bar->key);
		return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		uint64_t now = value_of(bar, &counters[i]), then;

		if (!find_value(line, counters[i].name, &then)) {
			printf("%s: %s is not in the file\n", bar->key, counters[i].name);
			same = false;
		} else if (now != then) {
			printf("%s: %s is %" PRIu64 ", not %" PRIu64 "\n", bar->key,
			       counters[i].name, now, then);
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

static int compare_baseline(const struct bench *b, const char *path)
{
	FILE *in = fopen(path, "re");
	size_t n = 0, same = 0, listed;

	if (!in)
		return -errno;
	for (size_t i = 0; i < b->n_bars; i++) {
		const struct bench_bar *bar = &b->bar[i];

		if (!is_checked(bar))
			continue;
		n++;
		same += is_same_bar(bar, in);
		printf("%-16s %8.1f ms\n", bar->key, bench_median(bar).wall_ms);
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
	const char *path = b->options.check ? b->options.check : b->options.update;
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
	r = b->options.check ? compare_baseline(b, path) : write_baseline(b, path);
	return fflush(stdout) == 0 ? r : -errno;
}
