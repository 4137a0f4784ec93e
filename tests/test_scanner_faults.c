/* SPDX-License-Identifier: MIT */
/*
 * A world that misbehaves is data: every fault ends up in a counter, and no total shrinks without one.
 *
 * statx, openat and getdents64 of this program go through the functions below, which fail on purpose.
 */
#include "tests/scans.h"
#include "tests/snaps.h"
#include "tests/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum call {
	NONE,
	STATX,
	OPENAT,
	GETDENTS,
	THREAD
};

/* What goes wrong. Set while no scan runs. */
static struct fault {
	enum call call;
	const char
		*name; /* statx, openat: of this name; getdents64: in the directory of this name */
	int error;
	int from;                /* the first call to fail, counted from 0 */
	int times;               /* how many fail; 0: all from then on */
	ino_t dir;               /* getdents64: of this directory */
	bool path_only;          /* openat: with O_PATH only */
	bool twice;              /* getdents64 lists everything twice */
	void (*meanwhile)(void); /* instead of failing, something happens before the call */
	uint64_t size, blocks;   /* statx: files look like that */
} fault;
static _Atomic int calls;

int __real_statx(int fd, const char *name, int flags, unsigned mask, struct statx *ret);
int __wrap_statx(int fd, const char *name, int flags, unsigned mask, struct statx *ret);
int __real_openat(int fd, const char *name, int flags, mode_t mode);
int __wrap_openat(int fd, const char *name, int flags, mode_t mode);
int __real_openat64(int fd, const char *name, int flags, mode_t mode);
int __wrap_openat64(int fd, const char *name, int flags, mode_t mode);
ssize_t __real_getdents64(int fd, void *buf, size_t size);
ssize_t __wrap_getdents64(int fd, void *buf, size_t size);

/* Does it fail now? */
static bool strikes(void)
{
	int call = atomic_fetch_add(&calls, 1);

	if (call < fault.from || (fault.times && call >= fault.from + fault.times))
		return false;
	if (fault.meanwhile) {
		void (*meanwhile)(void) = fault.meanwhile;

		fault.meanwhile = NULL;
		meanwhile();
	}
	errno = fault.error;
	return fault.error != 0;
}

int __wrap_statx(int fd, const char *name, int flags, unsigned mask, struct statx *ret)
{
	int r;

	if (fault.call == STATX && fault.name && strcmp(name, fault.name) == 0 && strikes())
		return -1;
	r = __real_statx(fd, name, flags, mask, ret);
	if (r == 0 && fault.size && S_ISREG(ret->stx_mode)) {
		ret->stx_size = fault.size;
		ret->stx_blocks = fault.blocks;
	}
	return r;
}

static bool open_strikes(const char *name, int flags)
{
	return fault.call == OPENAT && strcmp(name, fault.name) == 0 &&
	       (!fault.path_only || flags & O_PATH) && strikes();
}

int __wrap_openat(int fd, const char *name, int flags, mode_t mode)
{
	return open_strikes(name, flags) ? -1 : __real_openat(fd, name, flags, mode);
}

int __wrap_openat64(int fd, const char *name, int flags, mode_t mode)
{
	return open_strikes(name, flags) ? -1 : __real_openat64(fd, name, flags, mode);
}

ssize_t __wrap_getdents64(int fd, void *buf, size_t size)
{
	struct stat st;
	ssize_t n;

	if (fault.call != GETDENTS || fstat(fd, &st) < 0 || st.st_ino != fault.dir)
		return __real_getdents64(fd, buf, size);
	if (strikes())
		return -1;
	n = __real_getdents64(fd, buf, fault.twice ? size / 2 : size);
	if (n > 0 && fault.twice) {
		memcpy((char *)buf + n, buf, (size_t)n);
		n *= 2;
	}
	return n;
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg)
{
	if (fault.call == THREAD && strikes())
		return EAGAIN;
	return __real_pthread_create(ret, attr, main, arg);
}

