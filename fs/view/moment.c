/* SPDX-License-Identifier: MIT */
/*
 * moment - which snapshot a path is of, now or in the past, and what it was then.
 *
 * Paths are absolute, those of the source. The past is named by the id of a snapshot: what came later is
 * not in it. On the way to the roots it is all of them as they were when that snapshot was taken.
 */
#include "fs/view/internal.h"

const struct snap_info *gen_info(const struct gen *g, int64_t id)
{
	size_t i = snap_list_before(&g->all, id);

	return i < g->all.n && g->all.info[i]->id == id ? g->all.info[i] : NULL;
}

const struct snap_info *view_snapshot_now(const struct gen *g, const char *path)
{
	const struct snap_info *found = NULL;

	for (size_t i = 0; i < g->list.n; i++) /* an outer root comes before an inner one */
		if (!g->hidden[i] && path_below(g->list.info[i]->root, path))
			found = g->list.info[i];
	return found;
}

/* The newest snapshot of root i until id. */
static const struct snap_info *root_then(const struct gen *g, size_t i, int64_t id)
{
	return snap_root_before(snap_root_find(&g->roots, g->list.info[i]->root),
	                        id < INT64_MAX ? id + 1 : id);
}

/* Of a root inside another root's tree the newer one shows, as in the present. */
const struct snap_info *view_snapshot_then(struct view *v, const struct gen *g, const char *path,
                                           int64_t id)
{
	const struct snap_info *found = NULL;

	for (size_t i = 0; i < g->list.n; i++) {
		const struct snap_info *then;
		uint64_t ref;

		if (!path_below(g->list.info[i]->root, path))
			continue;
		then = root_then(g, i, id);
		if (then && (!found || found->id < then->id ||
		             snap_path_ref(v->s, found->ref, path_below(found->root, then->root),
		                           &ref) == -ENOENT))
			found = then;
	}
	return found;
}

int64_t view_asof(const struct gen *g, const struct snap_info *shown, int64_t until)
{
	int64_t oldest = INT64_MAX;

	if (shown)
		return shown->time;
	for (size_t i = 0; i < g->list.n; i++) {
		const struct snap_info *then =
			until == INT64_MAX ? g->list.info[i] : root_then(g, i, until);

		if (then)
			oldest = MIN(oldest, then->time);
	}
	return oldest < INT64_MAX ? oldest : 0;
}

static int64_t newest_time(const struct gen *g)
{
	int64_t t = INT64_MIN;

	for (size_t i = 0; i < g->list.n; i++)
		t = MAX(t, g->list.info[i]->time);
	return t;
}

const struct snap_info *view_select_then(const struct gen *g, const struct snap_info *shown,
                                         const char *name)
{
	const char *root = shown ? shown->root : NULL;
	int64_t now = shown ? shown->time : newest_time(g);
	size_t i;
	int r;

	if (shown && strcmp(name, "prev") == 0)
		return snap_root_before(snap_root_find(&g->roots, root), shown->id);
	r = snap_select(&g->all, root, name, now, &i);
	return r < 0 ? NULL : g->all.info[i];
}

/* There are any number of names for a moment, but only as many moments as snapshots. */
static int top_then(struct view *v, struct gen *g, int64_t id, uint64_t *ret)
{
	AUTO(base_free) uint64_t *refs = NULL;
	int r;

	for (size_t i = 0; i < g->n_then; i++) {
		if (g->then[i].id == id) {
			*ret = g->then[i].ref;
			return 0;
		}
	}
	refs = calloc(g->list.n + 1, sizeof(*refs));
	r = refs ? base_reserve(&g->then, &g->cap_then, g->n_then + 1, sizeof(*g->then)) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < g->list.n; i++) {
		const struct snap_info *then = root_then(g, i, id);

		refs[i] = then ? then->ref : 0;
	}
	if (r == 0)
		r = join_refs(v, g, refs, ret);
	if (r == 0)
		g->then[g->n_then++] = (struct then){ .id = id, .ref = *ret };
	return r;
}

/* Above the roots: all of them as they were when that snapshot was taken. */
static int join_then(struct view *v, struct gen *g, int64_t id, const char *path, uint64_t *ret)
{
	const char *below = path_below(v->root ? v->root : "/", path);
	int r;

	(void)pthread_mutex_lock(&g->lock);
	r = top_then(v, g, id, ret);
	(void)pthread_mutex_unlock(&g->lock);
	return r < 0 ? r : snap_path_ref(v->s, *ret, below ? below : "", ret);
}

int view_ref_then(struct view *v, struct gen *g, const char *path, const struct snap_info *shown,
                  const struct snap_info *then, uint64_t *ret)
{
	const char *below;

	if (!shown)
		return join_then(v, g, then->id, path, ret);
	below = path_below(then->root, path);
	return below ? snap_path_ref(v->s, then->ref, below, ret) : -ENOENT;
}
