/* SPDX-License-Identifier: MIT */
/* What a scan says of a tree: the same as the oracle, whatever the number of threads. */
#include "tests/scans.h"
#include "tests/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

static const unsigned thread_counts[] = { 1, 2, 8 };

/* One reader in inode order also opens sub-directories before their turn. */
static const struct scan_options ways[] = {
	{ .threads = 1 },
	{ .threads = 2 },
	{ .threads = 8 },
	{ .threads = 1, .order = SCAN_ORDER_INODE },
	{ .threads = 3, .order = SCAN_ORDER_INODE },
};

static int set_up(void **state)
{
	static struct tree t;

	tree_new(&t);
	*state = &t;
	return 0;
}

static int tear_down(void **state)
{
	tree_remove(*state);
	return 0;
}

static void assert_same(const struct record *a, const struct record *b)
{
	const char *differs = record_compare(a, b);

	if (differs)
		fail_msg("%s", differs);
}

static void assert_promises(const struct record *r)
{
	if (r->broken)
		fail_msg("broken: %s", r->broken);
}

/* Scan with each number of threads and compare with the oracle. */
static void assert_matches_oracle(const char *path)
{
	struct scan_report report;
	struct record truth, r;

	scans_ask_oracle(path, &truth);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		assert_int_equal(scans_run(path, &ways[i], &r, &report), 0);
		assert_promises(&r);
		assert_same(&truth, &r);
		assert_int_equal(report.totals.errors + report.totals.vanished, 0);
		assert_int_equal(report.totals.changed + report.totals.skipped, 0);
		assert_int_equal(report.totals.bytes, record_find(&r, ".")->totals.bytes);
		record_done(&r);
		scan_report_done(&report);
	}
	record_done(&truth);
}

static void scan(const char *path, const struct scan_options *o, struct record *r,
                 struct scan_report *report)
{
	assert_int_equal(scans_run(path, o, r, report), 0);
	assert_promises(r);
}

static void random_trees_have_the_totals_of_the_oracle(void **state)
{
	const struct tree *t = *state;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct tree random;

		tree_new(&random);
		tree_random(&random, seed, seed * 100);
		assert_matches_oracle(random.path);
		tree_remove(&random);
	}
	tree_random(t, 99, 2000);
	assert_matches_oracle(t->path);
}

static void the_root_takes_what_du_says(void **state)
{
	const struct tree *t = *state;
	char *const argv[] = { (char *)"du", (char *)"-s", (char *)"-B1",
		               (char *)(uintptr_t)t->path, NULL };
	const struct scan_options o = { .threads = 2 };
	struct scan_report report;
	char *said;
	size_t len;

	tree_random(t, 7, 800);
	said = scans_output(argv, &len);
	assert_non_null(said);
	assert_int_equal(scan_run(t->path, &o, NULL, &report), 0);
	assert_int_equal(report.totals.bytes, strtoull(said, NULL, 10));
	free(said);
	scan_report_done(&report);
}

static void a_tree_copied_by_hard_links_counts_once_in_each_directory(void **state)
{
	static const char *const places[] = { "copy", "copy/b/copy", "copy/b/copy/b/c/copy" };
	const struct tree *t = *state;
	char from[160], to[160];
	size_t len;

	tree_build(t, ROWS(IS_DIR("a"), IS_DIR("a/b"), IS_DIR("a/b/c"), IS_FILE("a/one", 5000),
	                   IS_FILE("a/b/two", 9000), IS_FILE("a/b/c/three", 1),
	                   IS_LINK("a/b/c/again", "a/b/c/three")));
	(void)snprintf(from, sizeof(from), "%s/a", t->path);
	/* Copies beside, below and three deep; each shares its files with all the others. */
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char *const argv[] = { (char *)"cp", (char *)"-al", from, to, NULL };

		(void)snprintf(to, sizeof(to), "%s/%s", t->path, places[i]);
		free(scans_output(argv, &len));
	}
	assert_matches_oracle(t->path);
}

