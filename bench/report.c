/* SPDX-License-Identifier: MIT */
/*
 * report - one model for all formats: the columns, declared once, and the tables made of them.
 *
 *     our runs and the floor | other programs | thread scaling | storage | --mount, --hdd | goals
 *
 * The keys of the JSON are documented in bench_tool(1) and stable.
 */
#include "bench/report.h"

#include <inttypes.h>

/* clang-format off */
#define AT(field) offsetof(struct bench_bar, field)
#define COUNTED(key, title, field, kinds, flags) \
	{ key, title, COUNT, AT(counts.field), kinds, flags, 0, "counts" }

enum {
	OWN = BARS_OURS | BAR_FLOOR,
};

static const struct column bar_columns[] = {
	{ "key", NULL, TEXT, AT(key), 0, CHECKED, 0, NULL },
	{ "label", NULL, TEXT, AT(label), 0, 0, 0, NULL },
	{ NULL, "run", TEXT, AT(label), OWN, 0, 0, NULL },
	{ NULL, "program", TEXT, AT(label), BAR_PEER, 0, 0, NULL },
	{ "kind", NULL, TEXT, AT(kind_name), 0, 0, 0, NULL },
	{ "samples", NULL, COUNT, AT(n), 0, 0, 0, NULL },
	{ "wall_ms", "wall ms", REAL, AT(median.wall_ms), 0, 0, 1, NULL },
	{ NULL, "min..max", CHARS, AT(span), 0, RIGHT, 0, NULL },
	{ "wall_ms_min", NULL, REAL, AT(min_ms), 0, 0, 0, NULL },
	{ "wall_ms_max", NULL, REAL, AT(max_ms), 0, 0, 0, NULL },
	{ "wall_ms_all", NULL, JSON, AT(all_ms), 0, 0, 0, NULL },
	{ "user_ms", "user", REAL, AT(median.user_ms), 0, 0, 1, NULL },
	{ "sys_ms", "sys", REAL, AT(median.sys_ms), 0, 0, 1, NULL },
	{ "scan_ms", NULL, REAL, AT(median.scan_ms), OWN, 0, 0, NULL },
	{ "ratio_floor2", "/floor2", REAL, AT(to_floor), 0, DASH, 3, NULL },
	{ "ratio_fastest_peer", NULL, REAL, AT(to_peer), 0, 0, 0, NULL },
	{ NULL, "/peer", REAL, AT(to_peer), OWN, DASH, 3, NULL },
	{ NULL, "scan/it", REAL, AT(scan_to_it), BAR_PEER, DASH, 3, NULL },
	{ NULL, "scan+store/it", REAL, AT(store_to_it), BAR_PEER, DASH, 3, NULL },
	COUNTED("entries", NULL, entries, OWN, 0),
	COUNTED("disk_bytes", NULL, bytes, OWN, 0),
	COUNTED("files", NULL, files, OWN, CHECKED),
	COUNTED(NULL, "files", files, BARS_OURS, 0),
	COUNTED("dirs", "dirs", dirs, OWN, CHECKED),
	COUNTED("bytes", "bytes", apparent, BARS_OURS, CHECKED),
	COUNTED("openat", "openat", openat, BARS_OURS, CHECKED),
	COUNTED("statx", "statx", statx, BARS_OURS, CHECKED),
	COUNTED("getdents64", "getdents", getdents, BARS_OURS, CHECKED),
	COUNTED("close", NULL, close, BARS_OURS, CHECKED),
	{ "calls", "calls", COUNT, AT(calls), BARS_OURS, 0, 0, "counts" },
	COUNTED("problems", NULL, errors, BARS_OURS, 0),
	COUNTED("nodes_written", NULL, nodes_written, BAR_STORE, CHECKED),
	COUNTED(NULL, "nodes", nodes_written, BAR_STORE, 0),
	COUNTED("index_bytes", NULL, index_bytes, BAR_STORE, 0),
	COUNTED("readers", NULL, readers, OWN, 0),
	{ "vary", NULL, FLAG, AT(vary), OWN, 0, 0, "counts" },
	{ "peak_rss_kb", "MB", KB, AT(median.rss_kb), 0, 0, 0, NULL },
	{ "strace_calls", NULL, COUNT, AT(strace_calls), 0, OPTIONAL, 0, NULL },
	{ NULL, "system calls", COUNT, AT(strace_calls), BAR_PEER, DASH, 0, NULL },
	{ NULL, "its total", TEXT, AT(total), BAR_PEER, 0, 0, NULL },
	{ NULL, "version; what it does", CHARS, AT(about), BAR_PEER, 0, 0, NULL },
	{ "verified", NULL, CHARS, AT(verified), 0, OPTIONAL, 0, NULL },
	{ "trouble", NULL, CHARS, AT(problem), 0, OPTIONAL, 0, NULL },
};
#undef AT

