/* SPDX-License-Identifier: MIT */
/*
 * diff - two trees side by side; equal refs are equal trees and are passed over.
 *
 *     a pair of directories -> the same sub-directories by name? compare child by child
 *                              else merge their listings -> pairs that differ wait on a stack
 *                           -> what the sub-directories do not explain is the directory's own part
 *
 * Most is decided by heads. Listings are read for names: of the newer directory, where something below it
 * differs, and of both, where sub-directories came or went.
 */
#include "snapshot/internal.h"

struct waiting {
	uint64_t a, b;
	char *path;
	size_t len;
};

struct walk {
	struct snap *s;
	struct waiting *stack;
	size_t n, cap;
	struct snap_changes out;
	size_t out_cap;
};

static char *join(const char *dir, size_t dir_len, const char *name, size_t len, size_t *ret_len)
{
	char *p = malloc(dir_len + len + 2);

	if (!p)
		return NULL;
	memcpy(p, dir, dir_len);
	if (dir_len && len)
		p[dir_len++] = '/';
	memcpy(p + dir_len, name, len);
	p[dir_len + len] = '\0';
	*ret_len = dir_len + len;
	return p;
}

static int push(struct walk *w, uint64_t a, uint64_t b, const struct waiting *parent,
                const struct snap_entry *e)
{
	struct waiting *at;
	int r = base_reserve(&w->stack, &w->cap, w->n + 1, sizeof(*w->stack));

	if (r < 0)
		return r;
	at = &w->stack[w->n];
	*at = (struct waiting){ .a = a, .b = b };
	at->path = parent ? join(parent->path, parent->len, e->name, e->name_len, &at->len)
	                  : strdup("");
	if (!at->path)
		return -ENOMEM;
	w->n++;
	return 0;
}

static struct snap_change difference(const struct scan_totals *a, const struct scan_totals *b)
{
	static const struct scan_totals none;

	a = a ? a : &none;
	b = b ? b : &none;
	return (struct snap_change){
		.bytes = (int64_t)(b->bytes - a->bytes),
		.apparent = (int64_t)(b->apparent - a->apparent),
		.files = (int64_t)(b->files - a->files),
		.entries = (int64_t)(b->entries - a->entries),
	};
}

static void subtract(struct snap_change *from, const struct snap_change *c)
{
	from->bytes -= c->bytes;
	from->apparent -= c->apparent;
	from->files -= c->files;
	from->entries -= c->entries;
}

static int emit(struct walk *w, const struct snap_change *c, const char *dir, size_t dir_len,
                const char *name, size_t len)
{
	struct snap_change *out;
	int r;

	if (!(c->bytes | c->apparent | c->files | c->entries))
		return 0;
	r = base_reserve(&w->out.c, &w->out_cap, w->out.n + 1, sizeof(*w->out.c));
	if (r < 0)
		return r;
	out = &w->out.c[w->out.n];
	*out = *c;
	out->path = join(dir, dir_len, name, len, &out->path_len);
	if (!out->path)
		return -ENOMEM;
	w->out.n++;
	return 0;
}

/* A sub-directory that is only on one side stands for all below it. */
static int whole(struct walk *w, const struct waiting *at, const struct snap_entry *e, uint64_t ref,
                 bool created, struct snap_change *own)
{
	struct snap_change c;
	struct snap_node n;
	int r = snap_head_get(w->s, ref, &n);

	if (r < 0)
		return r;
	c = created ? difference(NULL, &n.totals) : difference(&n.totals, NULL);
	c.entries += created ? 1 : -1;
	c.kind = created ? SNAP_CREATED : SNAP_DELETED;
	snap_node_put(w->s, &n);
	subtract(own, &c);
	return emit(w, &c, at->path, at->len, e->name, e->name_len);
}

/* Two that differ; without sub-directories their totals say it all, and nothing of them is listed. */
static int both(struct walk *w, const struct waiting *at, const struct snap_node *dir_a,
                const struct snap_node *dir_b, const struct snap_entry *e, uint64_t a, uint64_t b,
                struct snap_change *own)
{
	struct snap_node na, nb;
	struct snap_change c;
	int r = snap_child_head(w->s, dir_a, a, &na);

	if (r < 0)
		return r;
	r = snap_child_head(w->s, dir_b, b, &nb);
	if (r == 0) {
		c = difference(&na.totals, &nb.totals);
		subtract(own, &c);
		r = na.n_children | nb.n_children
		            ? push(w, a, b, at, e)
		            : emit(w, &c, at->path, at->len, e->name, e->name_len);
		snap_node_put(w->s, &nb);
	}
	snap_node_put(w->s, &na);
	return r;
}

/* What was and what is a sub-directory of this name; 0: none. */
static int pair(struct walk *w, const struct waiting *at, const struct snap_node *na,
                const struct snap_node *nb, const struct snap_entry *e, uint64_t a, uint64_t b,
                struct snap_change *own)
{
	int r = 0;

	if (a == b)
		return 0;
	if (a && b)
		return both(w, at, na, nb, e, a, b, own);
	if (a)
		r = whole(w, at, e, a, false, own);
	if (r == 0 && b)
		r = whole(w, at, e, b, true, own);
	return r;
}

struct child_iter {
	const uint8_t *p, *end;
	uint64_t last;
};

static struct child_iter children_of(const struct snap_node *n)
{
	return (struct child_iter){ n->children, n->children_end, n->ref };
}

static bool next_ref(struct child_iter *k, uint64_t *ret)
{
	struct node_child child;

	if (!record_next_child(&k->p, k->end, &k->last, &child))
		return false;
	*ret = child.ref;
	return true;
}

