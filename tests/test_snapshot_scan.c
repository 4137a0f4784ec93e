/* SPDX-License-Identifier: MIT */
/* Scans into an index: what was stored is what was seen, each thing once, whatever way it was found. */
#include "snapshot/internal.h"
#include "tests/snaps.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

static const unsigned thread_counts[] = { 1, 2, 8 };

static void take(const char *index, const struct tree *t, enum snap_mode mode, unsigned threads,
                 struct snap_info *ret)
{
	assert_int_equal(snaps_take_at(index, t->path, mode, threads, ret), 0);
}

static void assert_fingerprints_equal(const struct snap_info *a, const struct snap_info *b)
{
	assert_memory_equal(a->fingerprint.b, b->fingerprint.b, sizeof(a->fingerprint.b));
}

static void assert_same(const struct record *a, const struct record *b)
{
	const char *differs = record_compare(a, b);

	if (differs)
		fail_msg("%s", differs);
}

static void every_directory_reads_back_as_scanned(void **state)
{
	struct fixture *f = *state;
	struct scan_report report;
	struct record seen, stored;
	struct snap_info info;
	struct snap *s;

	tree_random(&f->tree, 21, 2500);
	assert_int_equal(scans_run_threads(f->tree.path, 2, &seen, &report), 0);
	take(f->index, &f->tree, SNAP_COLD, 2, &info);
	assert_memory_equal(&info.totals, &report.totals, sizeof(info.totals));
	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	for (int small = 0; small < 2; small++) {
		snap_cache_limit(s, small ? 0 : 1 << 24);
		assert_int_equal(snaps_read(s, info.ref, &stored), 0);
		assert_same(&seen, &stored);
		for (size_t i = 0; i < seen.n; i++) {
			assert_memory_equal(&seen.dir[i]->totals, &stored.dir[i]->totals,
			                    sizeof(stored.dir[i]->totals));
			assert_int_equal(seen.dir[i]->meta.mtime, stored.dir[i]->meta.mtime);
			assert_int_equal(seen.dir[i]->meta.mode, stored.dir[i]->meta.mode);
			assert_int_equal(seen.dir[i]->meta.blocks, stored.dir[i]->meta.blocks);
			assert_int_equal(seen.dir[i]->n_entries, stored.dir[i]->n_entries);
			assert_int_equal(seen.dir[i]->n_children, stored.dir[i]->n_children);
		}
		record_done(&stored);
	}
	snap_cache_limit(s, 0);
	assert_int_equal(snap_cache_bytes(s), 0); /* nothing is pinned any more */
	snap_close(s);
	record_done(&seen);
	scan_report_done(&report);
	snap_info_done(&info);
}

static void the_number_of_threads_does_not_show(void **state)
{
	struct fixture *f = *state;
	struct snap_info first, info;
	char twin[256], name[16];

	tree_random(&f->tree, 31, 2000);
	take(f->index, &f->tree, SNAP_COLD, 1, &first);
	for (size_t i = 0; i < ARRAY_SIZE(thread_counts); i++) {
		(void)snprintf(name, sizeof(name), "twin%zu", i);
		snaps_twin(f->index, snaps_path(f, name, twin));
		take(twin, &f->tree, SNAP_COLD, thread_counts[i], &info);
		assert_fingerprints_equal(&first, &info);
		assert_int_equal(first.details->nodes_written, info.details->nodes_written);
		assert_memory_equal(&first.totals, &info.totals, sizeof(info.totals));
		snap_info_done(&info);
	}
	snap_info_done(&first);
}

static void two_indexes_have_secrets_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct snap_info a, b;
	char other[256];

	tree_random(&f->tree, 2, 50);
	take(f->index, &f->tree, SNAP_COLD, 1, &a);
	take(snaps_path(f, "other", other), &f->tree, SNAP_COLD, 1, &b);
	assert_memory_not_equal(a.fingerprint.b, b.fingerprint.b, sizeof(a.fingerprint.b));
	snap_info_done(&a);
	snap_info_done(&b);
}

