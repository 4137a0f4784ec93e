/* SPDX-License-Identifier: MIT */
/* An index holds a snapshot whole or not at all: full disks, killed scans. */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <cmocka.h>

enum {
	KILLS = 30
};

/* Everything listed can be read, and SQLite is content. Returns the number of snapshots. */
static size_t assert_intact(const char *index)
{
	struct snap_list l;
	struct snap *s;
	size_t n;

	assert_int_equal(snap_open(index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_list_get(s, &l), 0);
	for (size_t i = 0; i < l.n; i++) {
		struct record r;

		assert_int_equal(snaps_read(s, l.info[i]->ref, &r), 0);
		assert_memory_equal(&record_find(&r, ".")->totals, &l.info[i]->totals,
		                    sizeof(l.info[i]->totals));
		record_done(&r);
	}
	n = l.n;
	snap_list_done(&l);
	snap_close(s);
	assert_int_equal(snaps_number(index, "SELECT count(*) FROM pragma_integrity_check"
	                                     " WHERE integrity_check='ok'"),
	                 1);
	/* No node without a snapshot: what a failed scan wrote is gone. */
	assert_int_equal(snaps_number(index, "SELECT count(*) FROM snapshot"), n);
	return n;
}

static void scan_for_ever(const struct fixture *f, int tell)
{
	for (uint64_t seed = 1;; seed++) {
		struct snap_info info;

		tree_write(&f->tree, "changing", seed % 100 * 1000);
		if (snaps_take_at(f->index, f->tree.path, seed % 3 ? SNAP_WARM : SNAP_COLD, 2,
		                  &info) < 0)
			_exit(1);
		snap_info_done(&info);
		if (write(tell, "x", 1) != 1) /* acknowledged: durable from here on */
			_exit(1);
	}
}

/* How long a scan takes here, so that kills fall into all parts of one. */
static useconds_t time_a_scan(const struct fixture *f)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct snap_info info;

	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 2, &info), 0);
	snap_info_done(&info);
	return (useconds_t)((clock_ns(CLOCK_MONOTONIC) - start) / 1000);
}

static void a_killed_scan_leaves_the_index_whole(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 99;
	size_t before = 1;
	useconds_t scan_us;

	tree_random(&f->tree, 5, 600);
	scan_us = time_a_scan(f);
	for (int i = 0; i < KILLS; i++) {
		int ends[2], status;
		size_t told = 0, found;
		char c;
		pid_t pid;

		tree_random(&f->tree, 100 + (uint64_t)i, 60);
		assert_int_equal(pipe(ends), 0);
		(void)fflush(NULL);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			(void)close(ends[0]);
			scan_for_ever(f, ends[1]);
		}
		(void)close(ends[1]);
		(void)usleep((useconds_t)(tree_draw(&random) % (scan_us * 4)));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		while (read(ends[0], &c, 1) == 1)
			told++;
		(void)close(ends[0]);
		found = assert_intact(f->index);
		assert_true(found >= before + told); /* no acknowledged snapshot is lost */
		assert_true(found <= before + told + 1);
		before = found;
	}
	assert_true(before > 1);
}

static int unmount_and_tear_down(void **state)
{
	struct fixture *f = *state;
	char path[256];

	(void)umount2(snaps_path(f, "full", path), MNT_DETACH);
	return snaps_tear_down(state);
}

static void a_full_disk_keeps_the_earlier_snapshots(void **state)
{
	struct fixture *f = *state;
	char path[256], index[300];
	struct snap_info info;
	int full = 0;

	if (!tree_private_mounts())
		skip();
	tree_build(&f->place, ROWS(IS_DIR("full")));
	(void)snaps_path(f, "full", path);
	assert_int_equal(mount("none", path, "tmpfs", 0, "size=320k,mode=700"), 0);
	(void)snprintf(index, sizeof(index), "%s/index.db", path);
	tree_random(&f->tree, 1, 200);
	assert_int_equal(snaps_take_at(index, f->tree.path, SNAP_COLD, 2, &info), 0);
	snap_info_done(&info);
	for (uint64_t seed = 2; seed < 40 && full < 3; seed++) {
		size_t before = assert_intact(index);
		int r;

		tree_random(&f->tree, seed, 700);
		r = snaps_take_at(index, f->tree.path, SNAP_WARM, seed % 2 ? 8 : 1, &info);
		if (r == 0) {
			snap_info_done(&info);
			continue;
		}
		assert_int_equal(r, -ENOSPC);
		full++;
		assert_int_equal(assert_intact(index), before);
		assert_int_equal(snaps_number(index,
		                              "SELECT count(*) FROM pack WHERE id >="
		                              " (SELECT value FROM meta WHERE key='next_pack')"),
		                 0);
	}
	assert_int_equal(full, 3);
	/* Space comes back, and the scan works. */
	assert_int_equal(mount("none", path, "tmpfs", MS_REMOUNT, "size=64m"), 0);
	assert_int_equal(snaps_take_at(index, f->tree.path, SNAP_WARM, 2, &info), 0);
	snap_info_done(&info);
	(void)assert_intact(index);
}

