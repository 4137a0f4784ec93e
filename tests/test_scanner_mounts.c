/* SPDX-License-Identifier: MIT */
/*
 * Where a scan stops: at other mounts. Needs root and a private mount namespace, else the tests skip; the
 * namespace ends with the program, and every mount with it.
 */
#include "tests/scans.h"
#include "tests/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static bool may_mount;

static int set_up(void **state)
{
	static struct tree t;

	tree_new(&t);
	tree_build(&t, ROWS(IS_DIR("a"), IS_FILE("a/one", 5000), IS_DIR("a/mnt"), IS_DIR("b"),
	                    IS_FILE("b/two", 6000), IS_FILE("plain", 0)));
	*state = &t;
	return 0;
}

/* Mounts go first, so that nothing behind them is removed. */
static int tear_down(void **state)
{
	static const char *const points[] = { "a/mnt", "b", "plain", "." };
	struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		char path[256];

		(void)snprintf(path, sizeof(path), "%s/%s", t->path, points[i]);
		while (may_mount && umount2(path, MNT_DETACH) == 0)
			;
	}
	tree_remove(t);
	return 0;
}

static void mount_in(const struct tree *t, const char *source, const char *target, const char *type,
                     unsigned long flags, const char *data)
{
	char from[256], to[256];

	(void)snprintf(from, sizeof(from), "%s/%s", t->path, source);
	(void)snprintf(to, sizeof(to), "%s/%s", t->path, target);
	if (mount(type ? source : from, to, type ? type : "none", flags, data) < 0)
		fail_msg("mount %s: %s", to, strerror(errno));
}

static void skip_unless_mounts_work(void)
{
	if (!may_mount)
		skip();
}

static void scan(const struct tree *t, bool cross, struct record *r, struct scan_report *report)
{
	const struct scan_options o = { .threads = 2, .cross_mounts = cross };

	assert_int_equal(scans_run(t->path, &o, r, report), 0);
	if (r->broken)
		fail_msg("broken: %s", r->broken);
	assert_int_equal(report->totals.errors, 0);
}

static void assert_matches_oracle(const struct tree *t, const struct record *r)
{
	struct record truth;
	const char *differs;

	scans_ask_oracle(t->path, &truth);
	differs = record_compare(&truth, r);
	if (differs)
		fail_msg("%s", differs);
	record_done(&truth);
}

static void another_file_system_is_left_out_and_listed(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;

	skip_unless_mounts_work();
	mount_in(t, "none", "a/mnt", "tmpfs", 0, "size=1m");
	tree_write(t, "a/mnt/inside", 100000);
	scan(t, false, &r, &report);
	assert_int_equal(report.totals.skipped, 1);
	assert_int_equal(report.totals.apparent, 11000);
	assert_true(record_has_problem(&r, "a/mnt", SCAN_MOUNT));
	assert_matches_oracle(t, &r);
	record_done(&r);
	scan_report_done(&report);

	scan(t, true, &r, &report);
	assert_int_equal(report.totals.skipped, 0);
	assert_int_equal(report.totals.apparent, 111000);
	record_done(&r);
	scan_report_done(&report);
}

static void a_bind_mount_of_the_same_device_is_left_out(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;

	skip_unless_mounts_work();
	mount_in(t, "b", "a/mnt", NULL, MS_BIND, NULL);
	scan(t, false, &r, &report);
	assert_int_equal(report.totals.skipped, 1);
	assert_int_equal(report.totals.apparent, 11000);
	assert_int_equal(report.totals.changed, 0);
	assert_true(record_has_problem(&r, "a/mnt", SCAN_MOUNT));
	assert_matches_oracle(t, &r);
	record_done(&r);
	scan_report_done(&report);
}

static void a_file_mounted_over_a_file_is_left_out(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;

	skip_unless_mounts_work();
	mount_in(t, "b/two", "plain", NULL, MS_BIND, NULL);
	scan(t, false, &r, &report);
	assert_int_equal(report.totals.skipped, 1);
	assert_int_equal(report.totals.files, 2);
	assert_int_equal(report.totals.apparent, 11000);
	assert_true(record_has_problem(&r, "./plain", SCAN_MOUNT));
	record_done(&r);
	scan_report_done(&report);
}

