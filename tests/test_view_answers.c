/* SPDX-License-Identifier: MIT */
/* The virtual files without a mount: from a path to a text, each of them at least once. */
#include "fs/view/view.h"
#include "tests/snaps.h"

#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ODD "odd\n\xff name"

static bool asked[128]; /* files of the registry that some test has looked at */

struct shown {
	struct fixture *f;
	struct snap *s;
	struct view v;
};

/* The text of TREE/path, terminated; free it. NULL and *error if there is none. */
static char *answer(struct shown *w, const char *path, int *error)
{
	struct text full = { 0 }, out = { 0 };
	struct view_found found;

	text_printf(&full, "%s%s", *path == '/' ? "" : w->f->tree.path, *path == '/' ? "" : "/");
	text_add(&full, path, strlen(path) + 1);
	*error = view_resolve(&w->v, full.p, &found);
	text_done(&full);
	if (*error < 0)
		return NULL;
	*error = found.file < 0
	                 ? -EISDIR
	                 : usage_text(&found.dir, (uint8_t)found.file, &(struct viewer){ 0 }, &out);
	if (*error == 0)
		asked[found.file & ~USAGE_TWIN] = true;
	view_found_done(&found);
	text_add(&out, "", 1);
	return out.p;
}

static void says(struct shown *w, const char *path, const char *want)
{
	int error;
	char *got = answer(w, path, &error);

	if (error)
		fail_msg("%s: %s", path, strerror(-error));
	if (strcmp(got, want) != 0)
		fail_msg("%s: '%s' instead of '%s'", path, got, want);
	free(got);
}

static void says_number(struct shown *w, const char *dir, const char *name, int64_t want)
{
	char path[1024], text[32];

	(void)snprintf(path, sizeof(path), "%s%s.usage/%s", dir, *dir ? "/" : "", name);
	(void)snprintf(text, sizeof(text), "%" PRId64 "\n", want);
	says(w, path, text);
}

static void fails(struct shown *w, const char *path, int want)
{
	int error;
	char *got = answer(w, path, &error);

	if (error != want)
		fail_msg("%s: %s instead of %s", path, strerror(-error), strerror(-want));
	free(got);
}

static void take(struct shown *w, const char *below)
{
	struct snap_info info;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s%s", w->f->tree.path, below);
	assert_int_equal(snaps_take(w->s, path, SNAP_WARM, 1, &info), 0);
	snap_info_done(&info);
}

/* Show what the index has now. */
static void show(struct shown *w)
{
	struct gen *g;

	if (!w->v.s) {
		assert_int_equal(view_init(&w->v, w->s, NULL), 0);
		return;
	}
	assert_int_equal(view_load(&w->v, &g), 0);
	assert_non_null(g);
	view_publish(&w->v, g);
}

static void open_shown(struct shown *w, struct fixture *f)
{
	*w = (struct shown){ .f = f };
	tree_build(&f->tree,
	           ROWS(IS_DIR("a"), IS_FILE("a/x", 5000), IS_FILE("a/two words", 20000),
	                IS_DIR("b"), IS_DIR("b/c"), IS_FILE("b/c/y", 70000), IS_FILE(ODD, 100),
	                IS_DIR(".usage"), IS_FILE(".usage/z", 9000), IS_LINK("b/z", ".usage/z")));
	assert_int_equal(snap_open(f->index, SNAP_WRITE, &w->s), 0);
	take(w, "");
	show(w);
}

static void close_shown(struct shown *w)
{
	view_done(&w->v);
	snap_close(w->s);
}

/* -- the model: what lstat says -- */

static struct scan_totals model;
static ino_t seen[64];
static size_t n_seen;

static int count(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)type;
	model.newest = MAX(model.newest, (int64_t)st->st_mtime);
	if (at->level && S_ISDIR(st->st_mode))
		model.dirs++;
	if (S_ISREG(st->st_mode))
		model.files++;
	model.entries += at->level > 0;
	for (size_t i = 0; i < n_seen; i++)
		if (st->st_nlink > 1 && !S_ISDIR(st->st_mode) && seen[i] == st->st_ino)
			return 0;
	seen[n_seen++] = st->st_ino;
	model.bytes += (uint64_t)st->st_blocks * 512;
	if (!S_ISDIR(st->st_mode))
		model.apparent += (uint64_t)st->st_size;
	return 0;
}

