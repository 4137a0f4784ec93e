/* SPDX-License-Identifier: MIT */
/*
 * trail - one path through many snapshots, for the price of what differs between them.
 *
 *     each directory on the way: the same ref as last time? the same child
 *                                the same names of sub-directories? the child in the same place, by the head
 *                                else by name, from the listing
 */
#include "snapshot/internal.h"

struct trail_step {
	const char *name;
	size_t len;
	uint64_t ref,
		child; /* the directory the last time, 0: none yet; what name was in it, 0: nothing */
	uint64_t names, n_children, place; /* place: n_children when not known */
};

int snap_trail_init(struct snap_trail *t, const char *path)
{
	size_t cap = 0;
	int r = 0;

	*t = (struct snap_trail){ 0 };
	for (size_t len; r == 0 && *path; path += len, path += *path == '/') {
		len = strcspn(path, "/");
		if (!len)
			continue;
		r = base_reserve(&t->step, &cap, t->n + 1, sizeof(*t->step));
		if (r == 0)
			t->step[t->n++] = (struct trail_step){ .name = path, .len = len };
	}
	return r;
}

void snap_trail_done(struct snap_trail *t)
{
	free(t->step);
	*t = (struct snap_trail){ 0 };
}

/* The place of a child among the children, if it is there once: equal subtrees are one node. */
static int find_place(struct trail_step *st, const struct snap_node *n)
{
	const uint8_t *p = n->children;
	uint64_t last = n->ref, found = 0;
	struct node_child child;

	for (uint64_t i = 0; i < n->n_children; i++) {
		if (!record_next_child(&p, n->children_end, &last, &child))
			return -EUCLEAN;
		if (child.ref != st->child)
			continue;
		st->place = i;
		found++;
	}
	if (found != 1)
		st->place = n->n_children;
	return 0;
}

static int by_name(struct snap *s, struct trail_step *st, uint64_t ref)
{
	struct snap_entry e;
	struct snap_node n;
	int r = snap_node_get(s, ref, &n);

	if (r < 0)
		return r;
	r = snap_node_find(&n, st->name, st->len, &e, NULL);
	st->child = r > 0 && e.type == SCAN_DIR ? e.child : 0;
	st->place = st->n_children = n.n_children;
	st->names = n.names;
	if (r >= 0)
		r = st->child ? find_place(st, &n) : 0;
	snap_node_put(s, &n);
	return r;
}

/* 1: found by the head; 0: it has to be looked for by name. */
static int by_place(struct snap *s, struct trail_step *st, uint64_t ref)
{
	struct node_child child = { 0 };
	const uint8_t *p;
	uint64_t last = ref;
	struct snap_node n;
	int r;

	if (st->place >= st->n_children)
		return 0;
	r = snap_head_get(s, ref, &n);
	if (r < 0)
		return r;
	if (n.n_children == st->n_children && n.names == st->names) {
		p = n.children;
		for (uint64_t i = 0; r == 0 && i <= st->place; i++)
			r = record_next_child(&p, n.children_end, &last, &child) ? 0 : -EUCLEAN;
		if (r == 0 && child.ref) {
			st->child = child.ref;
			r = 1;
		}
	}
	snap_node_put(s, &n);
	return r;
}

int snap_trail_follow(struct snap *s, struct snap_trail *t, uint64_t root, uint64_t *ret)
{
	uint64_t ref = root;

	for (size_t i = 0; i < t->n; i++) {
		struct trail_step *st = &t->step[i];
		int r = 1;

		if (st->ref != ref) {
			t->looked_at++;
			r = by_place(s, st, ref);
			if (r == 0)
				r = by_name(s, st, ref);
			st->ref = r < 0 ? 0 : ref;
		}
		if (r < 0)
			return r;
		ref = st->child;
		if (!ref)
			return -ENOENT;
	}
	*ret = ref;
	return 0;
}

int snap_path_ref(struct snap *s, uint64_t ref, const char *path, uint64_t *ret)
{
	struct snap_trail t;
	int r = snap_trail_init(&t, path);

	if (r == 0)
		r = snap_trail_follow(s, &t, ref, ret);
	snap_trail_done(&t);
	return r;
}