static int set_up(void **state)
{
	static struct tree t;

	fault = (struct fault){ 0 };
	atomic_store(&calls, 0);
	tree_new(&t);
	tree_build(&t, ROWS(IS_DIR("a"), IS_FILE("a/one", 5000), IS_FILE("a/two", 7000),
	                    IS_DIR("a/sub"), IS_FILE("a/sub/three", 9000), IS_DIR("b"),
	                    IS_FILE("b/four", 100), IS_DIR("b/empty")));
	*state = &t;
	return 0;
}

static int tear_down(void **state)
{
	fault = (struct fault){ 0 };
	tree_remove(*state);
	return 0;
}

struct outcome {
	struct record r;
	struct scan_report report;
	int result;
};

static void scan_as(const struct tree *t, struct fault f, const struct scan_options *o,
                    struct outcome *ret)
{
	fault = f;
	atomic_store(&calls, 0);
	ret->result = scans_run(t->path, o, &ret->r, &ret->report);
	fault = (struct fault){ 0 };
	if (ret->r.broken)
		fail_msg("broken: %s", ret->r.broken);
}

static void scan_with(const struct tree *t, struct fault f, unsigned threads, struct outcome *ret)
{
	scan_as(t, f, &(struct scan_options){ .threads = threads }, ret);
}

static void outcome_done(struct outcome *o)
{
	record_done(&o->r);
	scan_report_done(&o->report);
}

static ino_t ino_of(const struct tree *t, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(t->fd, path, &st, 0), 0);
	return st.st_ino;
}

#define FAULT(what, on, how, ...)                                   \
	(struct fault)                                              \
	{                                                           \
		.call = what, .name = on, .error = how, __VA_ARGS__ \
	}
#define WITH(o) (&(o).report.totals)

static void a_file_that_cannot_be_looked_at_is_an_error(void **state)
{
	static const int errors[] = { EACCES, EIO, ENOMEM, ESTALE };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct outcome o;

		scan_with(*state, FAULT(STATX, "one", errors[i]), 2, &o);
		assert_int_equal(o.result, 0);
		assert_int_equal(WITH(o)->errors, 1);
		assert_int_equal(WITH(o)->vanished, 0);
		assert_int_equal(WITH(o)->entries, 8); /* it is there, only its size is not known */
		assert_int_equal(WITH(o)->files, 4);
		assert_int_equal(WITH(o)->apparent, 7000 + 9000 + 100);
		assert_int_equal(record_find(&o.r, "a")->totals.errors, 1);
		assert_int_equal(record_find(&o.r, "b")->totals.errors, 0);
		assert_true(record_has_problem(&o.r, "a/one", SCAN_ERROR));
		assert_int_equal(o.report.stats.by_errno[errors[i]], 1);
		outcome_done(&o);
	}
}

static void a_file_that_is_gone_has_vanished(void **state)
{
	struct outcome o;

	scan_with(*state, FAULT(STATX, "one", ENOENT), 1, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->errors, 0);
	assert_int_equal(WITH(o)->vanished, 1);
	assert_int_equal(WITH(o)->entries, 7);
	assert_int_equal(WITH(o)->files, 3);
	outcome_done(&o);
}

static void a_directory_that_cannot_be_opened_is_an_error_and_counts_itself(void **state)
{
	static const int errors[] = { EACCES, EIO, ENOMEM, EMFILE, ENFILE, ESTALE };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct outcome o;

		scan_with(*state, FAULT(OPENAT, "sub", errors[i]), 2, &o);
		assert_int_equal(o.result, 0);
		assert_int_equal(WITH(o)->errors, 1);
		assert_int_equal(WITH(o)->dirs, 4);
		assert_int_equal(WITH(o)->entries, 7);
		assert_int_equal(record_find(&o.r, "a/sub")->problem, SCAN_ERROR);
		assert_int_equal(record_find(&o.r, "a/sub")->error, errors[i]);
		/* Its own blocks: none where directories take no space. */
		assert_int_equal(record_find(&o.r, "a/sub")->totals.bytes > 0,
		                 record_find(&o.r, "b")->meta.blocks > 0);
		assert_int_equal(record_find(&o.r, "a/sub")->totals.errors, 1);
		assert_int_equal(record_find(&o.r, "a")->totals.errors, 1);
		assert_int_equal(record_find(&o.r, "b")->totals.errors, 0);
		outcome_done(&o);
	}
}