#define AT(field) offsetof(struct peer_found, field)
static const struct column peer_columns[] = {
	{ "name", NULL, TEXT, AT(name), 0, 0, 0, NULL },
	{ "installed", NULL, FLAG, AT(installed), 0, 0, 0, NULL },
	{ "version", NULL, CHARS, AT(version), 0, 0, 0, NULL },
	{ "stats_entries", NULL, FLAG, AT(stats), 0, 0, 0, NULL },
	{ "total", NULL, COUNT, AT(total), 0, 0, 0, NULL },
	{ "compared", NULL, CHARS, AT(compared), 0, 0, 0, NULL },
	{ "unexplained", NULL, FLAG, AT(differs), 0, 0, 0, NULL },
};
#undef AT

#define AT(field) offsetof(struct scaling, field)
static const struct column scaling_columns[] = {
	{ NULL, "readers", COUNT, AT(readers), 0, 0, 0, NULL },
	{ "scan", "scan only ms", REAL, AT(ms[0]), 0, DASH, 1, NULL },
	{ NULL, "faster", REAL, AT(faster[0]), 0, DASH, 3, NULL },
	{ "store", "scan and store ms", REAL, AT(ms[1]), 0, DASH, 1, NULL },
	{ NULL, "faster", REAL, AT(faster[1]), 0, DASH, 3, NULL },
	{ "floor", "floor ms", REAL, AT(ms[2]), 0, DASH, 1, NULL },
	{ NULL, "faster", REAL, AT(faster[2]), 0, DASH, 3, NULL },
};
#undef AT

#define AT(field) offsetof(struct measure, field)
static const struct column measure_columns[] = {
	{ "group", "what", CHARS, AT(group), 0, 0, 0, NULL },
	{ "name", "where", CHARS, AT(name), 0, 0, 0, NULL },
	{ "value", "value", REAL, AT(value), 0, SHORT, 3, NULL },
	{ "unit", "unit", CHARS, AT(unit), 0, 0, 0, NULL },
	{ "ratio", "ratio", REAL, AT(ratio), 0, DASH, 3, NULL },
};
#undef AT

static const struct column fact_columns[] = {
	{ NULL, "storage", TEXT, offsetof(struct fact, name), 0, 0, 0, NULL },
	{ NULL, "", TEXT, offsetof(struct fact, value), 0, 0, 0, NULL },
};

static const struct column decision_columns[] = {
	{ "group", "where", TEXT, offsetof(struct hdd_decision, group), 0, 0, 0, NULL },
	{ "text", "auto's decision", CHARS, offsetof(struct hdd_decision, text), 0, 0, 0, NULL },
	{ "right", "right", FLAG, offsetof(struct hdd_decision, right), 0, LEFT, 0, NULL },
};

#define AT(field) offsetof(struct target, field)
static const struct column target_columns[] = {
	{ "text", "goal", TEXT, AT(text), 0, 0, 0, NULL },
	{ "limit", "limit", REAL, AT(limit), 0, 0, 2, NULL },
	{ "value", "measured", REAL, AT(value), 0, DASH, 3, NULL },
	{ "measured", NULL, FLAG, AT(measured), 0, 0, 0, NULL },
	{ "met", NULL, FLAG, AT(met), 0, 0, 0, NULL },
	{ NULL, "", TEXT, AT(verdict), 0, 0, 0, NULL },
};
#undef AT