static uint64_t free_blocks(const char *path)
{
	struct statvfs st;

	assert_int_equal(statvfs(path, &st), 0);
	return st.f_bfree;
}

static void fill_up(const char *path)
{
	static const char zeros[4096];
	char name[300];
	int fd;

	(void)snprintf(name, sizeof(name), "%s/ballast", path);
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
	assert_true(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(close(fd), 0);
	assert_int_equal(free_blocks(path), 0);
}

static void assert_sound(struct snap *s)
{
	struct snap_damage d;

	assert_int_equal(snap_check(s, NULL, NULL, &d), 0);
	assert_int_equal(d.bad_packs + d.bad_nodes + d.n, 0);
	snap_damage_done(&d);
}

static void make_room(const char *path)
{
	char name[300];

	(void)snprintf(name, sizeof(name), "%s/ballast", path);
	assert_int_equal(truncate(name, 0), 0);
}

/*
 * Also after a scan that used up what was left, and failed. Where packs are shared it may take a page more than there
 * is for a moment: then it says so, nothing is lost, and a little room is enough.
 */
static void prune_frees_space_on_a_full_disk(void **state)
{
	static const size_t sizes[] = { 30, 600, 3000 };
	const struct snap_policy policy = { .keep_last = 1 };
	struct fixture *f = *state;
	char path[256], index[300];
	unsigned helped = 0;

	if (!tree_private_mounts())
		skip();
	tree_build(&f->place, ROWS(IS_DIR("full")));
	(void)snaps_path(f, "full", path);
	(void)snprintf(index, sizeof(index), "%s/index.db", path);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct snap_pruned p;
		struct snap_info info;
		struct snap *s;
		uint64_t before;
		int r;

		assert_int_equal(mount("none", path, "tmpfs", 0, "size=4m,mode=700"), 0);
		for (uint64_t seed = 1; seed < 6; seed++) {
			tree_random(&f->tree, 10 * i + seed, sizes[i]);
			assert_int_equal(snaps_take_at(index, f->tree.path, SNAP_COLD, 2, &info),
			                 0);
			snap_info_done(&info);
		}
		fill_up(path);
		tree_random(&f->tree, 10 * i + 7, 4000);
		assert_int_equal(snaps_take_at(index, f->tree.path, SNAP_WARM, 2, &info), -ENOSPC);
		fill_up(path);
		assert_int_equal(snap_open(index, SNAP_WRITE, &s), 0);
		before = free_blocks(path);
		r = snap_prune(s, &policy, 0, false, &p);
		if (r == -ENOSPC) {
			helped++;
			make_room(path);
			r = snap_prune(s, &policy, 0, false, &p);
		}
		assert_int_equal(r, 0);
		assert_int_equal(p.n, 4);
		assert_int_equal(p.left, 0);
		snap_pruned_done(&p);
		/* Snapshots of one tree share most pages, so it takes many entries to free one for sure. */
		assert_true(free_blocks(path) >= before + (i == 2));
		assert_sound(s);
		snap_close(s);
		assert_int_equal(assert_intact(index), 1);
		assert_int_equal(umount(path), 0);
	}
	assert_true(helped < ARRAY_SIZE(sizes));
}

/* A limit on the size of files is a full disk, not a signal: tools/main.c sees to that. */
static void a_limit_on_file_size_keeps_the_earlier_snapshots(void **state)
{
	struct fixture *f = *state;
	struct snap_info info;
	int status;
	pid_t pid;

	tree_random(&f->tree, 1, 100);
	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 2, &info), 0);
	snap_info_done(&info);
	tree_random(&f->tree, 2, 3000);
	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit limit = { 48 << 10, 48 << 10 };

		(void)signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(1);
		_exit(snaps_take_at(f->index, f->tree.path, SNAP_WARM, 2, &info) == -EFBIG ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(assert_intact(f->index), 1);
}

static void an_index_that_cannot_be_made_says_why(void **state)
{
	struct fixture *f = *state;
	struct snap *s;
	char path[256];

	tree_write(&f->place, "file", 1);
	assert_int_equal(snap_open(snaps_path(f, "file/index.db", path), SNAP_WRITE, &s), -ENOTDIR);
	assert_int_equal(snap_open("/proc/self/nowhere/index.db", SNAP_WRITE, &s), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_killed_scan_leaves_the_index_whole, snaps_set_up,
		                                snaps_tear_down),
		cmocka_unit_test_setup_teardown(a_full_disk_keeps_the_earlier_snapshots,
		                                snaps_set_up, unmount_and_tear_down),
		cmocka_unit_test_setup_teardown(prune_frees_space_on_a_full_disk, snaps_set_up,
		                                unmount_and_tear_down),
		cmocka_unit_test_setup_teardown(a_limit_on_file_size_keeps_the_earlier_snapshots,
		                                snaps_set_up, snaps_tear_down),
		cmocka_unit_test_setup_teardown(an_index_that_cannot_be_made_says_why, snaps_set_up,
		                                snaps_tear_down),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
