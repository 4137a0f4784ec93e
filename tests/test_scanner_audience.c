/* SPDX-License-Identifier: MIT */
/*
 * What the audience of each directory can add up, against a model that walks for each directory on its own.
 * Modes, owners and ACLs are what a source says, so that it takes no root to have them.
 */
#include "scanner/source.h"
#include "tests/snaps.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
	ROUNDS = 12,
	ENTRIES = 500
};

struct scan_source {
	char root[200];
	uint64_t seed;
	bool open;    /* all are 0755 and of one owner */
	uint64_t odd; /* a directory whose mode is another one than the seed says */
	bool ghosts;  /* each directory lists one that is not there */
	const char *const *changed;
	_Atomic unsigned listed;
};

static struct scan_meta meta_of(const struct scan_source *f, const struct stat *st)
{
	static const uint16_t modes[] = { 0755, 0750, 0700,  0711,  0744, 0705,
		                          0077, 0000, 02755, 01777, 0755, 0755 };
	uint64_t draw = f->seed ^ st->st_ino * 0x9E3779B97F4A7C15u;
	struct scan_meta m = { .size = (uint64_t)st->st_size,
		               .blocks = (uint64_t)st->st_blocks,
		               .ino = st->st_ino,
		               .mtime = st->st_mtim.tv_sec,
		               .mode = 0755,
		               .multi = st->st_nlink > 1 && !S_ISDIR(st->st_mode) };

	m.nlink = m.multi ? (uint32_t)st->st_nlink : 0;
	if (!S_ISDIR(st->st_mode) || f->open)
		return m;
	m.mode = modes[tree_draw(&draw) % ARRAY_SIZE(modes)];
	m.uid = tree_draw(&draw) % 8 == 0;
	m.gid = tree_draw(&draw) % 8 == 0;
	m.acl = tree_draw(&draw) % 16 == 0;
	if (st->st_ino == f->odd)
		m.mode ^= 0705;
	return m;
}