static void a_rescan_of_an_unchanged_tree_writes_no_node(void **state)
{
	static const enum snap_mode modes[] = { SNAP_WARM, SNAP_COLD, SNAP_WARM };
	struct fixture *f = *state;
	struct snap_info first, info;

	tree_random(&f->tree, 8, 1500);
	take(f->index, &f->tree, SNAP_WARM, 2, &first);
	assert_int_equal(first.mode, SNAP_COLD); /* nothing to walk beside */
	assert_true(first.details->nodes_written > 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		take(f->index, &f->tree, modes[i], thread_counts[i], &info);
		assert_int_equal(info.mode, modes[i]);
		assert_int_equal(info.details->nodes_written, 0);
		assert_int_equal(info.details->listings_written, 0);
		assert_int_equal(info.ref, first.ref);
		assert_fingerprints_equal(&first, &info);
		snap_info_done(&info);
	}
	assert_int_equal(snaps_count(f->index), 4);
	snap_info_done(&first);
}

static void equal_subtrees_are_stored_once(void **state)
{
	struct fixture *f = *state;
	const struct timespec when[2] = { { 1000, 0 }, { 1000, 0 } };
	struct snap_info info;

	tree_build(&f->tree, ROWS(IS_DIR("a"), IS_DIR("a/x"), IS_FILE("a/x/f", 10), IS_DIR("b"),
	                          IS_DIR("b/x"), IS_FILE("b/x/f", 10)));
	for (size_t i = 0; i < 6; i++) {
		static const char *const paths[] = { "a/x/f", "b/x/f", "a/x", "b/x", "a", "b" };

		assert_int_equal(utimensat(f->tree.fd, paths[i], when, 0), 0);
	}
	take(f->index, &f->tree, SNAP_COLD, 2, &info);
	assert_int_equal(info.totals.dirs, 4);
	assert_int_equal(info.details->nodes_written, 3); /* the top, one of a and b, one x */
	snap_info_done(&info);
}

static void a_change_writes_the_way_to_it_and_no_more(void **state)
{
	struct fixture *f = *state;
	struct snap_info info;

	tree_random(&f->tree, 8, 1500);
	tree_build(&f->tree,
	           ROWS(IS_DIR("p"), IS_DIR("p/q"), IS_DIR("p/q/r"), IS_FILE("p/q/r/f", 1)));
	take(f->index, &f->tree, SNAP_WARM, 2, &info);
	snap_info_done(&info);
	tree_write(&f->tree, "p/q/r/f", 16);
	take(f->index, &f->tree, SNAP_WARM, 2, &info);
	assert_int_equal(info.details->nodes_written, 4);
	snap_info_done(&info);
}

/* -- warm = cold ------------------------------------------------------------------------------- */

static void pick(const struct record *dirs, uint64_t *random, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s", dirs->dir[tree_draw(random) % dirs->n]->path);
}

