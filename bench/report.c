/* SPDX-License-Identifier: MIT */
/*
 * report - the tables of the report, and the plain formats.
 *
 *     our runs and the floor | other programs | thread scaling | storage | --mount, --hdd | goals
 */
#include "bench/report.h"

#include <inttypes.h>
#include <stdarg.h>

uint64_t report_calls(const struct bench_counts *c)
{
	return c->openat + c->statx + c->getdents + c->close;
}

static struct grid *add_grid(struct report *r, const char *title, const char *const *heads,
                             size_t n_cols, uint32_t left)
{
	struct grid *g = &r->grid[r->n_grids++];

	grid_init(g, title, heads, n_cols, left);
	return g;
}

static void PRINTF_LIKE(2, 3) add_line(struct report *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(r->line[r->n_lines++], REPORT_LINE_BYTES, format, args);
	va_end(args);
}

/* 0 stands for "there is none". */
static void ratio_cell(struct grid *g, double ratio)
{
	if (ratio > 0)
		grid_cell(g, "%.3f", ratio);
	else
		grid_cell(g, "-");
}

static void count_cell(struct grid *g, uint64_t n, bool known)
{
	if (known)
		grid_cell(g, "%" PRIu64, n);
	else
		grid_cell(g, "-");
}

static void time_cells(struct grid *g, const struct bench_median *m)
{
	grid_cell(g, "%.1f", m->wall_ms);
	grid_cell(g, "%.1f..%.1f", m->min_ms, m->max_ms);
	grid_cell(g, "%.1f", m->user_ms);
	grid_cell(g, "%.1f", m->sys_ms);
}

/* -- our runs -------------------------------------------------------------------------------- */

static void own_row(const struct bench *b, struct grid *g, const struct bench_bar *bar)
{
	struct bench_median m = bench_median(bar);
	const struct bench_counts *c = &bar->counts;
	bool scan = bar->kind != BAR_FLOOR;

	grid_cell(g, "%s", bar->label);
	time_cells(g, &m);
	ratio_cell(g, bench_ratio(bar, bench_find_bar(b, "floor-2")));
	ratio_cell(g, bench_ratio(bar, bench_fastest_peer(b)));
	count_cell(g, c->files, scan);
	count_cell(g, c->dirs, true);
	count_cell(g, c->apparent, scan);
	count_cell(g, c->openat, scan);
	count_cell(g, c->statx, scan);
	count_cell(g, c->getdents, scan);
	count_cell(g, report_calls(c), scan);
	count_cell(g, c->nodes_written, bar->kind == BAR_STORE);
	grid_cell(g, "%.1f", (double)m.rss_kb / 1024);
}

static void note_verification(const struct bench *b, struct grid *g)
{
	size_t n = 0, agreed = 0;

	for (size_t i = 0; i < b->n_bars; i++) {
		n += b->bar[i].verified[0] != '\0';
		agreed += strcmp(b->bar[i].verified, "strace agrees") == 0;
	}
	if (n > 0)
		grid_note(
			g,
			"strace counted the same openat, statx and getdents in %zu of %zu kinds of run.",
			agreed, n);
}

static void note_variation(const struct bench *b, struct grid *g)
{
	for (size_t i = 0; i < b->n_bars; i++)
		if (b->bar[i].vary)
			grid_note(g,
			          "%s: counts differed between runs; those of the last are shown.",
			          b->bar[i].label);
}

static void make_own(const struct bench *b, struct report *r)
{
	static const char *const heads[] = { "run",      "wall ms", "min..max", "user",
		                             "sys",      "/floor2", "/peer",    "files",
		                             "dirs",     "bytes",   "openat",   "statx",
		                             "getdents", "calls",   "nodes",    "MB" };
	const struct bench_bar *fastest = bench_fastest_peer(b);
	struct grid *g = add_grid(r, "Runs", heads, ARRAY_SIZE(heads), 1);

	for (size_t i = 0; i < b->n_bars; i++)
		if (b->bar[i].kind != BAR_PEER)
			own_row(b, g, &b->bar[i]);
	grid_note(
		g,
		"Times are medians, of whole processes from fork to exit. /floor2: against the "
		"minimal loop with 2 threads; /peer: against the fastest program that looks at each "
		"entry%s%s. Ratios are medians of the ratios within a round.",
		fastest ? ": " : " (there is none)", fastest ? fastest->label : "");
	grid_note(
		g,
		"Cold: no snapshot before. bytes: sum of file lengths. calls: openat, statx, getdents "
		"and close of the scan. nodes: directories written to the index. MB: peak memory.");
	note_verification(b, g);
	note_variation(b, g);
}

/* -- other programs -------------------------------------------------------------------------- */

