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

#include <sys/stat.h>

enum {
	WALKS = 5,
	HELLO_ENTRIES = 108,
	ROW_MAX = 4
};

struct mounts {
	char index[PATH_MAX], mount[PATH_MAX], hello[PATH_MAX], cached[PATH_MAX];
	pid_t mount_pid, hello_pid, cached_pid;
};

static int start_mount(struct bench *b, struct mounts *m)
{
	char program[PATH_MAX];
	char *scan[] = {
		program, (char[]){ "scan" }, (char[]){ "--index" }, m->index, b->tree, NULL
	};
	char *mount[] = { program,
		          (char[]){ "mount" },
		          (char[]){ "--index" },
		          m->index,
		          (char[]){ "--root" },
		          b->tree,
		          (char[]){ "-f" },
		          m->mount,
		          NULL };
	struct spawn s = { .argv = scan };
	struct spawned done;
	int r = bench_find_own("disktracker", program);

	if (r < 0) {
		(void)fprintf(stderr,
		              "bench_tool: there is no program 'disktracker' beside this one\n");
		return r;
	}
	r = bench_spawn(&s, &done);
	if (r == 0 && done.status != 0)
		r = -EIO;
	return r < 0 ? r : bench_serve(mount, m->mount, &m->mount_pid);
}

/*
 * Twice: as programs are usually written, and as fast as the kernel allows, with opens that never
 * reach the program. Without them the mount is compared with the tree only.
 */
static int start_hello(struct mounts *m)
{
	char program[PATH_MAX], entries[16];
	char *plain[] = { program, (char[]){ "-f" }, (char[]){ "--entries" },
		          entries, m->hello,         NULL };
	char *cached[] = { program,
		           (char[]){ "-f" },
		           (char[]){ "--no-open" },
		           (char[]){ "--keep-cache" },
		           (char[]){ "--entries" },
		           entries,
		           m->cached,
		           NULL };
	int r;

	(void)snprintf(entries, sizeof(entries), "%d", HELLO_ENTRIES);
	if (bench_find_own("hellofs", program) < 0) {
		(void)fprintf(stderr,
		              "bench_tool: there is no program 'hellofs' beside this one\n");
		return 0;
	}
	r = bench_serve(plain, m->hello, &m->hello_pid);
	return r < 0 ? r : bench_serve(cached, m->cached, &m->cached_pid);
}

/* -- single operations ----------------------------------------------------------------------- */

/* A path of NULL is left out. The last one is what the others are compared with. */
struct row {
	const char *name, *path;
};

static int measure_rows(struct bench *b, enum latency_op op, const char *group,
                        const struct row row[static ROW_MAX])
{
	struct latency l[ROW_MAX];
	const char *name[ROW_MAX], *failed;
	size_t n = 0;
	int r;

	bench_progress("the mount: %s", group);
	for (size_t i = 0; i < ROW_MAX; i++)
		if (row[i].path) {
			name[n] = row[i].name;
			l[n++] = (struct latency){ .path = row[i].path };
		}
	r = latency_measure(op, LATENCY_ROUNDS, l, n, &failed);
	if (r < 0) {
		(void)fprintf(stderr, "bench_tool: %s '%s': %s\n", group, failed, strerror(-r));
		return r;
	}
	for (size_t i = 0; i < n; i++)
		bench_measure(b, group, name[i], op == LATENCY_READDIR ? 1e6 / l[i].us : l[i].us,
		              op == LATENCY_READDIR ? "entries/s" : "us");
	return 0;
}

static char *join(char *buf, const char *folder, const char *name)
{
	(void)snprintf(buf, PATH_MAX, "%.*s/%s", PATH_MAX - NAME_MAX, folder, name);
	return buf;
}

/* Our path, the same in the tree, and its like on both minimal mounts. */
static int measure_one(struct bench *b, const struct mounts *m, enum latency_op op,
                       const char *group, const char *ours, const char *real, const char *minimal)
{
	char our_path[PATH_MAX], real_path[PATH_MAX], hello[PATH_MAX], cached[PATH_MAX];
	const struct row rows[ROW_MAX] = {
		{ "the mount", join(our_path, m->mount, ours) },
		{ "the tree", join(real_path, b->tree, real) },
		{ "minimal FUSE mount", m->hello_pid > 0 ? join(hello, m->hello, minimal) : NULL },
		{ "the same, opens cached",
		  m->cached_pid > 0 ? join(cached, m->cached, minimal) : NULL },
	};

	return measure_rows(b, op, group, rows);
}

static int measure_operations(struct bench *b, const struct mounts *m)
{
	int r = measure_one(b, m, LATENCY_OPEN, "open, read, close: .usage/bytes",
	                    "d0000/.usage/bytes", "d0000/f0000000", "bytes");

	if (r == 0)
		r = measure_one(b, m, LATENCY_STAT, "stat: a file", "d0000/f0000000",
		                "d0000/f0000000", "bytes");
	if (r == 0)
		r = measure_one(b, m, LATENCY_READDIR, "readdir: 108 entries", "d0000", "d0000",
		                "many");
	return r;
}

/* -- whole programs -------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Times of one program on the mount and in the tree, in turns. The mount's first is told apart. */
static int measure_walk(struct bench *b, const struct mounts *m, char *argv[static 4],
                        size_t tree_at, const char *group)
{
	double ms[2][WALKS], first = 0;
	char name[PATH_MAX];
	struct spawn s = { .argv = argv };
	struct spawned done;
	int r = bench_find_program(argv[0], name);

	if (r < 0)
		return r;
	argv[0] = name;
	bench_progress("the mount: %s", group);
	for (unsigned i = 0; i < 2 * WALKS + 2 && r == 0; i++) {
		argv[tree_at] = i % 2 ? b->tree : (char *)(uintptr_t)m->mount;
		r = bench_spawn(&s, &done);
		if (i >= 2)
			ms[i % 2][i / 2 - 1] = done.sample.wall_ms;
		else if (i == 0)
			first = done.sample.wall_ms;
	}
	if (r < 0)
		return r;
	qsort(ms[0], WALKS, sizeof(double), by_value);
	qsort(ms[1], WALKS, sizeof(double), by_value);
	bench_measure(b, group, "the mount, first time", first, "ms");
	bench_measure(b, group, "the mount, again", ms[0][WALKS / 2], "ms");
	bench_measure(b, group, "the tree", ms[1][WALKS / 2], "ms");
	return 0;
}

static int measure_walks(struct bench *b, const struct mounts *m)
{
	char *find[] = { (char[]){ "find" }, NULL, (char[]){ "-ls" }, NULL };
	char *ls[] = { (char[]){ "ls" }, (char[]){ "-lR" }, NULL, NULL };
	char *du[] = { (char[]){ "du" }, (char[]){ "-s" }, NULL, NULL };
	int r = measure_walk(b, m, du, 2, "du -s");

	if (r == 0)
		r = measure_walk(b, m, find, 1, "find -ls");
	if (r == 0)
		r = measure_walk(b, m, ls, 2, "ls -lR");
	return r;
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
	if (r == 0)
		r = measure_operations(b, &m);
	if (r == 0)
		r = measure_walks(b, &m);
	bench_progress("%s", "");
	bench_stop(m.cached_pid, m.cached);
	bench_stop(m.hello_pid, m.hello);
	bench_stop(m.mount_pid, m.mount);
	return r;
}
