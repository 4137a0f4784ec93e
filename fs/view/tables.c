/* SPDX-License-Identifier: MIT */
/*
 * render_tables - the lists: number first, path last, TAB between; the twins NUL-separated and raw.
 */
#include "fs/view/internal.h"

#include <stdio.h>

enum {
	ROWS_MAX = 50
};

void table_text_line(const struct usage_dir *d, struct text *out, const char *first,
                     const char *path, size_t len)
{
	text_puts(out, first);
	text_puts(out, "\t");
	if (d->raw) {
		text_add(out, path, len);
		text_add(out, "", 1);
	} else {
		text_escaped(out, path, len);
		text_puts(out, "\n");
	}
}

void table_line(const struct usage_dir *d, struct text *out, uint64_t number, const char *path,
                size_t len)
{
	struct text first = { 0 };

	text_u64(&first, number);
	text_add(&first, "", 1);
	if (first.failed)
		out->failed = true;
	else
		table_text_line(d, out, first.p, path, len);
	text_done(&first);
}

static int render_best(const struct usage_dir *d, struct text *out, enum best_what what)
{
	struct best b;
	int r = best_find(d, what, ROWS_MAX, &b);

	if (r < 0)
		return r;
	for (size_t i = 0; i < b.n; i++)
		table_line(d, out, b.item[i].value, b.item[i].path, b.item[i].path_len);
	best_done(&b);
	return 0;
}

int render_top(const struct usage_dir *d, struct text *out)
{
	return render_best(d, out, BEST_DIRS);
}

int render_largest(const struct usage_dir *d, struct text *out)
{
	return render_best(d, out, BEST_FILES);
}

int render_crowded(const struct usage_dir *d, struct text *out)
{
	return render_best(d, out, BEST_CROWDED);
}

/* -- children -------------------------------------------------------------------------------- */

struct child {
	uint64_t bytes;
	uint64_t ordinal; /* listing order is name order */
};

static int order_children(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

static int entry_bytes(const struct usage_dir *d, const struct snap_entry *e, uint64_t *ret)
{
	struct snap_node n;
	int r;

	*ret = e->meta.blocks * 512;
	if (e->type != SCAN_DIR || !e->child)
		return 0;
	r = snap_head_get(d->s, e->child, &n);
	if (r < 0)
		return r;
	*ret = n.totals.bytes;
	snap_node_put(d->s, &n);
	return 0;
}

static int collect_children(const struct usage_dir *d, struct child *c, size_t *n)
{
	struct snap_iter it;
	int r = 0, more = 0;

	*n = 0;
	snap_iter_init(&it, d->node);
	while (r == 0 && (more = snap_iter_next(&it)) > 0) {
		if (!snap_entry_exists(&it.e))
			continue;
		if (it.e.ordinal % 1024 == 0 && usage_is_stopped(d))
			return -EINTR;
		c[*n].ordinal = it.e.ordinal;
		r = entry_bytes(d, &it.e, &c[*n].bytes);
		++*n;
	}
	return r ? r : more;
}

int render_children(const struct usage_dir *d, struct text *out)
{
	AUTO(base_free) struct child *c = calloc(d->node->n_entries + 1, sizeof(*c));
	struct snap_iter it;
	size_t n;
	int r = c ? collect_children(d, c, &n) : -ENOMEM;

	if (r < 0)
		return r;
	qsort(c, n, sizeof(*c), order_children);
	snap_iter_init(&it, d->node);
	for (size_t i = 0; i < n; i++) {
		r = snap_iter_seek(&it, c[i].ordinal);
		if (r == 0 && snap_iter_next(&it) <= 0)
			r = -EUCLEAN;
		if (r < 0)
			return r;
		table_line(d, out, c[i].bytes, it.e.name, it.e.name_len);
	}
	return 0;
}

/* -- errors.list ----------------------------------------------------------------------------- */

struct pending {
	uint64_t ref;
	char *path;
};

struct problems {
	const struct usage_dir *d;
	struct text *out;
	struct pending *stack;
	size_t n, cap;
};

static void problem_line(struct problems *t, unsigned problem, int error, const char *path,
                         size_t len)
{
	const char *reason = scan_problem_name(problem);

	if (problem == SCAN_ERROR && error)
		reason = strerrorname_np(error);
	table_text_line(t->d, t->out, reason ? reason : "error", path, len);
}

static bool has_problem(const struct scan_totals *t)
{
	return t->errors | t->vanished | t->changed | t->skipped;
}

static int push_problem(struct problems *t, uint64_t ref, char *path)
{
	int r = path ? base_reserve(&t->stack, &t->cap, t->n + 1, sizeof(*t->stack)) : -ENOMEM;

	if (r < 0)
		free(path);
	else
		t->stack[t->n++] = (struct pending){ ref, path };
	return r;
}

static char *join(const char *dir, const char *name)
{
	char *p;

	if (asprintf(&p, "%s%s%s", dir, *dir ? "/" : "", name) < 0)
		return NULL;
	return p;
}

static int problem_entry(struct problems *t, const struct pending *at, const struct snap_node *dir,
                         const struct snap_entry *e)
{
	struct snap_node n;
	char *path;
	bool deeper;
	int r = 0;

	if (e->type != SCAN_DIR && !e->problem)
		return 0;
	path = join(at->path, e->name);
	if (!path)
		return -ENOMEM;
	if (!e->problem) {
		r = snap_child_head(t->d->s, dir, e->child, &n);
		deeper = r == 0 && has_problem(&n.totals);
		if (r == 0)
			snap_node_put(t->d->s, &n);
		if (deeper)
			return push_problem(t, e->child, path);
	} else {
		problem_line(t, e->problem, e->error, path, strlen(path));
	}
	free(path);
	return r;
}

static int problem_dir(struct problems *t, const struct pending *at)
{
	struct snap_iter it;
	struct snap_node n;
	int more = 0, r = snap_node_get(t->d->s, at->ref, &n);

	if (r < 0)
		return r;
	if (n.problem)
		problem_line(t, n.problem, n.error, *at->path ? at->path : ".",
		             *at->path ? strlen(at->path) : 1);
	snap_iter_init(&it, &n);
	while (r == 0 && (more = snap_iter_next(&it)) > 0)
		r = usage_is_stopped(t->d) ? -EINTR : problem_entry(t, at, &n, &it.e);
	snap_node_put(t->d->s, &n);
	return r ? r : more;
}

/* Only directories whose counters say so are opened. */
int render_errors(const struct usage_dir *d, struct text *out)
{
	struct problems t = { .d = d, .out = out };
	int r = has_problem(&d->node->totals) ? push_problem(&t, d->node->ref, strdup("")) : 0;

	while (r == 0 && t.n) {
		struct pending at = t.stack[--t.n];

		r = problem_dir(&t, &at);
		free(at.path);
	}
	while (t.n)
		free(t.stack[--t.n].path);
	free(t.stack);
	return r;
}