static void names_of_any_bytes_are_kept(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;
	char longest[256];

	memset(longest, 0xff, 255);
	longest[255] = '\0';
	tree_build(t, ROWS(IS_DIR("a\nb"), IS_DIR("a\nb/\t"), IS_DIR("\\"), IS_DIR("\x1b[2J"),
	                   IS_DIR("\xff"), IS_DIR(" "), IS_DIR(longest)));
	scan(t->path, &(struct scan_options){ .threads = 2 }, &r, &report);
	assert_int_equal(report.totals.dirs, 7);
	assert_non_null(record_find(&r, "a\nb/\t"));
	assert_non_null(record_find(&r, "\\"));
	assert_non_null(record_find(&r, "\x1b[2J"));
	assert_non_null(record_find(&r, "\xff"));
	assert_non_null(record_find(&r, " "));
	assert_non_null(record_find(&r, longest));
	record_done(&r);
	scan_report_done(&report);
	assert_matches_oracle(t->path);
}

static void small_directories_cost_one_open_two_reads_and_one_look_an_entry(void **state)
{
	const struct tree *t = *state;
	struct scan_report report;
	struct record r;

	tree_random(t, 5, 1500);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		scan(t->path, &ways[i], &r, &report);
		assert_int_equal(report.stats.openat, report.totals.dirs + 1);
		assert_int_equal(report.stats.statx, report.totals.entries + 1);
		assert_int_equal(report.stats.getdents64, 2 * (report.totals.dirs + 1));
		assert_int_equal(report.stats.dirs, report.totals.dirs + 1);
		assert_int_equal(report.stats.entries, report.totals.entries + 1);
		record_done(&r);
		scan_report_done(&report);
	}
}

static void excluded_names_are_left_out_and_listed(void **state)
{
	const struct tree *t = *state;
	char *globs[] = { (char *)"*.o", (char *)"node_modules", NULL };
	struct scan_options o = { .threads = 2, .exclude = globs };
	struct scan_report report;
	struct record r;

	tree_build(t, ROWS(IS_FILE("a.o", 5000), IS_FILE("a.c", 5000), IS_DIR("node_modules"),
	                   IS_FILE("node_modules/x", 5000), IS_DIR("b.o"), IS_DIR("d"),
	                   IS_FILE("d/.o", 1)));
	scan(t->path, &o, &r, &report);
	assert_int_equal(report.totals.entries, 2); /* a.c and d */
	assert_int_equal(report.totals.files, 1);
	assert_int_equal(report.totals.skipped, 4);
	assert_int_equal(report.totals.errors, 0);
	assert_int_equal(report.totals.apparent, 5000);
	assert_int_equal(report.stats.statx, 3); /* no look at what is excluded */
	assert_int_equal(report.stats.openat, 2);
	assert_true(record_has_problem(&r, "./node_modules", SCAN_EXCLUDED));
	assert_true(record_has_problem(&r, "d/.o", SCAN_EXCLUDED));
	assert_int_equal(record_find(&r, "d")->totals.skipped, 1);
	record_done(&r);
	scan_report_done(&report);
}

static void a_directory_with_a_cache_tag_counts_as_itself_only(void **state)
{
	const struct tree *t = *state;
	struct scan_options o = { .threads = 2, .exclude_caches = true };
	struct scan_report report;
	struct record r;

	tree_build(t, ROWS(IS_DIR("cache"), IS_FILE("cache/CACHEDIR.TAG", 43),
	                   IS_FILE("cache/big", 50000), IS_DIR("cache/deep"), IS_FILE("kept", 10)));
	scan(t->path, &o, &r, &report);
	assert_int_equal(report.totals.entries, 2);
	assert_int_equal(report.totals.dirs, 1);
	assert_int_equal(report.totals.apparent, 10);
	assert_int_equal(report.totals.skipped, 1);
	assert_int_equal(record_find(&r, "cache")->problem, SCAN_CACHE);
	assert_int_equal(record_find(&r, "cache")->n_entries, 0);
	assert_int_equal(record_find(&r, "cache")->totals.bytes,
	                 record_find(&r, "cache")->meta.blocks * 512);
	record_done(&r);
	scan_report_done(&report);
	assert_matches_oracle(t->path); /* without the option the tag means nothing */
}

