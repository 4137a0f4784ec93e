/* SPDX-License-Identifier: MIT */
/*
 * listing - the entries of a node, decoded together with its children.
 *
 * Every RESTART entries one stands alone, so that a lookup in a directory of a million entries decodes
 * sixty-four of them.
 */
#include "snapshot/internal.h"

uint64_t names_hash(uint64_t before, const char *name, size_t len)
{
	return snap_hash(name, len, before);
}

int listing_begin(struct listing_encoder *e, struct bytes *out, const struct scan_dirinfo *dir,
                  uint64_t seed)
{
	*e = (struct listing_encoder){ .entries.out = out, .names = seed };
	return listing_head_encode(out, dir);
}

int listing_add(struct listing_encoder *e, const struct scan_entry *entry)
{
	if (entry->type == SCAN_DIR && !entry->problem)
		e->names = names_hash(e->names, entry->name, entry->name_len);
	return entry_encode(&e->entries, entry, 0);
}

/* The child of the directory entry just decoded. */
static bool next_child(struct snap_iter *it)
{
	struct node_child k;

	if (!record_next_child(&it->kp, it->node->children_end, &it->last_ref, &k))
		return false;
	it->e.child = k.ref;
	it->e.problem = k.problem;
	it->e.error = k.error;
	return true;
}

void snap_iter_init(struct snap_iter *it, const struct snap_node *n)
{
	it->node = n;
	it->at = (struct entry_cursor){ .p = n->entries, .end = n->end, .n = n->n_entries };
	it->kp = n->children;
	it->last_ref = n->ref;
}

int snap_iter_next(struct snap_iter *it)
{
	struct scan_entry e;
	int r = entry_decode(&it->at, it->e.name, &e);

	if (r <= 0)
		return r;
	it->e.name_len = e.name_len;
	it->e.type = e.type;
	it->e.problem = e.problem;
	it->e.error = e.error;
	it->e.meta = e.meta;
	it->e.child = 0;
	it->e.placed = e.type == SCAN_DIR && !e.problem;
	it->e.ordinal = it->at.next - 1;
	return !it->e.placed || next_child(it) ? 1 : -EUCLEAN;
}

void node_index_free(struct node_index *i)
{
	if (!i)
		return;
	free(i->at);
	free(i);
}

static int index_fill(struct node_index *x, const struct snap_node *n)
{
	struct snap_iter it;
	int r;

	snap_iter_init(&it, n);
	for (uint64_t i = 0; i < n->n_entries; i++) {
		if (i % RESTART == 0)
			x->at[i / RESTART] = (struct restart_point){
				.entry = (uint32_t)(it.at.p - n->entries),
				.child = (uint32_t)(it.kp - n->children),
				.last_ref = it.last_ref,
			};
		r = snap_iter_next(&it);
		if (r <= 0)
			return -EUCLEAN;
	}
	return it.at.p == n->end ? 0 : -EUCLEAN;
}

/* Restart points of a large directory, so that a lookup need not decode all before. NULL: no memory, damaged. */
struct node_index *node_index_new(const struct snap_node *n)
{
	struct node_index *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->n = (n->n_entries + RESTART - 1) / RESTART;
	x->at = calloc(x->n + 1, sizeof(*x->at));
	x->bytes = x->n * sizeof(*x->at) + sizeof(*x);
	if (!x->at || index_fill(x, n) < 0) {
		node_index_free(x);
		return NULL;
	}
	return x;
}

static void jump(struct snap_iter *it, uint64_t restart)
{
	const struct restart_point *at = &it->node->index->at[restart];

	it->at.p = it->node->entries + at->entry;
	it->kp = it->node->children + at->child;
	it->last_ref = at->last_ref;
	it->at.next = restart * RESTART;
	it->at.name_len = 0;
}

int snap_iter_seek(struct snap_iter *it, uint64_t ordinal)
{
	int r = 1;

	if (it->node->index && ordinal / RESTART < it->node->index->n)
		jump(it, ordinal / RESTART);
	else if (ordinal < it->at.next)
		snap_iter_init(it, it->node);
	while (it->at.next < ordinal && r > 0)
		r = snap_iter_next(it);
	return r < 0 ? r : 0;
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int c = memcmp(a, b, MIN(a_len, b_len));

	return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* Start at the last restart point whose name is not after the one sought. */
static int start_near(struct snap_iter *it, const char *name, size_t len)
{
	const struct node_index *x = it->node->index;
	uint64_t low = 0, high = x ? x->n : 0;
	int r;

	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;

		jump(it, mid);
		r = snap_iter_next(it);
		if (r <= 0)
			return -EUCLEAN;
		if (compare_names(it->e.name, it->e.name_len, name, len) <= 0)
			low = mid;
		else
			high = mid;
	}
	if (x && x->n)
		jump(it, low);
	return 0;
}

int snap_node_find(const struct snap_node *n, const char *name, size_t len, struct snap_entry *ret,
                   uint64_t *where)
{
	struct snap_iter it;
	int r, c = 1;

	snap_iter_init(&it, n);
	r = start_near(&it, name, len);
	if (r < 0)
		return r;
	while ((r = snap_iter_next(&it)) > 0) {
		c = compare_names(it.e.name, it.e.name_len, name, len);
		if (c >= 0)
			break;
	}
	if (r < 0)
		return r;
	if (where)
		*where = r ? it.e.ordinal : it.at.next;
	if (r == 0 || c != 0)
		return 0;
	*ret = it.e;
	return 1;
}