static void a_directory_gone_before_it_is_opened_has_vanished(void **state)
{
	struct outcome o;

	scan_with(*state, FAULT(OPENAT, "sub", ENOENT), 1, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->errors, 0);
	assert_int_equal(WITH(o)->vanished, 1);
	assert_int_equal(WITH(o)->dirs, 3);
	assert_true(record_has_problem(&o.r, "a/sub", SCAN_VANISHED));
	outcome_done(&o);
}

static void a_directory_that_became_something_else_has_changed(void **state)
{
	static const int errors[] = { ENOTDIR, ELOOP };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct outcome o;

		scan_with(*state, FAULT(OPENAT, "sub", errors[i]), 1, &o);
		assert_int_equal(o.result, 0);
		assert_int_equal(WITH(o)->changed, 1);
		assert_int_equal(WITH(o)->errors, 0);
		assert_true(record_has_problem(&o.r, "a/sub", SCAN_CHANGED));
		outcome_done(&o);
	}
}

static void a_directory_that_cannot_be_looked_at_once_open_is_an_error(void **state)
{
	/* Descriptors are looked at with an empty name; the first is the root's. */
	for (int from = 1; from < 5; from++) {
		struct outcome o;

		scan_with(*state, FAULT(STATX, "", EIO, .from = from), 1, &o);
		assert_int_equal(o.result, 0);
		assert_true(WITH(o)->errors >= 1);
		outcome_done(&o);
	}
}

static void a_directory_that_cannot_be_read_to_the_end_is_an_error(void **state)
{
	static const int errors[] = { EACCES, EIO, ENOMEM };
	const struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		for (int from = 0; from < 2; from++) {
			struct outcome o;

			scan_with(t,
			          FAULT(GETDENTS, NULL, errors[i], .from = from,
			                .dir = ino_of(t, "a")),
			          2, &o);
			assert_int_equal(o.result, 0);
			assert_int_equal(WITH(o)->errors, 1);
			assert_int_equal(record_find(&o.r, "a")->problem, SCAN_ERROR);
			assert_int_equal(record_find(&o.r, "a")->error, errors[i]);
			/* What was listed before still counts. */
			assert_int_equal(record_find(&o.r, "a")->totals.entries, from ? 4 : 0);
			assert_int_equal(record_find(&o.r, "b")->totals.errors, 0);
			outcome_done(&o);
		}
	}
}

static void a_directory_removed_while_it_is_read_has_vanished(void **state)
{
	const struct tree *t = *state;

	for (int from = 0; from < 2; from++) {
		struct outcome o;

		scan_with(t, FAULT(GETDENTS, NULL, ENOENT, .from = from, .dir = ino_of(t, "a/sub")),
		          2, &o);
		assert_int_equal(o.result, 0);
		assert_int_equal(WITH(o)->errors, 0);
		assert_int_equal(WITH(o)->vanished, 1);
		assert_true(record_has_problem(&o.r, "a/sub", SCAN_VANISHED));
		outcome_done(&o);
	}
}

static void a_root_that_cannot_be_read_is_an_error_of_the_tree(void **state)
{
	const struct tree *t = *state;
	struct outcome o;

	scan_with(t, FAULT(GETDENTS, NULL, EIO, .dir = ino_of(t, ".")), 2, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->errors, 1);
	assert_int_equal(WITH(o)->entries, 0);
	outcome_done(&o);
	scan_with(t, FAULT(STATX, "", EIO), 2, &o);
	assert_int_equal(o.result, -EIO);
	outcome_done(&o);
}