/* One row: all of it. */
#define AT(field) offsetof(struct bench, field)
static const struct column bench_columns[] = {
	{ "schema", NULL, UINT, AT(schema), 0, 0, 0, NULL },
	{ "version", NULL, TEXT, AT(version), 0, 0, 0, NULL },
	{ "date", NULL, CHARS, AT(machine.date), 0, 0, 0, NULL },
	{ "cpu", NULL, CHARS, AT(machine.cpu), 0, 0, 0, "machine" },
	{ "cpus", NULL, UINT, AT(machine.cpus), 0, 0, 0, "machine" },
	{ "memory_kb", NULL, COUNT, AT(machine.memory_kb), 0, 0, 0, "machine" },
	{ "kernel", NULL, CHARS, AT(machine.kernel), 0, 0, 0, "machine" },
	{ "filesystem", NULL, CHARS, AT(machine.filesystem), 0, 0, 0, "machine" },
	{ "compiler", NULL, CHARS, AT(machine.compiler), 0, 0, 0, "machine" },
	{ "generated", NULL, FLAG, AT(generated), 0, 0, 0, "tree" },
	{ "path", NULL, TEXT, AT(existing), 0, 0, 0, "tree" },
	{ "entries", NULL, COUNT, AT(bar[0].counts.entries), 0, 0, 0, "tree" },
	{ "dirs", NULL, COUNT, AT(bar[0].counts.dirs), 0, 0, 0, "tree" },
	{ "files", NULL, COUNT, AT(bar[0].counts.files), 0, 0, 0, "tree" },
	{ "caches", NULL, TEXT, AT(caches), 0, 0, 0, NULL },
	{ "rounds", NULL, UINT, AT(rounds), 0, 0, 0, NULL },
	{ "foreign_cpu_share", NULL, REAL, AT(foreign), 0, 0, 0, NULL },
	{ "fastest_peer", NULL, TEXT, AT(fastest), 0, 0, 0, NULL },
	{ "kind", NULL, CHARS, AT(storage), 0, 0, 0, "storage" },
	{ "evidence", NULL, CHARS, AT(evidence), 0, 0, 0, "storage" },
	{ "auto_readers", NULL, COUNT, AT(auto_readers), 0, 0, 0, "storage" },
	{ "wrong", NULL, UINT, AT(wrong), 0, 0, 0, NULL },
};
#undef AT
/* clang-format on */

static struct table *add(struct report *r, const struct table *t)
{
	r->table[r->n_tables] = *t;
	return &r->table[r->n_tables++];
}

#define ROWS(row, n)   .rows = (row), .row_bytes = sizeof((row)[0]), .n_rows = (n)
#define COLUMNS(array) .columns = (array), .n_columns = ARRAY_SIZE(array)

struct table report_bars(const struct bench *b, const char *key, const char *title, unsigned kinds)
{
	return (struct table){ .key = key,
		               .title = title,
		               COLUMNS(bar_columns),
		               ROWS(b->bar, b->n_bars),
		               .kinds = kinds,
		               .kind_offset = offsetof(struct bench_bar, kind) };
}

/* -- what is made of the samples ------------------------------------------------------------- */

static void finish_bar(struct bench *b, struct bench_bar *bar)
{
	const struct bench_counts *c = &bar->counts;

	bar->kind_name = bar->kind == BAR_SCAN    ? "scan"
	                 : bar->kind == BAR_STORE ? "store"
	                 : bar->kind == BAR_FLOOR ? "floor"
	                                          : "peer";
	(void)snprintf(bar->span, sizeof(bar->span), "%.1f..%.1f", bar->min_ms, bar->max_ms);
	text_puts(&bar->all_ms, "[");
	for (size_t i = 0; i < bar->n; i++)
		text_printf(&bar->all_ms, "%s%.4f", i ? ", " : "", bar->sample[i].wall_ms);
	text_puts(&bar->all_ms, "]");
	bar->to_floor = bench_ratio(bar, bench_find_bar(b, "floor-2"));
	bar->to_peer = bench_ratio(bar, bench_fastest_peer(b));
	bar->scan_to_it = bench_ratio(bench_find_bar(b, "scan-auto"), bar);
	bar->store_to_it = bench_ratio(bench_find_bar(b, "store-auto"), bar);
	bar->calls = c->openat + c->statx + c->getdents + c->close;
	if (bar->peer) {
		const struct peer_found *f = &b->peer[bar->peer - bench_peers];

		bar->total = bar->failed ? bar->problem : f->compared;
		(void)snprintf(bar->about, sizeof(bar->about), "%s; %s", f->version,
		               bar->peer->does);
	}
}

static void finish(struct bench *b)
{
	const struct bench_bar *fastest = bench_fastest_peer(b);

	for (size_t i = 0; i < b->n_bars; i++)
		finish_bar(b, &b->bar[i]);
	for (size_t i = 0; i < PEERS; i++) {
		b->peer[i].name = bench_peers[i].name;
		b->peer[i].stats = bench_peers[i].stats;
		b->peer[i].installed = b->peer[i].path[0] != '\0';
	}
	b->schema = 1;
	b->version = DISKTRACKER_VERSION;
	b->generated = !b->options.tree;
	b->existing = b->options.tree ? b->tree : "";
	b->caches = b->options.drop_caches ? "dropped" : "warm";
	b->fastest = fastest ? fastest->key : "";
}

/* -- tables ---------------------------------------------------------------------------------- */

