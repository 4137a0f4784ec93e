/* SPDX-License-Identifier: MIT */
/* An index of an older format is brought up to date: whole, at once, or not at all. */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

enum {
	KILLS = 30,
	KILLS_LONG = 300
};

/* -- writing format 1 ------------------------------------------------------------------------- */

/* A record of format 1: as a head begins, length of the kids, kids, listing. */
static void old_record(const struct snap_pack *p, size_t slot, struct bytes *out)
{
	const uint8_t *head = p->head + p->at[slot], *end = p->head + p->at[slot + 1], *at;
	const struct pack_lists *l = &p->lists;
	struct snap_node n = { .ref = 1 };
	uint8_t len[VARINT_MAX];

	if (!pack_has(p, slot))
		return;
	at = record_totals(head, end, &n);
	assert_non_null(at);
	assert_int_equal(record_parse(head, end, &n), 0);
	assert_int_equal(bytes_add(out, head, (size_t)(at - head)), 0);
	assert_int_equal(
		bytes_add(out, len, (size_t)(varint_put(len, (size_t)(end - n.kids)) - len)), 0);
	assert_int_equal(bytes_add(out, n.kids, (size_t)(end - n.kids)), 0);
	assert_int_equal(bytes_add(out, l->list + l->at[slot], l->at[slot + 1] - l->at[slot]), 0);
}

static void old_pack(const struct snap_pack *p, struct bytes *raw)
{
	struct bytes record = { 0 }, records = { 0 };
	uint8_t len[VARINT_MAX];

	raw->len = 0;
	assert_int_equal(bytes_add(raw, len, (size_t)(varint_put(len, p->n) - len)), 0);
	for (size_t i = 0; i < p->n; i++) {
		record.len = 0;
		old_record(p, i, &record);
		assert_int_equal(bytes_add(raw, len, (size_t)(varint_put(len, record.len) - len)),
		                 0);
		assert_int_equal(bytes_add(&records, record.p, record.len), 0);
	}
	assert_int_equal(bytes_add(raw, records.p, records.len), 0);
	free(record.p);
	free(records.p);
}

static void old_row(struct snap *s, sqlite3_stmt *from, sqlite3_stmt *to, struct bytes *raw)
{
	uint8_t packed[1 << 18];
	const void *data;
	struct snap_pack *p;
	struct pack_row row;
	size_t len;
	int codec;

	assert_int_equal(pack_row_read(from, true, &row), 0);
	assert_int_equal(pack_decode(s, &row, &p), 0);
	old_pack(p, raw);
	len = ZSTD_compress(packed, sizeof(packed), raw->p, raw->len, 1);
	codec = !ZSTD_isError(len) && len < raw->len ? CODEC_ZSTD : CODEC_RAW;
	data = codec == CODEC_ZSTD ? packed : raw->p;
	len = codec == CODEC_ZSTD ? len : raw->len;
	(void)sqlite3_bind_int64(to, 1, (int64_t)row.id);
	(void)sqlite3_bind_int(to, 2, codec);
	(void)sqlite3_bind_int64(to, 3, (int64_t)raw->len);
	(void)sqlite3_bind_int64(
		to, 4, (int64_t)pack_sum(s->secret, row.id, row.fps, row.fps_len, data, len));
	(void)sqlite3_bind_blob64(to, 5, row.fps, row.fps_len, SQLITE_STATIC);
	(void)sqlite3_bind_blob64(to, 6, data, len, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(to), SQLITE_DONE);
	(void)sqlite3_reset(to);
	pack_free(p);
}

/* Write an index down as an earlier version would have. */
static void make_old(const char *index)
{
	sqlite3_stmt *from, *to;
	struct bytes raw = { 0 };
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_WRITE, &s), 0);
	assert_int_equal(store_exec(s->db, "BEGIN; CREATE TABLE one(id INTEGER PRIMARY KEY, codec"
	                                   " INT, size INT, sum INT, fps BLOB, data BLOB)"),
	                 0);
	assert_int_equal(
		sqlite3_prepare_v2(s->db, "SELECT " PACK_COLUMNS " FROM pack", -1, &from, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(s->db, "INSERT INTO one VALUES (?, ?, ?, ?, ?, ?)", -1,
	                                    &to, NULL),
	                 SQLITE_OK);
	while (sqlite3_step(from) == SQLITE_ROW)
		old_row(s, from, to, &raw);
	(void)sqlite3_finalize(from);
	(void)sqlite3_finalize(to);
	(void)sqlite3_finalize(s->get_pack);
	s->get_pack = NULL;
	assert_int_equal(store_exec(s->db, "DROP TABLE pack; ALTER TABLE one RENAME TO pack;"
	                                   "PRAGMA user_version=1; COMMIT"),
	                 0);
	free(raw.p);
	snap_close(s);
}

