/* SPDX-License-Identifier: MIT */
/* The table of totals: each number once, and what is done with all of them. */
#include "scanner/scanner.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct scan_totals counting_from(uint64_t first)
{
	struct scan_totals t;
	uint64_t v[TOTALS_FIELDS];

	for (size_t i = 0; i < TOTALS_FIELDS; i++)
		v[i] = first + i;
	memcpy(&t, v, sizeof(t));
	return t;
}

static void every_number_has_one_row_in_the_order_of_the_struct(void **state)
{
	struct scan_totals t = counting_from(1);

	(void)state;
	for (size_t i = 0; i < TOTALS_FIELDS; i++) {
		assert_int_equal(totals_fields[i].offset, i * sizeof(uint64_t));
		assert_int_equal(totals_get(&t, &totals_fields[i]), 1 + i);
		assert_true(strlen(totals_fields[i].name) > 0 && strlen(totals_fields[i].help) > 0);
	}
}

static void a_sub_directory_counts_itself_and_all_below(void **state)
{
	struct scan_totals t = TOTALS_NONE, child = counting_from(100);

	(void)state;
	totals_add(&t, &child);
	assert_int_equal(t.bytes, child.bytes);
	assert_int_equal(t.files, child.files);
	assert_int_equal(t.dirs, child.dirs + 1);
	assert_int_equal(t.entries, child.entries + 1);
	assert_int_equal(t.skipped, child.skipped);
	assert_int_equal(t.newest, child.newest);
	child.newest = -5;
	totals_add(&t, &child);
	assert_int_equal(t.dirs, 2 * (child.dirs + 1));
	assert_int_equal(t.newest, 110);
}

static void what_was_added_can_be_taken_out(void **state)
{
	struct scan_totals t = counting_from(7), before = t, child = counting_from(100);

	(void)state;
	totals_add(&t, &child);
	totals_subtract(&t, &child);
	before.newest = child.newest; /* a time does not come back */
	assert_memory_equal(&t, &before, sizeof(t));
	totals_subtract(&t, &child); /* more than there is leaves nothing */
	assert_int_equal(t.bytes, 0);
	assert_int_equal(t.dirs, 0);
}

static void sizes_stop_where_signed_numbers_end(void **state)
{
	struct scan_totals t = { .bytes = INT64_MAX - 1, .apparent = 1, .shared = INT64_MAX };
	struct scan_totals child = { .bytes = 2, .apparent = 1, .shared = 1 };

	(void)state;
	totals_add(&t, &child);
	assert_int_equal(t.bytes, INT64_MAX);
	assert_int_equal(t.apparent, 2);
	assert_int_equal(t.shared, INT64_MAX);
}

static void a_problem_is_counted_by_its_kind(void **state)
{
	struct scan_totals t = { 0 };

	(void)state;
	for (unsigned p = SCAN_OK; p <= SCAN_AUTOMOUNT; p++)
		totals_add_problem(&t, p);
	assert_int_equal(t.errors, 1);
	assert_int_equal(t.vanished, 1);
	assert_int_equal(t.changed, 1);
	assert_int_equal(t.skipped, 4);
	assert_int_equal(totals_problems(&t), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_has_one_row_in_the_order_of_the_struct),
		cmocka_unit_test(a_sub_directory_counts_itself_and_all_below),
		cmocka_unit_test(what_was_added_can_be_taken_out),
		cmocka_unit_test(sizes_stop_where_signed_numbers_end),
		cmocka_unit_test(a_problem_is_counted_by_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