static void peer_row(const struct bench *b, struct grid *g, const struct bench_bar *bar)
{
	const struct peer_found *f = &b->peer[bar->peer - bench_peers];
	struct bench_median m = bench_median(bar);

	grid_cell(g, "%s", bar->label);
	time_cells(g, &m);
	ratio_cell(g, bench_ratio(bar, bench_find_bar(b, "floor-2")));
	ratio_cell(g, bench_ratio(bench_find_bar(b, "scan-auto"), bar));
	ratio_cell(g, bench_ratio(bench_find_bar(b, "store-auto"), bar));
	grid_cell(g, "%.1f", (double)m.rss_kb / 1024);
	count_cell(g, bar->strace_calls, bar->strace_calls > 0);
	if (bar->failed)
		grid_cell(g, "%s", bar->trouble);
	else
		grid_cell(g, "%s", f->compared);
	grid_cell(g, "%s; %s", f->version, bar->peer->does);
}

static void note_missing(const struct bench *b, struct grid *g)
{
	char names[GRID_NOTE_BYTES] = "";
	size_t len = 0;

	for (size_t i = 0; i < PEERS; i++)
		if (!b->peer[i].path[0])
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
			                        len ? ", " : "", bench_peers[i].name);
	grid_note(g, "Not installed: %s.", len ? names : "none");
}

static void make_peers(const struct bench *b, struct report *r)
{
	static const char *const heads[] = {
		"program", "wall ms",      "min..max",  "user",
		"sys",     "/floor2",      "scan/it",   "scan+store/it",
		"MB",      "system calls", "its total", "version; what it does"
	};
	struct grid *g;

	if (b->options.no_peers)
		return;
	g = add_grid(r, "Other programs, in the same rounds", heads, ARRAY_SIZE(heads), 0xc01);
	for (size_t i = 0; i < b->n_bars; i++)
		if (b->bar[i].kind == BAR_PEER)
			peer_row(b, g, &b->bar[i]);
	grid_note(
		g,
		"scan/it, scan+store/it: our \"scan only, auto\" and \"auto cold\" against it; 0.5 is half "
		"its time. its total: compared with ours in disk space, in a run of its own.");
	if (!b->options.verify)
		grid_note(g, "Their system calls are counted with --verify-counts.");
	note_missing(b, g);
}

/* -- scaling, storage, goals ----------------------------------------------------------------- */

static void scaling_cells(const struct bench *b, struct grid *g, const char *kind, unsigned threads)
{
	char key[32], first[32];
	const struct bench_bar *bar;

	(void)snprintf(key, sizeof(key), "%s-%u", kind, threads);
	(void)snprintf(first, sizeof(first), "%s-1", kind);
	bar = bench_find_bar(b, key);
	if (!bar) {
		grid_cell(g, "-");
		grid_cell(g, "-");
		return;
	}
	grid_cell(g, "%.1f", bench_median(bar).wall_ms);
	ratio_cell(g, bench_ratio(bench_find_bar(b, first), bar));
}

static void make_scaling(const struct bench *b, struct report *r)
{
	static const char *const heads[] = { "readers", "scan only ms",
		                             "faster",  "scan and store ms",
		                             "faster",  "floor ms",
		                             "faster" };
	struct grid *g = add_grid(r, "Thread scaling", heads, ARRAY_SIZE(heads), 0);

	for (unsigned threads = 1; threads <= 8; threads *= 2) {
		grid_cell(g, "%u", threads);
		scaling_cells(b, g, "scan", threads);
		scaling_cells(b, g, "store", threads);
		scaling_cells(b, g, "floor", threads);
	}
	grid_note(g, "faster: times as fast as with 1. This machine has %u processors.",
	          b->machine.cpus);
}

static void make_storage(const struct bench *b, struct report *r)
{
	static const char *const heads[] = { "storage", "" };
	struct grid *g = add_grid(r, "Storage", heads, ARRAY_SIZE(heads), 3);

	grid_cell(g, "file system");
	grid_cell(g, "%s", b->machine.filesystem);
	grid_cell(g, "device");
	grid_cell(g, "%s", b->storage[0] ? b->storage : "not known");
	grid_cell(g, "auto chose");
	grid_cell(g, "%" PRIu64 " readers", b->auto_readers);
	if (b->evidence[0])
		grid_note(g, "%s", b->evidence);
}

static void make_targets(const struct bench *b, struct report *r)
{
	static const char *const heads[] = { "goal", "limit", "measured", "" };
	struct target t[TARGETS_MAX];
	size_t n = targets_get(b, t);
	struct grid *g;

	if (n == 0)
		return;
	g = add_grid(r, "Goals", heads, ARRAY_SIZE(heads), 9);
	for (size_t i = 0; i < n; i++) {
		grid_cell(g, "%s", t[i].text);
		grid_cell(g, "%.2f", t[i].limit);
		ratio_cell(g, t[i].value);
		grid_cell(g, "%s",
		          t[i].value <= 0            ? "not measured"
		          : t[i].value <= t[i].limit ? "met"
		                                     : "missed");
	}
}

