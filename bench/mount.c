/* SPDX-License-Identifier: MIT */
/*
 * mount - the mount against the least a FUSE program can do, and against the tree it shows.
 *
 *     disktracker scan, disktracker mount     the programs as built or installed beside this one
 *     hellofs                                 answers from numbers alone
 *     open+read+close, stat, readdir          latency_measure: interleaved, medians
 *     find, ls -lR, du                        whole programs, in turns
 */
#include "bench/bench.h"
#include "bench/latency.h"

enum {
	WALKS = 5,
	ROWS = 4,
};

struct mounts {
	char index[PATH_MAX], mount[PATH_MAX], hello[PATH_MAX], cached[PATH_MAX];
	pid_t mount_pid, hello_pid, cached_pid;
};

static int start_mount(struct bench *b, struct mounts *m)
{
	int r = bench_command("disktracker", "scan", "--index", m->index, b->tree, NULL);

	return r < 0 ? r
	             : bench_serve(m->mount, &m->mount_pid, "disktracker", "mount", "--index",
	                           m->index, "--root", b->tree, "-f", m->mount, NULL);
}

/*
 * Twice: as programs are usually written, and as fast as the kernel allows, with opens that never
 * reach the program. Without them the mount is compared with the tree only.
 */
static int start_hello(struct mounts *m)
{
	int r = bench_serve(m->hello, &m->hello_pid, "hellofs", "-f", "--entries", "108", m->hello,
	                    NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return bench_serve(m->cached, &m->cached_pid, "hellofs", "-f", "--no-open", "--keep-cache",
	                   "--entries", "108", m->cached, NULL);
}

/* -- single operations ----------------------------------------------------------------------- */

/* Our path, the same in the tree, and its like on both minimal mounts. */
static const struct operation {
	enum latency_op op;
	const char *group, *ours, *real, *minimal;
} operations[] = {
	{ LATENCY_OPEN, "open, read, close: .usage/bytes", "d0000/.usage/bytes", "d0000/f0000000",
	  "bytes" },
	{ LATENCY_STAT, "stat: a file", "d0000/f0000000", "d0000/f0000000", "bytes" },
	{ LATENCY_READDIR, "readdir: 108 entries", "d0000", "d0000", "many" },
};

static int measure_operation(struct bench *b, const struct mounts *m, const struct operation *o)
{
	/* The last one is what the others are compared with. */
	const struct {
		const char *name, *folder, *path;
	} row[ROWS] = {
		{ "the mount", m->mount, o->ours },
		{ "the tree", b->tree, o->real },
		{ "minimal FUSE mount", m->hello, o->minimal },
		{ "the same, opens cached", m->cached, o->minimal },
	};
	size_t n = m->cached_pid > 0 ? ROWS : 2;
	char path[ROWS][PATH_MAX];
	struct latency l[ROWS];
	const char *failed;
	int r;

	bench_progress("the mount: %s", o->group);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path[i], PATH_MAX, "%.*s/%s", PATH_MAX - NAME_MAX, row[i].folder,
		               row[i].path);
		l[i] = (struct latency){ .path = path[i] };
	}
	r = latency_measure(o->op, l, n, &failed);
	if (r < 0) {
		(void)fprintf(stderr, "bench_tool: %s '%s': %s\n", o->group, failed, strerror(-r));
		return r;
	}
	for (size_t i = 0; i < n; i++)
		bench_measure(b, o->group, row[i].name,
		              o->op == LATENCY_READDIR ? 1e6 / l[i].us : l[i].us,
		              o->op == LATENCY_READDIR ? "entries/s" : "us");
	return 0;
}

/* -- whole programs -------------------------------------------------------------------------- */

static const struct walk {
	const char *group, *program, *args[2]; /* NULL: the tree */
} walks[] = {
	{ "du -s", "du", { "-s", NULL } },
	{ "find -ls", "find", { NULL, "-ls" } },
	{ "ls -lR", "ls", { "-lR", NULL } },
};

/* Times of one program on the mount and in the tree, in turns. The mount's first is told apart. */
static int measure_walk(struct bench *b, const struct mounts *m, const struct walk *w)
{
	double ms[2][WALKS], first = 0;
	char name[PATH_MAX];
	char *argv[] = { name, NULL, NULL, NULL };
	struct spawn s = { .argv = argv };
	struct spawned done;
	int r = bench_find_program(w->program, name);

	if (r < 0)
		return r;
	bench_progress("the mount: %s", w->group);
	for (unsigned i = 0; i < 2 * WALKS + 2; i++) {
		for (size_t k = 0; k < 2; k++)
			argv[k + 1] = (char *)(uintptr_t)(w->args[k] ? w->args[k]
			                                  : i % 2    ? b->tree
			                                             : m->mount);
		r = bench_spawn(&s, &done);
		if (r < 0)
			return r;
		if (i >= 2)
			ms[i % 2][i / 2 - 1] = done.sample.wall_ms;
		else if (i == 0)
			first = done.sample.wall_ms;
	}
	bench_measure(b, w->group, "the mount, first time", first, "ms");
	bench_measure(b, w->group, "the mount, again", median_of(ms[0], WALKS), "ms");
	bench_measure(b, w->group, "the tree", median_of(ms[1], WALKS), "ms");
	return 0;
}

int mount_run(struct bench *b)
{
	struct mounts m = { 0 };
	int r;

	(void)workdir_path(&b->work, "mount.db", m.index);
	(void)workdir_path(&b->work, "mount", m.mount);
	(void)workdir_path(&b->work, "hello", m.hello);
	(void)workdir_path(&b->work, "cached", m.cached);
	bench_progress("the mount: scan and start");
	r = start_mount(b, &m);
	if (r == 0)
		r = start_hello(&m);
	for (size_t i = 0; i < ARRAY_SIZE(operations) && r == 0; i++)
		r = measure_operation(b, &m, &operations[i]);
	for (size_t i = 0; i < ARRAY_SIZE(walks) && r == 0; i++)
		r = measure_walk(b, &m, &walks[i]);
	bench_progress("%s", "");
	bench_stop(m.cached_pid, m.cached);
	bench_stop(m.hello_pid, m.hello);
	bench_stop(m.mount_pid, m.mount);
	return r;
}
