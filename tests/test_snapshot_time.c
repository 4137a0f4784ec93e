/* SPDX-License-Identifier: MIT */
/*
 * Scans one after the other: warm finds what cold finds, quick says that it may not, what is pruned is gone
 * and nothing else, what is damaged is named. LONG=1 in the environment asks for 1,000 rounds.
 */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
	ROUNDS = 150,
	ROUNDS_LONG = 1000,
	DAMAGES = 60,
	DAY = 86400
};

static bool is_long(void)
{
	return getenv("LONG") != NULL;
}

static void take(const char *index, const char *root, enum snap_mode mode, struct snap_info *ret)
{
	assert_int_equal(snaps_take_at(index, root, mode, 2, ret), 0);
}

static void take_and_forget(const char *index, const char *root, enum snap_mode mode)
{
	struct snap_info info;

	take(index, root, mode, &info);
	snap_info_done(&info);
}

static void assert_sound(const char *index)
{
	struct snap_damage d;
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_READ, &s), 0);
	assert_int_equal(snap_check(s, NULL, NULL, &d), 0);
	assert_int_equal(d.n, 0);
	assert_int_equal(d.bad_packs, 0);
	assert_int_equal(d.bad_nodes, 0);
	snap_damage_done(&d);
	snap_close(s);
}

/* -- what happens to trees ---------------------------------------------------------------------- */

struct actor {
	int fd;
	uint64_t random;
	char dir[64], a[96], b[96]; /* drawn anew for each action */
};

/* Two levels of directories, few names: so actions meet. */
static void draw_dir(struct actor *w, char dir[64])
{
	unsigned one = (unsigned)(tree_draw(&w->random) % 5),
		 two = (unsigned)(tree_draw(&w->random) % 5);

	switch (tree_draw(&w->random) % 4) {
	case 0:
		(void)snprintf(dir, 64, ".");
		break;
	case 1:
		(void)snprintf(dir, 64, "dir%u", one);
		break;
	default:
		(void)snprintf(dir, 64, "dir%u/dir%u", one, two);
	}
}

static void draw_file(struct actor *w, char file[96])
{
	char dir[64];

	draw_dir(w, dir);
	(void)snprintf(file, 96, "%s/f%u", dir, (unsigned)(tree_draw(&w->random) % 8));
}

static void write_some(struct actor *w, int flags)
{
	static const char data[5000];
	int fd = openat(w->fd, w->a, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0644);
	size_t n = tree_draw(&w->random) % 2 ? 1 : tree_draw(&w->random) % sizeof(data);

	if (fd >= 0 && write(fd, data, n) < 0)
		n = 0;
	base_close(fd);
}

static void create(struct actor *w)
{
	write_some(w, O_CREAT);
}

static void append(struct actor *w)
{
	write_some(w, O_APPEND);
}

static void truncate_it(struct actor *w)
{
	int fd = openat(w->fd, w->a, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0)
		(void)!ftruncate(fd, (off_t)(tree_draw(&w->random) % 50000));
	base_close(fd);
}

static void make_dir(struct actor *w)
{
	(void)mkdirat(w->fd, w->dir, 0755);
}

static void remove_dir(struct actor *w)
{
	(void)unlinkat(w->fd, w->dir, AT_REMOVEDIR);
}

static void rename_file(struct actor *w)
{
	(void)renameat(w->fd, w->a, w->fd, w->b);
}

static void rename_dir(struct actor *w)
{
	char to[64];

	draw_dir(w, to);
	(void)renameat(w->fd, w->dir, w->fd, to);
}

static void link_file(struct actor *w)
{
	(void)linkat(w->fd, w->a, w->fd, w->b, 0);
}

static void unlink_file(struct actor *w)
{
	(void)unlinkat(w->fd, w->a, 0);
}

static void make_symlink(struct actor *w)
{
	(void)symlinkat("somewhere", w->fd, w->a);
}

static void make_fifo(struct actor *w)
{
	(void)mkfifoat(w->fd, w->a, 0600);
}

