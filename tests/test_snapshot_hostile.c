/* SPDX-License-Identifier: MIT */
/*
 * What lies behind the checksums: an index that somebody made, with sums that are right. Nothing may crash,
 * hang or keep a pin, and check finds what is wrong.
 */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum {
	ROUNDS = 150,
	ROUNDS_LONG = 1000
};

static void bend(uint8_t *p, size_t *len, uint64_t *random)
{
	size_t at = tree_draw(random) % *len, how = tree_draw(random) % 4;

	if (how == 0)
		p[at] = p[at] == 0xff ? 0 : 0xff;
	else if (how == 1 && at > 0)
		*len = at; /* cut off */
	else
		p[at] ^= (uint8_t)(1 << tree_draw(random) % 8);
}

static uint8_t *copy_of(const uint8_t *p, size_t len)
{
	uint8_t *copy = malloc(MAX(len, 1));

	assert_non_null(copy);
	memcpy(copy, p, len);
	return copy;
}

/* Change a head or a listing of one pack, not compressed any more, and make its sums right. */
static void bend_a_pack(const char *index, uint64_t *random)
{
	sqlite3_stmt *get, *put;
	uint8_t *head, *list, *fps;
	struct pack_row row;
	struct snap_pack *p;
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_WRITE, &s), 0);
	assert_int_equal(sqlite3_prepare_v2(s->db,
	                                    "SELECT " PACK_COLUMNS " FROM pack ORDER BY id LIMIT 1"
	                                    " OFFSET ? % (SELECT count(*) FROM pack)",
	                                    -1, &get, NULL),
	                 SQLITE_OK);
	(void)sqlite3_bind_int64(get, 1, (int64_t)(tree_draw(random) % 1000));
	assert_int_equal(sqlite3_step(get), SQLITE_ROW);
	assert_int_equal(pack_row_read(get, true, &row), 0);
	assert_int_equal(pack_decode(s, &row, &p), 0);
	row.codec = row.list_codec = CODEC_RAW;
	row.head_len = (size_t)row.size;
	row.list_len = p->lists.at[p->n];
	head = copy_of(p->head, row.head_len);
	list = copy_of(p->lists.list, row.list_len);
	fps = copy_of(row.fps, row.fps_len);
	(void)sqlite3_finalize(get);
	if (tree_draw(random) % 2)
		bend(head, &row.head_len, random);
	else
		bend(list, &row.list_len, random);
	row.size = (int64_t)row.head_len;
	row.head = head;
	row.list = list;
	row.fps = fps;
	row.sum = pack_sum(s->secret, row.id, NULL, 0, head, row.head_len);
	row.list_sum = pack_sum(s->secret, row.id, fps, row.fps_len, list, row.list_len);
	assert_int_equal(sqlite3_prepare_v2(s->db, "REPLACE " PACK_VALUES, -1, &put, NULL),
	                 SQLITE_OK);
	assert_int_equal(pack_row_write(put, &row), 0);
	(void)sqlite3_finalize(put);
	pack_free(p);
	free(head);
	free(list);
	free(fps);
	snap_close(s);
}

/* Everything is read in every way. What was given back can be freed: nothing is pinned, nothing twice given back. */
static void use(const char *index)
{
	struct snap_list l;
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_READ, &s), 0);
	assert_int_equal(snap_list_get(s, &l), 0);
	for (size_t i = 0; i < l.n; i++) {
		struct record r;

		(void)snaps_read(s, l.info[i]->ref, &r);
		record_done(&r);
		for (size_t j = 0; j < l.n; j++) {
			struct snap_changes c;

			if (snap_diff(s, l.info[i]->ref, l.info[j]->ref, NULL, &c) == 0)
				snap_changes_done(&c);
		}
	}
	snap_list_done(&l);
	snap_cache_limit(s, 0);
	assert_int_equal(snap_cache_bytes(s), 0);
	snap_close(s);
}

static uint64_t damage_found(const char *index)
{
	struct snap_damage d;
	struct snap *s;
	uint64_t n;

	assert_int_equal(snap_open(index, SNAP_READ, &s), 0);
	assert_int_equal(snap_check(s, NULL, NULL, &d), 0);
	n = d.bad_packs + d.bad_nodes;
	snap_damage_done(&d);
	snap_cache_limit(s, 0);
	assert_int_equal(snap_cache_bytes(s), 0);
	snap_close(s);
	return n;
}

static void prune_and_scan(const struct fixture *f, const char *index)
{
	const struct snap_policy policy = { .keep_last = 1 };
	struct snap_pruned pruned;
	struct snap_info info;
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_WRITE, &s), 0);
	if (snap_prune(s, &policy, 0, false, &pruned) == 0)
		snap_pruned_done(&pruned);
	if (snaps_take(s, f->tree.path, SNAP_WARM, 2, &info) == 0)
		snap_info_done(&info);
	snap_close(s);
}

static void live_through_three_snapshots(const struct fixture *f)
{
	for (uint64_t i = 0; i < 3; i++) {
		struct snap_info info;

		tree_random(&f->tree, 70 + i, 300);
		assert_int_equal(snaps_take_at(f->index, f->tree.path, SNAP_WARM, 2, &info), 0);
		snap_info_done(&info);
	}
}

static void what_is_bent_behind_right_sums_is_found_and_never_hurts(void **state)
{
	struct fixture *f = *state;
	int rounds = getenv("LONG") ? ROUNDS_LONG : ROUNDS;
	uint64_t random = 271828;
	char copy[256];

	live_through_three_snapshots(f);
	(void)snaps_path(f, "bent.db", copy);
	assert_int_equal(damage_found(f->index), 0);
	for (int i = 0; i < rounds; i++) {
		snaps_copy(f->index, copy);
		bend_a_pack(copy, &random);
		use(copy);
		if (damage_found(copy) == 0)
			fail_msg("round %d: check finds nothing", i);
		if (i % 8 == 0)
			prune_and_scan(f, copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_is_bent_behind_right_sums_is_found_and_never_hurts, snaps_set_up,
			snaps_tear_down),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
