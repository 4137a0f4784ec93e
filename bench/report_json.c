/* SPDX-License-Identifier: MIT */
/*
 * report_json - the report for programs. Its keys are documented in bench_tool(1) and stable.
 */
#include "bench/report.h"

#include <inttypes.h>

/* One level of indentation a level; a comma before all but the first. */
struct json {
	FILE *out;
	unsigned depth;
	bool first;
};

/* Bytes that are not ASCII appear only in paths; they are escaped as the byte's code. */
static void put_string(FILE *out, const char *s)
{
	(void)fputc('"', out);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			(void)fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			(void)fprintf(out, "\\u%04x", c);
		else
			(void)fputc(c, out);
	}
	(void)fputc('"', out);
}

static void begin_value(struct json *j, const char *key)
{
	(void)fprintf(j->out, "%s\n%*s", j->first ? "" : ",", (int)j->depth * 2, "");
	j->first = false;
	if (key) {
		put_string(j->out, key);
		(void)fputs(": ", j->out);
	}
}

static void open_value(struct json *j, const char *key, char bracket)
{
	begin_value(j, key);
	(void)fputc(bracket, j->out);
	j->depth++;
	j->first = true;
}

static void close_value(struct json *j, char bracket)
{
	j->depth--;
	if (!j->first)
		(void)fprintf(j->out, "\n%*s", (int)j->depth * 2, "");
	(void)fputc(bracket, j->out);
	j->first = false;
}

static void put_text(struct json *j, const char *key, const char *value)
{
	begin_value(j, key);
	put_string(j->out, value);
}

static void put_count(struct json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	(void)fprintf(j->out, "%" PRIu64, value);
}

static void put_real(struct json *j, const char *key, double value)
{
	begin_value(j, key);
	(void)fprintf(j->out, "%.4f", value);
}

static void put_bool(struct json *j, const char *key, bool value)
{
	begin_value(j, key);
	(void)fputs(value ? "true" : "false", j->out);
}

/* -- parts ----------------------------------------------------------------------------------- */

static void put_machine(struct json *j, const struct machine *m)
{
	open_value(j, "machine", '{');
	put_text(j, "cpu", m->cpu);
	put_count(j, "cpus", m->cpus);
	put_count(j, "memory_kb", m->memory_kb);
	put_text(j, "kernel", m->kernel);
	put_text(j, "filesystem", m->filesystem);
	put_text(j, "compiler", m->compiler);
	close_value(j, '}');
}

static void put_tree(struct json *j, const struct bench *b)
{
	const struct bench_counts *c = &b->bar[0].counts;

	open_value(j, "tree", '{');
	put_bool(j, "generated", !b->options.tree);
	put_text(j, "path", b->options.tree ? b->tree : "");
	put_count(j, "entries", c->entries);
	put_count(j, "dirs", c->dirs);
	put_count(j, "files", c->files);
	close_value(j, '}');
}

static void put_storage(struct json *j, const struct bench *b)
{
	open_value(j, "storage", '{');
	put_text(j, "kind", b->storage);
	put_text(j, "evidence", b->evidence);
	put_count(j, "auto_readers", b->auto_readers);
	close_value(j, '}');
}

static void put_counts(struct json *j, const struct bench_bar *bar)
{
	const struct bench_counts *c = &bar->counts;

	open_value(j, "counts", '{');
	put_count(j, "entries", c->entries);
	put_count(j, "files", c->files);
	put_count(j, "dirs", c->dirs);
	put_count(j, "disk_bytes", c->bytes);
	if (bar->kind != BAR_FLOOR) {
		put_count(j, "bytes", c->apparent);
		put_count(j, "openat", c->openat);
		put_count(j, "statx", c->statx);
		put_count(j, "getdents64", c->getdents);
		put_count(j, "close", c->close);
		put_count(j, "calls", report_calls(c));
		put_count(j, "problems", c->errors);
	}
	if (bar->kind == BAR_STORE) {
		put_count(j, "nodes_written", c->nodes_written);
		put_count(j, "index_bytes", c->index_bytes);
	}
	put_count(j, "readers", c->readers);
	put_bool(j, "vary", bar->vary);
	close_value(j, '}');
}

static void put_times(struct json *j, const struct bench_bar *bar)
{
	struct bench_median m = bench_median(bar);

	put_count(j, "samples", bar->n);
	put_real(j, "wall_ms", m.wall_ms);
	put_real(j, "wall_ms_min", m.min_ms);
	put_real(j, "wall_ms_max", m.max_ms);
	open_value(j, "wall_ms_all", '[');
	for (size_t i = 0; i < bar->n; i++)
		put_real(j, NULL, bar->sample[i].wall_ms);
	close_value(j, ']');
	put_real(j, "user_ms", m.user_ms);
	put_real(j, "sys_ms", m.sys_ms);
	put_count(j, "peak_rss_kb", m.rss_kb);
	if (bar->kind != BAR_PEER)
		put_real(j, "scan_ms", m.scan_ms);
}