static void change_mode(struct actor *w)
{
	(void)fchmodat(w->fd, tree_draw(&w->random) % 2 ? w->a : w->dir,
	               (mode_t)(0700 | (tree_draw(&w->random) & 077)), 0);
}

static void change_owner(struct actor *w)
{
	(void)fchownat(w->fd, tree_draw(&w->random) % 2 ? w->a : w->dir,
	               (uid_t)(tree_draw(&w->random) % 3), (gid_t)(tree_draw(&w->random) % 3),
	               AT_SYMLINK_NOFOLLOW);
}

/* Change something and set all times back to what they were. */
static void change_behind_its_back(struct actor *w)
{
	struct stat dir, file;
	char inside[80];
	bool is_dir = fstatat(w->fd, w->dir, &dir, 0) == 0,
	     is_file = fstatat(w->fd, w->a, &file, AT_SYMLINK_NOFOLLOW) == 0;

	append(w);
	(void)snprintf(inside, sizeof(inside), "%s/f1", w->dir);
	if (is_dir && unlinkat(w->fd, inside, 0) < 0)
		base_close(openat(w->fd, inside, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	if (is_dir)
		(void)utimensat(w->fd, w->dir, (struct timespec[]){ dir.st_atim, dir.st_mtim }, 0);
	if (is_file)
		(void)utimensat(w->fd, w->a, (struct timespec[]){ file.st_atim, file.st_mtim },
		                AT_SYMLINK_NOFOLLOW);
}

static void act(struct actor *w)
{
	static void (*const actions[])(struct actor *) = {
		create,      create,      create,       append,       append,
		truncate_it, make_dir,    make_dir,     remove_dir,   rename_file,
		rename_dir,  link_file,   link_file,    unlink_file,  unlink_file,
		make_fifo,   change_mode, change_owner, make_symlink, change_behind_its_back,
	};

	draw_dir(w, w->dir);
	draw_file(w, w->a);
	draw_file(w, w->b);
	actions[tree_draw(&w->random) % ARRAY_SIZE(actions)](w);
}

/* -- warm = cold --------------------------------------------------------------------------------- */

static void assert_equal_to_a_fresh_index(const struct fixture *f, int round,
                                          const struct snap_info *warm)
{
	struct snap_info cold;
	char twin[256];

	(void)snaps_path(f, "twin.db", twin);
	(void)unlink(twin);
	snaps_twin(f->index, twin);
	take(twin, f->tree.path, SNAP_COLD, &cold);
	if (memcmp(cold.fingerprint.b, warm->fingerprint.b, sizeof(cold.fingerprint.b)) != 0 ||
	    memcmp(&cold.totals, &warm->totals, sizeof(cold.totals)) != 0)
		fail_msg("round %d: a warm scan gives something else than a cold one", round);
	snap_info_done(&cold);
}

static void assert_du_says_the_same(const struct fixture *f, const struct snap_info *info)
{
	struct record truth, stored;
	const char *differs;
	struct snap *s;

	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	assert_int_equal(snaps_read(s, info->ref, &stored), 0);
	scans_ask_oracle(f->tree.path, &truth);
	differs = record_compare(&truth, &stored);
	if (differs)
		fail_msg("%s", differs);
	record_done(&stored);
	record_done(&truth);
	snap_close(s);
}

static void assert_each_node_is_stored_once(const struct fixture *f)
{
	assert_int_equal(
		snaps_number(f->index,
	                     "WITH RECURSIVE slot(i) AS"
	                     " (VALUES(0) UNION ALL SELECT i + 1 FROM slot WHERE i < 4095)"
	                     " SELECT count(*) - count(DISTINCT substr(fps, i * 20 + 1, 16))"
	                     " FROM pack JOIN slot ON i * 20 < length(fps)"
	                     " WHERE substr(fps, i * 20 + 1, 16) <> zeroblob(16)"),
		0);
}

static void whatever_happened_a_warm_scan_gives_what_a_cold_one_gives(void **state)
{
	struct fixture *f = *state;
	struct actor w = { .fd = f->tree.fd, .random = 20260701 };
	int rounds = is_long() ? ROUNDS_LONG : ROUNDS, changed = 0;
	uint8_t last[16] = { 0 };

	tree_random(&f->tree, 3, 200);
	take_and_forget(f->index, f->tree.path, SNAP_COLD);
	for (int round = 1; round <= rounds; round++) {
		struct snap_info warm;

		for (int i = 0; i < 8; i++)
			act(&w);
		take(f->index, f->tree.path, SNAP_WARM, &warm);
		assert_int_equal(warm.mode, SNAP_WARM);
		assert_equal_to_a_fresh_index(f, round, &warm);
		changed += memcmp(last, warm.fingerprint.b, sizeof(last)) != 0;
		memcpy(last, warm.fingerprint.b, sizeof(last));
		if (round % 10 == 0)
			assert_sound(f->index);
		if (round % 50 == 0)
			assert_du_says_the_same(f, &warm);
		snap_info_done(&warm);
	}
	assert_true(changed > rounds * 3 / 4); /* or nothing was tested */
	assert_each_node_is_stored_once(f);
}

/* Each second scan is quick: what it misses must not stay for ever. */
static void a_warm_scan_after_a_quick_one_gives_what_a_cold_one_gives(void **state)
{
	struct fixture *f = *state;
	struct actor w = { .fd = f->tree.fd, .random = 4242 };

	tree_random(&f->tree, 4, 100);
	take_and_forget(f->index, f->tree.path, SNAP_COLD);
	for (int round = 1; round <= (is_long() ? 300 : 40); round++) {
		struct snap_info warm;

		for (int i = 0; i < 5; i++)
			act(&w);
		take_and_forget(f->index, f->tree.path, SNAP_QUICK);
		for (int i = 0; i < 3; i++)
			act(&w);
		take(f->index, f->tree.path, SNAP_WARM, &warm);
		assert_equal_to_a_fresh_index(f, round, &warm);
		snap_info_done(&warm);
	}
	assert_sound(f->index);
}

/* -- one byte ------------------------------------------------------------------------------------ */

static void set_old(const struct tree *t, const char *path)
{
	const struct timespec old[2] = { { 1000000000, 0 }, { 1000000000, 0 } };

	assert_int_equal(utimensat(t->fd, path, old, AT_SYMLINK_NOFOLLOW), 0);
}

static void append_bytes(const struct tree *t, const char *path, size_t n)
{
	int fd = openat(t->fd, path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	for (; n; n--)
		assert_int_equal(write(fd, "x", 1), 1);
	base_close(fd);
}

static void scan_old_state(const struct fixture *f, const char *file, size_t size, uint64_t nodes)
{
	int fd = openat(f->tree.fd, file, O_WRONLY | O_CLOEXEC);
	struct snap_info info;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	base_close(fd);
	set_old(&f->tree, file);
	take(f->index, f->tree.path, SNAP_WARM, &info);
	assert_int_equal(info.details->nodes_written, nodes);
	snap_info_done(&info);
	assert_each_node_is_stored_once(f);
}

/* Nothing is newer than what is stored, so what is stored has to be asked. */
static void a_tree_that_goes_back_finds_its_old_nodes(void **state)
{
	struct fixture *f = *state;

	tree_build(&f->tree, ROWS(IS_DIR("d"), IS_FILE("d/file", 10), IS_DIR("other")));
	set_old(&f->tree, "d");
	set_old(&f->tree, "other");
	set_old(&f->tree, ".");
	scan_old_state(f, "d/file", 10, 3);
	scan_old_state(f, "d/file", 11, 2);
	scan_old_state(f, "d/file", 10, 0);
	scan_old_state(f, "d/file", 12, 2);
	scan_old_state(f, "d/file", 11, 0);
	/* As an index says that knows no bound. */
	assert_int_equal(snaps_sql(f->index, "DELETE FROM meta WHERE key='newest'"), 0);
	scan_old_state(f, "d/file", 10, 0);
	assert_int_equal(snaps_sql(f->index, "UPDATE meta SET value=NULL WHERE key='newest'"), 0);
	scan_old_state(f, "d/file", 12, 0);
}

static void an_appended_byte_is_seen_warm_and_missed_quick(void **state)
{
	struct fixture *f = *state;
	struct snap_info first, quick, warm;

	/* One file ends right before a block's end: its next byte takes a block more. */
	tree_build(&f->tree, ROWS(IS_DIR("still"), IS_FILE("still/full", 4096),
	                          IS_FILE("still/part", 100), IS_DIR("other")));
	set_old(&f->tree, "still");
	set_old(&f->tree, "other");
	set_old(&f->tree, ".");
	take(f->index, f->tree.path, SNAP_COLD, &first);
	append_bytes(&f->tree, "still/full", 1);
	append_bytes(&f->tree, "still/part", 1);
	take(f->index, f->tree.path, SNAP_QUICK, &quick);
	assert_int_equal(first.mode, SNAP_COLD);
	assert_int_equal(quick.mode, SNAP_QUICK);
	assert_int_equal(quick.totals.apparent, first.totals.apparent);
	assert_memory_equal(quick.fingerprint.b, first.fingerprint.b, 16);
	assert_true(quick.details->stats.statx < first.details->stats.statx);
	take(f->index, f->tree.path, SNAP_WARM, &warm);
	assert_int_equal(warm.mode, SNAP_WARM);
	assert_int_equal(warm.totals.apparent, first.totals.apparent + 2);
	assert_true(warm.totals.bytes > first.totals.bytes);
	assert_int_equal(warm.details->nodes_written, 2); /* the directory and the way to it */
	snap_info_done(&first);
	snap_info_done(&quick);
	snap_info_done(&warm);
}

/* Where sub-directories come and go, the others are still found by name. */
static void quick_knows_the_others_where_one_came_and_one_went(void **state)
{
	struct fixture *f = *state;
	struct snap_info first, quick;

	tree_build(&f->tree, ROWS(IS_DIR("a"), IS_DIR("b"), IS_FILE("b/1", 1), IS_FILE("b/2", 1),
	                          IS_DIR("c"), IS_DIR("c/d"), IS_FILE("c/d/3", 1)));
	set_old(&f->tree, "a");
	set_old(&f->tree, "b");
	set_old(&f->tree, "c/d");
	set_old(&f->tree, "c");
	take(f->index, f->tree.path, SNAP_COLD, &first);
	assert_int_equal(unlinkat(f->tree.fd, "a", AT_REMOVEDIR), 0);
	tree_build(&f->tree, ROWS(IS_DIR("bb")));
	set_old(&f->tree, "bb");
	append_bytes(&f->tree, "b/1", 1);
	append_bytes(&f->tree, "c/d/3", 1);
	take(f->index, f->tree.path, SNAP_QUICK, &quick);
	assert_int_equal(quick.totals.apparent, first.totals.apparent);
	assert_int_equal(quick.details->stats.statx + 3, first.details->stats.statx);
	assert_int_equal(quick.details->nodes_written, 1); /* the top; bb is as a was */
	snap_info_done(&first);
	snap_info_done(&quick);
}

/* A directory changed within the clock's tick before the scan may change again in that tick. */
static void quick_does_not_trust_what_was_just_written(void **state)
{
	struct fixture *f = *state;
	struct snap_info first, quick;

	tree_build(&f->tree, ROWS(IS_DIR("now"), IS_FILE("now/a", 100)));
	take(f->index, f->tree.path, SNAP_COLD, &first);
	tree_build(&f->tree, ROWS(IS_FILE("now/b", 100)));
	take(f->index, f->tree.path, SNAP_QUICK, &quick);
	assert_int_equal(quick.totals.files, first.totals.files + 1);
	snap_info_done(&first);
	snap_info_done(&quick);
}

static void an_unchanged_tree_writes_a_row_and_no_node(void **state)
{
	static const enum snap_mode modes[] = { SNAP_WARM, SNAP_COLD, SNAP_WARM, SNAP_QUICK };
	struct fixture *f = *state;
	struct snap_info first;
	int64_t packs;

	tree_random(&f->tree, 11, 1500);
	take(f->index, f->tree.path, SNAP_COLD, &first);
	packs = snaps_number(f->index, "SELECT count(*) FROM pack");
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct snap_info again;

		take(f->index, f->tree.path, modes[i], &again);
		assert_int_equal(again.details->nodes_written, 0);
		assert_int_equal(again.details->listings_written, 0);
		assert_int_equal(again.ref, first.ref);
		assert_int_equal(snaps_number(f->index, "SELECT count(*) FROM snapshot"), i + 2);
		assert_int_equal(snaps_number(f->index, "SELECT count(*) FROM pack"), packs);
		assert_true(again.details->stats.openat <= first.details->stats.openat);
		assert_true(again.details->stats.statx <= first.details->stats.statx);
		assert_true(again.details->stats.getdents64 <= first.details->stats.getdents64);
		snap_info_done(&again);
	}
	snap_info_done(&first);
}

/* -- prune --------------------------------------------------------------------------------------- */

static void remember(const char *index, struct snap_list *infos, struct record **ret)
{
	struct snap *s;

	assert_int_equal(snap_open(index, SNAP_READ, &s), 0);
	assert_int_equal(snap_list_get(s, infos), 0);
	*ret = calloc(infos->n + 1, sizeof(**ret));
	for (size_t i = 0; i < infos->n; i++)
		assert_int_equal(snaps_read(s, infos->info[i]->ref, &(*ret)[i]), 0);
	snap_close(s);
}

static void forget(struct snap_list *infos, struct record *dirs)
{
	for (size_t i = 0; i < infos->n; i++)
		record_done(&dirs[i]);
	free(dirs);
	snap_list_done(infos);
}

static bool is_in(const int64_t *ids, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Everything the index says of a snapshot: true if it is what it was. */
static bool reads_the_same(struct snap *s, const struct snap_info *now, const struct snap_info *was,
                           const struct record *dirs)
{
	struct record r;
	bool same;
	int rc = snaps_read(s, now->ref, &r);

	same = rc == 0 && record_compare(&r, dirs) == NULL && now->id == was->id &&
	       strcmp(now->root, was->root) == 0 &&
	       memcmp(&now->totals, &was->totals, sizeof(now->totals)) == 0 &&
	       memcmp(now->fingerprint.b, was->fingerprint.b, 16) == 0;
	for (size_t i = 0; same && i < r.n; i++)
		same = memcmp(&r.dir[i]->totals, &dirs->dir[i]->totals, sizeof(r.dir[i]->totals)) ==
		               0 &&
		       r.dir[i]->meta.mtime == dirs->dir[i]->meta.mtime &&
		       r.dir[i]->meta.mode == dirs->dir[i]->meta.mode &&
		       r.dir[i]->meta.uid == dirs->dir[i]->meta.uid;
	record_done(&r);
	return same;
}

static void live_through_snapshots(const struct fixture *f, uint64_t seed, int n)
{
	struct actor w = { .fd = f->tree.fd, .random = seed };

	tree_random(&f->tree, seed, 150);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < 12; k++)
			act(&w);
		take_and_forget(f->index, f->tree.path, i ? SNAP_WARM : SNAP_COLD);
	}
}

static void what_prune_keeps_reads_as_before(void **state)
{
	static const struct snap_policy last = { .keep_last = 4 }, one = { .keep_last = 1 };
	struct fixture *f = *state;
	struct snap_list was, now;
	struct record *dirs;
	struct snap_pruned p;
	struct snap *s;
	int64_t next;
	uint64_t before;

	live_through_snapshots(f, 77, 24);
	remember(f->index, &was, &dirs);
	next = snaps_number(f->index, "SELECT value FROM meta WHERE key='next_pack'");
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	before = snap_file_bytes(s);
	assert_int_equal(snap_prune(s, &last, time(NULL), false, &p), 0);
	assert_int_equal(p.n, 20);
	assert_true(p.nodes > 0);
	assert_true(snap_file_bytes(s) < before);
	assert_int_equal(p.bytes, before - snap_file_bytes(s));
	snap_pruned_done(&p);
	assert_int_equal(snap_list_get(s, &now), 0);
	assert_int_equal(now.n, 4);
	for (size_t i = 0; i < now.n; i++)
		assert_true(reads_the_same(s, now.info[i], was.info[20 + i], &dirs[20 + i]));
	snap_list_done(&now);
	assert_sound(f->index);
	/* Nothing is left that no snapshot needs, and nothing needed twice: pruning again changes nothing. */
	assert_int_equal(snap_prune(s, &last, time(NULL), false, &p), 0);
	assert_int_equal(p.n, 0);
	snap_pruned_done(&p);
	assert_int_equal(snap_prune(s, &one, time(NULL), false, &p), 0);
	assert_int_equal(p.n, 3);
	snap_pruned_done(&p);
	snap_close(s);
	assert_sound(f->index);
	/* Numbers of packs are given once, even when the newest pack is gone. */
	assert_true(snaps_number(f->index, "SELECT value FROM meta WHERE key='next_pack'") >= next);
	tree_write(&f->tree, "after", 5000);
	{
		struct snap_info info;

		take(f->index, f->tree.path, SNAP_WARM, &info);
		assert_int_equal(info.details->nodes_written, 1);
		assert_true(info.ref >> REF_SLOT_BITS >= (uint64_t)next);
		assert_equal_to_a_fresh_index(f, 0, &info);
		snap_info_done(&info);
		take(f->index, f->tree.path, SNAP_COLD, &info);
		assert_int_equal(info.details->nodes_written, 0);
		snap_info_done(&info);
	}
	assert_sound(f->index);
	forget(&was, dirs);
}

/* A pruned index must find again what it still has, and store again what it has not. */
static void scans_go_on_between_prunes(void **state)
{
	static const struct snap_policy last = { .keep_last = 2 };
	struct fixture *f = *state;
	struct actor w = { .fd = f->tree.fd, .random = 515 };
	int64_t highest = 0;

	tree_random(&f->tree, 15, 150);
	for (int round = 0; round < 40; round++) {
		struct snap_info info;
		struct snap_pruned p;
		struct snap *s;

		for (int k = 0; k < 6; k++)
			act(&w);
		take(f->index, f->tree.path, round % 3 ? SNAP_WARM : SNAP_COLD, &info);
		assert_equal_to_a_fresh_index(f, round, &info);
		if (info.details->nodes_written)
			assert_true(snaps_number(f->index, "SELECT max(id) FROM pack") > highest);
		highest = MAX(highest, snaps_number(f->index, "SELECT max(id) FROM pack"));
		snap_info_done(&info);
		if (round % 4 != 3)
			continue;
		assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
		assert_int_equal(snap_prune(s, &last, time(NULL), false, &p), 0);
		snap_pruned_done(&p);
		snap_close(s);
		assert_sound(f->index);
	}
}

/* -- damage -------------------------------------------------------------------------------------- */

struct damage {
	const char *column; /* of pack or snapshot */
	const char *table;
	bool blob;
};

static const struct damage damages[] = {
	{ "head", "pack", true },          { "list", "pack", true },
	{ "list", "pack", true },          { "fps", "pack", true },
	{ "list_sum", "pack", false },     { "list_codec", "pack", false },
	{ "fps", "pack", true },           { "sum", "pack", false },
	{ "size", "pack", false },         { "codec", "pack", false },
	{ "fp", "snapshot", true },        { "node", "snapshot", false },
	{ "bytes", "snapshot", false },    { "files", "snapshot", false },
	{ "apparent", "snapshot", false }, { "errors", "snapshot", false },
	{ "root", "snapshot", false },
};

/* Change one bit of one value in one row. */
static void do_damage(const char *index, const struct damage *d, uint64_t *random)
{
	sqlite3_stmt *st;
	sqlite3 *db;
	char sql[256];
	int64_t id;

	assert_int_equal(sqlite3_open(index, &db), SQLITE_OK);
	(void)snprintf(
		sql, sizeof(sql),
		"SELECT id, %s FROM %s ORDER BY id LIMIT 1 OFFSET %lu %% (SELECT count(*) FROM %s)",
		d->column, d->table, tree_draw(random) % 1000, d->table);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	id = sqlite3_column_int64(st, 0);
	if (d->blob) {
		size_t n = (size_t)sqlite3_column_bytes(st, 1), at = tree_draw(random) % n;
		uint8_t *copy = malloc(n);

		memcpy(copy, sqlite3_column_blob(st, 1), n);
		copy[at] ^= (uint8_t)(1 << tree_draw(random) % 8);
		(void)sqlite3_finalize(st);
		(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s=? WHERE id=?", d->table,
		               d->column);
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
		(void)sqlite3_bind_blob(st, 1, copy, (int)n, free);
	} else {
		int64_t value = sqlite3_column_int64(st, 1) ^ 1 << tree_draw(random) % 12;

		(void)sqlite3_finalize(st);
		(void)snprintf(sql, sizeof(sql), "UPDATE %s SET %s=? WHERE id=?", d->table,
		               d->column);
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
		(void)sqlite3_bind_int64(st, 1, value);
	}
	(void)sqlite3_bind_int64(st, 2, id);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(db);
}

static void copy_index(const char *from, const char *to)
{
	char sql[512];

	(void)unlink(to);
	(void)snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", to);
	assert_int_equal(snaps_sql(from, sql), SQLITE_OK);
}

/* With a cache of its own: what was read before would still be good. */
static void assert_check_is_right(const char *index, const char *what, const struct snap_list *was,
                                  const struct record *dirs)
{
	struct snap_damage d;
	struct snap_list now;
	struct snap *s;
	int r;

	assert_int_equal(snap_open(index, SNAP_READ, &s), 0);
	assert_int_equal(snap_check(s, NULL, NULL, &d), 0);
	r = snap_list_get(s, &now);
	assert_int_equal(r, 0);
	for (size_t i = 0; i < was->n; i++) {
		bool same = false, named = is_in(d.ids, d.n, was->info[i]->id);

		for (size_t k = 0; k < now.n; k++)
			if (now.info[k]->id == was->info[i]->id)
				same = reads_the_same(s, now.info[k], was->info[i], &dirs[i]);
		if (!same && !named && d.bad_packs == 0)
			fail_msg("%s: snapshot %ld reads otherwise, and check says it is whole",
			         what, was->info[i]->id);
		if (same && named)
			fail_msg("%s: snapshot %ld reads as before, and check calls it damaged",
			         what, was->info[i]->id);
		if (!same && !named)
			fail_msg("%s: snapshot %ld is not named", what, was->info[i]->id);
	}
	snap_damage_done(&d);
	snap_list_done(&now);
	snap_close(s);
}

static void check_names_the_damaged_snapshots_and_no_others(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 60606;
	struct snap_list was;
	struct record *dirs;
	char copy[256];

	live_through_snapshots(f, 1234, 8);
	take_and_forget(f->index, f->place.path, SNAP_COLD);
	remember(f->index, &was, &dirs);
	(void)snaps_path(f, "damaged.db", copy);
	for (int i = 0; i < (is_long() ? 10 : 1) * DAMAGES; i++) {
		const struct damage *d = &damages[(size_t)i % ARRAY_SIZE(damages)];
		char what[64];

		copy_index(f->index, copy);
		assert_sound(copy);
		do_damage(copy, d, &random);
		(void)snprintf(what, sizeof(what), "%s.%s, case %d", d->table, d->column, i);
		assert_check_is_right(copy, what, &was, dirs);
	}
	forget(&was, dirs);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(whatever_happened_a_warm_scan_gives_what_a_cold_one_gives),
		TEST(a_warm_scan_after_a_quick_one_gives_what_a_cold_one_gives),
		TEST(a_tree_that_goes_back_finds_its_old_nodes),
		TEST(an_appended_byte_is_seen_warm_and_missed_quick),
		TEST(quick_knows_the_others_where_one_came_and_one_went),
		TEST(quick_does_not_trust_what_was_just_written),
		TEST(an_unchanged_tree_writes_a_row_and_no_node),
		TEST(what_prune_keeps_reads_as_before),
		TEST(scans_go_on_between_prunes),
		TEST(check_names_the_damaged_snapshots_and_no_others),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
