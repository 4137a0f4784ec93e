/* SPDX-License-Identifier: MIT */
/*
 * A source that is asked before the walk changes nothing but the way: whatever it lists, declines, doubts or
 * says has not changed, all totals and fingerprints are those of a walk.
 */
#include "scanner/source.h"
#include "tests/scans.h"
#include "tests/snaps.h"
#include "tests/tree.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Lists with the C library what it does not decline. */
struct scan_source {
	char root[200];
	bool refuses, declines, doubts; /* the scan, every other directory, every third entry */
	bool says;                      /* which directories changed */
	const char *const *changed, *const *moved;
	_Atomic unsigned listed, asked;
};

static int fake_open(const struct source_root *root, void *ctx, struct scan_source **ret,
                     char why[SOURCE_WHY])
{
	struct scan_source *f = ctx;

	if (f->refuses) {
		(void)snprintf(why, SOURCE_WHY, "it is not in the mood");
		return 0;
	}
	(void)snprintf(f->root, sizeof(f->root), "%s", root->path);
	*ret = f;
	return 1;
}

static struct scan_meta meta_of(const struct stat *st)
{
	struct scan_meta m = { .size = (uint64_t)st->st_size,
		               .blocks = (uint64_t)st->st_blocks,
		               .ino = st->st_ino,
		               .mtime = st->st_mtim.tv_sec,
		               .uid = st->st_uid,
		               .gid = st->st_gid,
		               .mode = st->st_mode & 07777,
		               .multi = st->st_nlink > 1 && !S_ISDIR(st->st_mode) };

	m.nlink = m.multi ? (uint32_t)st->st_nlink : 0;
	return m;
}

static uint8_t type_of(mode_t mode)
{
	return S_ISREG(mode)    ? SCAN_FILE
	       : S_ISDIR(mode)  ? SCAN_DIR
	       : S_ISLNK(mode)  ? SCAN_SYMLINK
	       : S_ISFIFO(mode) ? SCAN_FIFO
	       : S_ISSOCK(mode) ? SCAN_SOCKET
	       : S_ISCHR(mode)  ? SCAN_CHAR
	                        : SCAN_BLOCK;
}

static int fake_list(struct scan_source *f, unsigned worker, const struct source_dir *dir,
                     struct scan_meta *self, struct scan_reading *l)
{
	char below[2000], path[2300];
	struct dirent *e;
	struct stat st;
	unsigned nth = 0;
	int r = 0;
	DIR *stream;

