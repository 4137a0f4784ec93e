/* SPDX-License-Identifier: MIT */
/*
 * The rows about snapshots: whatever a disk or a hand changes in one shows, is left out, and never believed.
 */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
	SNAPSHOTS = 5,
#ifdef __SANITIZE_ADDRESS__
	FLIPS = 200,
#else
	FLIPS = 1500,
#endif
	FLIPS_LONG = 20000
};

/* Five snapshots of two roots in turn. */
static void live_through_some(const struct fixture *f)
{
	tree_build(&f->tree, ROWS(IS_DIR("a"), IS_DIR("a/d"), IS_FILE("a/d/f", 10), IS_DIR("b")));
	for (int i = 0; i < SNAPSHOTS; i++) {
		struct snap_info info;
		char path[300], name[24];

		(void)snprintf(name, sizeof(name), "%s/f%d", i % 2 ? "b" : "a", i);
		tree_write(&f->tree, name, 5000);
		(void)snprintf(path, sizeof(path), "%s/%s", f->tree.path, i % 2 ? "b" : "a");
		assert_int_equal(snaps_take_at(f->index, path, SNAP_WARM, 1, &info), 0);
		assert_int_equal(info.id, i + 1);
		snap_info_done(&info);
	}
}

/* What check finds, as one number; of rows, which ones, as bits. */
struct found {
	uint64_t findings, damaged;
	bool says_missing;
	int error;
};

static struct found check(const char *index)
{
	struct found ret = { 0 };
	struct snap_damage d;
	struct snap *s;

	ret.error = snap_open(index, SNAP_READ, &s);
	if (ret.error < 0)
		return ret;
	ret.error = snap_check(s, NULL, NULL, &d);
	if (ret.error == 0) {
		ret.findings = d.n + d.n_found + d.bad_packs + d.bad_nodes + (uint64_t)d.bad_lookup;
		for (size_t i = 0; i < d.n; i++)
			if (d.ids[i] >= 0 && d.ids[i] < 64)
				ret.damaged |= UINT64_C(1) << d.ids[i];
		for (size_t i = 0; i < d.n_found; i++)
			ret.says_missing |= strstr(d.found[i], "is missing") != NULL;
		snap_damage_done(&d);
	}
	snap_close(s);
	return ret;
}

/* Ids that are listed, as bits; each of them can be read. */
static uint64_t listed(const char *index, uint64_t *damaged)
{
	struct snap_list l;
	uint64_t ret = 0;
	struct snap *s;

	*damaged = 0;
	if (snap_open(index, SNAP_READ, &s) < 0)
		return 0;
	if (snap_list_get(s, &l) == 0) {
		for (size_t i = 0; i < l.n; i++) {
			struct snap_info info;

			ret |= UINT64_C(1) << l.info[i]->id;
			assert_int_equal(snap_info_get(s, l.info[i]->id, &info), 0);
			snap_info_done(&info);
		}
		for (size_t i = 0; i < l.n_damaged; i++) {
			struct snap_info info;

			*damaged |= UINT64_C(1) << (l.damaged[i] & 63);
			assert_int_equal(snap_info_get(s, l.damaged[i], &info), -EUCLEAN);
		}
		snap_list_done(&l);
	}
	snap_close(s);
	return ret;
}

static void edited(const struct fixture *f, const char *sql, char copy[256])
{
	snaps_copy(f->index, snaps_path(f, "edited.db", copy));
	if (snaps_sql(copy, sql) != 0)
		fail_msg("SQL: %s", sql);
}

static void every_column_of_every_row_is_watched(void **state)
{
	struct fixture *f = *state;
	sqlite3_stmt *st;
	sqlite3 *db;
	int columns = 0;

	live_through_some(f);
	assert_int_equal(check(f->index).findings, 0);
	assert_int_equal(sqlite3_open(f->index, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db,
	                                    "SELECT name FROM pragma_table_info('snapshot')"
	                                    " WHERE name<>'id'",
	                                    -1, &st, NULL),
	                 SQLITE_OK);
	for (; sqlite3_step(st) == SQLITE_ROW; columns++)
		for (int id = 1; id <= SNAPSHOTS; id += 2) {
			const char *name = (const char *)sqlite3_column_text(st, 0);
			char sql[400], copy[256];
			uint64_t damaged, bit = UINT64_C(1) << id;

			(void)snprintf(
				sql, sizeof(sql),
				"PRAGMA foreign_keys=OFF; UPDATE snapshot SET %s=CASE typeof(%s)"
				" WHEN 'integer' THEN %s+1 WHEN 'text' THEN %s||'x'"
				" WHEN 'blob' THEN zeroblob(length(%s)) ELSE 1 END WHERE id=%d",
				name, name, name, name, name, id);
			edited(f, sql, copy);
			assert_true(listed(copy, &damaged) == (62u & ~bit));
			assert_true(damaged == bit);
			if (check(copy).damaged != bit)
				fail_msg("check does not say so: %s", sql);
		}
	assert_true(columns > 20);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(db);
}

