/* SPDX-License-Identifier: MIT */
/* Rows of directories and their numbers: two paths with one key are two directories, and numbers cannot be foretold. */
#include "fs/internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct gen *_Atomic now;

static uint32_t lookup(struct rows *t, uint32_t parent, uint64_t key, uint64_t ref, uint32_t fixed,
                       struct row *ret)
{
	*ret = (struct row){ .parent = parent & ROW_MASK, .key = key, .ref = ref, .fixed = fixed };
	return rows_lookup(t, ret, &now, NULL);
}

static void two_directories_with_one_key_have_their_own_rows_and_numbers(void **state)
{
	const struct inos inos = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
	struct rows t = { 0 };
	struct row a, b, c, again;
	uint32_t first, other, third;

	(void)state;
	assert_int_equal(rows_init(&t, 77, 1), 0);
	first = lookup(&t, ROW_TOP, 99, 10, 0, &a);
	other = lookup(&t, first, 99, 11, 0, &b);   /* below another parent */
	third = lookup(&t, ROW_TOP, 99, 12, 0, &c); /* another node of the same parent */
	assert_true(first && other && third);
	assert_true(first != other && first != third && other != third);
	assert_true(ino_row(&inos, &a) != ino_row(&inos, &b));
	assert_true(ino_row(&inos, &a) != ino_row(&inos, &c));
	assert_true(ino_row(&inos, &b) != ino_row(&inos, &c));
	assert_true(ino_entry(&inos, &a, "x", 1) != ino_entry(&inos, &b, "x", 1));
	assert_int_equal(lookup(&t, first, 99, 11, 0, &again), other);
	assert_int_equal(again.ref, 11);
	assert_int_equal(lookup(&t, ROW_TOP, 99, 12, 0, &again), third);
	assert_int_equal(rows_find(&t, &(struct row){ .parent = ROW_TOP, .key = 99, .ref = 12 }),
	                 third);
	/* the follower knows what a row showed until now; a tree's entrance is made anew now and then */
	assert_int_equal(
		rows_find(&t, &(struct row){ .parent = first & ROW_MASK, .key = 99, .ref = 5 }),
		other);
	first = lookup(&t, ROW_TOP, 50, 20, fixed_make(FIXED_AT, 3), &a);
	assert_int_equal(lookup(&t, ROW_TOP, 50, 21, fixed_make(FIXED_AT, 3), &b), first);
	assert_true(lookup(&t, ROW_TOP, 50, 20, fixed_make(FIXED_AT, 4), &b) != first);
	rows_done(&t);
}

/* A bit of the key, the parent or the name changes all, and nothing shown leads further. */
static void numbers_depend_on_every_part(void **state)
{
	const struct inos t = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
	struct inos other = t;
	const struct row dir = { .key = 1234 };
	uint64_t shown = ino_row(&t, &dir), key = ino_key(&t, dir.key, "child", 5);

	(void)state;
	other.dirs[1]++;
	assert_true(key != ino_key(&other, dir.key, "child", 5));
	assert_true(key != ino_key(&t, dir.key, "child\0", 6));
	assert_true(key != ino_key(&t, dir.key, "chile", 5));
	assert_true(key != ino_key(&t, dir.key + 1, "child", 5));
	/* what is shown leads neither to the key nor to the number of anything below */
	assert_true(shown != dir.key && ino_key(&t, shown, "child", 5) != key);
	assert_true(snap_hash("child", 5, shown) != ino_dir(&t, key, 0));
	assert_true(snap_hash("child", 5, shown) != ino_entry(&t, &dir, "child", 5));
	assert_true(ino_dir(&t, key, 0) != ino_entry(&t, &dir, "child", 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_directories_with_one_key_have_their_own_rows_and_numbers),
		cmocka_unit_test(numbers_depend_on_every_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
