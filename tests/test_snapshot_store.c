/* SPDX-License-Identifier: MIT */
/* The index file: who may open it, what it must be, and that damage is noticed. */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static int open_index(const char *path, unsigned flags)
{
	struct snap *s = NULL;
	int r = snap_open(path, flags, &s);

	if (r < 0)
		assert_null(s); /* left alone on failure */
	snap_close(s);
	return r;
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void a_new_index_is_for_its_owner_whatever_the_umask(void **state)
{
	static const mode_t masks[] = { 0, 022, 077, 0277, 0777 };
	struct fixture *f = *state;
	struct snap_info info;

	tree_random(&f->tree, 1, 100);
	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		char name[48], path[256], log[256];
		struct snap *s;
		mode_t before = umask(masks[i]);
		int r;

		(void)snprintf(name, sizeof(name), "state%zu/deep/index.db", i);
		r = snap_open(snaps_path(f, name, path), SNAP_WRITE, &s);
		if (r == 0)
			r = snaps_take(s, f->tree.path, SNAP_COLD, 2, &info);
		(void)umask(before);
		assert_int_equal(r, 0);
		snap_info_done(&info);
		assert_int_equal(mode_of(path), 0600);
		(void)snprintf(log, sizeof(log), "%.200s-wal", path);
		assert_int_equal(mode_of(log), 0600);
		snap_close(s);
		*strrchr(path, '/') = '\0';
		assert_int_equal(mode_of(path), 0700);
		*strrchr(path, '/') = '\0';
		assert_int_equal(mode_of(path), 0700);
	}
}

static void a_missing_index_is_not_made_for_reading(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	assert_int_equal(open_index(f->index, SNAP_READ), -ENOENT);
	assert_int_equal(stat(f->index, &st), -1);
}

static void an_index_opens_again(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	assert_int_equal(open_index(f->index, SNAP_READ), 0);
	assert_int_equal(snaps_count(f->index), 0);
}

static void what_is_no_index_is_refused_and_not_touched(void **state)
{
	struct fixture *f = *state;
	char text[256], foreign[256], folder[256], fifo[256];
	struct stat before, after;

	tree_build(&f->place, ROWS(IS_FILE("text", 5000), IS_DIR("folder"), IS_FIFO("fifo")));
	(void)snaps_path(f, "text", text);
	assert_int_equal(stat(text, &before), 0);
	assert_int_equal(open_index(text, SNAP_WRITE), -EMEDIUMTYPE);
	assert_int_equal(open_index(text, SNAP_READ), -EMEDIUMTYPE);
	assert_int_equal(stat(text, &after), 0);
	assert_int_equal(before.st_size, after.st_size);

	(void)snaps_path(f, "foreign", foreign);
	assert_int_equal(snaps_sql(foreign, "CREATE TABLE meta(key, value);"
	                                    "INSERT INTO meta VALUES ('secret', zeroblob(192))"),
	                 0);
	assert_int_equal(chmod(foreign, 0600), 0);
	assert_int_equal(open_index(foreign, SNAP_WRITE), -EMEDIUMTYPE);
	assert_int_equal(open_index(foreign, SNAP_READ), -EMEDIUMTYPE);
	assert_int_equal(snaps_number(foreign, "SELECT count(*) FROM sqlite_schema"), 1);

	assert_int_equal(open_index(snaps_path(f, "folder", folder), SNAP_WRITE), -EISDIR);
	assert_int_equal(open_index(folder, SNAP_READ), -EISDIR);
	assert_int_equal(open_index(snaps_path(f, "fifo", fifo), SNAP_READ), -EMEDIUMTYPE);
}

static void an_empty_file_becomes_an_index_but_is_none(void **state)
{
	struct fixture *f = *state;

	tree_write(&f->place, "index.db", 0);
	assert_int_equal(open_index(f->index, SNAP_READ), -EMEDIUMTYPE);
	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	assert_int_equal(open_index(f->index, SNAP_READ), 0);
}

/* Does somebody else hold SQLite's shared lock on the file? Asked by another process: one's own are not seen. */
static bool is_held(const char *index)
{
	struct flock lock = { .l_type = F_WRLCK,
		              .l_whence = SEEK_SET,
		              .l_start = 0x40000002, /* sqlite.org/lockingv3.html */
		              .l_len = 510 };
	int fd, status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fd = open(index, O_RDWR);
		_exit(fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 ? 2 : lock.l_type != F_UNLCK);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 1;
}

/* Without it, whoever closes the index next thinks nobody has it open and takes the log away. */
static void who_has_an_index_open_holds_its_lock(void **state)
{
	struct fixture *f = *state;
	struct snap *s;

	for (int i = 0; i < 2; i++) { /* the first makes it */
		assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
		assert_true(is_held(f->index));
		(void)snap_file_bytes(s);
		assert_true(is_held(f->index));
		snap_close(s);
		assert_false(is_held(f->index));
	}
	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	assert_true(is_held(f->index));
	snap_close(s);
}