static const struct edit {
	const char *sql;
	uint64_t damaged; /* as bits by id */
	bool missing;
} edits[] = {
	{ "UPDATE snapshot SET time=time-864000", 62, false },
	{ "UPDATE snapshot SET complete=0 WHERE id=4", 16, false },
	{ "UPDATE snapshot SET mode=-2147483648 WHERE id=2", 4, false },
	{ "UPDATE snapshot SET bytes='many', cost=zeroblob(100000) WHERE id=2", 4, false },
	{ "UPDATE snapshot SET sum=NULL", 62, false },
	{ "UPDATE root SET path='relative' WHERE id=1", 42, false },
	{ "UPDATE root SET path=path||'/x' WHERE id=2", 20, false },
	{ "PRAGMA foreign_keys=OFF; DELETE FROM root WHERE id=1", 42, false },
	{ "UPDATE snapshot SET node=(SELECT node FROM snapshot WHERE id=3) WHERE id=1", 2, false },
	{ "UPDATE snapshot SET id=77 WHERE id=3", 0, true },
	{ "DELETE FROM snapshot WHERE id=1", 0, true },
	{ "DELETE FROM snapshot WHERE id=3", 0, true },
	{ "DELETE FROM snapshot WHERE id=5", 0, true },
	{ "DELETE FROM snapshot WHERE id<5", 0, true },
	{ "DELETE FROM snapshot", 0, true },
	{ "UPDATE meta SET value=value-1 WHERE key='next_pack'", 0, false },
	{ "UPDATE meta SET value=1 WHERE key='next_pack'", 0, false },
	{ "UPDATE meta SET value=value+1 WHERE key='newest'", 0, false },
	{ "UPDATE meta SET value=value+1 WHERE key='last'", 0, false },
	{ "UPDATE meta SET value=0 WHERE key='sum'", 0, false },
	{ "DELETE FROM meta WHERE key='sum'", 0, false },
	{ "DELETE FROM meta WHERE key='next_pack'", 0, false },
	{ "DELETE FROM meta WHERE key='last'", 0, false },
	{ "INSERT INTO meta VALUES ('more', 1)", 0, false },
	{ "UPDATE meta SET value=zeroblob(192) WHERE key='secret'", 62, false },
	{ "DROP INDEX snapshot_root", 0, false },
};

static void edits_by_hand_are_found(void **state)
{
	struct fixture *f = *state;

	live_through_some(f);
	for (size_t i = 0; i < ARRAY_SIZE(edits); i++) {
		const struct edit *e = &edits[i];
		char copy[256];
		struct found found;
		uint64_t damaged;

		edited(f, e->sql, copy);
		found = check(copy);
		if (found.error || found.findings == 0)
			fail_msg("check finds nothing: %s", e->sql);
		if (found.says_missing != e->missing)
			fail_msg("missing or not: %s", e->sql);
		(void)listed(copy, &damaged);
		if ((damaged & 62) != e->damaged || (found.damaged & e->damaged) != e->damaged)
			fail_msg("damaged are others: %s", e->sql);
	}
}

/* The next scan goes on beside the newest that is whole; what was found before is found still. */
static void a_scan_goes_on_and_hides_nothing(void **state)
{
	struct fixture *f = *state;
	char path[300];

	live_through_some(f);
	(void)snprintf(path, sizeof(path), "%s/a", f->tree.path);
	for (size_t i = 0; i < ARRAY_SIZE(edits); i++) {
		const struct edit *e = &edits[i];
		struct snap_info info;
		struct found found;
		char copy[256];
		int r;

		edited(f, e->sql, copy);
		r = snaps_take_at(copy, path, SNAP_WARM, 1, &info);
		if (strstr(e->sql, "secret")) { /* all sums would get another key */
			assert_int_equal(r, -EUCLEAN);
			continue;
		}
		if (r != 0)
			fail_msg("%s: %s", e->sql, snap_strerror(r));
		snap_info_done(&info);
		found = check(copy);
		if (found.error || (found.findings == 0) != (!e->damaged && !e->missing))
			fail_msg("after a scan: %s", e->sql);
		if (e->missing != found.says_missing || found.damaged != e->damaged)
			fail_msg("after a scan it is another damage: %s", e->sql);
	}
}

