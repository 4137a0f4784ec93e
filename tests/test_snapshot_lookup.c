/* SPDX-License-Identifier: MIT */
/* What is stored already is found again, for a price in proportion to the question. */
#include "snapshot/lookup.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
	GROUPS = 80,
	DIRS = 100, /* in each group: 8,081 directories, some 260 packs */
	NAME = 250, /* of two files in each: a pack holds few such listings */
	OLD = 1000000,
	NEW = 2000000,
	FEW = 16, /* rows that one small change may read: parts, packs */
};
static const int64_t far_future = 4000000000;

static void set_time(const struct fixture *f, const char *path, int64_t time)
{
	const struct timespec t[2] = { { time, 0 }, { time, 0 } };

	assert_int_equal(utimensat(f->tree.fd, path, t, 0), 0);
}

static const char *file_in(int group, int dir)
{
	static char path[NAME + 32];
	int n = snprintf(path, sizeof(path), "all/%02d/%02d/", group, dir);

	memset(path + n, 'x', NAME);
	path[n + NAME] = '\0';
	return path;
}

static void make_dir(const struct fixture *f, const char *path)
{
	assert_int_equal(mkdirat(f->tree.fd, path, 0755), 0);
}

/* Each directory has its own contents, and all are of the same old day. */
static void build(const struct fixture *f, int groups)
{
	char path[32], other[NAME + 40];

	make_dir(f, "all");
	for (int g = 0; g < groups; g++) {
		(void)snprintf(path, sizeof(path), "all/%02d", g);
		make_dir(f, path);
		for (int d = 0; d < DIRS; d++) {
			(void)snprintf(path, sizeof(path), "all/%02d/%02d", g, d);
			make_dir(f, path);
			tree_write(&f->tree, file_in(g, d), (size_t)(1 + g * DIRS + d));
			set_time(f, file_in(g, d), OLD);
			(void)snprintf(other, sizeof(other), "%s/%0*d", path, NAME, 0);
			assert_int_equal(mknodat(f->tree.fd, other, S_IFREG | 0644, 0), 0);
			set_time(f, other, OLD);
			set_time(f, path, OLD);
		}
		(void)snprintf(path, sizeof(path), "all/%02d", g);
		set_time(f, path, OLD);
	}
	set_time(f, "all", OLD);
}

static struct snap *open_index(const struct fixture *f)
{
	struct snap *s;

	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	return s;
}

struct cost {
	uint64_t nodes, rows;
};

static struct cost scan(const struct fixture *f, struct snap *s, const char *below,
                        enum snap_mode mode, unsigned threads)
{
	struct snap_info i;
	struct cost c = { 0, s->rows_read };
	char root[160];

	(void)snprintf(root, sizeof(root), "%s/%s", f->tree.path, below);
	assert_int_equal(snaps_take(s, root, mode, threads, &i), 0);
	c.nodes = i.details->nodes_written;
	c.rows = s->rows_read - c.rows;
	snap_info_done(&i);
	return c;
}

static struct cost rescan(const struct fixture *f, struct snap *s)
{
	return scan(f, s, "all", SNAP_WARM, 1);
}

static void assert_sound(struct snap *s, bool lookup_too)
{
	struct snap_damage d;

	assert_int_equal(snap_check(s, NULL, NULL, &d), 0);
	assert_int_equal(d.n + d.bad_packs + d.bad_nodes, 0);
	assert_int_equal(d.bad_lookup, !lookup_too);
	snap_damage_done(&d);
}