static uint8_t type_of(mode_t mode)
{
	return S_ISREG(mode)    ? SCAN_FILE
	       : S_ISDIR(mode)  ? SCAN_DIR
	       : S_ISLNK(mode)  ? SCAN_SYMLINK
	       : S_ISFIFO(mode) ? SCAN_FIFO
	                        : SCAN_SOCKET;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int fake_open(const struct source_root *root, void *ctx, struct scan_source **ret,
                     char why[SOURCE_WHY])
{
	struct scan_source *f = ctx;

	(void)why;
	(void)snprintf(f->root, sizeof(f->root), "%s", root->path);
	*ret = f;
	return 1;
}

static int fake_list(struct scan_source *f, unsigned worker, const struct source_dir *dir,
                     struct scan_meta *self, struct scan_reading *l)
{
	char below[2000], path[2300];
	struct dirent *e;
	struct stat st;
	int r = 0;
	DIR *stream;

	(void)worker;
	source_path(dir, below, sizeof(below));
	(void)snprintf(path, sizeof(path), "%s/%s", f->root, below);
	stream = opendir(path);
	if (!stream && errno == ENOENT && f->ghosts)
		return SOURCE_UNREAD;
	if (!stream || fstat(dirfd(stream), &st) < 0)
		err(99, "%s", path);
	*self = meta_of(f, &st);
	while (r == 0 && (e = readdir(stream))) {
		struct source_found found = { .name = e->d_name, .ino = e->d_ino };

		if (is_dot(e->d_name))
			continue;
		if (fstatat(dirfd(stream), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			err(99, "%s", e->d_name);
		found.type = type_of(st.st_mode);
		found.truth = SOURCE_KNOWN;
		found.meta = meta_of(f, &st);
		r = source_add(l, &found);
	}
	if (r == 0 && f->ghosts)
		r = source_add(l, &(struct source_found){ .name = "ghost", .type = SCAN_DIR });
	(void)closedir(stream);
	atomic_fetch_add(&f->listed, 1);
	return r < 0 ? r : SOURCE_OK;
}

static int fake_changes(struct scan_source *f, const struct scan_mark *then, struct scan_mark *now,
                        struct source_changes *ret)
{
	(void)then;
	now->len = 1;
	for (const char *const *p = f->changed; p && *p; p++)
		if (source_changed(ret, *p, SOURCE_HERE) < 0)
			return -ENOMEM;
	return 1;
}

static void fake_close(struct scan_source *f)
{
	(void)f;
}

static const struct source_ops fake = { "fake", fake_open, fake_list, fake_changes, fake_close };

/* -- the model -- */

struct met {
	uint64_t ino, bytes, size, seen, nlink;
};

struct model {
	const struct scan_source *f;
	const char *glob; /* what is left out */
	struct scan_totals sum;
	struct met *met;
	size_t n, cap;
};

static void meet(struct model *m, const struct stat *st)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->met[i].ino == st->st_ino) {
			m->met[i].seen++;
			return;
		}
	if (base_reserve(&m->met, &m->cap, m->n + 1, sizeof(*m->met)) < 0)
		err(99, "no memory");
	m->met[m->n++] = (struct met){ st->st_ino, (uint64_t)st->st_blocks * 512,
		                       (uint64_t)st->st_size, 1, st->st_nlink };
	m->sum.bytes += (uint64_t)st->st_blocks * 512;
	m->sum.apparent += (uint64_t)st->st_size;
}

/* Whatever the audience of the directory sees in it; it is counted itself. */
static void walk(struct model *m, int fd)
{
	DIR *stream = fdopendir(fd);
	struct scan_meta self;
	struct dirent *e;
	struct stat st;

	if (!stream || fstat(fd, &st) < 0)
		err(99, "model");
	self = meta_of(m->f, &st);
	m->sum.bytes += (uint64_t)st.st_blocks * 512;
	m->sum.newest = MAX(m->sum.newest, st.st_mtim.tv_sec);
	m->sum.vanished += m->f->ghosts;
	while ((e = readdir(stream))) {
		struct scan_meta child;

		if (is_dot(e->d_name))
			continue;
		if (m->glob && fnmatch(m->glob, e->d_name, 0) == 0) {
			m->sum.skipped++;
			continue;
		}
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			err(99, "%s", e->d_name);
		m->sum.entries++;
		m->sum.newest = MAX(m->sum.newest, st.st_mtim.tv_sec);
		m->sum.files += S_ISREG(st.st_mode);
		m->sum.dirs += S_ISDIR(st.st_mode);
		child = meta_of(m->f, &st);
		if (!S_ISDIR(st.st_mode))
			meet(m, &st);
		else if (scan_audience_covers(&child, &self))
			walk(m, openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		else
			m->sum.bytes += (uint64_t)st.st_blocks * 512;
	}
	(void)closedir(stream);
}

static struct scan_totals model_of(const struct scan_source *f, const char *glob, int root,
                                   const char *path)
{
	struct model m = { .f = f, .glob = glob, .sum = TOTALS_NONE };

	walk(&m, openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (size_t i = 0; i < m.n; i++)
		if (m.met[i].seen < m.met[i].nlink)
			m.sum.shared += m.met[i].bytes;
	free(m.met);
	return m.sum;
}

static void expect_equal(const char *path, const struct scan_totals *a, const struct scan_totals *b)
{
	for (size_t i = 0; i < TOTALS_FIELDS; i++) {
		const struct totals_field *f = &totals_fields[i];

		if (totals_get(a, f) != totals_get(b, f))
			fail_msg("%s: %s is %ld, not %ld", path, f->name, (long)totals_get(a, f),
			         (long)totals_get(b, f));
	}
}

/* How many directories there are whose audience does not see all. */
static unsigned expect_as_model(const struct fixture *t, struct scan_source *f, char *glob)
{
	char *globs[] = { glob, NULL };
	struct scan_options o = { .source_ops = &fake, .source_ctx = f, .exclude = globs };
	struct scan_report report;
	struct record r;
	unsigned less = 0;

	for (o.threads = 1; o.threads < 6; o.threads += 3) {
		less = 0;
		assert_int_equal(scans_run(t->tree.path, &o, &r, &report), 0);
		assert_null(r.broken);
		for (size_t i = 0; i < r.n; i++) {
			const struct record_dir *d = r.dir[i];
			const struct scan_totals sums = model_of(f, glob, t->tree.fd, d->path);

			expect_equal(d->path, &d->audience, &sums);
			assert_true(d->audience.bytes <= d->totals.bytes);
			less += memcmp(&d->audience, &d->totals, sizeof(sums)) != 0;
		}
		record_done(&r);
		scan_report_done(&report);
	}
	return less;
}

static void each_audience_adds_up_what_it_sees(void **state)
{
	struct fixture *t = *state;
	char *glob = (char *)(uintptr_t) "*a*";
	unsigned less = 0;

	tree_random(&t->tree, 5, ENTRIES);
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct scan_source f = { .seed = seed * 1000003 };

		less += expect_as_model(t, &f, seed % 3 ? NULL : glob);
	}
	assert_true(less > ROUNDS);
}

static void what_vanished_is_seen_where_it_was_listed(void **state)
{
	struct fixture *t = *state;

	tree_random(&t->tree, 8, ENTRIES);
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct scan_source f = { .seed = seed * 31337, .ghosts = true };

		assert_true(expect_as_model(t, &f, NULL) > 0);
	}
}

static void where_all_is_open_nothing_differs(void **state)
{
	struct fixture *t = *state;
	struct scan_source f = { .open = true };

	tree_random(&t->tree, 6, ENTRIES);
	assert_int_equal(expect_as_model(t, &f, NULL), 0);
}

/* -- in the index -- */

static void take(struct snap *s, const struct fixture *t, struct scan_source *f, unsigned threads,
                 struct scan_mark *mark, struct snap_info *ret)
{
	const struct scan_options o = {
		.threads = threads, .source_ops = &fake, .source_ctx = f, .mark = mark
	};
	struct scan_report report;
	struct snap_writer *w;

	atomic_store(&f->listed, 0);
	assert_int_equal(snap_write_begin(s, t->tree.path, mark ? SNAP_WARM : SNAP_COLD, &w), 0);
	assert_int_equal(scan_run(t->tree.path, &o, snap_write_sink(w), &report), 0);
	if (mark)
		*mark = report.mark;
	assert_int_equal(snap_write_commit(w, &report, ret), 0);
	scan_report_done(&report);
}

/* Kept by what the source says, and all listed: one root. Returns how many directories were listed. */
static unsigned expect_same_root(struct snap *s, const struct fixture *t, struct scan_source *f,
                                 struct scan_mark *mark)
{
	struct snap_info kept, cold;
	unsigned listed;

	take(s, t, f, 4, mark, &kept);
	listed = atomic_load(&f->listed);
	take(s, t, f, 1, NULL, &cold);
	assert_int_equal(cold.details->nodes_written, 0);
	assert_int_equal(kept.ref, cold.ref);
	snap_info_done(&kept);
	snap_info_done(&cold);
	return listed;
}

static void expect_sound(struct snap *s)
{
	struct snap_damage damage;

	assert_int_equal(snap_check(s, NULL, NULL, &damage), 0);
	assert_int_equal(damage.bad_nodes + damage.n, 0);
	snap_damage_done(&damage);
}

/* Threads, what was there before and what is kept change nothing, and check finds the sums right. */
static void the_index_has_one_answer(void **state)
{
	struct fixture *t = *state;
	struct scan_mark mark = { .source = "" };
	struct snap *s;
	struct stat st;

	tree_random(&t->tree, 7, ENTRIES);
	tree_build(&t->tree,
	           ROWS(IS_DIR("p"), IS_DIR("p/q"), IS_DIR("p/q/r"), IS_FILE("p/q/r/one", 9000),
	                IS_DIR("o"), IS_LINK("o/two", "p/q/r/one"), IS_LINK("p/q/three", "o/two")));
	assert_int_equal(snap_open(t->index, SNAP_WRITE, &s), 0);
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct scan_source f = { .seed = seed * 7919 };
		unsigned all;

		mark = (struct scan_mark){ .source = "" };
		all = expect_same_root(s, t, &f, &mark);
		assert_true(expect_same_root(s, t, &f, &mark) < all);
		tree_write(&t->tree, "p/q/alone", 5000 * seed);
		f.changed = (const char *const[]){ "p/q", NULL };
		assert_true(expect_same_root(s, t, &f, &mark) < all);
		assert_int_equal(fstatat(t->tree.fd, "p/q", &st, 0), 0);
		f.odd = st.st_ino;
		assert_true(expect_same_root(s, t, &f, &mark) < all);
	}
	expect_sound(s);
	snap_close(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_audience_adds_up_what_it_sees),
		TEST(what_vanished_is_seen_where_it_was_listed),
		TEST(where_all_is_open_nothing_differs),
		TEST(the_index_has_one_answer),
	};

	tree_prefer_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