static void prune(const char *index, uint64_t keep_last, size_t removed)
{
	const struct snap_policy policy = { .keep_last = keep_last };
	struct snap_pruned pruned;
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_prune(s, &policy, 0, false, &pruned), 0);
	assert_int_equal(pruned.n, removed);
	snap_pruned_done(&pruned);
	snap_close(s);
}

/* It mends what follows a row that it removes, and takes damaged ones with it. */
static void prune_leaves_a_whole_list(void **state)
{
	static const struct {
		const char *sql;
		size_t removed;
		uint64_t left;
	} cases[] = {
		{ "SELECT 1", 3, 16 | 32 },
		{ "UPDATE snapshot SET time=1 WHERE id=1", 3, 16 | 32 },
		{ "UPDATE snapshot SET time=1 WHERE id=4", 4, 4 | 32 },
		{ "UPDATE snapshot SET time=1 WHERE id=5", 3, 8 | 16 },
		{ "UPDATE snapshot SET time=1 WHERE id IN (2, 4)", 4, 32 },
	};
	struct fixture *f = *state;

	live_through_some(f);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char copy[256];
		uint64_t damaged;

		edited(f, cases[i].sql, copy);
		prune(copy, 1, i == 2 ? 3 : cases[i].removed);
		if (check(copy).findings != 0)
			fail_msg("after prune: %s", cases[i].sql);
		assert_true(listed(copy, &damaged) == cases[i].left);
		assert_true(damaged == 0);
		prune(copy, 1, 0);
	}
}

/* Where the key is another, all would look damaged. */
static void prune_removes_nothing_for_another_key(void **state)
{
	const struct snap_policy policy = { .keep_last = 1 };
	struct fixture *f = *state;
	struct snap_pruned pruned;
	char copy[256];
	struct snap *s;

	live_through_some(f);
	edited(f, "UPDATE meta SET value=zeroblob(192) WHERE key='secret'", copy);
	assert_int_equal(snap_open(copy, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_prune(s, &policy, 0, false, &pruned), -EUCLEAN);
	snap_close(s);
	assert_int_equal(snaps_number(copy, "SELECT count(*) FROM snapshot"), SNAPSHOTS);
}

static void a_mark_and_the_cost_come_back(void **state)
{
	struct fixture *f = *state;
	struct scan_mark mark = { .source = "fifteen letters", .len = sizeof(mark.bytes) };
	const struct scan_options o = { .threads = 1 };
	struct snap_info info, read;
	struct scan_report report;
	struct snap_writer *w;
	struct snap *s;

	memset(mark.bytes, 0xa5, sizeof(mark.bytes));
	tree_build(&f->tree, ROWS(IS_DIR("d")));
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_write_begin(s, f->tree.path, SNAP_COLD, &w), 0);
	assert_null(snap_write_mark(w));
	assert_int_equal(snap_write_options(w, "--a", 4), 0);
	assert_int_equal(scan_run(f->tree.path, &o, snap_write_sink(w), &report), 0);
	report.mark = mark;
	(void)snprintf(report.stats.readers_log, sizeof(report.stats.readers_log), "a\nb c");
	assert_int_equal(snap_write_commit(w, &report, &info), 0);
	assert_int_equal(snap_info_get(s, info.id, &read), 0);
	assert_memory_equal(&read.details->mark, &mark, sizeof(mark));
	assert_int_equal(read.details->stats.openat, report.stats.openat);
	assert_int_equal(read.details->stats.wall_ns, report.stats.wall_ns);
	assert_int_equal(read.details->index_bytes, info.details->index_bytes);
	assert_string_equal(read.details->stats.storage_evidence, report.stats.storage_evidence);
	assert_string_equal(read.details->stats.readers_log, "a b c");
	assert_int_equal(read.details->statvfs.f_bsize, report.statvfs.f_bsize);
	assert_int_equal(read.details->statvfs.f_namemax, report.statvfs.f_namemax);
	snap_info_done(&read);
	snap_info_done(&info);
	scan_report_done(&report);
	assert_int_equal(snap_write_begin(s, f->tree.path, SNAP_WARM, &w), 0);
	assert_null(snap_write_mark(w)); /* other words */
	assert_int_equal(snap_write_options(w, "--a", 4), 0);
	assert_memory_equal(snap_write_mark(w), &mark, sizeof(mark));
	snap_write_abort(w);
	snap_close(s);
}