static void a_change_reads_little_whatever_its_date(void **state)
{
	const struct fixture *f = *state;
	struct cost c;
	struct snap *s = open_index(f);

	build(f, GROUPS);
	c = rescan(f, s);
	assert_int_equal(c.nodes, 1 + GROUPS + GROUPS * DIRS);
	assert_int_equal(c.rows, 0);
	assert_true(snaps_number(f->index, "SELECT count(*) FROM pack") > LOOKUP_FIRST);

	set_time(f, file_in(3, 3), far_future); /* once */
	c = rescan(f, s);
	assert_int_equal(c.nodes, 3);
	assert_true(c.rows <= FEW);
	set_time(f, file_in(3, 3), OLD); /* what was is found again */
	c = rescan(f, s);
	assert_int_equal(c.nodes, 0);
	assert_true(c.rows <= FEW);

	set_time(f, file_in(5, 5), NEW); /* newer than all there is: nothing is asked */
	c = rescan(f, s);
	assert_int_equal(c.nodes, 3);
	assert_int_equal(c.rows, 0);
	set_time(f, file_in(6, 6), OLD - 1); /* older */
	c = rescan(f, s);
	assert_int_equal(c.nodes, 3);
	assert_true(c.rows <= FEW);
	assert_int_equal(fchmodat(f->tree.fd, file_in(7, 7), 0600, 0), 0);
	c = rescan(f, s);
	assert_int_equal(c.nodes, 3);
	assert_true(c.rows <= FEW);
	assert_int_equal(renameat(f->tree.fd, "all/08/08", f->tree.fd, "all/08/new"), 0);
	set_time(f, "all/08", OLD);
	c = rescan(f, s);
	assert_int_equal(c.nodes, 2);
	assert_true(c.rows <= FEW);

	c = scan(f, s, "all", SNAP_COLD, 2);
	assert_int_equal(c.nodes, 0);
	assert_sound(s, true);
	snap_close(s);
}

static void a_second_root_reads_in_proportion_to_itself(void **state)
{
	const struct fixture *f = *state;
	struct snap *s = open_index(f);
	struct cost c;
	char path[300];

	build(f, GROUPS);
	(void)rescan(f, s);
	make_dir(f, "other");
	for (int d = 0; d < DIRS; d++) {
		(void)snprintf(path, sizeof(path), "other/%02d", d);
		make_dir(f, path);
		(void)snprintf(path, sizeof(path), "other/%02d/new", d);
		tree_write(&f->tree, path, (size_t)d);
		set_time(f, path, OLD - d);
		(void)snprintf(path, sizeof(path), "other/%02d", d);
		set_time(f, path, OLD);
	}
	set_time(f, "other", OLD);
	c = scan(f, s, "other", SNAP_WARM, 2);
	assert_int_equal(c.nodes, 1 + DIRS);
	assert_in_range(c.rows, 1, 2 * DIRS); /* a part each, and few packs in vain */
	/* A part of the first root: all there is but its root, whose name is not part of it. */
	c = scan(f, s, "all/09", SNAP_WARM, 2);
	assert_int_equal(c.nodes, 0);
	assert_true(c.rows <= 4 * FEW);
	assert_sound(s, true);
	snap_close(s);
}

static void the_future_ends_when_it_has_come(void **state)
{
	const struct fixture *f = *state;
	struct snap *s = open_index(f);
	struct cost c;
	char sql[160];
	int64_t now = (int64_t)time(NULL);

	build(f, 4);
	set_time(f, file_in(1, 1), far_future);
	(void)rescan(f, s);
	set_time(f, file_in(1, 1), OLD);
	(void)rescan(f, s);
	set_time(f, file_in(2, 2), now);
	c = rescan(f, s);
	assert_int_equal(c.rows, 0); /* between the past and the future */
	/* As an index has it whose future was two days away, a week ago. */
	(void)snprintf(sql, sizeof(sql),
	               "UPDATE meta SET value=%lld WHERE key LIKE 'future%%';"
	               "UPDATE meta SET value=%d WHERE key='newest'",
	               (long long)now - 5 * 86400, OLD);
	assert_int_equal(snaps_sql(f->index, sql), 0);
	snaps_seal(f->index);
	set_time(f, file_in(2, 2), now + 1);
	c = rescan(f, s);
	assert_int_equal(c.nodes, 3);
	assert_int_equal(c.rows, 0);
	assert_true(snaps_number(f->index, "SELECT value FROM meta WHERE key='newest'") > now);
	assert_true(snaps_number(f->index, "SELECT value FROM meta WHERE key='future_first'") ==
	            INT64_MAX);
	snap_close(s);
}

