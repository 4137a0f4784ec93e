/* SPDX-License-Identifier: MIT */
/*
 * resolve - from a path as a mount shows it to the directory, and the virtual file if it names one.
 *
 *     PATH  PATH/.usage/X  PATH/.usage/growth/1d  PATH/.usage/at/prev/SUB/.usage/X  /.growth/1d/PATH/.usage/delta
 *
 * The path is walked component by component: real names lead from node to node, .usage/at/TIME into the
 * past of where it is, .growth/WINDOW into the tree of growth.
 */
#include "fs/view/internal.h"

struct walk {
	struct view *v;
	struct gen *g;
	struct view_found *f;
	uint64_t ref;
	int64_t until;                /* the past ends with this snapshot; INT64_MAX: the present */
	const struct snap_info *root; /* what the directory showed whose past was entered first */
	const char *rest;             /* of the path */
	char name[300];               /* the component before it */
};

/* The next component into name. 0 at the end. */
static int next_name(struct walk *w)
{
	size_t len;

	w->rest += strspn(w->rest, "/");
	len = strcspn(w->rest, "/");
	if (len >= sizeof(w->name))
		return -ENAMETOOLONG;
	memcpy(w->name, w->rest, len);
	w->name[len] = '\0';
	w->rest += len;
	return len > 0;
}

static const struct snap_info *shown(const struct walk *w)
{
	const char *path = w->f->path.p;

	if (w->until == INT64_MAX)
		return view_snapshot_now(w->g, path);
	return w->root ? gen_info(w->g, w->until) : view_snapshot_then(w->v, w->g, path, w->until);
}

static bool is_at_top(const struct walk *w)
{
	return w->until == INT64_MAX && !w->f->in_growth &&
	       strcmp(w->f->path.p, w->v->root ? w->v->root : "/") == 0;
}

/* Paths end with a NUL that does not count. */
static int add_name(struct text *path, const char *name)
{
	if (path->len > 1)
		text_puts(path, "/");
	text_puts(path, name);
	text_add(path, "", 1);
	if (path->failed)
		return -ENOMEM;
	path->len--;
	return 0;
}

static int enter_real(struct walk *w)
{
	struct snap_entry e = { 0 };
	struct snap_node n;
	char real[256];
	int r;

	if (!name_to_real(is_at_top(w), w->name, real))
		return -ENOENT;
	r = snap_node_get(w->v->s, w->ref, &n);
	if (r < 0)
		return r;
	r = snap_node_find(&n, real, strlen(real), &e, NULL);
	snap_node_put(w->v->s, &n);
	if (r <= 0 || !snap_entry_exists(&e))
		return r < 0 ? r : -ENOENT;
	if (e.type != SCAN_DIR || !e.child)
		return -ENOTDIR;
	w->ref = e.child;
	return add_name(&w->f->path, real);
}

static int enter_past(struct walk *w)
{
	const struct snap_info *from = shown(w), *then;
	int r = next_name(w);

	if (r <= 0)
		return r < 0 ? r : -EISDIR;
	then = view_select_then(w->g, from, w->name);
	if (!then)
		return -ENOENT;
	r = view_ref_then(w->v, w->g, w->f->path.p, from, then, &w->ref);
	if (w->until == INT64_MAX)
		w->root = from;
	w->until = then->id;
	return r;
}

static int enter_growth(struct walk *w)
{
	int window, r = next_name(w);

	if (r <= 0)
		return r < 0 ? r : -EISDIR;
	window = window_find(w->name);
	if (window < 0)
		return -ENOENT;
	w->f->in_growth = true;
	(void)pthread_mutex_lock(&w->g->lock);
	r = grown_make(w->v, w->g, (size_t)window, &w->ref);
	(void)pthread_mutex_unlock(&w->g->lock);
	return r;
}

/* In .usage: a file, or the way into the past. */
static int enter_usage(struct walk *w)
{
	enum usage_where where = USAGE_HERE;
	int file, r = next_name(w);

	if (r > 0 && strcmp(w->name, "at") == 0)
		return w->f->in_growth ? -ENOENT : enter_past(w);
	if (r > 0 && strcmp(w->name, "growth") == 0) {
		where = USAGE_GROWTH;
		r = next_name(w);
	}
	if (r <= 0)
		return r < 0 ? r : -EISDIR;
	file = usage_file_find(where, w->name);
	if (file < 0 || usage_files[file & ~USAGE_TWIN].grown != w->f->in_growth)
		return -ENOENT;
	w->f->file = file;
	return *w->rest ? -ENOTDIR : 0;
}

static int walk(struct walk *w)
{
	int r;

	while ((r = next_name(w)) > 0 && w->f->file < 0) {
		if (strcmp(w->name, ".usage") == 0)
			r = enter_usage(w);
		else if (strcmp(w->name, ".growth") == 0 && is_at_top(w))
			r = enter_growth(w);
		else
			r = enter_real(w);
		if (r < 0)
			return r;
	}
	return r;
}

int view_resolve(struct view *v, const char *path, struct view_found *ret)
{
	const char *top = v->root ? v->root : "/";
	struct walk w = { .v = v, .f = ret, .until = INT64_MAX, .rest = path_below(top, path) };
	int r;

	*ret = (struct view_found){ .v = v, .file = -1 };
	if (!w.rest)
		return -ENOENT;
	ret->g = w.g = view_now(v);
	w.ref = w.g->top_ref;
	r = add_name(&ret->path, top);
	if (r == 0)
		r = walk(&w);
	if (r == 0)
		r = snap_node_get(v->s, w.ref, &ret->node);
	if (r < 0) {
		view_found_done(ret);
		return r;
	}
	ret->until = w.g->all;
	if (w.until < INT64_MAX)
		ret->until.n = snap_list_before(&ret->until, w.until + 1);
	ret->dir = (struct usage_dir){
		.s = v->s,
		.node = &ret->node,
		.snapshot = ret->in_growth ? NULL : shown(&w),
		.all = &ret->until,
		.path = ret->path.p,
		.raw = ret->file >= 0 && ret->file & USAGE_TWIN,
	};
	ret->dir.asof = view_asof(w.g, ret->dir.snapshot, w.until);
	return 0;
}

void view_found_done(struct view_found *f)
{
	if (f->node.ref)
		snap_node_put(f->v->s, &f->node);
	text_done(&f->path);
	gen_put(f->v, f->g);
	*f = (struct view_found){ 0 };
}
