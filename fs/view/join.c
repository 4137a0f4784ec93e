/* SPDX-License-Identifier: MIT */
/*
 * join - puts the trees of several roots together into one, under their absolute paths.
 *
 * Directories that lead to the roots are made up. Of a root inside another root's tree the newer snapshot
 * shows, with the sums above adjusted; one that the outer scan did not enter (a file system mounted there)
 * is put in its place, and not summed. What is made lives in memory, with its generation.
 */
#include "fs/view/internal.h"

int join_keep(struct gen *g, uint64_t ref)
{
	uint64_t *grown = realloc(g->virtuals, (g->n_virtuals + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	g->virtuals = grown;
	g->virtuals[g->n_virtuals++] = ref;
	return 0;
}

/* One level of the joined tree: the roots list[first..last) are its directory or lie below it. */
struct level {
	size_t first, last;
	size_t prefix;   /* length of the path of this level, without trailing slash */
	uint64_t base;   /* node of the directory in an outer root, 0 if none */
	int64_t base_id; /* the snapshot that has it */
};

struct built {
	struct scan_entry *entries; /* names are owned */
	uint64_t *refs;
	size_t n, cap, refs_cap;
	struct scan_totals totals;
};

static void built_done(struct built *b)
{
	for (size_t i = 0; i < b->n; i++)
		free((char *)(uintptr_t)b->entries[i].name);
	free(b->entries);
	free(b->refs);
}

static int built_add(struct built *b, const char *name, size_t len, uint64_t ref)
{
	int r = base_reserve(&b->entries, &b->cap, b->n + 1, sizeof(*b->entries));
	char *copy;

	if (r == 0)
		r = base_reserve(&b->refs, &b->refs_cap, b->n + 1, sizeof(*b->refs));
	if (r < 0)
		return r;
	copy = strndup(name, len);
	if (!copy)
		return -ENOMEM;
	b->entries[b->n] =
		(struct scan_entry){ .name = copy, .name_len = (uint16_t)len, .type = SCAN_DIR };
	b->refs[b->n++] = ref;
	return 0;
}

static int make_level(struct view *v, struct gen *g, const struct level *l, uint64_t *ret);

/* The ref of a child of base, 0 if base has no such directory. */
static uint64_t base_child(struct view *v, uint64_t base, const char *name, size_t len)
{
	struct snap_entry e;
	struct snap_node n;
	uint64_t ref = 0;

	if (!base || snap_node_get(v->s, base, &n) < 0)
		return 0;
	if (snap_node_find(&n, name, len, &e, NULL) > 0 && e.type == SCAN_DIR)
		ref = e.child;
	snap_node_put(v->s, &n);
	return ref;
}

static int add_child(struct view *v, struct gen *g, const struct level *l, struct built *b)
{
	const char *name = g->list.info[l->first]->root + l->prefix + 1;
	size_t len = strcspn(name, "/");
	uint64_t old = base_child(v, l->base, name, len), ref;
	struct level below = { l->first, l->last, l->prefix + 1 + len, old, l->base_id };
	struct snap_node n;
	int r = make_level(v, g, &below, &ref);

	if (r < 0 || ref == old) /* the outer root shows it already */
		return r;
	r = snap_node_get(v->s, ref, &n);
	if (r < 0)
		return r;
	if (!l->base || old)
		totals_add(&b->totals, &n.totals);
	snap_node_put(v->s, &n);
	/* A newer snapshot of a directory inside takes the place of the one that was counted. */
	if (old && (r = snap_node_get(v->s, old, &n)) == 0) {
		totals_subtract(&b->totals, &n.totals);
		snap_node_put(v->s, &n);
	}
	return r < 0 ? r : built_add(b, name, len, ref);
}

/*
 * All roots below this level, grouped by their next component. Levels nest as deep as the path of a
 * root has components, which PATH_MAX bounds, and roots are few: this recursion is not over the tree.
 */
static int add_children(struct view *v, struct gen *g, const struct level *l, struct built *b)
{
	int r = 0;

	for (size_t i = l->first; r == 0 && i < l->last;) {
		const char *name = g->list.info[i]->root + l->prefix + 1;
		size_t len = strcspn(name, "/"), j = i + 1;

		while (j < l->last &&
		       strncmp(g->list.info[j]->root + l->prefix + 1, name, len) == 0 &&
		       strchr("/", g->list.info[j]->root[l->prefix + 1 + len]))
			j++;
		r = add_child(v, g, &(struct level){ i, j, l->prefix, l->base, l->base_id }, b);
		i = j;
	}
	return r;
}

static int extend(struct view *v, struct gen *g, const struct built *b, uint64_t base,
                  uint64_t *ret)
{
	struct snap_virtual made = { .totals = b->totals,
		                     .entries = b->entries,
		                     .refs = b->refs,
		                     .n = b->n,
		                     .meta = { .mode = 0755, .mtime = MAX(b->totals.newest, 0) } };
	struct snap_node n;
	int r = 0;

	if (base) {
		r = snap_node_get(v->s, base, &n);
		made.base = &n;
	}
	if (r == 0) {
		r = snap_virtual_add(v->s, &made, ret);
		if (base)
			snap_node_put(v->s, &n);
	}
	return r == 0 ? join_keep(g, *ret) : r;
}

static int base_totals(struct view *v, uint64_t base, struct scan_totals *ret)
{
	struct snap_node n;
	int r = snap_node_get(v->s, base, &n);

	if (r == 0) {
		*ret = n.totals;
		snap_node_put(v->s, &n);
	}
	return r;
}

static int make_level(struct view *v, struct gen *g, const struct level *l, uint64_t *ret)
{
	struct level inner = *l;
	struct built b = { .totals = TOTALS_NONE };
	uint64_t base;
	int r = 0;

	/* A root that is this very directory; if an outer root holds the directory, the newer one shows. */
	if (l->first < l->last && strlen(g->list.info[l->first]->root) <= MAX(l->prefix, 1)) {
		const struct snap_info *own = g->list.info[l->first];

		if (!l->base || own->id > l->base_id) {
			inner.base = own->ref;
			inner.base_id = own->id;
		} else if (g->hidden) {
			g->hidden[l->first] = true;
		}
		inner.first++;
	}
	*ret = inner.base;
	base = inner.base;
	if (base)
		r = base_totals(v, base, &b.totals);
	if (r == 0)
		r = add_children(v, g, &inner, &b);
	if (r == 0 && (b.n || !base))
		r = extend(v, g, &b, base, ret);
	built_done(&b);
	return r;
}

/* With --root the top is that directory, be it a root itself or inside one. */
static int find_top(struct view *v, const char *path, uint64_t from, uint64_t *ret)
{
	*ret = from;
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len)
			*ret = base_child(v, *ret, path, len);
		if (!*ret)
			return -ENOENT;
		path += len;
		path += *path == '/';
	}
	return 0;
}

