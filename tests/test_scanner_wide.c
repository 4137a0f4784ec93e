/* SPDX-License-Identifier: MIT */
/* Directories too wide to be sorted at once are listed like any other. */
#include "tests/scans.h"
#include "tests/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const unsigned thread_counts[] = { 1, 2, 8 };

static int set_up(void **state)
{
	static struct tree t;

	tree_new(&t);
	*state = &t;
	return 0;
}

static int tear_down(void **state)
{
	tree_remove(*state);
	return 0;
}

static void scan(const char *path, unsigned threads, struct record *r, struct scan_report *report)
{
	assert_int_equal(scans_run_threads(path, threads, r, report), 0);
	if (r->broken)
		fail_msg("broken: %s", r->broken);
}

static void make_files(const struct tree *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char name[32];

		/* Reversed digits, so that the order on disk is not the order of names. */
		(void)snprintf(name, sizeof(name), "wide/%zu%zu", i % 10, i);
		if (i % 1000 == 0)
			tree_build(t, ROWS(IS_DIR(name)));
		else
			tree_write(t, name, i % 500 == 1);
	}
}

static void a_wide_directory_is_merged_in_order(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record truth, r;

	tree_build(t, ROWS(IS_DIR("wide"), IS_FILE("first", 1)));
	make_files(t, 30000);
	tree_build(t, ROWS(IS_LINK("wide/link", "first"), IS_LINK("wide/link2", "first"),
	                   IS_FIFO("wide/pipe")));
	scans_ask_oracle(t->path, &truth);
	for (size_t i = 0; i < ARRAY_SIZE(thread_counts); i++) {
		const char *differs;

		scan(t->path, thread_counts[i], &r, &report);
		differs = record_compare(&truth, &r);
		if (differs)
			fail_msg("%s", differs);
		assert_int_equal(record_find(&r, "wide")->n_entries, 30003);
		assert_int_equal(report.totals.changed, 0);
		assert_int_equal(report.stats.statx, report.totals.entries + 1);
		record_done(&r);
		scan_report_done(&report);
	}
	record_done(&truth);
}

/* Around the size of a chunk and of the insertion sort. */
static void directories_of_all_sizes_are_listed_in_order(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 23, 24, 25, 26, 8191, 8192, 8193, 16384, 16385 };

	(void)state;
	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		struct scan_report report;
		struct record r;
		struct tree one;

		tree_new(&one);
		tree_build(&one, ROWS(IS_DIR("wide")));
		make_files(&one, sizes[s]);
		scan(one.path, 1, &r, &report);
		assert_int_equal(record_find(&r, "wide")->n_entries, sizes[s]);
		assert_int_equal(report.totals.entries, sizes[s] + 1);
		record_done(&r);
		scan_report_done(&report);
		tree_remove(&one);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_wide_directory_is_merged_in_order),
		TEST(directories_of_all_sizes_are_listed_in_order),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