static void ask_model(struct shown *w, const char *dir)
{
	char path[256];

	model = (struct scan_totals)TOTALS_NONE;
	n_seen = 0;
	(void)snprintf(path, sizeof(path), "%s/%s", w->f->tree.path, dir);
	assert_int_equal(nftw(path, count, 16, FTW_PHYS), 0);
}

static uint64_t disk_bytes(struct shown *w, const char *path)
{
	char full[256];
	struct stat st;

	(void)snprintf(full, sizeof(full), "%s/%s", w->f->tree.path, path);
	assert_int_equal(lstat(full, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* -- tests -- */

static void numbers_are_those_of_lstat(void **state)
{
	static const char *const dirs[][2] = {
		{ "", "" }, { "a", "a" }, { "b", "b" }, { "b/c", "b/c" }, { ".usage", ".usage~" }
	};
	struct shown w;

	open_shown(&w, *state);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		const char *dir = dirs[i][1];
		int64_t asof = w.v.now->list.info[0]->time;
		uint64_t shared = i == 2 || i == 4 ? disk_bytes(&w, "b/z") : 0;
		char path[64], stat[1024];

		ask_model(&w, dirs[i][0]);
		says_number(&w, dir, "bytes", (int64_t)model.bytes);
		says_number(&w, dir, "apparent", (int64_t)model.apparent);
		says_number(&w, dir, "files", (int64_t)model.files);
		says_number(&w, dir, "dirs", (int64_t)model.dirs);
		says_number(&w, dir, "entries", (int64_t)model.entries);
		says_number(&w, dir, "shared", (int64_t)shared);
		says_number(&w, dir, "errors", 0);
		says_number(&w, dir, "vanished", 0);
		says_number(&w, dir, "skipped", 0);
		says_number(&w, dir, "complete", 1);
		says_number(&w, dir, "newest", model.newest);
		says_number(&w, dir, "asof", asof);
		(void)snprintf(path, sizeof(path), "%s%s.usage/stat", dir, *dir ? "/" : "");
		(void)snprintf(stat, sizeof(stat),
		               "bytes %" PRIu64 "\napparent %" PRIu64 "\nfiles %" PRIu64
		               "\ndirs %" PRIu64 "\nentries %" PRIu64 "\nshared %" PRIu64
		               "\nerrors 0\nvanished 0\nskipped 0\nnewest %" PRId64
		               "\nasof %" PRId64
		               "\ncomplete 1\nchanged 0\nsnapshot 1\napproximate 0\n",
		               model.bytes, model.apparent, model.files, model.dirs, model.entries,
		               shared, model.newest, asof);
		says(&w, path, stat);
	}
	close_shown(&w);
}

static void tables_are_number_tab_path(void **state)
{
	struct shown w;
	uint64_t c, y, z, x, two, a, b;
	char want[1024];

	open_shown(&w, *state);
	y = disk_bytes(&w, "b/c/y");
	z = disk_bytes(&w, "b/z");
	x = disk_bytes(&w, "a/x");
	two = disk_bytes(&w, "a/two words");
	c = y + disk_bytes(&w, "b/c");
	a = x + two + disk_bytes(&w, "a");
	b = c + z + disk_bytes(&w, "b");
	(void)snprintf(want, sizeof(want), "%" PRIu64 "\tc\n%" PRIu64 "\tz\n", c, z);
	says(&w, "b/.usage/children", want);
	(void)snprintf(want, sizeof(want), "%" PRIu64 "\ttwo\\040words\n%" PRIu64 "\tx\n", two, x);
	says(&w, "a/.usage/children", want);
	says(&w, "a/.usage/largest", want);
	(void)snprintf(want, sizeof(want),
	               "%" PRIu64 "\tb\n%" PRIu64 "\tb/c\n%" PRIu64 "\ta\n%" PRIu64 "\t.usage\n", b,
	               c, a, z + disk_bytes(&w, ".usage"));
	says(&w, ".usage/top", want);
	says(&w, "b/.usage/crowded", "2\t.\n1\tc\n");
	says(&w, ".usage/errors.list", "");
	says(&w, ".usage/errors.list.0", "");
	/* The twin: raw, with a NUL, which ends what we look at. */
	(void)snprintf(want, sizeof(want), "%" PRIu64 "\ttwo words", two);
	says(&w, "a/.usage/children.0", want);
	says(&w, "a/.usage/largest.0", want);
	close_shown(&w);
}

static void the_past_and_growth_are_there(void **state)
{
	static const char *const names[] = { "1h", "1d", "7d", "30d", "365d" };
	struct shown w;
	uint64_t before, after;
	int64_t times[2];
	char want[1024], path[512];

	open_shown(&w, *state);
	ask_model(&w, "");
	before = model.bytes;
	times[0] = w.v.now->list.info[0]->time;
	tree_write(&w.f->tree, "b/c/y", 200000);
	take(&w, "");
	show(&w);
	times[1] = w.v.now->list.info[0]->time;
	ask_model(&w, "");
	after = model.bytes;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(want, sizeof(want), "+%" PRIu64 "\tb/c\n", after - before);
		(void)snprintf(path, sizeof(path), ".usage/growth/%s", names[i]);
		says(&w, path, want);
		(void)snprintf(want, sizeof(want), "+%" PRIu64 "\tb/c", after - before);
		(void)snprintf(path, sizeof(path), ".usage/growth/%s.0", names[i]);
		says(&w, path, want);
		(void)snprintf(want, sizeof(want), "%" PRIu64 "\n", after - before);
		(void)snprintf(path, sizeof(path), "/.growth/%s%s/b/.usage/delta", names[i],
		               w.f->tree.path);
		says(&w, path, want);
	}
	(void)snprintf(want, sizeof(want),
	               "1h %" PRId64 "\n1d %" PRId64 "\n7d %" PRId64 "\n30d %" PRId64
	               "\n365d %" PRId64 "\n",
	               times[1] - times[0], times[1] - times[0], times[1] - times[0],
	               times[1] - times[0], times[1] - times[0]);
	says(&w, ".usage/growth/span", want);
	says(&w, "/.usage/growth/span", want);
	(void)snprintf(want, sizeof(want),
	               "%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t1\n%" PRId64 "\t%" PRIu64
	               "\t%" PRIu64 "\t2\n",
	               times[0], before, model.files, times[1], after, model.files);
	says(&w, ".usage/history", want);
	says(&w, "/.usage/history", want);
	says_number(&w, ".usage/at/1", "bytes", (int64_t)before);
	says_number(&w, ".usage/at/prev", "bytes", (int64_t)before);
	says_number(&w, ".usage/at/prev/.usage/at/2", "bytes", (int64_t)after);
	says_number(&w, "b/.usage/at/prev/c/.usage/at/latest", "files", 1);
	(void)snprintf(path, sizeof(path), "/.usage/at/1%s", w.f->tree.path);
	says_number(&w, path, "bytes", (int64_t)before);
	/* What came later is not in the past. */
	(void)snprintf(want, sizeof(want), "%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t1\n", times[0],
	               before, model.files);
	says(&w, ".usage/at/1/.usage/history", want);
	says(&w, "/.usage/at/1/.usage/history", want);
	says(&w, ".usage/at/1/.usage/growth/7d", "");
	close_shown(&w);
}

static void of_a_root_in_another_the_newer_shows(void **state)
{
	struct shown w;
	uint64_t b;

	open_shown(&w, *state);
	tree_write(&w.f->tree, "b/c/y", 300000);
	take(&w, "/b");
	show(&w);
	ask_model(&w, "b");
	b = model.bytes;
	says_number(&w, "b", "bytes", (int64_t)b);
	ask_model(&w, "");
	says_number(&w, "", "bytes", (int64_t)model.bytes);
	assert_int_equal(view_snapshot_now(w.v.now, w.f->tree.path)->id, 1);
	says_number(&w, "b/.usage/at/2", "bytes", (int64_t)b);
	fails(&w, ".usage/at/2/.usage/bytes", -ENOENT); /* not of this root */
	close_shown(&w);
}

static void texts_for_people_begin_with_what_they_are_about(void **state)
{
	struct shown w;
	char *got, want[256];
	int error;

	open_shown(&w, *state);
	(void)snprintf(want, sizeof(want), "%s/a\n", w.f->tree.path);
	got = answer(&w, "a/.usage/summary", &error);
	assert_int_equal(error, 0);
	assert_memory_equal(got, want, strlen(want));
	assert_non_null(strstr(got, "\n2 files, 0 directories, 0 other entries\n"));
	free(got);
	got = answer(&w, ".usage/README", &error);
	assert_int_equal(error, 0);
	for (size_t i = 0; i < n_usage_files; i++)
		assert_non_null(strstr(got, usage_files[i].name));
	free(got);
	close_shown(&w);
}

static void what_is_not_there_has_no_answer(void **state)
{
	struct shown w;

	open_shown(&w, *state);
	fails(&w, "nothing/.usage/bytes", -ENOENT);
	fails(&w, "a/x/.usage/bytes", -ENOTDIR);
	fails(&w, "a/.usage", -EISDIR);
	fails(&w, "a/.usage/at", -EISDIR);
	fails(&w, "a/.usage/growth", -EISDIR);
	fails(&w, "a", -EISDIR);
	fails(&w, "a/.usage/bytes.0", -ENOENT);
	fails(&w, "a/.usage/top.0.0", -ENOENT);
	fails(&w, "a/.usage/delta", -ENOENT);
	fails(&w, "a/.usage/bytes/x", -ENOTDIR);
	fails(&w, "a/.usage/at/99/.usage/bytes", -ENOENT);
	fails(&w, "a/.growth/7d/.usage/delta", -ENOENT);
	fails(&w, "/.growth/2d/.usage/delta", -ENOENT);
	fails(&w, "/.growth/7d/.usage/bytes", -ENOENT);
	fails(&w, "/.telemetry/scan", -ENOENT);
	close_shown(&w);
}

static void a_window_begins_before_it_or_with_the_oldest(void **state)
{
	/* The clock once went back. */
	static const int64_t times[] = { 1000, 2000, 500, 3000, 4000, 9000 };
	struct snap_info infos[ARRAY_SIZE(times)], *list[ARRAY_SIZE(times)];
	struct snap_list all = { .info = list, .n = ARRAY_SIZE(times) };

	(void)state;
	for (size_t i = 0; i < all.n; i++) {
		memset(&infos[i], 0, sizeof(infos[i]));
		infos[i].id = (int64_t)i + 1;
		infos[i].time = times[i];
		infos[i].root = (char *)(uintptr_t)(i == 3 ? "/other" : "/root");
		list[i] = &infos[i];
	}
	assert_int_equal(snap_select_window(&all, list[5], 5000)->id, 5);
	assert_int_equal(snap_select_window(&all, list[5], 5001)->id, 3);
	assert_int_equal(snap_select_window(&all, list[4], 2500)->id, 3);
	assert_int_equal(snap_select_window(&all, list[5], 100000)->id, 1);
	assert_int_equal(snap_select_window(&all, list[2], 1)->id, 1);
	assert_int_equal(snap_select_window(&all, list[0], 60)->id, 1);
	assert_int_equal(snap_select_window(&all, list[3], 60)->id, 4);
}

static void every_file_was_asked_for(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_usage_files; i++)
		if (!asked[i])
			fail_msg("no test has read %s", usage_files[i].name);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, snaps_set_up, snaps_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TREE(numbers_are_those_of_lstat),
		WITH_TREE(tables_are_number_tab_path),
		WITH_TREE(the_past_and_growth_are_there),
		WITH_TREE(of_a_root_in_another_the_newer_shows),
		WITH_TREE(texts_for_people_begin_with_what_they_are_about),
		WITH_TREE(what_is_not_there_has_no_answer),
		cmocka_unit_test(a_window_begins_before_it_or_with_the_oldest),
		cmocka_unit_test(every_file_was_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
