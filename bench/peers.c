/* SPDX-License-Identifier: MIT */
/*
 * peers - the other programs: how each is called, and whether it counted what we counted.
 *
 * All stay on one file system, as our scan does, and write to /dev/null when timed. Totals are
 * compared in a run of their own. Programs count by different rules, so a total is tried against
 * each rule that is known; the one that fits is the reason why it differs.
 */
#include "bench/bench.h"

#include <ctype.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>

/* -- reading totals -------------------------------------------------------------------------- */

/* "12288\ttree", "   12288 tree", "12288 b tree" */
static bool first_number(FILE *in, uint64_t *ret)
{
	return fscanf(in, "%*[^0-9]") != EOF && fscanf(in, "%" SCNu64, ret) == 1;
}

static bool leading_number(FILE *in, uint64_t *ret)
{
	return fscanf(in, "%" SCNu64, ret) == 1;
}

/* A number of 512-byte blocks a line. */
static bool sum_blocks(FILE *in, uint64_t *ret)
{
	uint64_t n;

	*ret = 0;
	while (fscanf(in, "%" SCNu64, &n) == 1)
		*ret += n * 512;
	return *ret > 0;
}

static bool count_nuls(FILE *in, uint64_t *ret)
{
	int c;

	*ret = 0;
	while ((c = getc_unlocked(in)) != EOF)
		*ret += c == 0;
	return true;
}

/* ncdu's export is JSON: "dsize":4096 for whatever has a size. A quote in a name is escaped there. */
static bool sum_dsize(FILE *in, uint64_t *ret)
{
	static const char key[] = "\"dsize\":";
	size_t matched = 0;
	uint64_t n;
	int c;

	*ret = 0;
	while ((c = getc_unlocked(in)) != EOF) {
		if (c != key[matched]) {
			matched = c == key[0];
			continue;
		}
		if (key[++matched])
			continue;
		matched = 0;
		if (fscanf(in, "%" SCNu64, &n) == 1)
			*ret += n;
	}
	return *ret > 0;
}

/* A heading, then "2026-05-01 10:34:25  450  51  2048 /tree" */
static bool duc_info(FILE *in, uint64_t *ret)
{
	return fscanf(in, "%*[^\n] %*s %*s %*u %*u %" SCNu64, ret) == 1;
}

/* "196M  tree", with whatever drawn around it */
static bool human_number(FILE *in, uint64_t *ret)
{
	static const char units[] = "BKMGTP";
	double value;
	char unit = 'B';
	const char *at;

	if (fscanf(in, "%lf%c", &value, &unit) < 1)
		return false;
	at = strchr(units, toupper((unsigned char)unit));
	*ret = (uint64_t)(value * (at ? pow(1024, (double)(at - units)) : 1));
	return true;
}

/* In the order of the report. */
/* clang-format off */
const struct peer bench_peers[PEERS] = {
	{ "du", { "du" }, "--version", { "-x", "-s", "-B1", "@tree" }, { NULL }, true,
	  "disk usage, 1 thread", leading_number, PEER_BYTES },
	{ "ncdu", { "ncdu" }, "--version", { "-x", "-0", "-o", "@out", "@tree" }, { NULL }, true,
	  "exports all entries, 1 thread", sum_dsize, PEER_BYTES },
	{ "gdu", { "gdu", "gdu-go" }, "--version", { "-x", "-n", "-p", "-s", "--no-prefix", "@tree" }, { NULL },
	  true, "disk usage, in parallel, in memory", first_number, PEER_BYTES },
	{ "duc", { "duc" }, "--version", { "index", "-x", "-H", "-q", "-d", "@db", "@tree" },
	  { "info", "-b", "-d", "@db" }, true, "keeps an index, 1 thread", duc_info, PEER_BYTES },
	{ "dust", { "dust" }, "--version", { "-x", "-c", "-b", "-d", "0", "@tree" }, { NULL }, true,
	  "disk usage, in parallel", human_number, PEER_ROUNDED },
	{ "dua", { "dua" }, "--version", { "-x", "-f", "bytes", "aggregate", "@tree" }, { NULL }, true,
	  "disk usage, in parallel", first_number, PEER_BYTES },
	{ "bfs", { "bfs" }, "--version", { "@tree", "-xdev", "-printf", "%b\\n" }, { NULL }, true,
	  "prints each entry's blocks", sum_blocks, PEER_BYTES },
	{ "find", { "find" }, "--version", { "@tree", "-xdev", "-printf", "%b\\n" }, { NULL }, true,
	  "prints each entry's blocks, 1 thread", sum_blocks, PEER_BYTES },
	{ "fd", { "fdfind", "fd" }, "--version", { "-u", "--one-file-system", "-0", ".", "@tree" }, { NULL },
	  false, "prints names, looks at no entry", count_nuls, PEER_NAMES },
};
/* clang-format on */