static void put_bar(struct json *j, const struct bench *b, const struct bench_bar *bar)
{
	static const char *const kinds[] = {
		[BAR_SCAN] = "scan",
		[BAR_STORE] = "store",
		[BAR_FLOOR] = "floor",
		[BAR_PEER] = "peer",
	};

	open_value(j, NULL, '{');
	put_text(j, "key", bar->key);
	put_text(j, "label", bar->label);
	put_text(j, "kind", kinds[bar->kind]);
	put_times(j, bar);
	put_real(j, "ratio_floor2", bench_ratio(bar, bench_find_bar(b, "floor-2")));
	put_real(j, "ratio_fastest_peer", bench_ratio(bar, bench_fastest_peer(b)));
	if (bar->kind != BAR_PEER)
		put_counts(j, bar);
	if (bar->strace_calls)
		put_count(j, "strace_calls", bar->strace_calls);
	if (bar->verified[0])
		put_text(j, "verified", bar->verified);
	if (bar->failed)
		put_text(j, "trouble", bar->trouble);
	close_value(j, '}');
}

static void put_peer(struct json *j, const struct peer *p, const struct peer_found *f)
{
	open_value(j, NULL, '{');
	put_text(j, "name", p->name);
	put_bool(j, "installed", f->path[0] != '\0');
	put_text(j, "version", f->version);
	put_bool(j, "stats_entries", p->stats);
	put_count(j, "total", f->total);
	put_text(j, "compared", f->compared);
	put_bool(j, "unexplained", f->differs);
	close_value(j, '}');
}

static void put_targets(struct json *j, const struct bench *b)
{
	struct target t[TARGETS_MAX];
	size_t n = targets_get(b, t);

	open_value(j, "targets", '[');
	for (size_t i = 0; i < n; i++) {
		open_value(j, NULL, '{');
		put_text(j, "text", t[i].text);
		put_real(j, "limit", t[i].limit);
		put_real(j, "value", t[i].value);
		put_bool(j, "measured", t[i].value > 0);
		put_bool(j, "met", t[i].value > 0 && t[i].value <= t[i].limit);
		close_value(j, '}');
	}
	close_value(j, ']');
}

static void put_measures(struct json *j, const struct bench *b)
{
	open_value(j, "measures", '[');
	for (size_t i = 0; i < b->n_measures; i++) {
		open_value(j, NULL, '{');
		put_text(j, "group", b->measure[i].group);
		put_text(j, "name", b->measure[i].name);
		put_real(j, "value", b->measure[i].value);
		put_text(j, "unit", b->measure[i].unit);
		put_real(j, "ratio", b->measure[i].ratio);
		close_value(j, '}');
	}
	close_value(j, ']');
}

static void put_decisions(struct json *j, const struct bench *b)
{
	open_value(j, "decisions", '[');
	for (size_t i = 0; i < b->n_decisions; i++) {
		open_value(j, NULL, '{');
		put_text(j, "group", b->decision[i].group);
		put_text(j, "text", b->decision[i].text);
		put_bool(j, "right", b->decision[i].right);
		close_value(j, '}');
	}
	close_value(j, ']');
}

int report_json(const struct bench *b, FILE *out)
{
	struct json j = { .out = out, .depth = 1, .first = true };
	const struct bench_bar *fastest = bench_fastest_peer(b);

	(void)fputc('{', out);
	put_count(&j, "schema", 1);
	put_text(&j, "version", DISKTRACKER_VERSION);
	put_text(&j, "date", b->machine.date);
	put_machine(&j, &b->machine);
	put_tree(&j, b);
	put_text(&j, "caches", b->options.drop_caches ? "dropped" : "warm");
	put_count(&j, "rounds", b->rounds);
	put_real(&j, "foreign_cpu_share", b->foreign);
	put_text(&j, "fastest_peer", fastest ? fastest->key : "");
	put_storage(&j, b);
	open_value(&j, "bars", '[');
	for (size_t i = 0; i < b->n_bars; i++)
		put_bar(&j, b, &b->bar[i]);
	close_value(&j, ']');
	open_value(&j, "peers", '[');
	for (size_t i = 0; i < PEERS; i++)
		put_peer(&j, &bench_peers[i], &b->peer[i]);
	close_value(&j, ']');
	put_targets(&j, b);
	put_measures(&j, b);
	put_decisions(&j, b);
	put_count(&j, "wrong", b->wrong);
	close_value(&j, '}');
	(void)fputc('\n', out);
	return 0;
}
