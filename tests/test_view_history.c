/* SPDX-License-Identifier: MIT */
/* history and growth above the roots: right, in one pass, and only as long as somebody reads. */
#include "base/path.h"
#include "fs/view/view.h"
#include "tests/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* -- work is counted in comparisons of paths, not in time -- */

static uint64_t comparisons;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);
const char *__real_path_below(const char *root, const char *path);
const char *__wrap_path_below(const char *root, const char *path);

int __wrap_strcmp(const char *a, const char *b)
{
	comparisons++;
	return __real_strcmp(a, b);
}

const char *__wrap_path_below(const char *root, const char *path)
{
	comparisons++;
	return __real_path_below(root, path);
}

/* -- snapshots that are in no index: above the roots nothing else is looked at -- */

enum {
	ROOTS_MAX = 64
};

struct made {
	struct snap_list all;
	char root[ROOTS_MAX][64];
};

static void make(struct made *m, size_t n, size_t n_roots, uint64_t seed)
{
	m->all = (struct snap_list){ .info = calloc(n, sizeof(struct snap_info *)), .n = n };
	for (size_t i = 0; i < n; i++) {
		struct snap_info *info = calloc(1, sizeof(*info));

		info->id = (int64_t)(2 * i + 1);
		info->time = (int64_t)(1000 + 10 * i);
		info->root = m->root[tree_draw(&seed) % n_roots];
		info->ref = 1 + tree_draw(&seed) % 3;
		info->totals.bytes = 512 * (tree_draw(&seed) % 100);
		info->totals.files = tree_draw(&seed) % 100;
		m->all.info[i] = info;
	}
}

static void unmake(struct made *m)
{
	for (size_t i = 0; i < m->all.n; i++)
		free(m->all.info[i]);
	free(m->all.info);
}

/* Roots in and beside each other, some with names that another one begins with. */
static void nested_roots(struct made *m)
{
	static const char *const roots[] = { "/a",   "/a/b",     "/a/b/c", "/a-b", "/ab",
		                             "/d/e", "/d/e/f/g", "/a!",    "/",    "/d/e2" };

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		(void)snprintf(m->root[i], sizeof(m->root[i]), "%s", roots[i]);
}

static int render(const char *name, const char *path, const struct snap_list *all,
                  const _Atomic bool *stop, struct text *out)
{
	struct usage_dir d = { .all = all, .path = path, .stop = stop };

	return usage_text(&d, (uint8_t)usage_file_find(USAGE_HERE, name), &(struct viewer){ 0 },
	                  out);
}

/* -- the model: what the manual says, without any thought of speed -- */

static bool model_is_inner(const struct snap_list *all, const char *root, size_t until)
{
	for (size_t i = 0; i <= until; i++)
		if (__real_strcmp(all->info[i]->root, root) != 0 &&
		    __real_path_below(all->info[i]->root, root))
			return true;
	return false;
}

static const struct snap_info *model_newest(const struct snap_list *all, const char *root,
                                            size_t end)
{
	while (end-- > 0)
		if (__real_strcmp(all->info[end]->root, root) == 0)
			return all->info[end];
	return NULL;
}

static void model_history(const struct snap_list *all, const char *path, struct text *out)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct snap_info *now = all->info[i], *before;
		uint64_t bytes = 0, files = 0;

		before = model_newest(all, now->root, i);
		if (!__real_path_below(path, now->root) || model_is_inner(all, now->root, i) ||
		    (before && before->ref == now->ref))
			continue;
		for (size_t j = 0; j <= i; j++) {
			const struct snap_info *one = all->info[j];

			if (!__real_path_below(path, one->root) ||
			    model_is_inner(all, one->root, i) ||
			    model_newest(all, one->root, i + 1) != one)
				continue;
			bytes += one->totals.bytes;
			files += one->totals.files;
		}
		text_printf(out, "%lld\t%llu\t%llu\t%lld\n", (long long)now->time,
		            (unsigned long long)bytes, (unsigned long long)files,
		            (long long)now->id);
	}
}

static void assert_same_text(struct text *a, struct text *b)
{
	assert_false(a->failed || b->failed);
	assert_int_equal(a->len, b->len);
	if (a->len)
		assert_memory_equal(a->p, b->p, a->len);
	text_done(a);
	text_done(b);
}

static void history_above_the_roots_is_what_the_manual_says(void **state)
{
	static const char *const paths[] = { "/", "/a", "/d", "/d/e", "/x" };
	static struct made m;

	(void)state;
	nested_roots(&m);
	for (uint64_t seed = 1; seed <= 40; seed++) {
		/* The first two roots alone, then more and more, "/" among the last. */
		make(&m, 60, 2 + seed % 9, seed);
		for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
			struct text text = { 0 }, model = { 0 };

			assert_int_equal(render("history", paths[i], &m.all, NULL, &text), 0);
			model_history(&m.all, paths[i], &model);
			assert_same_text(&text, &model);
		}
		unmake(&m);
	}
}

static uint64_t work_of(size_t n, size_t n_roots)
{
	static struct made m;
	struct text text = { 0 };

	for (size_t i = 0; i < n_roots; i++)
		(void)snprintf(m.root[i], sizeof(m.root[i]), "/srv/%zu", i);
	make(&m, n, n_roots, 7);
	comparisons = 0;
	assert_int_equal(render("history", "/srv", &m.all, NULL, &text), 0);
	assert_true(text.len > n * 10 / 2);
	text_done(&text);
	unmake(&m);
	return comparisons;
}

static void history_above_the_roots_is_one_pass(void **state)
{
	(void)state;
	assert_in_range(work_of(2000, 2), 1, 2000 * 2 * 2);
	assert_in_range(work_of(2000, 40), 1, 2000 * 40);
	/* Ten times the snapshots, ten times the work. */
	assert_in_range(work_of(20000, 2), 1, 11 * work_of(2000, 2));
}

static void whoever_is_gone_gets_no_history(void **state)
{
	_Atomic bool stop = true;
	struct text text = { 0 };
	static struct made m;

	(void)state;
	nested_roots(&m);
	make(&m, 60, 8, 3);
	assert_int_equal(render("history", "/", &m.all, &stop, &text), -EINTR);
	assert_int_equal(text.len, 0);
	text_done(&text);
	unmake(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(history_above_the_roots_is_what_the_manual_says),
		cmocka_unit_test(history_above_the_roots_is_one_pass),
		cmocka_unit_test(whoever_is_gone_gets_no_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