static void calls_that_were_interrupted_are_made_again(void **state)
{
	static const struct fault faults[] = { { .call = STATX, .name = "one", .error = EINTR },
		                               { .call = OPENAT, .name = "sub", .error = EINTR } };
	struct outcome last;

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		struct fault f = faults[i];
		struct outcome o;

		f.times = 3;
		scan_with(*state, f, 1, &o);
		assert_int_equal(WITH(o)->errors, 0);
		assert_int_equal(WITH(o)->entries, 8);
		assert_int_equal(f.call == STATX ? o.report.stats.statx : o.report.stats.openat,
		                 3 + (f.call == STATX ? 9 : 5)); /* as strace would count */
		outcome_done(&o);
	}
	scan_with(*state, FAULT(GETDENTS, NULL, EINTR, .times = 3, .dir = ino_of(*state, "a")), 1,
	          &last);
	assert_int_equal(WITH(last)->errors, 0);
	assert_int_equal(WITH(last)->entries, 8);
	outcome_done(&last);
}

static void a_name_listed_twice_counts_once(void **state)
{
	const struct tree *t = *state;
	struct outcome plain, o;
	const struct scan_options options = { .threads = 2 };

	scan_with(t, (struct fault){ 0 }, 2, &plain);
	scan_with(t, (struct fault){ GETDENTS, .dir = ino_of(t, "a"), .twice = true }, 2, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->bytes, WITH(plain)->bytes);
	assert_int_equal(WITH(o)->entries, 8);
	assert_int_equal(WITH(o)->changed, 3);
	assert_null(record_compare(&plain.r, &o.r));
	outcome_done(&o);

	/* No sink is no excuse. */
	fault = (struct fault){ GETDENTS, .dir = ino_of(t, "a"), .twice = true };
	o.result = scan_run(t->path, &options, NULL, &o.report);
	fault = (struct fault){ 0 };
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->bytes, WITH(plain)->bytes);
	assert_int_equal(WITH(o)->entries, 8);
	scan_report_done(&o.report);
	outcome_done(&plain);
}

/* Such a listing has a counter that its entries do not show: it is another node, not a damaged index. */
static void a_tree_with_a_name_listed_twice_is_stored(void **state)
{
	static const enum snap_mode modes[] = { SNAP_COLD, SNAP_COLD, SNAP_WARM };
	const struct tree *t = *state;
	struct tree place;
	char index[160];

	tree_new(&place);
	(void)snprintf(index, sizeof(index), "%s/index.db", place.path);
	for (int i = 0; i < 6; i++) {
		struct snap_info info;
		int r;

		fault = (struct fault){ GETDENTS, .dir = ino_of(t, "a"), .twice = i % 2 };
		r = snaps_take_at(index, t->path, modes[i % 3], 2, &info);
		fault = (struct fault){ 0 };
		assert_int_equal(r, 0);
		assert_int_equal(info.totals.changed, i % 2 ? 3 : 0);
		assert_true(i < 2 || info.details->nodes_written == 0);
		snap_info_done(&info);
	}
	tree_remove(&place);
}

static const struct tree *storm; /* the tree that changes while it is scanned */

static void move_a_into_b(void)
{
	assert_int_equal(renameat(storm->fd, "a", storm->fd, "b/moved"), 0);
}

static void a_directory_met_again_after_a_move_counts_once(void **state)
{
	struct outcome o;

	storm = *state;
	/* a is read, then moves into b, which is read only now. */
	scan_with(storm,
	          (struct fault){ GETDENTS, .dir = ino_of(storm, "b"), .meanwhile = move_a_into_b },
	          1, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->changed, 1);
	assert_int_equal(WITH(o)->apparent, 5000 + 7000 + 9000 + 100);
	assert_true(record_has_problem(&o.r, "b/moved", SCAN_CHANGED));
	outcome_done(&o);
}

static void put_a_link_in_place_of_sub(void)
{
	assert_int_equal(renameat(storm->fd, "a/sub", storm->fd, "sub"), 0);
	assert_int_equal(symlinkat("/", storm->fd, "a/sub"), 0);
}

static void a_directory_swapped_for_a_link_is_not_followed(void **state)
{
	struct outcome o;

	storm = *state;
	scan_with(storm, (struct fault){ OPENAT, "sub", .meanwhile = put_a_link_in_place_of_sub },
	          1, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->changed, 1);
	assert_int_equal(WITH(o)->dirs, 3);
	outcome_done(&o);
}

