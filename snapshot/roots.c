/* SPDX-License-Identifier: MIT */
/* roots - the snapshots of a list by root, so that each root's own are found without the others. */
#include "snapshot/internal.h"

#include "base/path.h"

/* A slash sorts before everything else, so that what is below a directory follows it. */
static int order_paths(const char *a, const char *b)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;

	for (; *x && *x == *y; x++, y++)
		;
	return (*x == '/' ? 1 : *x ? *x + 1 : 0) - (*y == '/' ? 1 : *y ? *y + 1 : 0);
}

static int order_by_root(const void *a, const void *b)
{
	const struct snap_info *x = *(struct snap_info *const *)a;
	const struct snap_info *y = *(struct snap_info *const *)b;
	int c = order_paths(x->root, y->root);

	return c ? c : (x->id > y->id) - (x->id < y->id);
}

/* Each root lies in the nearest one before it that holds it, or in what that one lies in. */
static void find_outer(struct snap_roots *r, size_t i)
{
	struct snap_root *at = &r->root[i];

	at->outer = i ? i - 1 : SIZE_MAX;
	while (at->outer != SIZE_MAX && !path_below(r->root[at->outer].path, at->path))
		at->outer = r->root[at->outer].outer;
	at->outer_since = INT64_MAX;
	if (at->outer != SIZE_MAX)
		at->outer_since =
			MIN(r->root[at->outer].info[0]->id, r->root[at->outer].outer_since);
}

int snap_roots_get(const struct snap_list *all, struct snap_roots *ret)
{
	struct snap_roots r = { .info = calloc(all->n + 1, sizeof(struct snap_info *)) };
	size_t cap = 0;

	if (!r.info)
		return -ENOMEM;
	if (all->n)
		memcpy(r.info, all->info, all->n * sizeof(struct snap_info *));
	qsort(r.info, all->n, sizeof(struct snap_info *), order_by_root);
	for (size_t i = 0; i < all->n; i++) {
		if (r.n && strcmp(r.root[r.n - 1].path, r.info[i]->root) == 0) {
			r.root[r.n - 1].n++;
			continue;
		}
		if (base_reserve(&r.root, &cap, r.n + 1, sizeof(*r.root)) < 0) {
			snap_roots_done(&r);
			return -ENOMEM;
		}
		r.root[r.n++] =
			(struct snap_root){ .path = r.info[i]->root, .info = &r.info[i], .n = 1 };
	}
	for (size_t i = 0; i < r.n; i++)
		find_outer(&r, i);
	*ret = r;
	return 0;
}

void snap_roots_done(struct snap_roots *r)
{
	free(r->root);
	free(r->info);
	*r = (struct snap_roots){ 0 };
}

const struct snap_root *snap_root_find(const struct snap_roots *r, const char *path)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = order_paths(path, r->root[mid].path);

		if (c == 0)
			return &r->root[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

/* The number of snapshots with an id below before. */
static size_t bisect(struct snap_info *const *info, size_t n, int64_t before)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (info[mid]->id < before)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

size_t snap_list_before(const struct snap_list *l, int64_t before)
{
	return bisect(l->info, l->n, before);
}

const struct snap_info *snap_root_before(const struct snap_root *root, int64_t before)
{
	size_t n = root ? bisect(root->info, root->n, before) : 0;

	return n ? root->info[n - 1] : NULL;
}