/* -- calling --------------------------------------------------------------------------------- */

static const char *replace(const char *arg, const char *tree, const struct workdir *w, char *buf)
{
	if (strcmp(arg, "@tree") == 0)
		return tree;
	if (strcmp(arg, "@out") == 0)
		return "/dev/null";
	if (strcmp(arg, "@db") == 0)
		return workdir_path(w, "duc.db", buf);
	return arg;
}

void peer_args(struct peer_args *a, const struct peer_found *f, const char *const *args,
               const char *tree, const struct workdir *w)
{
	char buf[PATH_MAX];
	size_t n = 0;

	a->argv[0] = (char *)(uintptr_t)f->path;
	for (; n < PEER_ARGS && args[n]; n++) {
		(void)snprintf(a->path[n], PATH_MAX, "%s", replace(args[n], tree, w, buf));
		a->argv[n + 1] = a->path[n];
	}
	a->argv[n + 1] = NULL;
}

/* The first line, without runs of blanks. */
static void read_version(const char *path, char *ret, size_t size)
{
	FILE *in = fopen(path, "re");
	size_t n = 0;
	int c;

	while (in && n + 1 < size && (c = getc(in)) != EOF && (c != '\n' || n == 0)) {
		if (isspace(c) && (n == 0 || ret[n - 1] == ' '))
			continue;
		ret[n++] = (char)(isspace(c) ? ' ' : isprint(c) ? c : '?');
	}
	ret[n] = '\0';
	if (in)
		(void)fclose(in);
}

void peer_find(const struct peer *p, const struct workdir *w, struct peer_found *ret)
{
	char out[PATH_MAX];
	char *argv[] = { ret->path, (char *)(uintptr_t)p->version, NULL };
	const struct spawn s = { .argv = argv,
		                 .home = w->path,
		                 .out = workdir_path(w, "version", out),
		                 .timeout_s = 10 };
	struct spawned done;
	int r = -ENOENT;

	for (size_t i = 0; i < PEER_PROGRAMS && p->programs[i] && r < 0; i++)
		r = bench_find_program(p->programs[i], ret->path);
	if (r < 0) {
		ret->path[0] = '\0';
		return;
	}
	if (bench_spawn(&s, &done) == 0)
		read_version(out, ret->version, sizeof(ret->version));
}

/* -- comparing ------------------------------------------------------------------------------- */