/* One thing that happens to trees. What cannot be done now is left. */
static void change_something(const struct tree *t, const struct record *dirs, uint64_t *random,
                             int i)
{
	const struct timespec back[2] = { { 1000, 0 },
		                          { (time_t)(tree_draw(random) % 2000000000), 0 } };
	char dir[4096], other[4096], a[4352], b[4352];

	pick(dirs, random, dir, sizeof(dir));
	pick(dirs, random, other, sizeof(other));
	(void)snprintf(a, sizeof(a), "%s/new%d", dir, i % 40);
	(void)snprintf(b, sizeof(b), "%s/new%d", other, (i + 1) % 40);
	switch (tree_draw(random) % 10) {
	case 0:
	case 1: /* create, append, truncate */
		base_close(openat(t->fd, a, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
		break;
	case 2:
		(void)mkdirat(t->fd, b, 0755);
		break;
	case 3:
		(void)renameat(t->fd, a, t->fd, b);
		break;
	case 4:
		(void)linkat(t->fd, a, t->fd, b, 0);
		break;
	case 5:
		(void)unlinkat(t->fd, a, 0);
		break;
	case 6:
		(void)fchmodat(t->fd, dir, (mode_t)(0700 | (tree_draw(random) & 077)), 0);
		break;
	case 7:
		(void)fchownat(t->fd, dir, (uid_t)(tree_draw(random) % 3), 0, AT_SYMLINK_NOFOLLOW);
		break;
	case 8:
		(void)utimensat(t->fd, dir, back, 0);
		break;
	default: {
		int fd = openat(t->fd, a, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

		if (fd >= 0)
			(void)ftruncate(fd, (off_t)(tree_draw(random) % 100000));
		base_close(fd);
	}
	}
}

static void a_warm_scan_gives_what_a_cold_one_gives(void **state)
{
	struct fixture *f = *state;
	struct snap_info warm, cold;
	struct record dirs, truth, stored;
	struct scan_report report;
	uint64_t random = 4711;
	struct snap *s;

	tree_random(&f->tree, 17, 1200);
	take(f->index, &f->tree, SNAP_COLD, 2, &warm);
	snap_info_done(&warm);
	assert_int_equal(scans_run_threads(f->tree.path, 2, &dirs, &report), 0);
	for (int round = 0; round < 10; round++) {
		char twin[256], name[16];

		for (int i = 0; i < 20; i++)
			change_something(&f->tree, &dirs, &random, i);
		take(f->index, &f->tree, SNAP_WARM, thread_counts[round % 3], &warm);
		(void)snprintf(name, sizeof(name), "twin%d", round);
		snaps_twin(f->index, snaps_path(f, name, twin));
		take(twin, &f->tree, SNAP_COLD, 2, &cold);
		assert_int_equal(warm.mode, SNAP_WARM);
		assert_fingerprints_equal(&warm, &cold);
		assert_memory_equal(&warm.totals, &cold.totals, sizeof(warm.totals));
		assert_true(warm.details->nodes_written <= cold.details->nodes_written);
		snap_info_done(&cold);
		if (round < 9)
			snap_info_done(&warm);
	}
	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	assert_int_equal(snaps_read(s, warm.ref, &stored), 0);
	scans_ask_oracle(f->tree.path, &truth);
	assert_same(&truth, &stored);
	snap_close(s);
	record_done(&truth);
	record_done(&stored);
	record_done(&dirs);
	scan_report_done(&report);
	snap_info_done(&warm);
}

/* -- failures ---------------------------------------------------------------------------------- */

static int fail_late(void *ctx, unsigned worker, void *state, const struct scan_below *below,
                     struct scan_token *ret)
{
	const struct scan_sink *real = ctx;
	int r = real->node(real->ctx, worker, state, below, ret);

	return r == 0 && below->totals->dirs > 20 ? -EDOM : r;
}

static int pass_listing(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
                        const struct scan_listing *l, void **ret)
{
	const struct scan_sink *real = ctx;

	return real->listing(real->ctx, worker, dir, l, ret);
}

static void pass_drop(void *ctx, void *state)
{
	const struct scan_sink *real = ctx;

	real->drop(real->ctx, state);
}

static void a_scan_that_fails_leaves_no_trace(void **state)
{
	struct fixture *f = *state;
	struct snap_info before, after;
	struct scan_report report;
	struct snap_writer *w;
	struct scan_sink sink;
	struct record stored;
	struct snap *s;

	tree_random(&f->tree, 8, 1500);
	take(f->index, &f->tree, SNAP_COLD, 2, &before);
	tree_random(&f->tree, 9, 1500);
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_write_begin(s, f->tree.path, SNAP_WARM, &w), 0);
	sink = (struct scan_sink){ .ctx = (void *)(uintptr_t)snap_write_sink(w),
		                   .listing = pass_listing,
		                   .node = fail_late,
		                   .drop = pass_drop };
	assert_int_equal(
		scan_run(f->tree.path, &(struct scan_options){ .threads = 2 }, &sink, &report),
		-EDOM);
	snap_write_abort(w);
	assert_int_equal(snaps_count(f->index), 1);
	assert_int_equal(snaps_read(s, before.ref, &stored), 0);
	record_done(&stored);
	/* The same handle goes on, and stores each node once. */
	assert_int_equal(snaps_take(s, f->tree.path, SNAP_WARM, 2, &after), 0);
	assert_int_equal(after.id, before.id + 1);
	assert_int_equal(snaps_read(s, after.ref, &stored), 0);
	record_done(&stored);
	snap_close(s);
	snap_info_done(&before);
	snap_info_done(&after);
	snap_write_abort(NULL);
}

static void two_scans_do_not_write_at_once(void **state)
{
	struct fixture *f = *state;
	struct snap_writer *w, *second;
	struct scan_report report;
	struct snap_info info;
	struct snap *a, *b;

	tree_random(&f->tree, 8, 100);
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &a), 0);
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &b), 0);
	assert_int_equal(snap_write_begin(a, f->tree.path, SNAP_WARM, &w), 0);
	assert_int_equal(snap_write_begin(b, f->tree.path, SNAP_WARM, &second), -EBUSY);
	assert_int_equal(snap_write_begin(a, f->tree.path, SNAP_WARM, &second), -EBUSY);
	/* Being refused did no harm to the first. */
	assert_int_equal(snaps_count(f->index), 0);
	assert_int_equal(scan_run(f->tree.path, &(struct scan_options){ .threads = 2 },
	                          snap_write_sink(w), &report),
	                 0);
	assert_int_equal(snap_write_commit(w, &report, &info), 0);
	scan_report_done(&report);
	snap_info_done(&info);
	assert_int_equal(snaps_take(b, f->tree.path, SNAP_WARM, 2, &info), 0);
	assert_int_equal(info.details->nodes_written, 0);
	snap_info_done(&info);
	assert_int_equal(snaps_count(f->index), 2);
	snap_close(a);
	snap_close(b);
}