static bool stop_at_once(void *ctx, const struct scan_progress *p)
{
	size_t *calls = ctx;

	assert_true(p->stats.entries > 0);
	assert_memory_equal(p->path, "/", 1);
	++*calls;
	return true;
}

/* A sink slow enough for the first report to come. */
static int slow_listing(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
                        const struct scan_listing *l, void **ret)
{
	(void)worker, (void)dir, (void)l;
	(void)usleep(20000);
	atomic_fetch_add((_Atomic size_t *)ctx, 1);
	*ret = ctx;
	return 0;
}

static int fail_node(void *ctx, unsigned worker, void *state, const struct scan_below *below,
                     struct scan_token *ret)
{
	(void)worker, (void)below, (void)ret, (void)state;
	atomic_fetch_sub((_Atomic size_t *)ctx, 1);
	return -EDOM;
}

static void drop_state(void *ctx, void *state)
{
	(void)state;
	atomic_fetch_sub((_Atomic size_t *)ctx, 1);
}

static int good_node(void *ctx, unsigned worker, void *state, const struct scan_below *below,
                     struct scan_token *ret)
{
	(void)worker, (void)below, (void)ret;
	drop_state(ctx, state);
	return 0;
}

static size_t count_open_files(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void a_caller_that_has_enough_ends_the_scan(void **state)
{
	const struct tree *t = *state;
	_Atomic size_t in_flight = 0;
	size_t calls = 0, open_before;
	struct scan_sink sink = {
		.ctx = &in_flight, .listing = slow_listing, .node = good_node, .drop = drop_state
	};
	struct scan_report report = { 0 };

	tree_random(t, 3, 1500);
	open_before = count_open_files();
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct scan_options o = ways[i];

		calls = 0;
		o.progress = stop_at_once;
		o.progress_ctx = &calls;
		assert_int_equal(scan_run(t->path, &o, &sink, &report), -ECANCELED);
		assert_true(calls >= 1);
		assert_int_equal(in_flight, 0); /* each listing() got its node() or drop() */
		assert_int_equal(count_open_files(), open_before);
		assert_null(report.root);
	}
}

static void an_error_of_the_sink_ends_the_scan(void **state)
{
	const struct tree *t = *state;
	_Atomic size_t in_flight = 0;
	struct scan_sink sink = {
		.ctx = &in_flight, .listing = slow_listing, .node = fail_node, .drop = drop_state
	};
	struct scan_report report;

	tree_build(t, ROWS(IS_DIR("a"), IS_DIR("b")));
	for (size_t i = 0; i < ARRAY_SIZE(thread_counts); i++) {
		struct scan_options o = { .threads = thread_counts[i] };

		assert_int_equal(scan_run(t->path, &o, &sink, &report), -EDOM);
		assert_int_equal(in_flight, 0);
	}
}

static void a_scan_of_nothing_says_why(void **state)
{
	const struct tree *t = *state;
	struct scan_options o = { .threads = 1 };
	struct scan_report report;
	char path[160];

	tree_write(t, "file", 1);
	(void)snprintf(path, sizeof(path), "%s/missing", t->path);
	assert_int_equal(scan_run(path, &o, NULL, &report), -ENOENT);
	(void)snprintf(path, sizeof(path), "%s/file", t->path);
	assert_int_equal(scan_run(path, &o, NULL, &report), -ENOTDIR);
}

