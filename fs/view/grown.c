/* SPDX-License-Identifier: MIT */
/*
 * grown - the tree under .growth: only what changed in a window, with the bytes grown as the size.
 *
 * The two snapshots of each root are merged, children before parents, into nodes that live in memory
 * with the generation. Their number is that of the changed directories, not of the tree.
 */
#include "fs/view/internal.h"

struct frame {                 /* a pair of directories being merged */
	struct snap_node a, b; /* ref 0: not there */
	struct snap_iter ia, ib;
	int more_a, more_b;
	struct scan_entry *entries; /* names are owned */
	uint64_t *refs;
	size_t n, cap, refs_cap;
	bool waits; /* the last entry waits for its node */
};

struct merger {
	struct view *v;
	struct gen *g;
	struct frame *f;
	size_t n, cap;
};

static void frame_done(struct view *v, struct frame *f)
{
	for (size_t i = 0; i < f->n; i++)
		free((char *)(uintptr_t)f->entries[i].name);
	free(f->entries);
	free(f->refs);
	snap_node_put(v->s, &f->a);
	snap_node_put(v->s, &f->b);
}

static int open_frame(struct merger *m, uint64_t a, uint64_t b)
{
	struct frame *f;
	int r = base_reserve(&m->f, &m->cap, m->n + 1, sizeof(*m->f));

	if (r < 0)
		return r;
	f = &m->f[m->n++];
	memset(f, 0, sizeof(*f));
	if (a)
		r = snap_node_get(m->v->s, a, &f->a);
	if (r == 0 && b)
		r = snap_node_get(m->v->s, b, &f->b);
	return r;
}

/* Iterators point into their frame, which moves when the stack grows: they begin once it lies still. */
static void start(struct frame *f)
{
	if (f->ia.node)
		return;
	snap_iter_init(&f->ia, &f->a);
	snap_iter_init(&f->ib, &f->b);
	f->more_a = snap_iter_next(&f->ia);
	f->more_b = snap_iter_next(&f->ib);
}

static int add_entry(struct frame *f, const struct snap_entry *e, uint64_t grown)
{
	int r = base_reserve(&f->entries, &f->cap, f->n + 1, sizeof(*f->entries));
	struct scan_entry *to;
	char *name;

	if (r == 0)
		r = base_reserve(&f->refs, &f->refs_cap, f->n + 1, sizeof(*f->refs));
	name = r == 0 ? malloc(e->name_len + 1u) : NULL;
	if (!name)
		return -ENOMEM;
	memcpy(name, e->name, e->name_len + 1u);
	to = &f->entries[f->n];
	*to = (struct scan_entry){ .name = name, .name_len = e->name_len, .type = e->type };
	if (e->type != SCAN_DIR) {
		to->meta = e->meta;
		to->meta.multi = false;
		to->meta.size = grown;
		to->meta.blocks = grown / 512;
	}
	f->refs[f->n++] = 0;
	return 0;
}

static bool present(const struct snap_entry *e)
{
	return e && snap_entry_exists(e);
}

static uint64_t ref_of(const struct snap_entry *e)
{
	return present(e) && e->type == SCAN_DIR ? e->child : 0;
}

static int64_t file_bytes(const struct snap_entry *e)
{
	return present(e) && e->type != SCAN_DIR ? (int64_t)(e->meta.blocks * 512) : 0;
}

static bool is_same_file(const struct snap_entry *a, const struct snap_entry *b)
{
	return present(a) && present(b) && a->type == b->type && a->type != SCAN_DIR &&
	       memcmp(&a->meta, &b->meta, sizeof(a->meta)) == 0;
}

/* One name; a directory that changed is opened on top and gives its node later. */
static int take(struct merger *m, struct frame *f, const struct snap_entry *a,
                const struct snap_entry *b)
{
	uint64_t ra = ref_of(a), rb = ref_of(b);
	const struct snap_entry *shown = present(b) ? b : a;
	int64_t grown = file_bytes(b) - file_bytes(a);
	int r;

	if ((!present(a) && !present(b)) || (ra | rb ? ra == rb : is_same_file(a, b)))
		return 0;
	if (shown->type != SCAN_DIR)
		return add_entry(f, shown, grown > 0 ? (uint64_t)grown : 0);
	r = add_entry(f, shown, 0);
	if (r < 0)
		return r;
	f->waits = true;
	return open_frame(m, ra, rb); /* f may be somewhere else now */
}

static int make_node(struct merger *m, const struct frame *f, uint64_t *ret)
{
	int64_t delta = (int64_t)(f->b.totals.bytes - f->a.totals.bytes);
	struct snap_virtual v = {
		.meta = f->b.ref ? f->b.meta : f->a.meta,
		.totals = { .bytes = delta > 0 ? (uint64_t)delta : 0, .apparent = zigzag(delta) },
		.entries = f->entries,
		.refs = f->refs,
		.n = f->n,
	};
	int r;

	v.meta.blocks = 0;
	r = snap_virtual_add(m->v->s, &v, ret);
	if (r < 0)
		return r;
	return join_keep(m->g, *ret);
}

static int close_frame(struct merger *m, uint64_t *ret)
{
	struct frame *f = &m->f[m->n - 1], *parent;
	int r = make_node(m, f, ret);

	frame_done(m->v, f);
	m->n--;
	if (r == 0 && m->n) {
		parent = &m->f[m->n - 1];
		parent->refs[parent->n - 1] = *ret;
		parent->waits = false;
	}
	return r;
}

static int step(struct merger *m, uint64_t *ret)
{
	struct frame *f = &m->f[m->n - 1];
	struct snap_entry a, b;
	bool in_a, in_b;
	int c;

	start(f);
	f->ia.node = &f->a; /* it may have moved since */
	f->ib.node = &f->b;
	if (f->more_a < 0 || f->more_b < 0)
		return -EUCLEAN;
	if (f->more_a == 0 && f->more_b == 0)
		return close_frame(m, ret);
	c = !f->more_a ? 1 : !f->more_b ? -1 : strcmp(f->ia.e.name, f->ib.e.name);
	in_a = c <= 0;
	in_b = c >= 0;
	if (in_a) {
		a = f->ia.e;
		f->more_a = snap_iter_next(&f->ia);
	}
	if (in_b) {
		b = f->ib.e;
		f->more_b = snap_iter_next(&f->ib);
	}
	return take(m, f, in_a ? &a : NULL, in_b ? &b : NULL);
}

static int merge(struct view *v, struct gen *g, uint64_t a, uint64_t b, uint64_t *ret)
{
	struct merger m = { .v = v, .g = g };
	int r = open_frame(&m, a, b);

	while (r == 0 && m.n)
		r = step(&m, ret);
	while (m.n)
		frame_done(v, &m.f[--m.n]);
	free(m.f);
	return r;
}

int grown_make(struct view *v, struct gen *g, size_t window, uint64_t *ret)
{
	uint64_t *refs = calloc(g->list.n + 1, sizeof(*refs));
	int r = refs ? 0 : -ENOMEM;

	if (r == 0 && g->growth[window]) {
		*ret = g->growth[window];
		free(refs);
		return 0;
	}
	for (size_t i = 0; r == 0 && i < g->list.n; i++) {
		const struct snap_info *now = g->list.info[i],
				       *then = window_start(&g->all, now, window);

		if (then->ref != now->ref)
			r = merge(v, g, then->ref, now->ref, &refs[i]);
	}
	if (r == 0)
		r = join_refs(v, g, refs, ret);
	if (r == 0)
		g->growth[window] = *ret;
	free(refs);
	return r;
}