static void a_scan_may_begin_at_a_mount_point(void **state)
{
	const struct tree *t = *state;
	const struct scan_options o = { .threads = 1 };
	struct scan_report report;
	char path[256];

	skip_unless_mounts_work();
	mount_in(t, "none", "b", "tmpfs", 0, "size=1m");
	tree_build(t, ROWS(IS_DIR("b/d"), IS_FILE("b/d/f", 100)));
	(void)snprintf(path, sizeof(path), "%s/b", t->path);
	assert_int_equal(scan_run(path, &o, NULL, &report), 0);
	assert_int_equal(report.totals.entries, 2);
	assert_int_equal(report.totals.skipped, 0);
	scan_report_done(&report);
}

static void crossing_mounts_never_enters_kernel_file_systems(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;

	skip_unless_mounts_work();
	mount_in(t, "none", "a/mnt", "proc", 0, NULL);
	mount_in(t, "none", "b", "tmpfs", 0, "size=1m");
	scan(t, true, &r, &report);
	assert_int_equal(report.totals.skipped, 1);
	assert_true(record_has_problem(&r, "a/mnt", SCAN_MOUNT));
	assert_int_equal(report.totals.dirs, 2);
	record_done(&r);
	scan_report_done(&report);
}

static void a_scan_mounts_nothing(void **state)
{
	const struct tree *t = *state;
	char *const argv[] = { (char *)"cat", (char *)"/proc/self/mountinfo", NULL };
	struct scan_report report;
	struct record r;
	char *before, *after;
	size_t len;

	before = scans_output(argv, &len);
	scan(t, false, &r, &report);
	after = scans_output(argv, &len);
	assert_string_equal(before, after);
	free(before);
	free(after);
	record_done(&r);
	scan_report_done(&report);
}

/* tmpfs takes files of up to 2^63 - 1 bytes. */
static void three_huge_sparse_files_do_not_overflow(void **state)
{
	const uint64_t huge = (UINT64_C(1) << 62) + 1;
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;

	skip_unless_mounts_work();
	mount_in(t, "none", "b", "tmpfs", 0, "size=1m");
	tree_build(t, ROWS(IS_SPARSE("b/1", huge), IS_SPARSE("b/2", huge),
	                   IS_SPARSE("b/3", INT64_MAX)));
	scan(t, true, &r, &report);
	assert_int_equal(report.totals.apparent, INT64_MAX);
	assert_int_equal(record_find(&r, "b")->totals.apparent, INT64_MAX);
	assert_true(report.totals.bytes < 1 << 20);
	record_done(&r);
	scan_report_done(&report);
}

/* Somebody else's directory: no O_NOATIME, no way in to some of them. */
static int scan_as_nobody(const char *path)
{
	const struct scan_options o = { .threads = 2 };
	struct scan_report report;

	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	if (scan_run(path, &o, NULL, &report) < 0)
		return 2;
	if (report.totals.errors != 1 || report.totals.dirs != 3 || report.totals.apparent != 6000)
		return 3;
	scan_report_done(&report);
	return 0;
}

static void a_user_who_is_not_let_in_is_told_so(void **state)
{
	const struct tree *t = *state;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	/* Readable but not searchable would also hide the sizes; here it is closed. */
	assert_int_equal(fchmodat(t->fd, "a", 0700, 0), 0);
	tree_build(t, ROWS(IS_DIR("c")));
	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char base[256], *slash;

		(void)snprintf(base, sizeof(base), "%s", t->path);
		slash = strrchr(base, '/');
		*slash = '\0';
		(void)chmod(base, 0755);
		_exit(scan_as_nobody(t->path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(another_file_system_is_left_out_and_listed),
		TEST(a_bind_mount_of_the_same_device_is_left_out),
		TEST(a_file_mounted_over_a_file_is_left_out),
		TEST(a_scan_may_begin_at_a_mount_point),
		TEST(crossing_mounts_never_enters_kernel_file_systems),
		TEST(a_scan_mounts_nothing),
		TEST(three_huge_sparse_files_do_not_overflow),
		TEST(a_user_who_is_not_let_in_is_told_so),
	};

	may_mount = tree_private_mounts();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