static void a_reader_keeps_its_moment_while_a_scan_commits(void **state)
{
	struct fixture *f = *state;
	struct snap_info info;
	struct snap_list l;
	struct snap *reader;
	uint64_t before, after;

	tree_random(&f->tree, 8, 300);
	take(f->index, &f->tree, SNAP_COLD, 2, &info);
	snap_info_done(&info);
	assert_int_equal(snap_open(f->index, SNAP_READ, &reader), 0);
	assert_int_equal(snap_data_version(reader, &before), 0);
	assert_int_equal(snap_list_get(reader, &l), 0);
	assert_int_equal(l.n, 1);
	snap_list_done(&l);
	take(f->index, &f->tree, SNAP_WARM, 2, &info);
	snap_info_done(&info);
	assert_int_equal(snap_list_get(reader, &l), 0);
	assert_int_equal(l.n, 1);
	snap_list_done(&l);
	assert_int_equal(snap_data_version(reader, &after), 0);
	assert_int_not_equal(before, after);
	assert_int_equal(snap_list_get(reader, &l), 0);
	assert_int_equal(l.n, 2);
	snap_list_done(&l);
	snap_close(reader);
}

/* The root may be called anything, and several roots share an index. */
static void the_newest_of_each_root_is_listed(void **state)
{
	static const char *const roots[] = { "odd\n\xff\x1bname", "plain" };
	struct fixture *f = *state;
	struct snap_list all, l;
	struct snap *s;

	tree_build(&f->tree, ROWS(IS_DIR(roots[0]), IS_DIR(roots[1]), IS_FILE("plain/f", 10)));
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	for (int i = 0; i < 4; i++) {
		struct snap_info info;
		char path[256];

		(void)snprintf(path, sizeof(path), "%s/%s", f->tree.path, roots[i % 2]);
		assert_int_equal(snaps_take(s, path, SNAP_WARM, 1, &info), 0);
		assert_string_equal(info.root, path);
		assert_int_equal(info.id, i + 1);
		snap_info_done(&info);
	}
	assert_int_equal(snap_list_get(s, &all), 0);
	assert_int_equal(all.n, 4);
	assert_int_equal(snap_list_newest(&all, &l), 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(strrchr(l.info[0]->root, '/') + 1, roots[0]);
	assert_int_equal(l.info[0]->id, 3);
	assert_int_equal(l.info[1]->id, 4);
	assert_true(l.info[1]->complete);
	assert_int_equal(l.info[1]->totals.files, 1);
	snap_list_done(&l);
	snap_list_done(&all);
	snap_close(s);
}

static void assert_ids_from(const struct snap_list *l, int64_t first, size_t n)
{
	assert_int_equal(l->n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(l->info[i]->id, first + (int64_t)i);
}

/* Lists that are refreshed from each other, some of them twice from the same one, over a prune. */
static void a_list_stays_while_others_grow_from_it(void **state)
{
	const struct snap_policy policy = { .keep_last = 30 };
	struct fixture *f = *state;
	struct snap_list list[60], other;
	struct snap_pruned pruned;
	struct snap_info info;
	struct snap *s;

	tree_build(&f->tree, ROWS(IS_FILE("f", 10)));
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_list_get(s, &list[0]), 0);
	assert_int_equal(list[0].n, 0);
	for (size_t i = 1; i < ARRAY_SIZE(list); i++) {
		assert_int_equal(snaps_take(s, f->tree.path, SNAP_WARM, 1, &info), 0);
		snap_info_done(&info);
		assert_int_equal(snap_list_refresh(s, &list[i / 2], &other), 0);
		assert_int_equal(snap_list_refresh(s, &list[i - 1], &list[i]), 0);
		assert_ids_from(&other, 1, i);
		snap_list_done(&other);
	}
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		assert_ids_from(&list[i], 1, i);
		assert_true(i == 0 || list[i].info[0] == list[1].info[0]); /* in memory once */
	}
	assert_null(list[1].info[0]->details);
	snap_release(s);
	assert_int_equal(snaps_sql(f->index, "UPDATE snapshot SET root = 99 WHERE id = 7"), 0);
	assert_int_equal(snap_list_refresh(s, &list[59], &other), 0);
	assert_int_equal(other.n, 59); /* what was read when it was whole stays */
	snap_list_done(&other);
	assert_int_equal(snap_list_get(s, &other), 0);
	assert_int_equal(other.n, 58); /* one belongs to nothing now, as many rows as before */
	assert_int_equal(other.info[6]->id, 8);
	assert_int_equal(other.n_damaged, 1);
	assert_int_equal(other.damaged[0], 7);
	snap_list_done(&other);
	assert_int_equal(snap_prune(s, &policy, 0, false, &pruned), 0);
	snap_pruned_done(&pruned);
	assert_int_equal(snap_list_refresh(s, &list[59], &other), 0);
	assert_ids_from(&other, 30, 30);
	assert_ptr_equal(other.info[29], list[59].info[58]);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		snap_list_done(&list[i]);
	assert_ids_from(&other, 30, 30);
	snap_list_done(&other);
	snap_close(s);
}