static int open_index(const char *index, unsigned flags)
{
	struct snap *s;
	int r = snap_open(index, flags, &s);

	if (r == 0)
		snap_close(s);
	return r;
}

/* Rows that are in one of the two but not, with every column alike, in the other. */
static int64_t rows_that_differ(const char *index, const char *other)
{
	sqlite3_stmt *st;
	sqlite3 *db;
	char sql[300];
	int64_t n;

	(void)snprintf(sql, sizeof(sql), "ATTACH '%s' AS o", other);
	assert_int_equal(sqlite3_open(index, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(
			db,
			"SELECT count(*) FROM"
			" (SELECT * FROM (SELECT * FROM main.pack EXCEPT SELECT * FROM o.pack)"
			" UNION ALL"
			" SELECT * FROM (SELECT * FROM o.pack EXCEPT SELECT * FROM main.pack))",
			-1, &st, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(db);
	return n;
}

static void assert_sound(const char *index, size_t snapshots, uint64_t bad_packs)
{
	struct snap_damage d;
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_READ, &s), 0);
	assert_int_equal(snap_check(s, NULL, NULL, &d), 0);
	assert_int_equal(d.bad_packs, bad_packs);
	assert_true(bad_packs || d.n == 0);
	snap_damage_done(&d);
	snap_close(s);
	assert_int_equal(snaps_count(index), snapshots);
	assert_int_equal(snaps_number(index, "PRAGMA user_version"), SNAP_FORMAT);
	assert_int_equal(snaps_number(index, "SELECT count(*) FROM pragma_integrity_check"
	                                     " WHERE integrity_check='ok'"),
	                 1);
}

/* -- an index that an earlier version wrote ---------------------------------------------------- */

static void load_format_1(const char *index)
{
	const char *path = getenv("FORMAT1");
	char *const argv[] = { (char *)"cat",
		               (char *)(uintptr_t)(path ? path : "tests/format1.sql"), NULL };
	AUTO(base_free) char *sql = NULL;
	size_t len;

	sql = scans_output(argv, &len);
	assert_true(len > 1000);
	assert_int_equal(snaps_sql(index, sql), 0);
	assert_int_equal(chmod(index, 0600), 0);
}

static void a_reader_that_may_write_converts_it(void **state)
{
	struct fixture *f = *state;

	load_format_1(f->index);
	assert_int_equal(open_index(f->index, SNAP_READ), 0);
	assert_sound(f->index, 2, 0);
}

/* As somebody who may read the file, but not write to it or beside it. */
static int open_as_a_stranger(const char *index)
{
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && setuid(65534) < 0)
			_exit(200);
		_exit(-open_index(index, SNAP_READ));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void a_reader_that_may_not_write_says_so(void **state)
{
	struct fixture *f = *state;
	char above[256];

	load_format_1(f->index);
	assert_int_equal(chmod(f->index, 0444), 0);
	assert_int_equal(chmod(f->place.path, 0555), 0);
	assert_int_equal(chmod(snaps_path(f, "..", above), 0711),
	                 0); /* all tests' trees lie in it */
	assert_int_equal(open_as_a_stranger(f->index), -EOPNOTSUPP);
	assert_int_equal(chmod(above, 0700), 0);
	assert_int_equal(chmod(f->place.path, 0755), 0);
	assert_non_null(strstr(snap_strerror(-EOPNOTSUPP), "older version"));
	assert_int_equal(snaps_number(f->index, "PRAGMA user_version"), 1);
}

static void a_writer_brings_it_up_to_date(void **state)
{
	struct fixture *f = *state;
	struct snap_changes changes;
	struct snap_list l;
	struct snap *s;

	load_format_1(f->index);
	assert_int_equal(open_index(f->index, SNAP_WRITE), 0);
	assert_sound(f->index, 2, 0);
	assert_int_equal(open_index(f->index, SNAP_READ), 0);
	/* Between the two, one file went: 4096 bytes of build/. */
	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	assert_int_equal(snap_list_get(s, &l), 0);
	assert_int_equal(l.info[1]->totals.bytes, 262144); /* what du said of the tree */
	assert_int_equal(snap_diff(s, l.info[0]->ref, l.info[1]->ref, NULL, &changes), 0);
	assert_int_equal(changes.n, 1);
	assert_string_equal(changes.c[0].path, "build");
	assert_int_equal(changes.c[0].bytes, -4096);
	snap_changes_done(&changes);
	snap_list_done(&l);
	snap_close(s);
}

/* -- indexes of any size ------------------------------------------------------------------------ */

/* Three snapshots, the first of them pruned, so that slots are empty and packs are missing. */
static void take_some(const struct fixture *f)
{
	const struct snap_policy policy = { .keep_last = 2 };
	struct snap_pruned pruned;
	struct snap *s;

	for (uint64_t i = 0; i < 3; i++) {
		struct snap_info info;

		tree_random(&f->tree, 40 + i, 500);
		assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_WARM, 2, &info), 0);
		snap_info_done(&info);
	}
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_prune(s, &policy, 0, false, &pruned), 0);
	assert_int_equal(pruned.n, 1);
	snap_pruned_done(&pruned);
	snap_close(s);
}

