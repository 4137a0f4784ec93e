/* SPDX-License-Identifier: MIT */
/*
 * verify - system calls as strace counts them.
 *
 *     our runs   every openat of a directory, statx and getdents64, one line each, against the
 *                scan's own counters: equal or wrong
 *     all        a summary of all calls of the process, its start included, for the charts
 *
 * Libraries and the index open files as well; only a scan opens directories.
 */
#include "bench/bench.h"

#include <fcntl.h>
#include <inttypes.h>

enum {
	STRACE_TIMEOUT_S = 3600,
	STRACE_ARGS = 5,
	MODE_ARGS = 3
};

static const char *const each_call[MODE_ARGS] = { "-e", "trace=openat,statx,getdents64" };
static const char *const summary[MODE_ARGS] = { "-c", "-U", "name,calls" };

struct strace {
	char path[PATH_MAX], out[PATH_MAX];
};

/* Runs argv under strace, whose report goes to a file. */
static int run_strace(const struct strace *st, const char *const mode[static MODE_ARGS],
                      char *const *argv, const struct bench *b)
{
	char *args[STRACE_ARGS + MODE_ARGS + PEER_ARGS + 2] = {
		(char *)(uintptr_t)st->path, (char[]){ "-f" }, (char[]){ "-qq" }, (char[]){ "-o" },
		(char *)(uintptr_t)st->out,
	};
	size_t n = STRACE_ARGS;
	struct child_result result;
	struct spawn s = { .argv = args,
		           .home = b->work.path,
		           .timeout_s = STRACE_TIMEOUT_S,
		           .result = &result,
		           .result_bytes = sizeof(result) };
	struct spawned done;
	char problem[TEXT_BYTES];
	int r;

	for (size_t i = 0; i < MODE_ARGS && mode[i]; i++)
		args[n++] = (char *)(uintptr_t)mode[i];
	while (*argv)
		args[n++] = *argv++;
	r = bench_spawn(&s, &done);
	if (r == 0 && spawned_problem(&done, &s, problem))
		return -EIO;
	return r;
}

/*
 * What strace wrote: lines of calls, complete or "unfinished" (the "resumed" second half has no "name("),
 * or with -c -U name,calls a last row "total  70004".
 */
static int read_output(const char *path, struct bench_counts *calls, uint64_t *total)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;

	if (!in)
		return -errno;
	*calls = (struct bench_counts){ 0 };
	while (getline(&line, &cap, in) > 0) {
		calls->statx += strstr(line, " statx(") != NULL;
		calls->getdents += strstr(line, " getdents64(") != NULL;
		/* What is opened with O_PATH is not read: the way to what the storage is. */
		calls->openat += strstr(line, " openat(") && strstr(line, "O_DIRECTORY") &&
		                 !strstr(line, "O_PATH");
		(void)sscanf(line, " total %" SCNu64, total);
	}
	free(line);
	(void)fclose(in);
	return 0;
}

static void compare(struct bench *b, struct bench_bar *bar, const struct bench_counts *seen)
{
	const struct bench_counts *c = &bar->counts;

	if (seen->openat == c->openat && seen->statx == c->statx && seen->getdents == c->getdents) {
		(void)snprintf(bar->verified, TEXT_BYTES, "strace agrees");
		return;
	}
	(void)snprintf(bar->verified, TEXT_BYTES,
	               "strace: openat %" PRIu64 ", statx %" PRIu64 ", getdents %" PRIu64,
	               seen->openat, seen->statx, seen->getdents);
	bench_wrong(b, "%s: %s; the scan counted %" PRIu64 ", %" PRIu64 ", %" PRIu64, bar->label,
	            bar->verified, c->openat, c->statx, c->getdents);
}

static int verify_own(struct bench *b, struct bench_bar *bar, const struct strace *st)
{
	struct bench_counts seen = { 0 };
	struct child_args a;
	char index[PATH_MAX];
	bool cold = bar->kind == BAR_STORE && bar->new_index;
	int r;

	(void)workdir_path(&b->work, cold ? "verify.db" : "store-auto.db", index);
	r = dataset_change(AT_FDCWD, b->tree, &b->spec, bar->step);
	if (r == 0)
		r = child_args(&a, bar, b->tree, index);
	if (r == 0 && cold)
		(void)remove(index);
	if (r == 0)
		r = run_strace(st, each_call, a.argv, b);
	if (r == 0)
		r = read_output(st->out, &seen, &bar->strace_calls);
	if (r < 0)
		return r;
	compare(b, bar, &seen);
	if (cold)
		(void)remove(index);
	return run_strace(st, summary, a.argv, b);
}

static int verify_bar(struct bench *b, struct bench_bar *bar, const struct strace *st)
{
	struct bench_counts ignored;
	struct peer_args peer;
	struct child_args own;
	int r = 0;

	bench_progress("strace: %s", bar->label);
	if (bar->kind & BARS_OURS) {
		r = verify_own(b, bar, st);
	} else if (bar->kind == BAR_PEER) {
		peer_args(&peer, &b->peer[bar->peer - bench_peers], bar->peer->args, b->tree,
		          &b->work);
		r = run_strace(st, summary, peer.argv, b);
	} else {
		r = child_args(&own, bar, b->tree, NULL);
		if (r == 0)
			r = run_strace(st, summary, own.argv, b);
	}
	return r < 0 ? r : read_output(st->out, &ignored, &bar->strace_calls);
}

int verify_run(struct bench *b)
{
	struct strace st;
	int r = bench_find_program("strace", st.path);

	if (r < 0) {
		(void)fprintf(stderr, "bench_tool: strace is not installed: counts not verified\n");
		return 0;
	}
	(void)workdir_path(&b->work, "strace", st.out);
	for (size_t i = 0; i < b->n_bars && r == 0; i++)
		if (!b->bar[i].failed)
			r = verify_bar(b, &b->bar[i], &st);
	bench_progress("%s", "");
	return r == 0 && !b->options.tree ? dataset_reset(AT_FDCWD, b->tree, &b->spec) : r;
}