static void note_verification(const struct bench *b, struct text *notes)
{
	size_t n = 0, agreed = 0;

	for (size_t i = 0; i < b->n_bars; i++) {
		n += b->bar[i].verified[0] != '\0';
		agreed += strcmp(b->bar[i].verified, "strace agrees") == 0;
	}
	if (n > 0)
		text_printf(notes,
		            "strace counted the same openat, statx and getdents in %zu of %zu "
		            "kinds of run.\n",
		            agreed, n);
	for (size_t i = 0; i < b->n_bars; i++)
		if (b->bar[i].vary)
			text_printf(notes,
			            "%s: counts differed between runs; those of the last are "
			            "shown.\n",
			            b->bar[i].label);
}

static void add_own(const struct bench *b, struct report *r)
{
	const struct bench_bar *fastest = bench_fastest_peer(b);
	struct table own = report_bars(b, NULL, "Runs", OWN);
	struct text *notes = &add(r, &own)->notes;

	text_printf(notes,
	            "Times are medians, of whole processes from fork to exit. /floor2: against the "
	            "minimal loop with 2 threads; /peer: against the fastest program that looks at "
	            "each entry%s%s. Ratios are medians of the ratios within a round.\n",
	            fastest ? ": " : " (there is none)", fastest ? fastest->label : "");
	text_puts(notes, "Cold: no snapshot before. bytes: sum of file lengths. calls: openat, "
	                 "statx, getdents and close of the scan. nodes: directories written to the "
	                 "index. MB: peak memory.\n");
	note_verification(b, notes);
}

static void add_peers(const struct bench *b, struct report *r)
{
	struct table peers = report_bars(b, NULL, "Other programs, in the same rounds", BAR_PEER);
	struct text *notes = &add(r, &peers)->notes;
	const char *before = "Not installed: ";

	text_puts(notes,
	          "scan/it, scan+store/it: our \"scan only, auto\" and \"auto cold\" against "
	          "it; 0.5 is half its time. its total: compared with ours in disk space, in "
	          "a run of its own.\n");
	if (!b->options.verify)
		text_puts(notes, "Their system calls are counted with --verify-counts.\n");
	for (size_t i = 0; i < PEERS; i++)
		if (!b->peer[i].installed) {
			text_printf(notes, "%s%s", before, b->peer[i].name);
			before = ", ";
		}
	text_puts(notes, before[0] == ',' ? ".\n" : "Not installed: none.\n");
}

static void add_scaling(const struct bench *b, struct report *r)
{
	static const char *const kinds[SCALING_KINDS] = { "scan", "store", "floor" };
	struct table *t = add(r, &(struct table){ .title = "Thread scaling",
	                                          COLUMNS(scaling_columns),
	                                          ROWS(r->scaling_row, SCALING_ROWS) });

	for (size_t i = 0; i < SCALING_ROWS; i++)
		for (size_t k = 0; k < SCALING_KINDS; k++) {
			struct scaling *row = &r->scaling_row[i];
			const struct bench_bar *bar, *first;
			char key[32];

			row->readers = 1u << i;
			(void)snprintf(key, sizeof(key), "%s-1", kinds[k]);
			first = bench_find_bar(b, key);
			(void)snprintf(key, sizeof(key), "%s-%u", kinds[k], 1u << i);
			bar = bench_find_bar(b, key);
			row->ms[k] = bar ? bar->median.wall_ms : 0;
			row->faster[k] = bench_ratio(first, bar);
		}
	text_printf(&t->notes, "faster: times as fast as with 1. This machine has %u processors.\n",
	            b->machine.cpus);
	r->scaling = t;
}

static void add_storage(const struct bench *b, struct report *r)
{
	struct table *t = add(
		r,
		&(struct table){ .title = "Storage", COLUMNS(fact_columns), ROWS(r->fact, FACTS) });
	struct fact *f = r->fact;

	f[0] = (struct fact){ "file system", b->machine.filesystem };
	f[1] = (struct fact){ "device", b->storage[0] ? b->storage : "not known" };
	f[2] = (struct fact){ "auto chose", r->readers };
	(void)snprintf(r->readers, sizeof(r->readers), "%" PRIu64 " readers", b->auto_readers);
	if (b->evidence[0])
		text_printf(&t->notes, "%s\n", b->evidence);
}

/* What is in JSON with no row, too. */
static void add_lists(const struct bench *b, struct report *r)
{
	size_t n = targets_get(b, r->target);
	struct table *t;

	t = add(r, &(struct table){ .key = "measures",
	                            COLUMNS(measure_columns),
	                            ROWS(b->measure, b->n_measures) });
	if (b->n_measures > 0)
		t->title = b->options.hdd ? "On a simulated rotational disk" : "The mount";
	text_puts(&t->notes, "ratio: to the last row of the same kind.\n");
	t = add(r, &(struct table){ .key = "decisions",
	                            COLUMNS(decision_columns),
	                            ROWS(b->decision, b->n_decisions) });
	if (b->n_decisions > 0)
		t->title = "One reader while the disk has to move its head";
	text_puts(&t->notes, "As the scan logged them. More than one is right only for what is "
	                     "cached; a scan notices that when the first of its reads has to "
	                     "wait.\n");
	t = add(r,
	        &(struct table){ .key = "targets", COLUMNS(target_columns), ROWS(r->target, n) });
	t->title = n > 0 ? "Goals" : NULL;
}