/* The same twice: as this version writes it in f->index, as format 1 in old. */
static void take_some_and_make_old(const struct fixture *f, char old[256])
{
	take_some(f);
	snaps_copy(f->index, snaps_path(f, "old.db", old));
	make_old(old);
}

static void every_row_is_what_this_version_would_have_written(void **state)
{
	struct fixture *f = *state;
	char old[256];

	take_some_and_make_old(f, old);
	assert_int_equal(snaps_number(old, "PRAGMA user_version"), 1);
	assert_true(snaps_number(old, "SELECT count(*) FROM pack") > 3);
	assert_int_equal(open_index(old, SNAP_WRITE), 0);
	assert_sound(old, 2, 0);
	assert_int_equal(rows_that_differ(f->index, old), 0);
}

static void a_damaged_pack_stays_damaged_and_the_rest_survives(void **state)
{
	struct fixture *f = *state;
	char old[256];

	take_some_and_make_old(f, old);
	assert_int_equal(snaps_sql(old, "UPDATE pack SET data=zeroblob(length(data))"
	                                " WHERE id=(SELECT max(id) FROM pack)"),
	                 0);
	assert_int_equal(open_index(old, SNAP_WRITE), 0);
	assert_sound(old, 2, 1);
	/* What it was and what became of it. */
	assert_int_equal(rows_that_differ(f->index, old), 2);
	assert_int_equal(snaps_number(old, "SELECT count(*) FROM pack WHERE head IS NULL"
	                                   " AND id=(SELECT max(id) FROM pack)"),
	                 1);
}

static useconds_t time_a_migration(const char *index)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	assert_int_equal(open_index(index, SNAP_WRITE), 0);
	return (useconds_t)((clock_ns(CLOCK_MONOTONIC) - start) / 1000);
}

/* Opens the index and is killed at a random moment of it. True if it was killed before it was done. */
static bool kill_a_migration(const char *index, useconds_t when)
{
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(open_index(index, SNAP_WRITE) == 0 ? 0 : 1);
	(void)usleep(when);
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void a_killed_migration_leaves_the_old_or_the_new(void **state)
{
	struct fixture *f = *state;
	int rounds = getenv("LONG") ? KILLS_LONG : KILLS, killed = 0, old_format = 0;
	char old[256], index[256];
	uint64_t random = 7;
	useconds_t usual;

	take_some_and_make_old(f, old);
	snaps_copy(old, snaps_path(f, "again.db", index));
	usual = time_a_migration(index);
	for (int i = 0; i < rounds; i++) {
		int64_t version;

		snaps_copy(old, index);
		killed += kill_a_migration(index, (useconds_t)(tree_draw(&random) % (usual * 2)));
		version = snaps_number(index, "PRAGMA user_version");
		assert_true(version == 1 || version == SNAP_FORMAT);
		old_format += version == 1;
		assert_int_equal(open_index(index, SNAP_WRITE), 0);
		assert_sound(index, 2, 0);
		assert_int_equal(rows_that_differ(f->index, index), 0);
	}
	assert_true(killed > 0);
	assert_true(old_format > 0);
	print_message("%d of %d were killed in time, %d before they had committed\n", killed,
	              rounds, old_format);
}

static void only_one_of_many_converts_it(void **state)
{
	struct fixture *f = *state;
	char old[256];
	pid_t pid[4];

	take_some_and_make_old(f, old);
	(void)fflush(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0)
			_exit(open_index(old, SNAP_WRITE) == 0 ? 0 : 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	assert_sound(old, 2, 0);
	assert_int_equal(rows_that_differ(f->index, old), 0);
}

int main(void)
{
#define WITH_INDEX(test) cmocka_unit_test_setup_teardown(test, snaps_set_up, snaps_tear_down)
	const struct CMUnitTest tests[] = {
		WITH_INDEX(a_reader_that_may_write_converts_it),
		WITH_INDEX(a_reader_that_may_not_write_says_so),
		WITH_INDEX(a_writer_brings_it_up_to_date),
		WITH_INDEX(every_row_is_what_this_version_would_have_written),
		WITH_INDEX(a_damaged_pack_stays_damaged_and_the_rest_survives),
		WITH_INDEX(a_killed_migration_leaves_the_old_or_the_new),
		WITH_INDEX(only_one_of_many_converts_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