/* Few descriptors: the way back to a parent may fail, and that must not lose a subtree silently. */
static void a_parent_that_cannot_be_reached_again_is_an_error(void **state)
{
	static const int errors[] = { EACCES, EIO, EMFILE, ENOMEM };
	const struct tree *t = *state;
	struct rlimit before, few;
	char path[1024] = "";

	for (int i = 0; i < 60; i++) {
		(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "%sm",
		               i ? "/" : "");
		assert_int_equal(mkdirat(t->fd, path, 0755), 0);
		(void)strcat(path, "/z");
		assert_int_equal(mkdirat(t->fd, path, 0755), 0);
		path[strlen(path) - 2] = '\0';
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ 32, before.rlim_max };
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct outcome o;

		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		/* ".." and then the names on the way down from the root fail */
		scan_with(t, FAULT(OPENAT, "..", errors[i]), 1, &o);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(o.result, 0);
		assert_int_equal(WITH(o)->errors, 0); /* found from the root */
		assert_int_equal(WITH(o)->dirs, 4 + 120);
		outcome_done(&o);

		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		fault.path_only = true;
		scan_with(t, FAULT(OPENAT, "m", errors[i], .path_only = true), 2, &o);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(o.result, 0);
		assert_int_equal(WITH(o)->changed + WITH(o)->vanished, 0);
		assert_true(WITH(o)->errors > 0 || WITH(o)->dirs == 4 + 120);
		outcome_done(&o);
	}
}

/* Every call fails once, in turn: the total is right or a counter says that it is not. */
static void no_fault_makes_a_smaller_total_without_a_trace(void **state)
{
	static const char *const names[] = { "a",   "b",     "sub",  "empty", "one",
		                             "two", "three", "four", "" };
	static const int errors[] = { EACCES, EIO, ENOENT, ENOMEM, ESTALE, ELOOP, ENOTDIR, EPERM };
	static const struct scan_options ways[] = { { .threads = 2 },
		                                    { .threads = 1, .order = SCAN_ORDER_INODE } };
	struct outcome plain;

	scan_with(*state, (struct fault){ 0 }, 2, &plain);
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		for (size_t e = 0; e < ARRAY_SIZE(errors) * 4; e++) {
			struct fault f = { e % 2 ? STATX : OPENAT, names[n], errors[e / 4],
				           .from = !*names[n] };
			struct outcome o;
			uint64_t trace;

			scan_as(*state, f, &ways[e / 2 % 2], &o);
			assert_int_equal(o.result, 0);
			trace = WITH(o)->errors + WITH(o)->vanished + WITH(o)->changed;
			if (trace == 0)
				assert_memory_equal(WITH(o), WITH(plain), sizeof(*WITH(o)));
			else
				assert_true(WITH(o)->bytes <= WITH(plain)->bytes);
			outcome_done(&o);
		}
	}
	outcome_done(&plain);
}

static void sums_stop_at_the_largest_number(void **state)
{
	const struct tree *t = *state;
	struct outcome o;

	scan_with(t, (struct fault){ .size = (UINT64_C(1) << 62) + 5, .blocks = UINT64_C(1) << 54 },
	          2, &o);
	assert_int_equal(o.result, 0);
	assert_int_equal(WITH(o)->apparent, INT64_MAX);
	assert_int_equal(WITH(o)->bytes, INT64_MAX);
	assert_int_equal(record_find(&o.r, "a")->totals.apparent, INT64_MAX);
	assert_int_equal(record_find(&o.r, "b")->totals.apparent, (INT64_C(1) << 62) + 5);
	outcome_done(&o);
	scan_with(t, (struct fault){ .size = UINT64_MAX, .blocks = UINT64_MAX }, 2, &o);
	assert_int_equal(record_find(&o.r, "b")->totals.apparent, INT64_MAX);
	assert_true(record_find(&o.r, "b")->totals.bytes <= INT64_MAX);
	outcome_done(&o);
}