/*
 * Join other nodes of the roots, one per root in the order of g->list, the way the generation joins the
 * newest: the trees of growth, or of an earlier moment. A ref of 0 leaves the root out.
 */
int join_refs(struct view *v, struct gen *g, const uint64_t *refs, uint64_t *ret)
{
	AUTO(base_free) struct snap_info *infos = calloc(g->list.n + 1, sizeof(*infos));
	struct gen other = { 0 };
	struct level top = { 0 };
	int r = 0;

	other.list.info = calloc(g->list.n + 1, sizeof(*other.list.info));
	if (!infos || !other.list.info) {
		free(other.list.info);
		return -ENOMEM;
	}
	for (size_t i = 0; i < g->list.n; i++) {
		if (!refs[i])
			continue;
		infos[i].id = g->list.info[i]->id;
		infos[i].root = g->list.info[i]->root; /* borrowed */
		infos[i].ref = refs[i];
		other.list.info[other.list.n++] = &infos[i];
	}
	top.last = other.list.n;
	r = make_level(v, &other, &top, ret);
	if (r == 0 && v->root)
		r = find_top(v, v->root, *ret, ret);
	if (r == -ENOENT) { /* --root names a directory that is not in this tree: an empty one */
		top.last = 0;
		r = make_level(v, &other, &top, ret);
	}
	for (size_t i = 0; i < other.n_virtuals; i++)
		if (join_keep(g, other.virtuals[i]) < 0)
			r = -ENOMEM;
	free(other.virtuals);
	free(other.list.info);
	return r;
}

int join_newest(struct view *v, struct gen *g)
{
	struct level top = { .last = g->list.n };
	int r;

	r = make_level(v, g, &top, &g->top_ref);
	if (r == 0 && v->root)
		r = find_top(v, v->root, g->top_ref, &g->top_ref);
	return r;
}