static void one_snapshot_has_the_details(void **state)
{
	struct fixture *f = *state;
	struct snap_info taken, info;
	struct snap *s;

	tree_build(&f->tree, ROWS(IS_FILE("f", 10)));
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snaps_take(s, f->tree.path, SNAP_WARM, 1, &taken), 0);
	assert_int_equal(snap_info_get(s, taken.id, &info), 0);
	assert_string_equal(info.root, taken.root);
	assert_memory_equal(&info.totals, &taken.totals, sizeof(info.totals));
	assert_fingerprints_equal(&info, &taken);
	assert_int_equal(info.details->stats.wall_ns, taken.details->stats.wall_ns);
	assert_string_equal(info.details->stats.readers_log, taken.details->stats.readers_log);
	assert_int_equal(info.details->statvfs.f_blocks, taken.details->statvfs.f_blocks);
	assert_int_equal(info.details->index_bytes, taken.details->index_bytes);
	snap_info_done(&info);
	snap_info_done(&taken);
	assert_int_equal(snap_info_get(s, 2, &info), -ENOENT);
	snap_close(s);
}

static void a_wide_directory_is_found_through_restart_points(void **state)
{
	struct fixture *f = *state;
	struct snap_info info;
	struct snap_entry e;
	struct snap_node n;
	struct snap *s;
	char name[32];

	for (int i = 0; i < 9000; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		if (i % 100 == 0)
			tree_build(&f->tree, ROWS(IS_DIR(name)));
		else
			tree_write(&f->tree, name, 0);
	}
	take(f->index, &f->tree, SNAP_COLD, 2, &info);
	assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
	assert_int_equal(snap_node_get(s, info.ref, &n), 0);
	assert_int_equal(n.n_entries, 9000);
	for (int i = 0; i < 9000; i += 7) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(snap_node_find(&n, name, strlen(name), &e, NULL), 1);
		assert_int_equal(e.type, i % 100 ? SCAN_FILE : SCAN_DIR);
		assert_true(i % 100 ? e.child == 0 : e.child != 0);
	}
	assert_int_equal(snap_node_find(&n, "n9000", 5, &e, NULL), 0);
	snap_node_put(s, &n);
	snap_close(s);
	snap_info_done(&info);
}

/* -- what a later scan, or another user, will want to know --------------------------------------- */

static void get_dir(struct snap *s, uint64_t root, const char *path, struct snap_node *ret)
{
	uint64_t ref = 0;

	assert_int_equal(snap_path_ref(s, root, path, &ref), 0);
	assert_int_equal(snap_node_get(s, ref, ret), 0);
}

static void assert_links(struct snap *s, uint64_t root, const char *path, const char *name,
                         uint32_t nlink, bool leave)
{
	struct snap_node n;
	struct snap_entry e;

	get_dir(s, root, path, &n);
	assert_int_equal(n.links_leave, leave);
	assert_int_equal(snap_node_find(&n, name, strlen(name), &e, NULL), 1);
	assert_int_equal(e.meta.nlink, nlink);
	assert_int_equal(e.meta.multi, nlink > 0);
	assert_int_equal(n.totals.shared, 0);
	snap_node_put(s, &n);
}