static void add_lines(const struct bench *b, struct text *lines)
{
	const struct machine *m = &b->machine;
	const struct bench_counts *c = &b->bar[0].counts;

	text_printf(lines, "bench_tool %s, %s\n", b->version, m->date);
	text_printf(lines, "%s, %u processors, %" PRIu64 " MB, %s, %s, %s\n", m->cpu, m->cpus,
	            m->memory_kb / 1024, m->kernel, m->filesystem, m->compiler);
	if (b->rounds == 0)
		return;
	text_escaped_spaces(lines, b->generated ? "data set" : b->tree,
	                    strlen(b->generated ? "data set" : b->tree));
	text_printf(lines, ": %" PRIu64 " entries, %" PRIu64 " directories, %" PRIu64 " files\n",
	            c->entries, c->dirs, c->files);
	text_printf(lines,
	            "%u interleaved rounds, %s; other programs used %.0f%% of the processors%s\n",
	            b->rounds,
	            b->options.drop_caches ? "the kernel's caches dropped before each run"
	                                   : "caches warm",
	            b->foreign * 100, b->foreign > 0.1 ? ": too much for times to be quoted" : "");
}

static void make(struct bench *b, struct report *r)
{
	struct table bars = report_bars(b, "bars", NULL, OWN | BAR_PEER);

	finish(b);
	r->bench = b;
	r->bars = add(r, &bars);
	(void)add(r,
	          &(struct table){ .key = "peers", COLUMNS(peer_columns), ROWS(b->peer, PEERS) });
	add_lines(b, &r->lines);
	if (b->rounds > 0) {
		add_own(b, r);
		if (!b->options.no_peers)
			add_peers(b, r);
		add_scaling(b, r);
	}
	if (b->rounds > 0 || b->options.hdd)
		add_storage(b, r);
	add_lists(b, r);
}

/* -- formats --------------------------------------------------------------------------------- */

static void put_plain(const struct report *r, enum table_format format, struct text *out)
{
	if (format == FORMAT_MARKDOWN)
		text_puts(out, "## Benchmark\n\n");
	table_lines(&r->lines, format, false, out);
	for (size_t i = 0; i < r->n_tables; i++)
		table_print(&r->table[i], format, out);
}

static void put_json(const struct report *r, struct text *out)
{
	text_puts(out, "{\n  ");
	table_json_row(bench_columns, ARRAY_SIZE(bench_columns), r->bench, 0, 0, ",\n  ", out);
	for (size_t i = 0; i < r->n_tables; i++)
		if (r->table[i].key) {
			text_puts(out, ",\n  ");
			table_json(&r->table[i], 0, out);
		}
	text_puts(out, "\n}\n");
}

int report_save(const char *path, const struct text *text)
{
	FILE *out = path ? fopen(path, "we") : stdout;
	int r = text->failed ? -ENOMEM : 0;

	if (!out)
		return -errno;
	if (r == 0 && fwrite(text->p, 1, text->len, out) < text->len)
		r = -errno;
	if (fflush(out) != 0 && r == 0)
		r = -errno;
	if (out != stdout && fclose(out) != 0 && r == 0)
		r = -errno;
	return r;
}

int report_write(struct bench *b)
{
	enum table_format format = b->options.format;
	AUTO(base_free) struct report *r = calloc(1, sizeof(*r));
	struct text out = { 0 };
	int status;

	if (!r)
		return -ENOMEM;
	make(b, r);
	if (format == FORMAT_JSON)
		put_json(r, &out);
	else if (format == FORMAT_HTML)
		page_put(r, &out);
	else
		put_plain(r, format, &out);
	for (size_t i = 0; i < r->n_tables; i++) {
		out.failed |= r->table[i].notes.failed;
		text_done(&r->table[i].notes);
	}
	out.failed |= r->lines.failed;
	for (size_t i = 0; i < b->n_bars; i++) {
		out.failed |= b->bar[i].all_ms.failed;
		text_done(&b->bar[i].all_ms);
	}
	text_done(&r->lines);
	status = report_save(b->options.output, &out);
	text_done(&out);
	return status;
}