static void an_index_of_a_newer_format_is_refused(void **state)
{
	struct fixture *f = *state;
	char sql[64];

	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	(void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", SNAP_FORMAT + 1);
	assert_int_equal(snaps_sql(f->index, sql), 0);
	assert_int_equal(open_index(f->index, SNAP_WRITE), -EPROTONOSUPPORT);
	assert_int_equal(open_index(f->index, SNAP_READ), -EPROTONOSUPPORT);
	assert_non_null(strstr(snap_strerror(-EPROTONOSUPPORT), "newer"));
}

static void root_refuses_what_others_could_have_prepared(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	assert_int_equal(chmod(f->index, 0620), 0);
	assert_int_equal(open_index(f->index, SNAP_READ), -EPERM);
	assert_int_equal(chmod(f->index, 0602), 0);
	assert_int_equal(open_index(f->index, SNAP_WRITE), -EPERM);
	assert_int_equal(chmod(f->index, 0600), 0);
	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	assert_int_equal(chown(f->index, 65534, 65534), 0);
	assert_int_equal(open_index(f->index, SNAP_READ), -EPERM);
	assert_int_equal(open_index(f->index, SNAP_WRITE), -EPERM);
}

static void an_index_without_its_secret_is_damaged(void **state)
{
	static const char *const harm[] = { "UPDATE meta SET value='short' WHERE key='secret'",
		                            "DELETE FROM meta WHERE key='secret'",
		                            "DROP TABLE meta" };
	struct fixture *f = *state;

	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	for (size_t i = 0; i < ARRAY_SIZE(harm); i++) {
		assert_int_equal(snaps_sql(f->index, harm[i]), 0);
		assert_int_equal(open_index(f->index, SNAP_READ), -EUCLEAN);
		assert_int_equal(open_index(f->index, SNAP_WRITE), -EUCLEAN);
	}
}

/* Read everything: 0, or the error that the first damaged node gives. */
static int read_all(const char *index, uint64_t ref)
{
	struct record r;
	struct snap *s;
	int rc = snap_open(index, SNAP_READ, &s);

	if (rc < 0)
		return rc;
	rc = snaps_read(s, ref, &r);
	record_done(&r);
	snap_close(s);
	return rc;
}

/* What a cold scan stores beside damage is whole. The sums are not about codec and size. */
static void assert_cold_scan_heals(const struct fixture *f, const char *index, const char *harm)
{
	struct snap_info info;

	if (strstr(harm, "codec=") || strstr(harm, "size="))
		return;
	assert_int_equal(snaps_take_at(index, f->tree.path, SNAP_COLD, 2, &info), 0);
	if (read_all(index, info.ref) != 0)
		fail_msg("%s: a cold scan refers to it", harm);
	snap_info_done(&info);
}

static void a_damaged_pack_is_noticed(void **state)
{
	static const char *const harm[] = {
		"UPDATE pack SET head=CAST(substr(head,1,20)||x'ff'||substr(head,22) AS BLOB)",
		"UPDATE pack SET head=CAST(substr(head,1,length(head)-1) AS BLOB)",
		"UPDATE pack SET head=zeroblob(length(head))",
		"UPDATE pack SET head=NULL",
		"UPDATE pack SET head='text'",
		"UPDATE pack SET list=CAST(substr(list,1,20)||x'ff'||substr(list,22) AS BLOB)",
		"UPDATE pack SET list=CAST(substr(list,1,length(list)-1) AS BLOB)",
		"UPDATE pack SET list=zeroblob(length(list))",
		"UPDATE pack SET list=NULL",
		"UPDATE pack SET list='text'",
		"UPDATE pack SET fps=zeroblob(length(fps))",
		"UPDATE pack SET fps=NULL",
		"UPDATE pack SET fps=substr(fps,1,length(fps)-1)",
		"UPDATE pack SET size=size+1",
		"UPDATE pack SET size=-1",
		"UPDATE pack SET size=9223372036854775807",
		"UPDATE pack SET codec=7",
		"UPDATE pack SET list_codec=7",
		"UPDATE pack SET list_sum=list_sum+1",
		"UPDATE pack SET sum=sum+1",
		"UPDATE pack SET sum='x'",
	};
	struct fixture *f = *state;
	struct snap_info info;
	char copy[256];

	tree_random(&f->tree, 3, 400);
	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 1, &info), 0);
	assert_int_equal(read_all(f->index, info.ref), 0);
	for (size_t i = 0; i < ARRAY_SIZE(harm); i++) {
		int r;

		snaps_copy(f->index, snaps_path(f, "copy", copy));
		assert_int_equal(snaps_sql(copy, harm[i]), 0);
		r = read_all(copy, info.ref);
		/* A size that no pack has may also be too much to ask for. */
		if (r != -EUCLEAN)
			fail_msg("%s: %d", harm[i], r);
		assert_cold_scan_heals(f, copy, harm[i]);
		assert_int_equal(unlink(copy), 0);
	}
	snap_info_done(&info);
}