	(void)worker;
	source_path(dir, below, sizeof(below));
	(void)snprintf(path, sizeof(path), "%s/%s", f->root, below);
	if (f->declines && atomic_fetch_add(&f->asked, 1) % 2)
		return SOURCE_FORM;
	stream = opendir(path);
	if (!stream || fstat(dirfd(stream), &st) < 0)
		return SOURCE_UNREAD;
	*self = meta_of(&st);
	while (r == 0 && (e = readdir(stream))) {
		struct source_found found = { .name = e->d_name, .ino = e->d_ino };

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (fstatat(dirfd(stream), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			err(99, "%s", e->d_name);
		found.type = type_of(st.st_mode);
		found.truth = f->doubts && nth++ % 3 == 0 ? SOURCE_DOUBT : SOURCE_KNOWN;
		if (found.truth == SOURCE_KNOWN)
			found.meta = meta_of(&st);
		else if (nth % 2 == 0)
			found.type = SCAN_UNKNOWN;
		r = source_add(l, &found);
	}
	(void)closedir(stream);
	atomic_fetch_add(&f->listed, 1);
	return r < 0 ? r : SOURCE_OK;
}

static int fake_changes(struct scan_source *f, const struct scan_mark *then, struct scan_mark *now,
                        struct source_changes *ret)
{
	now->len = 1;
	now->bytes[0] = (uint8_t)(then->len ? then->bytes[0] + 1 : 1);
	for (const char *const *p = f->changed; p && *p; p++)
		if (source_changed(ret, *p, SOURCE_HERE) < 0)
			return -ENOMEM;
	for (const char *const *p = f->moved; p && *p; p++)
		if (source_changed(ret, *p, SOURCE_BELOW) < 0)
			return -ENOMEM;
	return f->says;
}

static void fake_close(struct scan_source *f)
{
	(void)f;
}

static const struct source_ops fake = { "fake", fake_open, fake_list, fake_changes, fake_close };

static int tree_set_up(void **state)
{
	struct fixture *f;

	(void)snaps_set_up(state);
	f = *state;
	tree_random(&f->tree, 11, 600);
	tree_build(&f->tree, ROWS(IS_DIR("a"), IS_DIR("a/b"), IS_DIR("a/b/c"), IS_DIR("ab"),
	                          IS_FILE("a/b/c/file", 5000), IS_DIR("x"), IS_DIR("x/y"),
	                          IS_LINK("x/y/far", "a/b/c/file"), IS_FILE("x/one", 9000),
	                          IS_LINK("x/y/two", "x/one"), IS_FILE("ab/alone", 3000)));
	return 0;
}

static void expect_as_walk(const struct fixture *t, struct scan_source f, struct scan_options o,
                           unsigned least)
{
	struct record walked, listed;
	struct scan_report a, b;
	const char *differs;

	assert_int_equal(scans_run(t->tree.path, &o, &walked, &a), 0);
	o.source_ops = &fake;
	o.source_ctx = &f;
	for (unsigned threads = 1; threads < 6; threads += 4) {
		o.threads = threads;
		atomic_store(&f.listed, 0);
		assert_int_equal(scans_run(t->tree.path, &o, &listed, &b), 0);
		assert_null(listed.broken);
		differs = record_compare(&walked, &listed);
		if (differs)
			fail_msg("%s", differs);
		assert_string_equal(walked.names ? "names" : "none",
		                    listed.names ? "names" : "none");
		assert_memory_equal(&a.totals, &b.totals, sizeof(a.totals));
		for (size_t i = 0; i < walked.n; i++)
			assert_memory_equal(&walked.dir[i]->meta, &listed.dir[i]->meta,
			                    sizeof(walked.dir[i]->meta));
		assert_true(atomic_load(&f.listed) >= least);
		assert_string_equal(b.stats.source, f.refuses ? "walk" : "fake");
		assert_true(*b.stats.source_evidence);
		record_done(&listed);
		scan_report_done(&b);
	}
	record_done(&walked);
	scan_report_done(&a);
}

static void what_a_source_lists_is_what_the_walk_lists(void **state)
{
	expect_as_walk(*state, (struct scan_source){ 0 }, (struct scan_options){ 0 }, 60);
}

static void what_a_source_declines_is_read_by_the_walk(void **state)
{
	expect_as_walk(*state, (struct scan_source){ .declines = true }, (struct scan_options){ 0 },
	               30);
	expect_as_walk(*state, (struct scan_source){ .refuses = true }, (struct scan_options){ 0 },
	               0);
}

static void what_a_source_doubts_is_looked_at(void **state)
{
	expect_as_walk(*state, (struct scan_source){ .doubts = true }, (struct scan_options){ 0 },
	               60);
	expect_as_walk(*state, (struct scan_source){ .doubts = true, .declines = true },
	               (struct scan_options){ .order = SCAN_ORDER_INODE }, 30);
}

static void a_source_knows_nothing_of_exclusions(void **state)
{
	const struct fixture *t = *state;
	char *globs[] = { (char *)(uintptr_t) "y", (char *)(uintptr_t) "*a*", NULL };

	tree_build(&t->tree, ROWS(IS_FILE("x/CACHEDIR.TAG", 10)));
	expect_as_walk(t, (struct scan_source){ .doubts = true },
	               (struct scan_options){ .exclude = globs, .exclude_caches = true }, 1);
}

static void a_wide_directory_with_doubts_is_declined(void **state)
{
	const struct fixture *t = *state;
	char name[40];

	for (unsigned i = 0; i < 9000; i++) {
		(void)snprintf(name, sizeof(name), "ab/n%u", i * 7919 % 9000);
		tree_write(&t->tree, name, 0);
	}
	expect_as_walk(t, (struct scan_source){ 0 }, (struct scan_options){ 0 }, 60);
	expect_as_walk(t, (struct scan_source){ .doubts = true }, (struct scan_options){ 0 }, 60);
}

static void a_source_that_there_is_not_is_an_error(void **state)
{
	const struct fixture *t = *state;
	const struct scan_options o = { .source = "tealeaves" }, walk = { .source = "walk" };
	struct record r;
	struct scan_report report;

	assert_int_equal(scans_run(t->tree.path, &o, &r, &report), -EINVAL);
	record_done(&r);
	assert_int_equal(scans_run(t->tree.path, &walk, &r, &report), 0);
	record_done(&r);
	scan_report_done(&report);
}

/* A snapshot; f: NULL, or by that source, which has been there at mark. */
static void take(struct snap *s, const char *root, struct scan_source *f, struct scan_mark *mark,
                 struct snap_info *ret)
{
	const struct scan_options o = {
		.threads = 2, .source_ops = f ? &fake : NULL, .source_ctx = f, .mark = mark
	};
	struct scan_report report;
	struct snap_writer *w;

	if (f)
		atomic_store(&f->listed, 0);
	assert_int_equal(snap_write_begin(s, root, f && mark ? SNAP_WARM : SNAP_COLD, &w), 0);
	assert_int_equal(scan_run(root, &o, snap_write_sink(w), &report), 0);
	if (mark)
		*mark = report.mark;
	assert_int_equal(snap_write_commit(w, &report, ret), 0);
	scan_report_done(&report);
}

/* Kept by what the source says, and walked: one root. Returns how many directories the source listed. */
static unsigned expect_same_root(struct snap *s, const struct fixture *t, struct scan_source *f,
                                 struct scan_mark *mark)
{
	struct snap_info kept, walked;
	unsigned listed;

	take(s, t->tree.path, f, mark, &kept);
	listed = atomic_load(&f->listed);
	take(s, t->tree.path, NULL, NULL, &walked);
	assert_memory_equal(&kept.totals, &walked.totals, sizeof(kept.totals));
	assert_int_equal(walked.details->nodes_written, 0);
	assert_int_equal(kept.ref, walked.ref);
	snap_info_done(&kept);
	snap_info_done(&walked);
	return listed;
}

static void what_has_not_changed_is_kept(void **state)
{
	const struct fixture *t = *state;
	struct scan_source f = { .says = true };
	struct scan_mark mark = { .source = "" };
	struct snap_info first;
	struct snap *s;
	char from[300], to[300];

	assert_int_equal(snap_open(t->index, SNAP_WRITE, &s), 0);
	take(s, t->tree.path, &f, &mark, &first); /* nothing is known of it yet */
	assert_true(atomic_load(&f.listed) > 60);
	assert_string_equal(mark.source, "fake");
	snap_info_done(&first);

	/* Nothing: links leave both x and a, and are of one file */
	assert_int_equal(expect_same_root(s, t, &f, &mark), 1);

	/* A file below one of them grows; the other has its name, so its listing differs, too. */
	tree_write(&t->tree, "ab/alone", 70000);
	f.changed = (const char *const[]){ "ab", NULL };
	assert_int_equal(expect_same_root(s, t, &f, &mark), 2);

	/* A third name of what x and a share: each directory with one of its names has changed. */
	tree_build(&t->tree, ROWS(IS_LINK("ab/third", "a/b/c/file")));
	f.changed = (const char *const[]){ "ab", "x/y", "a/b/c", NULL };
	assert_int_equal(expect_same_root(s, t, &f, &mark), 7);

	/* A name goes: the others are kept with their sets of links, as far as they can be. */
	(void)snprintf(from, sizeof(from), "%s/ab/third", t->tree.path);
	assert_int_equal(unlink(from), 0);
	assert_int_equal(expect_same_root(s, t, &f, &mark), 7);

	/* b is not the b of before, and all below it may have the names of before. */
	(void)snprintf(from, sizeof(from), "%s/a/b", t->tree.path);
	(void)snprintf(to, sizeof(to), "%s/x/b", t->tree.path);
	assert_int_equal(rename(from, to), 0);
	tree_build(&t->tree, ROWS(IS_DIR("a/b"), IS_DIR("a/b/c"), IS_FILE("a/b/c/file", 100)));
	f.changed = (const char *const[]){ "a", "x", NULL };
	f.moved = (const char *const[]){ "a/b", "x/b", NULL };
	assert_int_equal(expect_same_root(s, t, &f, &mark), 7);

	/* A source that cannot say: all is listed. */
	f.says = false;
	assert_true(expect_same_root(s, t, &f, &mark) > 60);
	snap_close(s);
}

/* What could not be read or was left out is looked at again. */
static void what_was_not_whole_is_not_kept(void **state)
{
	const struct fixture *t = *state;
	struct scan_source f = { .says = true };
	struct scan_mark mark = { .source = "" };
	struct snap_info first;
	struct snap *s;
	char *globs[] = { (char *)(uintptr_t) "far", NULL };
	const struct scan_options o = { .exclude = globs, .source_ops = &fake, .source_ctx = &f };
	struct scan_report report;
	struct snap_writer *w;

	assert_int_equal(snap_open(t->index, SNAP_WRITE, &s), 0);
	assert_int_equal(snap_write_begin(s, t->tree.path, SNAP_COLD, &w), 0);
	assert_int_equal(scan_run(t->tree.path, &o, snap_write_sink(w), &report), 0);
	mark = report.mark;
	assert_int_equal(snap_write_commit(w, &report, &first), 0);
	scan_report_done(&report);
	snap_info_done(&first);
	assert_int_equal(expect_same_root(s, t, &f, &mark), 3); /* the root, x and x/y */
	snap_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_a_source_lists_is_what_the_walk_lists),
		TEST(what_a_source_declines_is_read_by_the_walk),
		TEST(what_a_source_doubts_is_looked_at),
		TEST(a_source_knows_nothing_of_exclusions),
		TEST(a_wide_directory_with_doubts_is_declined),
		TEST(a_source_that_there_is_not_is_an_error),
		TEST(what_has_not_changed_is_kept),
		TEST(what_was_not_whole_is_not_kept),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
