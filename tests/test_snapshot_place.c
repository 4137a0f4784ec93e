/* SPDX-License-Identifier: MIT */
/* Where the index lies: what root refuses, also when it is exchanged meanwhile; locks that cannot be had. */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum {
	NOBODY = 65534,
	TRIES_MAX = 200000
};

static int lock_fails; /* with this errno */

int __real_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);

static int fcntl_or_fail(int fd, int cmd, void *arg)
{
	if (cmd == F_SETLK && lock_fails && ((struct flock *)arg)->l_type != F_UNLCK) {
		errno = lock_fails;
		return -1;
	}
	return __real_fcntl64(fd, cmd, arg);
}

int __wrap_fcntl64(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return fcntl_or_fail(fd, cmd, arg);
}

int __wrap_fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return fcntl_or_fail(fd, cmd, arg);
}

static int open_index(const char *path, unsigned flags)
{
	struct snap *s = NULL;
	int r = snap_open(path, flags, &s);

	snap_close(s);
	return r;
}

/* Where root alone decides what lies there. The fixture's own directory is such a one. */
static bool is_root(const struct fixture *f)
{
	return geteuid() == 0 && chmod(f->place.path, 0700) == 0;
}

static void root_refuses_a_directory_of_others(void **state)
{
	static const struct {
		uid_t owner;
		mode_t mode;
		int r;
	} rows[] = {
		{ 0, 0700, 0 },
		{ 0, 0755, 0 },
		{ 0, 0770, -ENOTUNIQ },
		{ 0, 0757, -ENOTUNIQ },
		{ 0, 01777, -ENOTUNIQ },
		{ NOBODY, 0700, -ENOTUNIQ },
		{ NOBODY, 0500, -ENOTUNIQ },
	};
	struct fixture *f = *state;
	char dir[256], index[256];

	if (!is_root(f))
		skip();
	tree_build(&f->place, ROWS(IS_DIR("state")));
	(void)snaps_path(f, "state", dir);
	(void)snaps_path(f, "state/index.db", index);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(chown(dir, rows[i].owner, 0), 0);
		assert_int_equal(chmod(dir, rows[i].mode), 0);
		assert_int_equal(open_index(index, SNAP_WRITE), rows[i].r);
		assert_int_equal(open_index(index, SNAP_READ), rows[i].r);
	}
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(unlink(index), 0);
	assert_int_equal(open_index(index, SNAP_WRITE), -ENOTUNIQ);
	assert_int_equal(access(index, F_OK), -1); /* nothing was made in there */
	assert_non_null(strstr(snap_strerror(-ENOTUNIQ), "directory"));
}

static void root_refuses_a_link_but_not_one_to_the_directory(void **state)
{
	struct fixture *f = *state;
	char link[256], target[256];

	if (!is_root(f))
		skip();
	assert_int_equal(open_index(snaps_path(f, "real/index.db", target), SNAP_WRITE), 0);
	assert_int_equal(symlink("real/index.db", snaps_path(f, "link.db", link)), 0);
	assert_int_equal(open_index(link, SNAP_READ), -ELOOP);
	assert_int_equal(open_index(link, SNAP_WRITE), -ELOOP);
	assert_int_equal(symlink("nowhere.db", snaps_path(f, "loose.db", link)), 0);
	assert_int_equal(open_index(link, SNAP_WRITE), -ELOOP);
	assert_int_equal(access(snaps_path(f, "nowhere.db", target), F_OK), -1);
	assert_int_equal(symlink("real", snaps_path(f, "way", link)), 0);
	assert_int_equal(open_index(snaps_path(f, "way/index.db", link), SNAP_READ), 0);
}

/* Log and index of the log, too. */
static void root_refuses_what_lies_beside_the_index(void **state)
{
	static const char *const names[] = { "index.db-wal", "index.db-shm" };
	struct fixture *f = *state;
	char path[256];

	if (!is_root(f))
		skip();
	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snaps_path(f, names[i], path);
		(void)unlink(path);
		tree_write(&f->place, names[i], 0);
		assert_int_equal(chown(path, NOBODY, NOBODY), 0);
		assert_int_equal(open_index(f->index, SNAP_READ), -EPERM);
		assert_int_equal(open_index(f->index, SNAP_WRITE), -EPERM);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(symlink("elsewhere", path), 0);
		assert_int_equal(open_index(f->index, SNAP_WRITE), -ELOOP);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	}
}