static void make_measures(const struct bench *b, struct report *r)
{
	static const char *const heads[] = { "what", "where", "value", "unit", "ratio" };
	struct grid *g;

	if (b->n_measures == 0)
		return;
	g = add_grid(r, b->options.hdd ? "On a simulated rotational disk" : "The mount", heads,
	             ARRAY_SIZE(heads), 0xb);
	for (size_t i = 0; i < b->n_measures; i++) {
		const struct measure *m = &b->measure[i];

		grid_cell(g, "%s", m->group);
		grid_cell(g, "%s", m->name);
		grid_cell(g, "%.*f", m->value < 100 ? 3 : 0, m->value);
		grid_cell(g, "%s", m->unit);
		ratio_cell(g, m->ratio);
	}
	grid_note(g, "ratio: to the last row of the same kind.");
}

static void make_decisions(const struct bench *b, struct report *r)
{
	static const char *const heads[] = { "where", "auto's decision", "right" };
	struct grid *g;

	if (b->n_decisions == 0)
		return;
	g = add_grid(r, "One reader while the disk has to move its head", heads, ARRAY_SIZE(heads),
	             7);
	for (size_t i = 0; i < b->n_decisions; i++) {
		grid_cell(g, "%s", b->decision[i].group);
		grid_cell(g, "%s", b->decision[i].text);
		grid_cell(g, "%s", b->decision[i].right ? "yes" : "no: failed");
	}
	grid_note(g,
	          "As the scan logged them. More than one is right only for what is cached; a scan "
	          "notices that when the first of its reads has to wait.");
}

/* -- everything ------------------------------------------------------------------------------ */

static void make_lines(const struct bench *b, struct report *r)
{
	const struct machine *m = &b->machine;
	const struct bench_counts *c = &b->bar[0].counts;

	add_line(r, "bench_tool " DISKTRACKER_VERSION ", %s", m->date);
	add_line(r, "%s, %u processors, %" PRIu64 " MB, %s, %s, %s", m->cpu, m->cpus,
	         m->memory_kb / 1024, m->kernel, m->filesystem, m->compiler);
	if (b->rounds == 0)
		return;
	add_line(r, "%s: %" PRIu64 " entries, %" PRIu64 " directories, %" PRIu64 " files",
	         b->options.tree ? b->tree : "data set", c->entries, c->dirs, c->files);
	add_line(r, "%u interleaved rounds, %s; other programs used %.0f%% of the processors%s",
	         b->rounds,
	         b->options.drop_caches ? "the kernel's caches dropped before each run"
	                                : "caches warm",
	         b->foreign * 100, b->foreign > 0.1 ? ": too much for times to be quoted" : "");
}

int report_make(const struct bench *b, struct report *r)
{
	bool failed = false;

	make_lines(b, r);
	if (b->rounds > 0) {
		make_own(b, r);
		make_peers(b, r);
		make_scaling(b, r);
	}
	if (b->rounds > 0 || b->options.hdd)
		make_storage(b, r);
	make_measures(b, r);
	make_decisions(b, r);
	make_targets(b, r);
	for (size_t i = 0; i < r->n_grids; i++)
		failed |= r->grid[i].failed;
	return failed ? -ENOMEM : 0;
}

void report_done(struct report *r)
{
	for (size_t i = 0; i < r->n_grids; i++)
		grid_done(&r->grid[i]);
}

static int write_plain(const struct bench *b, FILE *out, enum grid_format format)
{
	AUTO(base_free) struct report *r = calloc(1, sizeof(*r));
	int status;

	if (!r)
		return -ENOMEM;
	status = report_make(b, r);
	if (format == GRID_MARKDOWN)
		(void)fputs("## Benchmark\n\n", out);
	for (size_t i = 0; i < r->n_lines; i++)
		(void)fprintf(out, "%s%s\n", format == GRID_MARKDOWN ? "- " : "", r->line[i]);
	for (size_t i = 0; i < r->n_grids; i++)
		grid_print(&r->grid[i], out, format);
	report_done(r);
	return status;
}

static int write_format(const struct bench *b, FILE *out)
{
	switch (b->options.format) {
	case FORMAT_JSON:
		return report_json(b, out);
	case FORMAT_HTML:
		return report_html(b, out);
	case FORMAT_MARKDOWN:
		return write_plain(b, out, GRID_MARKDOWN);
	default:
		return write_plain(b, out, GRID_TABLE);
	}
}

int report_write(const struct bench *b)
{
	FILE *out = b->options.output ? fopen(b->options.output, "we") : stdout;
	int r;

	if (!out)
		return -errno;
	r = write_format(b, out);
	if (fflush(out) != 0 && r == 0)
		r = -errno;
	if (out != stdout && fclose(out) != 0 && r == 0)
		r = -errno;
	return r;
}