static void the_root_may_be_a_symbolic_link(void **state)
{
	const struct tree *t = *state;
	struct scan_options o = { .threads = 1 };
	struct scan_report report;
	char path[160];

	tree_build(t, ROWS(IS_DIR("real"), IS_FILE("real/file", 1), IS_SYMLINK("link", "real")));
	(void)snprintf(path, sizeof(path), "%s/link", t->path);
	assert_int_equal(scan_run(path, &o, NULL, &report), 0);
	assert_string_equal(strrchr(report.root, '/'), "/real");
	assert_int_equal(report.totals.entries, 1);
	scan_report_done(&report);
}

static void counting_without_a_sink_gives_the_same_totals(void **state)
{
	const struct tree *t = *state;
	struct scan_options o = { .threads = 2 };
	struct scan_report with, without;
	struct record r;

	tree_random(t, 11, 1000);
	scan(t->path, &o, &r, &with);
	assert_int_equal(scan_run(t->path, &o, NULL, &without), 0);
	assert_memory_equal(&with.totals, &without.totals, sizeof(with.totals));
	record_done(&r);
	scan_report_done(&with);
	scan_report_done(&without);
}

static void a_scan_leaves_access_times_alone(void **state)
{
	const struct tree *t = *state;
	const struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 2000000 } };
	struct scan_report report;
	struct record r;
	struct stat st;

	/* An access time older than the modification is what relatime renews. */
	tree_build(t, ROWS(IS_DIR("d"), IS_FILE("d/f", 1)));
	assert_int_equal(utimensat(t->fd, "d/f", old, 0), 0);
	assert_int_equal(utimensat(t->fd, "d", old, 0), 0);
	assert_int_equal(futimens(t->fd, old), 0);
	scan(t->path, &(struct scan_options){ .threads = 2 }, &r, &report);
	assert_int_equal(report.totals.newest, 2000000);
	assert_int_equal(fstat(t->fd, &st), 0);
	assert_int_equal(st.st_atime, 1000000);
	assert_int_equal(fstatat(t->fd, "d", &st, 0), 0);
	assert_int_equal(st.st_atime, 1000000);
	assert_int_equal(fstatat(t->fd, "d/f", &st, 0), 0);
	assert_int_equal(st.st_atime, 1000000);
	record_done(&r);
	scan_report_done(&report);
}

static void times_before_1970_and_far_ahead_are_kept(void **state)
{
	const struct tree *t = *state;
	struct timespec when[2] = { { .tv_sec = 0 }, { .tv_sec = -1000 } };
	struct scan_options o = { .threads = 1 };
	struct scan_report report;
	struct stat st;

	assert_int_equal(futimens(t->fd, when), 0);
	assert_int_equal(scan_run(t->path, &o, NULL, &report), 0);
	assert_int_equal(report.totals.newest, -1000);
	scan_report_done(&report);
	when[1].tv_sec = INT64_C(1) << 40;
	assert_int_equal(futimens(t->fd, when), 0);
	assert_int_equal(fstat(t->fd, &st), 0); /* file systems have limits of their own */
	assert_int_equal(scan_run(t->path, &o, NULL, &report), 0);
	assert_int_equal(report.totals.newest, st.st_mtime);
	scan_report_done(&report);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(random_trees_have_the_totals_of_the_oracle),
		TEST(the_root_takes_what_du_says),
		TEST(a_tree_copied_by_hard_links_counts_once_in_each_directory),
		TEST(names_of_any_bytes_are_kept),
		TEST(small_directories_cost_one_open_two_reads_and_one_look_an_entry),
		TEST(excluded_names_are_left_out_and_listed),
		TEST(a_directory_with_a_cache_tag_counts_as_itself_only),
		TEST(a_caller_that_has_enough_ends_the_scan),
		TEST(an_error_of_the_sink_ends_the_scan),
		TEST(a_scan_of_nothing_says_why),
		TEST(the_root_may_be_a_symbolic_link),
		TEST(counting_without_a_sink_gives_the_same_totals),
		TEST(a_scan_leaves_access_times_alone),
		TEST(times_before_1970_and_far_ahead_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