/* Why a total in bytes is what it is, by the first rule that fits; NULL: no known reason. */
static const char *explain(uint64_t total, const struct tree_sums *t)
{
	const struct {
		uint64_t total;
		const char *reason;
	} rules[] = {
		{ t->once - t->dir_bytes, "leaves out the space of directories themselves" },
		{ t->once - t->root_bytes, "leaves out the space of the top directory itself" },
		{ t->once - t->dir_bytes + t->dirs * 4096, "counts each directory as 4096 bytes" },
		{ t->bytes, "counts a file with several names once for each" },
		{ t->bytes - t->dir_bytes,
		  "counts each name of a file, and not the space of directories" },
		{ t->apparent + t->dir_apparent, "adds up lengths, not disk space" },
		{ t->apparent, "adds up lengths, not disk space, and leaves out directories" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (total == rules[i].total)
			return rules[i].reason;
	return NULL;
}

static void compare_total(const struct peer *p, struct peer_found *f, const struct tree_sums *t)
{
	double off = (double)f->total / (double)MAX(t->once, 1) - 1;
	const char *reason = explain(f->total, t);

	if (p->unit == PEER_NAMES) {
		f->differs = f->total != t->names;
		(void)snprintf(f->compared, TEXT_BYTES, "%s number of names; adds up no sizes",
		               f->differs ? "another" : "same");
	} else if (p->unit == PEER_ROUNDED) {
		f->differs = fabs(off) > 0.06;
		(void)snprintf(f->compared, TEXT_BYTES, "%s, as far as it prints digits",
		               f->differs ? "differs" : "same");
	} else if (f->total == t->once) {
		(void)snprintf(f->compared, TEXT_BYTES, "same");
	} else {
		f->differs = !reason;
		(void)snprintf(f->compared, TEXT_BYTES, "%+.2f%%: %s", off * 100,
		               reason ? reason : "no known reason");
	}
}

/* The run whose output is read: like the timed one, but it writes to a file. */
static int run_for_total(struct bench_bar *bar, struct peer_args *a, const char *out,
                         const struct workdir *w, unsigned timeout_s)
{
	struct spawn s = { .argv = a->argv, .home = w->path, .out = out, .timeout_s = timeout_s };
	struct spawned done;
	int r;

	for (size_t i = 0; a->argv[i]; i++)
		if (strcmp(a->argv[i], "/dev/null") == 0) /* where ncdu exports to */
			a->argv[i] = (char *)(uintptr_t)out;
	r = bench_spawn(&s, &done);
	bar->failed = r == 0 && spawned_problem(&done, &s, bar->problem);
	return r;
}

int peer_compare(struct bench_bar *bar, struct peer_found *f, const char *tree,
                 const struct workdir *w, const struct tree_sums *sums, unsigned timeout_s)
{
	const struct peer *p = bar->peer;
	struct peer_args a;
	char out[PATH_MAX];
	FILE *in;
	int r;

	(void)workdir_path(w, "total", out);
	peer_args(&a, f, p->args, tree, w);
	r = run_for_total(bar, &a, out, w, timeout_s);
	if (r == 0 && !bar->failed && p->total_args[0]) {
		peer_args(&a, f, p->total_args, tree, w);
		r = run_for_total(bar, &a, out, w, timeout_s);
	}
	if (r < 0 || bar->failed)
		return r;
	in = fopen(out, "re");
	if (in && p->total(in, &f->total)) {
		compare_total(p, f, sums);
	} else {
		(void)snprintf(f->compared, TEXT_BYTES, "its output was not understood");
		f->differs = true;
	}
	if (in)
		(void)fclose(in);
	(void)remove(out);
	return 0;
}

/* -- the rules' totals ----------------------------------------------------------------------- */

/* nftw() hands nothing through to its callback. */
static struct tree_sums *walk_sums;

static int add_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct tree_sums *t = walk_sums;
	uint64_t bytes = (uint64_t)st->st_blocks * 512;

	(void)path;
	if (type == FTW_NS)
		return 0;
	t->bytes += bytes;
	t->names += ftw->level > 0;
	if (ftw->level == 0)
		t->root_bytes = bytes;
	if (S_ISDIR(st->st_mode)) {
		t->dirs++;
		t->dir_bytes += bytes;
		t->dir_apparent += (uint64_t)st->st_size;
	} else {
		t->apparent += (uint64_t)st->st_size;
	}
	return bench_interrupted ? -1 : 0;
}

int tree_sums_get(const char *tree, struct tree_sums *ret)
{
	int r;

	*ret = (struct tree_sums){ 0 };
	walk_sums = ret;
	r = nftw(tree, add_entry, 32, FTW_PHYS | FTW_MOUNT);
	if (bench_interrupted)
		return -EINTR;
	return r < 0 ? -errno : 0;
}