static void a_damaged_lookup_is_not_believed_and_made_again(void **state)
{
	static const char *const damages[] = {
		"UPDATE lookup SET data=zeroblob(40)",
		"UPDATE lookup SET data=x'0102'",
		"UPDATE lookup SET data=NULL",
		"UPDATE lookup SET sum=sum+1",
		"UPDATE lookup SET id=id+16777216",
		"UPDATE lookup SET data=(SELECT data FROM lookup AS o WHERE o.id=lookup.id+1)",
	};
	const struct fixture *f = *state;
	struct snap *s = open_index(f);

	build(f, GROUPS);
	(void)rescan(f, s);
	assert_sound(s, true);
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		assert_int_equal(snaps_sql(f->index, damages[i]), 0);
		snap_release(s);
		assert_sound(s, false);
		assert_int_equal(scan(f, s, "all", SNAP_COLD, 2).nodes, 0);
		assert_sound(s, true);
	}
	/* Without any lookup all packs are the tail. */
	assert_int_equal(snaps_sql(f->index, "DELETE FROM lookup"), 0);
	snap_release(s);
	assert_int_equal(scan(f, s, "all", SNAP_COLD, 2).nodes, 0);
	assert_sound(s, true);
	snap_close(s);
}

static void prune_leaves_a_lookup_of_what_is_left(void **state)
{
	const struct snap_policy newest = { .keep_last = 1 };
	const struct fixture *f = *state;
	struct snap *s = open_index(f);
	struct snap_pruned p;
	struct cost c;

	build(f, GROUPS);
	(void)rescan(f, s);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fchmodat(f->tree.fd, file_in(i, 0), 0600, 0), 0);
		(void)rescan(f, s);
	}
	assert_int_equal(snap_prune(s, &newest, (int64_t)time(NULL), false, &p), 0);
	assert_int_equal(p.n, 4);
	snap_pruned_done(&p);
	assert_sound(s, true);
	assert_int_equal(scan(f, s, "all", SNAP_COLD, 2).nodes, 0);
	assert_int_equal(fchmodat(f->tree.fd, file_in(0, 0), 0644, 0), 0);
	c = rescan(f, s); /* what was pruned is written again */
	assert_int_equal(c.nodes, 3);
	assert_true(c.rows <= FEW);
	snap_close(s);
}

/* -- the table itself ------------------------------------------------------------------------ */

enum {
	PACKS = 4000,
	SLOTS = 50
};

static void draw_fp(uint64_t pack, uint64_t slot, struct snap_fingerprint *ret)
{
	uint64_t seed = pack << 16 | slot;
	uint64_t word[2] = { tree_draw(&seed), tree_draw(&seed) };

	memcpy(ret->b, word, sizeof(ret->b));
}

