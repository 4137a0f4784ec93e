/* SPDX-License-Identifier: MIT */
/*
 * virtual - directories that no scan has seen: those that lead from the top of a view to its roots, and
 * a scanned directory with another root mounted in it. They are packs of one node that live in memory.
 */
#include "snapshot/internal.h"

struct making {
	struct listing_encoder enc;
	struct bytes listing, record;
	struct node_child *children;
	size_t n_children, children_cap;
};

static int add_child(struct making *m, const struct node_child *child)
{
	int r = base_reserve(&m->children, &m->children_cap, m->n_children + 1,
	                     sizeof(*m->children));

	if (r == 0)
		m->children[m->n_children++] = *child;
	return r;
}

static int add_own(struct making *m, const struct scan_entry *e, uint64_t ref)
{
	struct node_child child = { .ref = ref };
	int r = listing_add(&m->enc, e);

	return r == 0 && e->type == SCAN_DIR ? add_child(m, &child) : r;
}

static int compare_names(const struct snap_entry *a, const struct scan_entry *b)
{
	int c = memcmp(a->name, b->name, MIN(a->name_len, b->name_len));

	return c ? c : (int)a->name_len - (int)b->name_len;
}

/* An entry of the base. Problems of a child are in its word, not in the listing. */
static int add_copied(struct making *m, const struct snap_entry *from)
{
	struct scan_entry e = { .name = from->name,
		                .name_len = from->name_len,
		                .type = from->type,
		                .problem = from->problem,
		                .error = from->error,
		                .meta = from->meta };
	struct node_child child = { from->child, from->problem, from->error };
	int r;

	if (from->type == SCAN_DIR)
		e.problem = 0, e.error = 0;
	r = listing_add(&m->enc, &e);
	return r == 0 && from->type == SCAN_DIR ? add_child(m, &child) : r;
}

static int merge(struct making *m, const struct snap_virtual *v)
{
	struct snap_iter it;
	size_t i = 0;
	int r = 0, more = 0;

	if (v->base) {
		snap_iter_init(&it, v->base);
		more = snap_iter_next(&it);
	}
	while (r == 0 && (more > 0 || i < v->n)) {
		int c = more <= 0 ? 1 : i == v->n ? -1 : compare_names(&it.e, &v->entries[i]);

		if (c == 0) { /* a place where something is mounted: the view shows what */
			more = snap_iter_next(&it);
		} else if (c < 0) {
			r = add_copied(m, &it.e);
			more = snap_iter_next(&it);
		} else {
			r = add_own(m, &v->entries[i], v->refs[i]);
			i++;
		}
	}
	return r < 0 ? r : more < 0 ? more : 0;
}

static int make_record(struct making *m, const struct snap_virtual *v, uint64_t seed, uint64_t self)
{
	struct scan_dirinfo info = { .meta = v->base ? v->base->meta : v->meta };
	struct snap_node n = { .totals = v->totals };
	int r = listing_begin(&m->enc, &m->listing, &info, seed);

	if (r == 0)
		r = merge(m, v);
	if (r < 0)
		return r;
	n.n_entries = m->enc.entries.n;
	n.n_children = m->n_children;
	n.names = m->enc.names;
	return record_add(&m->record, self, &n, m->children);
}

/* A view keeps many: none takes more than it needs. */
static uint8_t *fit(struct bytes *b)
{
	uint8_t *p = realloc(b->p, b->len);

	if (p)
		b->p = p;
	return TAKE(b->p);
}

static struct snap_pack *make_pack(struct making *m)
{
	struct snap_pack *p = calloc(1, sizeof(*p));
	struct pack_lists *l;

	if (!p)
		return NULL;
	l = &p->lists;
	p->n = 1;
	p->at = calloc(2, sizeof(*p->at));
	l->at = calloc(2, sizeof(*l->at));
	l->fps = calloc(1, FP_STORED);
	p->bytes = sizeof(*p) + m->record.len + m->listing.len + FP_STORED + 4 * sizeof(*p->at);
	p->head = fit(&m->record);
	l->list = fit(&m->listing);
	if (p->at && l->at && l->fps) {
		p->at[1] = (uint32_t)m->record.len;
		l->at[1] = (uint32_t)m->listing.len;
		return p;
	}
	pack_free(p);
	return NULL;
}

int snap_virtual_add(struct snap *s, const struct snap_virtual *v, uint64_t *ret)
{
	struct making m = { 0 };
	uint64_t id = cache_virtual_id(s);
	struct snap_pack *p;
	int r = make_record(&m, v, s->seed, id << REF_SLOT_BITS);

	p = r == 0 ? make_pack(&m) : NULL;
	if (r == 0 && !p)
		r = -ENOMEM;
	if (r == 0) {
		p->id = id;
		cache_add_virtual(s, p);
		*ret = id << REF_SLOT_BITS;
	}
	free(m.listing.p);
	free(m.record.p);
	free(m.children);
	return r;
}