static void packs_cannot_change_places(void **state)
{
	struct fixture *f = *state;
	struct snap_info a, b;

	tree_random(&f->tree, 3, 100);
	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 1, &a), 0);
	tree_random(&f->tree, 4, 100);
	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 1, &b), 0);
	assert_true(snaps_number(f->index, "SELECT count(*) FROM pack") >= 2);
	assert_int_equal(
		snaps_sql(
			f->index,
			"UPDATE pack SET id=-id; UPDATE pack SET id=1-id-(SELECT min(id) FROM pack)"),
		0);
	assert_true(read_all(f->index, a.ref) < 0);
	assert_true(read_all(f->index, b.ref) < 0);
	snap_info_done(&a);
	snap_info_done(&b);
}

static void refs_that_lead_nowhere_are_stale(void **state)
{
	static const uint64_t refs[] = {
		0, 1, UINT64_C(999) << 12, UINT64_MAX, UINT64_C(1) << 62, UINT64_C(1) << 61
	};
	struct fixture *f = *state;
	struct snap_info info;
	struct snap_node n;
	struct snap *s;

	tree_random(&f->tree, 3, 50);
	assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_COLD, 1, &info), 0);
	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	for (size_t i = 0; i < ARRAY_SIZE(refs); i++)
		assert_int_equal(snap_node_get(s, refs[i], &n), -ESTALE);
	assert_int_equal(snap_node_get(s, info.ref | 0xfff, &n), -ESTALE);
	snap_close(s);
	snap_info_done(&info);
}

static void many_processes_may_create_the_same_index(void **state)
{
	struct fixture *f = *state;
	pid_t pid[6];
	int status;

	for (int round = 0; round < 5; round++) {
		char name[32], path[256];

		(void)snprintf(name, sizeof(name), "new%d/index.db", round);
		(void)snaps_path(f, name, path);
		(void)fflush(NULL);
		for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
			pid[i] = fork();
			assert_true(pid[i] >= 0);
			if (pid[i] == 0)
				_exit(-open_index(path, SNAP_WRITE));
		}
		for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
			assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
			assert_int_equal(status, 0);
		}
		assert_int_equal(open_index(path, SNAP_READ), 0);
	}
}

static void a_read_only_index_can_be_read(void **state)
{
	struct fixture *f = *state;
	char path[256];
	struct snap_info info;

	tree_random(&f->tree, 3, 50);
	/* Characters that mean something in SQLite's file names. */
	(void)snaps_path(f, "odd ?#%41 name.db", path);
	assert_int_equal(snaps_take_at(path, f->tree.path, SNAP_COLD, 1, &info), 0);
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(snaps_count(path), 1);
	assert_int_equal(read_all(path, info.ref), 0);
	snap_info_done(&info);
}

static void every_error_has_a_sentence(void **state)
{
	static const int errors[] = { EBUSY, ENOSPC, EMEDIUMTYPE, EPROTONOSUPPORT, EUCLEAN, EROFS,
		                      EPERM, ENOMEM, EIO };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		assert_true(strlen(snap_strerror(-errors[i])) > 5);
	assert_int_equal(snap_errno(SQLITE_IOERR_READ), -EIO);
	assert_int_equal(snap_errno(SQLITE_FULL), -ENOSPC);
	assert_int_equal(snap_errno(SQLITE_CORRUPT_INDEX), -EUCLEAN);
	assert_int_equal(snap_errno(SQLITE_BUSY_SNAPSHOT), -EBUSY);
	assert_int_equal(snap_errno(SQLITE_ROW), 0);
}

static void the_default_index_follows_the_environment(void **state)
{
	char *path;

	(void)state;
	assert_int_equal(setenv("DISKTRACKER_INDEX", "/some/where.db", 1), 0);
	assert_int_equal(snap_default_path(&path), 0);
	assert_string_equal(path, "/some/where.db");
	free(path);
	assert_int_equal(unsetenv("DISKTRACKER_INDEX"), 0);
	assert_int_equal(setenv("XDG_STATE_HOME", "/xdg", 1), 0);
	assert_int_equal(snap_default_path(&path), 0);
	assert_string_equal(path, geteuid() == 0 ? "/var/lib/disktracker/index.db"
	                                         : "/xdg/disktracker/index.db");
	free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_index_is_for_its_owner_whatever_the_umask),
		TEST(a_missing_index_is_not_made_for_reading),
		TEST(an_index_opens_again),
		TEST(what_is_no_index_is_refused_and_not_touched),
		TEST(an_empty_file_becomes_an_index_but_is_none),
		TEST(who_has_an_index_open_holds_its_lock),
		TEST(an_index_of_a_newer_format_is_refused),
		TEST(root_refuses_what_others_could_have_prepared),
		TEST(an_index_without_its_secret_is_damaged),
		TEST(a_damaged_pack_is_noticed),
		TEST(packs_cannot_change_places),
		TEST(refs_that_lead_nowhere_are_stale),
		TEST(many_processes_may_create_the_same_index),
		TEST(a_read_only_index_can_be_read),
		TEST(every_error_has_a_sentence),
		TEST(the_default_index_follows_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