/* Two names change places all the time: the index is the right one, with a snapshot, or refused. */
static void assert_never_exchanged(const char *index, const char *a, const char *b)
{
	size_t accepted = 0, refused = 0;
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		for (;;) {
			if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) < 0)
				_exit(1);
			(void)usleep(20); /* or the directory's lock is never free */
		}
	for (int i = 0; i < TRIES_MAX && (accepted < 10 || refused < 10); i++) {
		int n = snaps_count(index);

		if (n >= 0) {
			assert_int_equal(n, 1);
			accepted++;
		} else {
			refused++;
		}
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_true(accepted && refused);
}

static void make_two(const struct fixture *f, const char *good, const char *evil)
{
	struct snap_info info;

	tree_random(&f->tree, 1, 20);
	assert_int_equal(snaps_take_at(good, f->tree.path, SNAP_COLD, 1, &info), 0);
	snap_info_done(&info);
	assert_int_equal(open_index(evil, SNAP_WRITE), 0);
	assert_int_equal(snaps_sql(evil, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
	assert_int_equal(chown(evil, NOBODY, NOBODY), 0);
}

static void a_directory_exchanged_while_it_is_opened_is_never_accepted(void **state)
{
	struct fixture *f = *state;
	char good[256], evil[256], a[256], b[256];

	if (!is_root(f))
		skip();
	make_two(f, snaps_path(f, "good/index.db", good), snaps_path(f, "evil/index.db", evil));
	assert_int_equal(chown(snaps_path(f, "evil", b), NOBODY, NOBODY), 0);
	assert_int_equal(chown(evil, 0, 0), 0); /* the directory alone gives it away */
	assert_never_exchanged(good, snaps_path(f, "good", a), b);
}

static void a_file_exchanged_while_it_is_opened_is_never_accepted(void **state)
{
	struct fixture *f = *state;
	char good[256], evil[256];

	if (!is_root(f))
		skip();
	make_two(f, snaps_path(f, "good.db", good), snaps_path(f, "evil.db", evil));
	assert_never_exchanged(good, good, evil);
}

static void a_lock_that_cannot_be_had_is_not_waited_for(void **state)
{
	static const struct {
		int error, r;
	} rows[] = { { ENOLCK, -ENOLCK }, { EIO, -EIO }, { EOPNOTSUPP, -ENOLCK } };
	struct fixture *f = *state;
	struct snap_info info;

	tree_random(&f->tree, 1, 20);
	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 1, &info), 0);
	snap_info_done(&info);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct snap_writer *w;
		struct snap_list l;
		struct snap *s;

		lock_fails = rows[i].error;
		assert_int_equal(open_index(f->index, SNAP_READ), rows[i].r);
		assert_int_equal(open_index(f->index, SNAP_WRITE), rows[i].r);
		lock_fails = 0;
		assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
		snap_release(s);
		lock_fails = rows[i].error;
		assert_int_equal(snap_list_get(s, &l), rows[i].r);
		assert_int_equal(snap_write_begin(s, f->tree.path, SNAP_WARM, &w), rows[i].r);
		lock_fails = 0;
		assert_int_equal(snap_list_get(s, &l), 0);
		snap_list_done(&l);
		snap_close(s);
	}
	assert_int_equal(snaps_count(f->index), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(root_refuses_a_directory_of_others),
		TEST(root_refuses_a_link_but_not_one_to_the_directory),
		TEST(root_refuses_what_lies_beside_the_index),
		TEST(a_directory_exchanged_while_it_is_opened_is_never_accepted),
		TEST(a_file_exchanged_while_it_is_opened_is_never_accepted),
		TEST(a_lock_that_cannot_be_had_is_not_waited_for),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