/* Be it of no size, which its bytes do not tell. */
static void links_are_counted_and_may_leave(void **state)
{
	struct fixture *f = *state;
	struct snap_info info;
	struct snap *s;

	tree_build(&f->tree,
	           ROWS(IS_DIR("in"), IS_FILE("in/f", 9000), IS_LINK("in/g", "in/f"), IS_DIR("out"),
	                IS_FILE("out/e", 0), IS_LINK("e2", "out/e"), IS_FILE("one", 5)));
	for (int mode = SNAP_COLD; mode <= SNAP_QUICK; mode++) {
		assert_int_equal(
			snaps_take_at(f->index, f->tree.path, (enum snap_mode)mode, 2, &info), 0);
		assert_int_equal(snap_open(f->index, SNAP_READ, &s), 0);
		assert_links(s, info.ref, "in", "f", 2, false);
		assert_links(s, info.ref, "out", "e", 2, true);
		assert_links(s, info.ref, "", "one", 0, false); /* all names are below the root */
		snap_close(s);
		snap_info_done(&info);
	}
}

static int node_with_audience(void *ctx, unsigned worker, void *state,
                              const struct scan_below *below, struct scan_token *ret)
{
	const struct scan_sink *real = ctx;
	struct scan_totals audience = *below->totals;
	struct scan_below less = *below;

	less.audience = &audience; /* where it is not less it is not stored */
	if (below->totals->dirs > 0) {
		audience.bytes -= 4096;
		audience.files--;
	}
	return real->node(real->ctx, worker, state, &less, ret);
}

static void assert_audience(struct snap *s, uint64_t root, const char *path, uint64_t less)
{
	struct snap_node n;

	get_dir(s, root, path, &n);
	assert_int_equal(n.partial, less > 0);
	assert_int_equal(n.audience.bytes, n.totals.bytes - less);
	assert_int_equal(n.audience.files, n.totals.files - (less > 0));
	assert_int_equal(n.audience.newest, n.totals.newest);
	snap_node_put(s, &n);
}

static void sums_for_an_audience_are_stored_where_they_differ(void **state)
{
	struct fixture *f = *state;
	const struct scan_options o = { .threads = 2 };
	struct snap_info with, without;
	struct scan_report report;
	struct snap_damage damage;
	struct snap_writer *w;
	struct scan_sink sink;
	struct snap *s;

	tree_build(&f->tree, ROWS(IS_DIR("d"), IS_FILE("d/f", 9000)));
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_write_begin(s, f->tree.path, SNAP_COLD, &w), 0);
	sink = (struct scan_sink){ .ctx = (void *)(uintptr_t)snap_write_sink(w),
		                   .listing = pass_listing,
		                   .node = node_with_audience,
		                   .drop = pass_drop };
	assert_int_equal(scan_run(f->tree.path, &o, &sink, &report), 0);
	assert_int_equal(snap_write_commit(w, &report, &with), 0);
	assert_audience(s, with.ref, "", 4096);
	assert_audience(s, with.ref, "d", 0);
	assert_int_equal(snaps_take(s, f->tree.path, SNAP_WARM, 2, &without), 0);
	assert_audience(s, without.ref, "", 0);
	assert_int_not_equal(with.ref, without.ref);
	/* All is open here, so less is not what the listings say. */
	assert_int_equal(snap_check(s, NULL, NULL, &damage), 0);
	assert_int_equal(damage.bad_nodes, 1);
	assert_int_equal(damage.n, 1);
	assert_int_equal(damage.ids[0], with.id);
	snap_damage_done(&damage);
	scan_report_done(&report);
	snap_info_done(&with);
	snap_info_done(&without);
	snap_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_directory_reads_back_as_scanned),
		TEST(the_number_of_threads_does_not_show),
		TEST(two_indexes_have_secrets_of_their_own),
		TEST(a_rescan_of_an_unchanged_tree_writes_no_node),
		TEST(equal_subtrees_are_stored_once),
		TEST(a_change_writes_the_way_to_it_and_no_more),
		TEST(a_warm_scan_gives_what_a_cold_one_gives),
		TEST(a_scan_that_fails_leaves_no_trace),
		TEST(two_scans_do_not_write_at_once),
		TEST(a_reader_keeps_its_moment_while_a_scan_commits),
		TEST(the_newest_of_each_root_is_listed),
		TEST(a_list_stays_while_others_grow_from_it),
		TEST(one_snapshot_has_the_details),
		TEST(a_wide_directory_is_found_through_restart_points),
		TEST(links_are_counted_and_may_leave),
		TEST(sums_for_an_audience_are_stored_where_they_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