static void add_pack(struct snap *s, uint64_t id)
{
	uint8_t fps[SLOTS * FP_STORED] = { 0 };
	sqlite3_stmt *st;

	for (uint64_t i = 1; i < SLOTS; i++) { /* the first is empty, as prune leaves it */
		struct snap_fingerprint fp;

		draw_fp(id, i, &fp);
		memcpy(fps + i * FP_STORED, fp.b, sizeof(fp.b));
	}
	assert_int_equal(
		sqlite3_prepare_v2(s->db, "INSERT INTO pack(id, fps) VALUES (?, ?)", -1, &st, NULL),
		SQLITE_OK);
	(void)sqlite3_bind_int64(st, 1, (int64_t)id);
	(void)sqlite3_bind_blob(st, 2, fps, sizeof(fps), SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	(void)sqlite3_finalize(st);
}

static bool names(const struct lookup *l, uint64_t pack)
{
	for (size_t i = 0; i < l->n_packs; i++)
		if (l->pack[i] == pack)
			return true;
	return false;
}

static void every_node_is_found_in_few_rows_as_an_index_grows(void **state)
{
	const struct fixture *f = *state;
	struct snap *s = open_index(f);
	struct snap_fingerprint fp;
	struct lookup l;
	uint64_t in_vain = 0, next = 1, before;

	assert_int_equal(store_exec(s->db, "BEGIN"), 0);
	for (uint64_t first = 1; first < PACKS; first = next) { /* a large scan, then small ones */
		for (next = first + (first == 1 ? PACKS / 4 : 3); next > first; first++)
			add_pack(s, first);
		assert_int_equal(lookup_extend(s, first == PACKS / 4 + 1 ? 1 : first - 3, next), 0);
	}
	assert_int_equal(lookup_open(s, &l), 0);
	assert_in_range(l.n, 2, 8);
	assert_in_range(next - l.covered, 1, 2 * LOOKUP_TAIL);
	before = s->rows_read;
	for (uint64_t id = 1; id <= l.covered; id++) {
		draw_fp(id, 1 + id % (SLOTS - 1), &fp);
		assert_int_equal(lookup_find(s, &l, &fp), 0);
		assert_true(names(&l, id));
		draw_fp(id, SLOTS, &fp);
		assert_int_equal(lookup_find(s, &l, &fp), 0);
		in_vain += l.n_packs;
	}
	assert_int_equal(s->rows_read - before, 2 * l.covered * l.n);
	assert_true(in_vain < l.covered * l.n / 12);
	lookup_close(&l);
	assert_int_equal(lookup_check(s), 0);

	assert_int_equal(lookup_rebuild(s), 0);
	assert_int_equal(lookup_check(s), 0);
	assert_int_equal(store_exec(s->db, "UPDATE pack SET fps=zeroblob(20) WHERE id=77"), 0);
	assert_int_equal(lookup_check(s), -EUCLEAN);
	assert_int_equal(store_exec(s->db, "ROLLBACK"), 0);
	snap_close(s);
}

/* -- a path through many snapshots ----------------------------------------------------------- */

static uint64_t scanned(const struct fixture *f, struct snap *s)
{
	struct snap_info i;
	uint64_t ref;

	assert_int_equal(snaps_take(s, f->tree.path, SNAP_WARM, 1, &i), 0);
	ref = i.ref;
	snap_info_done(&i);
	return ref;
}

/* What the trail says is what a look from the root says. Returns how many directories it looked at. */
static uint64_t follow(struct snap *s, struct snap_trail *t, uint64_t root, const char *path)
{
	uint64_t before = t->looked_at, ref = 0, expected = 0;
	int r = snap_path_ref(s, root, path, &expected);

	assert_int_equal(snap_trail_follow(s, t, root, &ref), r);
	assert_int_equal(ref, expected);
	return t->looked_at - before;
}

static void a_path_through_snapshots_costs_what_differs(void **state)
{
	static const char path[] = "a/b/c";
	const struct fixture *f = *state;
	struct snap *s = open_index(f);
	struct snap_trail t;

	tree_build(&f->tree,
	           ROWS(IS_DIR("a"), IS_DIR("a/b"), IS_DIR("a/b/c"), IS_FILE("a/b/c/f", 1),
	                IS_DIR("a/twin"), IS_DIR("other"), IS_FILE("other/f", 1)));
	assert_int_equal(snap_trail_init(&t, path), 0);
	assert_int_equal(follow(s, &t, scanned(f, s), path), 3);
	assert_int_equal(follow(s, &t, scanned(f, s), path), 0);
	tree_write(&f->tree, "other/f", 1000); /* beside the path: the root only */
	assert_int_equal(follow(s, &t, scanned(f, s), path), 1);
	tree_write(&f->tree, "a/b/c/f", 1000); /* below it: all on the way */
	assert_int_equal(follow(s, &t, scanned(f, s), path), 3);
	make_dir(f, "a/added"); /* the child has another place */
	assert_int_equal(follow(s, &t, scanned(f, s), path), 2);
	assert_int_equal(renameat(f->tree.fd, "a/b", f->tree.fd, "a/away"), 0);
	assert_int_equal(follow(s, &t, scanned(f, s), path), 2);
	assert_int_equal(renameat(f->tree.fd, "a/twin", f->tree.fd, "a/b"), 0);
	assert_int_equal(follow(s, &t, scanned(f, s), path),
	                 3); /* another directory of that name */
	assert_int_equal(renameat(f->tree.fd, "a/b", f->tree.fd, "a/twin"), 0);
	assert_int_equal(renameat(f->tree.fd, "a/away", f->tree.fd, "a/b"), 0);
	(void)follow(s, &t, scanned(f, s), path);
	snap_trail_done(&t);
	snap_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_change_reads_little_whatever_its_date),
		TEST(a_second_root_reads_in_proportion_to_itself),
		TEST(the_future_ends_when_it_has_come),
		TEST(a_damaged_lookup_is_not_believed_and_made_again),
		TEST(prune_leaves_a_lookup_of_what_is_left),
		TEST(a_path_through_snapshots_costs_what_differs),
		TEST(every_node_is_found_in_few_rows_as_an_index_grows),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