/* RLIMIT_NPROC may be reached at any of them: fewer do, and without one the caller reads by itself. */
static void without_threads_the_caller_reads(void **state)
{
	const struct tree *t = *state;
	struct outcome whole, o;

	tree_random(t, 5, 600);
	scan_with(t, (struct fault){ 0 }, 4, &whole);
	for (int from = 0; from < 5; from++) {
		for (int times = 0; times < 2; times++) {
			scan_with(t,
			          (struct fault){ .call = THREAD,
			                          .from = from,
			                          .times = times,
			                          .error = EAGAIN },
			          4, &o);
			assert_int_equal(o.result, 0);
			assert_null(o.r.broken);
			assert_null(record_compare(&whole.r, &o.r));
			assert_int_equal(o.report.stats.readers, from == 0 ? 1 : MIN(from, 4));
			assert_int_equal(strstr(o.report.stats.readers_log, "no more threads") !=
			                         NULL,
			                 from < 4);
			outcome_done(&o);
		}
	}
	outcome_done(&whole);
}

static bool count_and_stop(void *ctx, const struct scan_progress *p)
{
	unsigned *left = ctx;

	(void)p;
	return --*left == 0;
}

static void nap(void)
{
	(void)usleep(250 * 1000); /* longer than between two reports */
}

/* Each directory takes long, so progress is due. */
static void without_threads_progress_is_reported_and_stops(void **state)
{
	unsigned left = 1;
	const struct scan_options o = { .progress = count_and_stop, .progress_ctx = &left };
	const struct tree *t = *state;
	struct record r;
	struct scan_report report;

	fault = (struct fault){ .call = THREAD, .meanwhile = nap, .error = EAGAIN };
	assert_int_equal(scans_run(t->path, &o, &r, &report), -ECANCELED);
	assert_int_equal(left, 0);
	record_done(&r);
}

#define NOBODY 65534

static void a_user_who_may_make_no_thread_can_scan(void **state)
{
	const struct tree *t = *state;
	struct outcome o;
	char above[160];
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	(void)snprintf(above, sizeof(above), "%s/..", t->path);
	assert_int_equal(chmod(t->path, 0755) | chmod(above, 0711), 0);
	pid = fork();
	if (pid == 0) {
		const struct rlimit none = { 0, 0 };
		pthread_t thread;

		if (setrlimit(RLIMIT_NPROC, &none) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			_exit(2);
		if (pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))nap, NULL) ==
		    0)
			_exit(3);
		scan_with(t, (struct fault){ 0 }, 4, &o);
		if (o.result == -EACCES) /* the directory for temporary files is somebody's own */
			_exit(77);
		_exit(o.result == 0 && o.report.totals.files == 4 &&
		                      strstr(o.report.stats.readers_log, "no more threads")
		              ? 0
		              : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_that_cannot_be_looked_at_is_an_error),
		TEST(a_file_that_is_gone_has_vanished),
		TEST(a_directory_that_cannot_be_opened_is_an_error_and_counts_itself),
		TEST(a_directory_gone_before_it_is_opened_has_vanished),
		TEST(a_directory_that_became_something_else_has_changed),
		TEST(a_directory_that_cannot_be_looked_at_once_open_is_an_error),
		TEST(a_directory_that_cannot_be_read_to_the_end_is_an_error),
		TEST(a_directory_removed_while_it_is_read_has_vanished),
		TEST(a_root_that_cannot_be_read_is_an_error_of_the_tree),
		TEST(calls_that_were_interrupted_are_made_again),
		TEST(a_name_listed_twice_counts_once),
		TEST(a_tree_with_a_name_listed_twice_is_stored),
		TEST(a_directory_met_again_after_a_move_counts_once),
		TEST(a_directory_swapped_for_a_link_is_not_followed),
		TEST(a_parent_that_cannot_be_reached_again_is_an_error),
		TEST(no_fault_makes_a_smaller_total_without_a_trace),
		TEST(without_threads_the_caller_reads),
		TEST(without_threads_progress_is_reported_and_stops),
		TEST(a_user_who_may_make_no_thread_can_scan),
		TEST(sums_stop_at_the_largest_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
