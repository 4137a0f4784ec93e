/* SPDX-License-Identifier: MIT */
/*
 * best - the greatest directories or files below one, reading only what can matter.
 *
 * A directory's total bounds everything below it. So directories wait in a heap by total, the greatest
 * is opened first, and the search ends when no waiting total can beat the results. Equal values are
 * ordered by path, so a result never depends on the order of the search.
 */
#include "fs/view/internal.h"

struct open_dir { /* a directory that waits to be looked into */
	uint64_t bound, ref;
	char *path;
	size_t len;
};

struct search {
	const struct usage_dir *d;
	enum best_what what;
	size_t want;
	struct open_dir *heap; /* greatest bound first */
	size_t n, cap;
	struct best_item *result; /* greatest first */
	uint64_t *link;           /* inode of a result with several names, 0 otherwise */
	size_t n_results;
};

static bool comes_before(const struct open_dir *a, const struct open_dir *b)
{
	if (a->bound != b->bound)
		return a->bound > b->bound;
	return strcmp(a->path, b->path) < 0;
}

static void swap(struct open_dir *a, struct open_dir *b)
{
	struct open_dir t = *a;

	*a = *b;
	*b = t;
}

static int heap_push(struct search *s, uint64_t bound, uint64_t ref, const char *dir,
                     size_t dir_len, const char *name, size_t len)
{
	struct open_dir *o;
	size_t i = s->n;
	char *p;
	int r = base_reserve(&s->heap, &s->cap, s->n + 1, sizeof(*s->heap));

	if (r < 0)
		return r;
	p = malloc(dir_len + len + 2);
	if (!p)
		return -ENOMEM;
	o = &s->heap[s->n++];
	*o = (struct open_dir){ bound, ref, p, dir_len + (dir_len > 0) + len };
	memcpy(p, dir, dir_len);
	p += dir_len;
	if (dir_len)
		*p++ = '/';
	memcpy(p, name, len);
	p[len] = '\0';
	for (; i && comes_before(&s->heap[i], &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&s->heap[i], &s->heap[(i - 1) / 2]);
	return 0;
}

static struct open_dir heap_pop(struct search *s)
{
	struct open_dir top = s->heap[0];

	s->heap[0] = s->heap[--s->n];
	for (size_t i = 0;;) {
		size_t best = i;

		for (size_t c = 2 * i + 1; c < MIN(2 * i + 3, s->n); c++)
			if (comes_before(&s->heap[c], &s->heap[best]))
				best = c;
		if (best == i)
			break;
		swap(&s->heap[i], &s->heap[best]);
		i = best;
	}
	return top;
}

static uint64_t worst(const struct search *s)
{
	return s->n_results == s->want ? s->result[s->want - 1].value : 0;
}

static bool item_before(uint64_t value, const char *path, const struct best_item *b)
{
	return value != b->value ? value > b->value : strcmp(path, b->path) < 0;
}

static bool is_linked_already(const struct search *s, uint64_t link)
{
	for (size_t i = 0; link && i < s->n_results; i++)
		if (s->link[i] == link)
			return true;
	return false;
}

static int add_result(struct search *s, uint64_t value, uint64_t link, const char *dir,
                      size_t dir_len, const char *name, size_t len)
{
	size_t path_len = dir_len + (dir_len && len) + len, at;
	char *path;

	if ((s->n_results == s->want && value < worst(s)) || is_linked_already(s, link))
		return 0;
	path = malloc(path_len + 1);
	if (!path)
		return -ENOMEM;
	memcpy(path, dir, dir_len);
	if (dir_len && len)
		path[dir_len] = '/';
	memcpy(path + path_len - len, name, len);
	path[path_len] = '\0';
	for (at = s->n_results; at && item_before(value, path, &s->result[at - 1]); at--)
		;
	if (at == s->want) {
		free(path);
		return 0;
	}
	if (s->n_results == s->want)
		free(s->result[--s->n_results].path);
	memmove(&s->result[at + 1], &s->result[at], (s->n_results - at) * sizeof(*s->result));
	memmove(&s->link[at + 1], &s->link[at], (s->n_results - at) * sizeof(*s->link));
	s->result[at] = (struct best_item){ value, path, path_len };
	s->link[at] = link;
	s->n_results++;
	return 0;
}

static uint64_t bound_of(enum best_what what, const struct scan_totals *t)
{
	return what == BEST_CROWDED ? t->entries : t->bytes;
}

/* Queue a sub-directory if something in it may be among the best. */
static int add_dir(struct search *s, const struct open_dir *parent, const struct snap_node *n,
                   const struct snap_entry *e, uint64_t *largest_child)
{
	struct snap_node child;
	uint64_t bound;
	int r = snap_child_head(s->d->s, n, e->child, &child);

	if (r < 0)
		return r;
	bound = bound_of(s->what, &child.totals);
	*largest_child = MAX(*largest_child, child.totals.bytes);
	snap_node_put(s->d->s, &child);
	if (s->n_results == s->want && bound < worst(s))
		return 0;
	return heap_push(s, bound, e->child, parent->path, parent->len, e->name, e->name_len);
}

static int look_at(struct search *s, const struct open_dir *o, const struct snap_node *n,
                   const struct snap_entry *e, uint64_t *largest_child, uint64_t *present)
{
	if (!snap_entry_exists(e))
		return 0;
	++*present;
	if (e->type == SCAN_DIR && e->child)
		return add_dir(s, o, n, e, largest_child);
	if (s->what != BEST_FILES || e->type != SCAN_FILE)
		return 0;
	return add_result(s, e->meta.blocks * 512, e->meta.multi ? e->meta.ino : 0, o->path, o->len,
	                  e->name, e->name_len);
}

/* Look into one directory; itself a result, unless all it holds is one child that stands for it. */
static int open_one(struct search *s, const struct open_dir *o, bool is_start)
{
	uint64_t largest_child = 0, present = 0;
	struct snap_iter it;
	struct snap_node n;
	int r = snap_node_get(s->d->s, o->ref, &n), more = 0;

	if (r < 0)
		return r;
	snap_iter_init(&it, &n);
	while (r == 0 && (more = snap_iter_next(&it)) > 0) {
		if (it.e.ordinal % 1024 == 0 && usage_is_stopped(s->d))
			r = -EINTR;
		else
			r = look_at(s, o, &n, &it.e, &largest_child, &present);
	}
	if (r == 0 && more < 0)
		r = more;
	if (r == 0 && s->what == BEST_CROWDED)
		r = add_result(s, present, 0, is_start ? "." : o->path, is_start ? 1 : o->len, "",
		               0);
	if (r == 0 && s->what == BEST_DIRS && !is_start &&
	    largest_child + n.meta.blocks * 512 < n.totals.bytes)
		r = add_result(s, n.totals.bytes, 0, o->path, o->len, "", 0);
	snap_node_put(s->d->s, &n);
	return r;
}

static bool may_improve(const struct search *s)
{
	return s->n_results < s->want || s->heap[0].bound >= worst(s);
}

int best_find(const struct usage_dir *d, enum best_what what, size_t want, struct best *ret)
{
	struct search s = { .d = d, .what = what, .want = want };
	bool is_start = true;
	int r = 0;

	s.result = calloc(want + 1, sizeof(*s.result));
	s.link = calloc(want + 1, sizeof(*s.link));
	if (!s.result || !s.link)
		r = -ENOMEM;
	if (r == 0)
		r = heap_push(&s, UINT64_MAX, d->node->ref, "", 0, "", 0);
	while (r == 0 && s.n && may_improve(&s)) {
		struct open_dir o = heap_pop(&s);

		r = usage_is_stopped(d) ? -EINTR : open_one(&s, &o, is_start);
		is_start = false;
		free(o.path);
	}
	for (size_t i = 0; i < s.n; i++)
		free(s.heap[i].path);
	free(s.heap);
	free(s.link);
	*ret = (struct best){ s.result, s.n_results };
	if (r < 0)
		best_done(ret);
	return r;
}

void best_done(struct best *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->item[i].path);
	free(b->item);
	*b = (struct best){ 0 };
}
