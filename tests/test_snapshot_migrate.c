/* SPDX-License-Identifier: MIT */
/* An index of an older format is brought up to date whole, at once, or not at all. */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Formats that do not exist: what is new in them is a key, then another one. */
static int add_one(struct snap *s)
{
	return store_exec(s->db, "INSERT INTO meta VALUES ('pretend_1', 1)");
}

static int add_two(struct snap *s)
{
	return store_exec(s->db, "INSERT INTO meta VALUES ('pretend_2', 2)");
}

static int add_and_fail(struct snap *s)
{
	int r = add_two(s);

	return r < 0 ? r : -EUCLEAN;
}

static const struct migration pretend[] = { { SNAP_FORMAT, add_one },
	                                    { SNAP_FORMAT + 1, add_two },
	                                    { 0, NULL } };

static int64_t version_of(const char *index)
{
	return snaps_number(index, "PRAGMA user_version");
}

static int64_t keys_of(const char *index)
{
	return snaps_number(index, "SELECT count(*) FROM meta WHERE key LIKE 'pretend%'");
}

static struct snap *open_new(const struct fixture *f)
{
	struct snap *s;

	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	return s;
}

static void each_step_is_taken_once_and_in_order(void **state)
{
	struct fixture *f = *state;
	struct snap *s = open_new(f);

	assert_int_equal(migrate_steps(s, pretend, SNAP_FORMAT + 1), 0);
	assert_int_equal(version_of(f->index), SNAP_FORMAT + 1);
	assert_int_equal(keys_of(f->index), 1);
	for (int i = 0; i < 2; i++) { /* the second time there is nothing left to do */
		assert_int_equal(migrate_steps(s, pretend, SNAP_FORMAT + 2), 0);
		assert_int_equal(version_of(f->index), SNAP_FORMAT + 2);
		assert_int_equal(keys_of(f->index), 2);
	}
	assert_int_equal(migrate_steps(s, pretend, SNAP_FORMAT + 1), -EPROTONOSUPPORT);
	snap_close(s);
}

static void a_step_that_fails_leaves_the_index_as_it_was(void **state)
{
	static const struct migration fails[] = { { SNAP_FORMAT, add_one },
		                                  { SNAP_FORMAT + 1, add_and_fail },
		                                  { 0, NULL } };
	struct fixture *f = *state;
	struct snap *s = open_new(f);

	assert_int_equal(migrate_steps(s, fails, SNAP_FORMAT + 2), -EUCLEAN);
	assert_int_equal(migrate_steps(s, pretend, SNAP_FORMAT + 3), -EPROTO); /* no such step */
	assert_int_equal(version_of(f->index), SNAP_FORMAT);
	assert_int_equal(keys_of(f->index), 0);
	assert_int_equal(migrate_steps(s, pretend, SNAP_FORMAT + 2), 0);
	snap_close(s);
}

static int convert_when_told(const char *index, const int ready[2])
{
	struct snap *s;
	char c;

	if (snap_open(index, SNAP_WRITE, &s) < 0)
		return 1;
	base_close(ready[1]); /* the last of all to do so starts all */
	(void)!read(ready[0], &c, 1);
	return migrate_steps(s, pretend, SNAP_FORMAT + 1) == 0 ? 0 : 2;
}

static void only_one_of_many_converts_it(void **state)
{
	struct fixture *f = *state;
	int ready[2];
	pid_t pid[4];

	snap_close(open_new(f));
	assert_int_equal(pipe(ready), 0);
	(void)fflush(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0)
			_exit(convert_when_told(f->index, ready));
	}
	base_close(ready[1]); /* each waits for this, with the index open */
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	base_close(ready[0]);
	assert_int_equal(keys_of(f->index), 1);
}

static void a_format_that_was_never_released_is_refused(void **state)
{
	struct fixture *f = *state;
	struct snap *s;

	snap_close(open_new(f));
	for (int version = 1; version < SNAP_FORMAT; version++) {
		char sql[40];

		(void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", version);
		assert_int_equal(snaps_sql(f->index, sql), 0);
		assert_int_equal(snap_open(f->index, SNAP_READ, &s), -EPROTO);
		assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), -EPROTO);
		assert_int_equal(version_of(f->index), version);
	}
	assert_non_null(strstr(snap_strerror(-EPROTO), "scan again"));
}

int main(void)
{
#define WITH_INDEX(test) cmocka_unit_test_setup_teardown(test, snaps_set_up, snaps_tear_down)
	const struct CMUnitTest tests[] = {
		WITH_INDEX(each_step_is_taken_once_and_in_order),
		WITH_INDEX(a_step_that_fails_leaves_the_index_as_it_was),
		WITH_INDEX(only_one_of_many_converts_it),
		WITH_INDEX(a_format_that_was_never_released_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