/* -- bits ------------------------------------------------------------------------------------ */

static void add_field(void *ctx, const char *key, const char *value, bool text)
{
	uint64_t *sum = ctx;

	*sum = snap_hash(key, strlen(key), *sum + text);
	*sum = snap_hash(value, strlen(value), *sum);
}

/* A number for all that can be read of an index: equal numbers, equal answers. */
static uint64_t readable(const char *index)
{
	uint64_t sum = 1;
	struct snap_list l;
	struct snap *s;

	if (snap_open(index, SNAP_READ, &s) < 0)
		return 0;
	if (snap_list_get(s, &l) < 0) {
		snap_close(s);
		return 0;
	}
	for (size_t i = 0; i < l.n; i++) {
		struct snap_info info;
		struct record r;

		if (snap_info_get(s, l.info[i]->id, &info) == 0) {
			snap_info_fields(&info, add_field, &sum);
			sum = snap_hash(info.details->options, info.details->options_len, sum);
			snap_info_done(&info);
		} else {
			sum++;
		}
		if (snaps_read(s, l.info[i]->ref, &r) < 0)
			sum += 2;
		for (size_t d = 0; d < r.n; d++) {
			sum = snap_hash(r.dir[d]->path, strlen(r.dir[d]->path), sum);
			sum = snap_hash(&r.dir[d]->totals, sizeof(r.dir[d]->totals), sum);
			sum = snap_hash(&r.dir[d]->meta, sizeof(r.dir[d]->meta), sum);
		}
		record_done(&r);
	}
	snap_list_done(&l);
	snap_close(s);
	return sum;
}

static void flip(const char *path, uint64_t *random, off_t size)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	off_t at = (off_t)(tree_draw(random) % (uint64_t)size);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= (uint8_t)(1 << tree_draw(random) % 8);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	base_close(fd);
}

static void a_bit_that_flips_is_found_or_changes_nothing(void **state)
{
	struct fixture *f = *state;
	int flips = getenv("LONG") ? FLIPS_LONG : FLIPS, found = 0;
	uint64_t random = 4254, whole;
	char copy[256], wal[260], shm[260];
	struct stat st;

	live_through_some(f);
	/* All of it in one file. */
	assert_int_equal(snaps_sql(f->index, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
	assert_int_equal(stat(f->index, &st), 0);
	(void)snaps_path(f, "flipped.db", copy);
	(void)snprintf(wal, sizeof(wal), "%s-wal", copy);
	(void)snprintf(shm, sizeof(shm), "%s-shm", copy);
	whole = readable(f->index);
	assert_true(whole > 1);
	for (int i = 0; i < flips; i++) {
		struct found c;

		snaps_copy(f->index, copy);
		(void)unlink(wal);
		(void)unlink(shm);
		flip(copy, &random, st.st_size);
		c = check(copy);
		found += c.error || c.findings;
		if (!c.error && c.findings == 0 && readable(copy) != whole)
			fail_msg("flip %d is not found", i);
	}
	print_message("%d of %d flips were found, the others change nothing\n", found, flips);
}

int main(void)
{
#define WITH_INDEX(test) cmocka_unit_test_setup_teardown(test, snaps_set_up, snaps_tear_down)
	const struct CMUnitTest tests[] = {
		WITH_INDEX(every_column_of_every_row_is_watched),
		WITH_INDEX(edits_by_hand_are_found),
		WITH_INDEX(a_scan_goes_on_and_hides_nothing),
		WITH_INDEX(prune_leaves_a_whole_list),
		WITH_INDEX(prune_removes_nothing_for_another_key),
		WITH_INDEX(a_mark_and_the_cost_come_back),
		WITH_INDEX(a_bit_that_flips_is_found_or_changes_nothing),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