/* Of two with as many children: is any another one? 1, 0, -EUCLEAN. */
static int children_differ(const struct snap_node *na, const struct snap_node *nb)
{
	struct child_iter a = children_of(na), b = children_of(nb);
	uint64_t ref_a = 0, ref_b = 0;

	for (uint64_t i = 0; i < na->n_children; i++) {
		if (!next_ref(&a, &ref_a) || !next_ref(&b, &ref_b))
			return -EUCLEAN;
		if (ref_a != ref_b)
			return 1;
	}
	return 0;
}

/* Both have the same sub-directories by name: b's listing says which they are. */
static int match_children(struct walk *w, const struct waiting *at, const struct snap_node *na,
                          const struct snap_node *nb, struct snap_change *own)
{
	struct child_iter a = children_of(na);
	struct snap_iter b;
	uint64_t ref = 0;
	int r = 0, more = 0;

	snap_iter_init(&b, nb);
	while (r == 0 && (more = snap_iter_next(&b)) > 0) {
		if (b.e.placed && !next_ref(&a, &ref))
			r = -EUCLEAN;
		else if (b.e.placed)
			r = pair(w, at, na, nb, &b.e, ref, b.e.child, own);
	}
	return r ? r : more;
}

static int match(struct walk *w, const struct waiting *at, const struct snap_node *na,
                 const struct snap_node *nb, struct snap_change *own)
{
	struct snap_node full;
	int r = children_differ(na, nb);

	if (r <= 0)
		return r;
	r = snap_node_get(w->s, at->b, &full);
	if (r < 0)
		return r;
	r = match_children(w, at, na, &full, own);
	snap_node_put(w->s, &full);
	return r;
}

static uint64_t dir_ref(const struct snap_entry *e)
{
	return e->type == SCAN_DIR && snap_entry_exists(e) ? e->child : 0;
}

static int merge_listings(struct walk *w, const struct waiting *at, const struct snap_node *na,
                          const struct snap_node *nb, struct snap_change *own)
{
	struct snap_iter a, b;
	int r = 0, more_a, more_b;

	snap_iter_init(&a, na);
	snap_iter_init(&b, nb);
	more_a = snap_iter_next(&a);
	more_b = snap_iter_next(&b);
	while (r == 0 && (more_a > 0 || more_b > 0)) {
		int c = more_a <= 0 ? 1 : more_b <= 0 ? -1 : strcmp(a.e.name, b.e.name);

		r = pair(w, at, na, nb, c <= 0 ? &a.e : &b.e, c <= 0 ? dir_ref(&a.e) : 0,
		         c >= 0 ? dir_ref(&b.e) : 0, own);
		if (c <= 0)
			more_a = snap_iter_next(&a);
		if (c >= 0)
			more_b = snap_iter_next(&b);
	}
	return r ? r : more_a < 0 ? more_a : more_b;
}

static int merge(struct walk *w, const struct waiting *at, struct snap_change *own)
{
	struct snap_node a, b;
	int r = snap_node_get(w->s, at->a, &a);

	if (r < 0)
		return r;
	r = snap_node_get(w->s, at->b, &b);
	if (r == 0) {
		r = merge_listings(w, at, &a, &b, own);
		snap_node_put(w->s, &b);
	}
	snap_node_put(w->s, &a);
	return r;
}

/* What the sub-directories of two directories explain, taken from own. */
static int compare_below(struct walk *w, const struct waiting *at, const struct snap_node *a,
                         const struct snap_node *b, struct snap_change *own)
{
	if (a->n_children == b->n_children && (a->n_children == 0 || a->names == b->names))
		return match(w, at, a, b, own);
	return merge(w, at, own);
}

static int compare(struct walk *w, const struct waiting *at)
{
	struct snap_node a = { 0 }, b = { 0 };
	struct snap_change own;
	int r = at->a ? snap_head_get(w->s, at->a, &a) : 0;

	if (r == 0 && at->b)
		r = snap_head_get(w->s, at->b, &b);
	if (r == 0) {
		own = difference(&a.totals, &b.totals);
		own.kind = !at->a ? SNAP_CREATED : !at->b ? SNAP_DELETED : SNAP_CHANGED;
		if (at->a && at->b)
			r = compare_below(w, at, &a, &b, &own);
	}
	if (r == 0)
		r = emit(w, &own, at->path, at->len, "", 0);
	snap_node_put(w->s, &a);
	snap_node_put(w->s, &b);
	return r;
}

static int order_changes(const void *x, const void *y)
{
	const struct snap_change *a = x, *b = y;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->path, b->path);
}

void snap_changes_sort(struct snap_changes *c)
{
	if (c->n)
		qsort(c->c, c->n, sizeof(*c->c), order_changes);
}

int snap_diff(struct snap *s, uint64_t a, uint64_t b, const _Atomic bool *stop,
              struct snap_changes *ret)
{
	struct walk w = { .s = s };
	int r = a == b ? 0 : push(&w, a, b, NULL, NULL);

	while (r == 0 && w.n) {
		struct waiting at = w.stack[--w.n];

		r = stop && atomic_load_explicit(stop, memory_order_relaxed) ? -EINTR
		                                                             : compare(&w, &at);
		free(at.path);
	}
	while (w.n)
		free(w.stack[--w.n].path);
	free(w.stack);
	if (r < 0) {
		snap_changes_done(&w.out);
		return r;
	}
	snap_changes_sort(&w.out);
	*ret = w.out;
	return 0;
}

void snap_changes_done(struct snap_changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->c[i].path);
	free(c->c);
	*c = (struct snap_changes){ 0 };
}
