/* SPDX-License-Identifier: MIT */
/* Depth is ordinary input: trees deeper than any path, with few descriptors. */
#include "scanner/scanner.h"
#include "tests/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
	DESCRIPTORS = 64,
	CHAIN = 100000,
	COMB = 3000,
	WIDE = 40,
};

static const unsigned thread_counts[] = { 1, 2, 8 };

struct context {
	struct tree t;
	struct rlimit before;
};

static int set_up(void **state)
{
	static struct context c;
	struct rlimit few;

	tree_new(&c.t);
	if (getrlimit(RLIMIT_NOFILE, &c.before) < 0)
		return -1;
	few = (struct rlimit){ DESCRIPTORS, c.before.rlim_max };
	*state = &c;
	return setrlimit(RLIMIT_NOFILE, &few);
}

static int tear_down(void **state)
{
	struct context *c = *state;

	tree_remove(&c->t);
	return setrlimit(RLIMIT_NOFILE, &c->before);
}

static void scan(const char *path, unsigned threads, enum scan_order order, struct scan_report *ret)
{
	const struct scan_options o = { .threads = threads, .order = order };

	assert_int_equal(scan_run(path, &o, NULL, ret), 0);
	assert_int_equal(ret->totals.errors, 0);
	assert_int_equal(ret->totals.vanished, 0);
	assert_int_equal(ret->totals.changed, 0);
	assert_int_equal(ret->totals.skipped, 0);
}

static void a_chain_of_a_hundred_thousand_directories_is_counted(void **state)
{
	const struct context *c = *state;
	struct scan_report report;

	tree_chain(&c->t, CHAIN);
	scan(c->t.path, 2, SCAN_ORDER_AUTO, &report);
	assert_int_equal(report.totals.dirs, CHAIN);
	assert_int_equal(report.totals.files, 1);
	assert_int_equal(report.stats.openat, CHAIN + 1);
	scan_report_done(&report);
}

/* At each level a sub-directory that goes on and one that does not. */
static void make_comb(const struct tree *t, const char *on, const char *off)
{
	int fd = dup(t->fd);

	for (int i = 0; i < COMB; i++) {
		int next;

		assert_int_equal(mkdirat(fd, off, 0755), 0);
		assert_int_equal(mkdirat(fd, on, 0755), 0);
		next = openat(fd, on, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
}

static void assert_comb_is_counted(const struct context *c)
{
	for (size_t i = 0; i < 2 * ARRAY_SIZE(thread_counts); i++) {
		struct scan_report report;

		scan(c->t.path, thread_counts[i / 2],
		     i % 2 ? SCAN_ORDER_INODE : SCAN_ORDER_DIRECTORY, &report);
		assert_int_equal(report.totals.dirs, 2 * COMB);
		scan_report_done(&report);
	}
}

static void a_comb_whose_long_teeth_come_first_is_counted(void **state)
{
	const struct context *c = *state;

	make_comb(&c->t, "a", "b");
	assert_comb_is_counted(c);
}

static void a_comb_whose_short_teeth_come_first_is_counted(void **state)
{
	const struct context *c = *state;

	make_comb(&c->t, "b", "a");
	assert_comb_is_counted(c);
}

/* What was open before leaves few descriptors: then fewer directories are opened ahead. */
static void a_wide_directory_is_counted_with_few_descriptors_left(void **state)
{
	const struct context *c = *state;
	int others[54];
	char name[16];

	for (int i = 0; i < WIDE; i++) {
		(void)snprintf(name, sizeof(name), "d%d", i);
		assert_int_equal(mkdirat(c->t.fd, name, 0755), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = dup(c->t.fd);
	for (int order = SCAN_ORDER_INODE; order <= SCAN_ORDER_DIRECTORY; order++) {
		struct scan_report report;

		scan(c->t.path, 1, order, &report);
		assert_int_equal(report.totals.dirs, WIDE);
		scan_report_done(&report);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		(void)close(others[i]);
}

/* With one reader the way back costs a constant number of calls per level, not the depth. */
static void the_way_back_up_is_short(void **state)
{
	const struct context *c = *state;
	struct scan_report report;

	make_comb(&c->t, "a", "b");
	for (int order = SCAN_ORDER_INODE; order <= SCAN_ORDER_DIRECTORY; order++) {
		scan(c->t.path, 1, order, &report);
		assert_true(report.stats.openat < 4 * (2 * COMB + 1));
		scan_report_done(&report);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_chain_of_a_hundred_thousand_directories_is_counted),
		TEST(a_comb_whose_long_teeth_come_first_is_counted),
		TEST(a_comb_whose_short_teeth_come_first_is_counted),
		TEST(the_way_back_up_is_short),
		TEST(a_wide_directory_is_counted_with_few_descriptors_left),
	};

	tree_prefer_memory(); /* removing a deep chain takes a disk ten times as long as all the rest */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
