/* SPDX-License-Identifier: MIT */
/*
 * prune - removes snapshots, then what only they used, in one transaction.
 *
 *     choose by the rules -> delete their rows -> mark every node that the others reach
 *     -> delete packs without a mark, empty the unmarked slots of the rest -> give pages back
 *
 * Refs stay what they are: a slot that is emptied keeps its number, and pack ids are never used again.
 * A process that still shows a removed snapshot gets -ESTALE for what is no longer there.
 */
#include "snapshot/lookup.h"
#include "snapshot/mark.h"

enum {
	DAY = 86400
};

/* -- the rules ------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static int64_t period_day(int64_t t)
{
	return floor_div(t, DAY);
}

static int64_t period_week(int64_t t)
{
	return floor_div(floor_div(t, DAY) + 3,
	                 7); /* the epoch was a Thursday; weeks begin on Monday */
}

static int64_t period_month(int64_t t)
{
	time_t when = t;
	struct tm tm;

	return gmtime_r(&when, &tm) ? (int64_t)tm.tm_year * 12 + tm.tm_mon : 0;
}

static int64_t period_each(int64_t t)
{
	(void)t;
	return 0;
}

/* Keep the newest snapshot of each of the last n periods of a root; with each, the last n snapshots. */
static void keep_periods(const struct snap_list *l, const char *root, uint64_t n,
                         int64_t (*period)(int64_t), bool *keep)
{
	bool first = true;
	int64_t last = 0;

	for (size_t i = l->n; i-- > 0 && n;) {
		int64_t now = period(l->info[i]->time);

		if (strcmp(l->info[i]->root, root) != 0 ||
		    (!first && period != period_each && now == last))
			continue;
		keep[i] = true;
		last = now;
		first = false;
		n--;
	}
}

static bool has_rules(const struct snap_policy *p)
{
	return p->keep_last | p->keep_daily | p->keep_weekly | p->keep_monthly || p->older_than;
}

static void choose(const struct snap_list *l, const struct snap_policy *p, int64_t now, bool *keep)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *root = l->info[i]->root;

		keep_periods(l, root, MAX(p->keep_last, 1), period_each,
		             keep); /* never the newest */
		keep_periods(l, root, p->keep_daily, period_day, keep);
		keep_periods(l, root, p->keep_weekly, period_week, keep);
		keep_periods(l, root, p->keep_monthly, period_month, keep);
	}
	for (size_t i = 0; i < l->n; i++)
		if ((p->older_than && l->info[i]->time > now - p->older_than) || !has_rules(p))
			keep[i] = true;
}

/* -- marking --------------------------------------------------------------------------------- */

struct refs {
	uint64_t *ref;
	size_t n, cap;
};

static int push_ref(struct refs *stack, struct marks *m, uint64_t ref)
{
	int r = marks_add(m, ref);

	if (r <= 0)
		return r;
	r = base_reserve(&stack->ref, &stack->cap, stack->n + 1, sizeof(*stack->ref));
	if (r == 0)
		stack->ref[stack->n++] = ref;
	return r;
}

/* A node is pushed once, so a ring in a damaged index ends too. */
static int push_kids(struct snap *s, struct refs *stack, struct marks *m, uint64_t ref)
{
	struct snap_node n;
	struct node_kid kid;
	const uint8_t *p;
	uint64_t last = ref;
	int r = snap_head_get(s, ref, &n);

	if (r < 0)
		return r;
	p = n.kids;
	for (uint64_t i = 0; r == 0 && i < n.n_kids; i++) {
		if (!record_next_kid(&p, n.kids_end, &last, &kid))
			r = -EUCLEAN;
		else if (kid.ref)
			r = push_ref(stack, m, kid.ref);
	}
	snap_node_put(s, &n);
	return r;
}

static int mark_tree(struct snap *s, uint64_t root, struct marks *m)
{
	struct refs stack = { 0 };
	int r = push_ref(&stack, m, root);

	while (r == 0 && stack.n)
		r = push_kids(s, &stack, m, stack.ref[--stack.n]);
	free(stack.ref);
	return r;
}

/* -- sweeping -------------------------------------------------------------------------------- */

struct sweep {
	struct snap *s;
	const struct marks *live;
	sqlite3_stmt *list, *remove, *update;
	struct packer pack;
	uint64_t nodes;
};

static bool is_live(const struct sweep *w, const struct snap_pack *p, size_t slot)
{
	return pack_has(p, slot) && marks_has(w->live, p->id << REF_SLOT_BITS | slot);
}

/* Store the pack again with the dead slots empty. */
static int rebuild(struct sweep *w, const struct snap_pack *p)
{
	struct pack_row row;
	int r = 0;

	packer_reset(&w->pack);
	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = is_live(w, p, i) ? packer_copy(&w->pack, p, i) : packer_skip(&w->pack);
	if (r == 0)
		r = packer_finish(&w->pack, w->s->secret, p->id, &row);
	return r == 0 ? pack_row_write(w->update, &row) : r;
}

static int read_pack(struct sweep *w, uint64_t id, bool lists, struct snap_pack **ret)
{
	struct pack_row row;
	int r = pack_row_find(w->s, id, lists, &row);

	if (r == 0)
		r = pack_decode(w->s, &row, ret);
	pack_row_done(w->s, lists);
	return r;
}

static int sweep_pack(struct sweep *w, uint64_t id)
{
	struct snap_pack *p = NULL;
	size_t live = 0, used = 0;
	int r = read_pack(w, id, false, &p);

	if (r < 0)
		return r;
	for (size_t i = 0; i < p->n; i++) {
		used += pack_has(p, i);
		live += is_live(w, p, i);
	}
	pack_free(TAKE(p));
	w->nodes += used - live;
	if (live == 0) {
		(void)sqlite3_bind_int64(w->remove, 1, (int64_t)id);
		r = snap_errno(sqlite3_step(w->remove));
		(void)sqlite3_reset(w->remove);
	} else if (live < used) {
		r = read_pack(w, id, true, &p);
		if (r == 0)
			r = rebuild(w, p);
		pack_free(p);
	}
	return r;
}

static int list_packs(struct sweep *w, struct refs *ids)
{
	int r = 0, rc = SQLITE_DONE;

	while (r == 0 && (rc = sqlite3_step(w->list)) == SQLITE_ROW) {
		r = base_reserve(&ids->ref, &ids->cap, ids->n + 1, sizeof(*ids->ref));
		if (r == 0)
			ids->ref[ids->n++] = (uint64_t)sqlite3_column_int64(w->list, 0);
	}
	return r ? r : snap_errno(rc);
}

static int sweep_all(struct snap *s, const struct marks *live, uint64_t *nodes)
{
	struct sweep w = { .s = s, .live = live };
	struct refs ids = { 0 };
	int rc = sqlite3_prepare_v2(s->db, "SELECT id FROM pack", -1, &w.list, NULL), r;

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(s->db, "DELETE FROM pack WHERE id=?", -1, &w.remove, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(s->db, "REPLACE " PACK_VALUES, -1, &w.update, NULL);
	r = rc == SQLITE_OK ? list_packs(&w, &ids) : snap_errno(rc);
	for (size_t i = 0; r == 0 && i < ids.n; i++)
		r = sweep_pack(&w, ids.ref[i]);
	(void)sqlite3_finalize(w.list);
	(void)sqlite3_finalize(w.remove);
	(void)sqlite3_finalize(w.update);
	packer_done(&w.pack);
	free(ids.ref);
	*nodes = w.nodes;
	return r;
}

/* -- the transaction ------------------------------------------------------------------------- */

static int run_locked(struct snap *s, const struct marks *live, struct snap_pruned *p)
{
	int r = catalog_remove(s, p->ids, p->n);

	if (r == 0)
		r = sweep_all(s, live, &p->nodes);
	if (r == 0)
		r = lookup_rebuild(s);
	if (r == 0)
		r = store_exec(s->db,
		               "DELETE FROM root WHERE id NOT IN (SELECT root FROM snapshot)");
	if (r == 0)
		r = store_exec(s->db, "COMMIT");
	return r;
}

/* The ids to remove, ascending: both lists do. */
static int fill(const struct snap_list *l, const struct snap_policy *p, const bool *keep,
                struct snap_pruned *ret)
{
	size_t d = 0, n_damaged = has_rules(p) ? l->n_damaged : 0;

	ret->ids = calloc(l->n + n_damaged + 1, sizeof(*ret->ids));
	if (!ret->ids)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++) {
		for (; d < n_damaged && l->damaged[d] < l->info[i]->id; d++)
			ret->ids[ret->n++] = l->damaged[d];
		if (!keep[i])
			ret->ids[ret->n++] = l->info[i]->id;
	}
	for (; d < n_damaged; d++)
		ret->ids[ret->n++] = l->damaged[d];
	return 0;
}

/* Where the key of all sums may be wrong, everything looks damaged, and nothing is to be removed for that. */
static int check_key(struct snap *s)
{
	bool whole = false;
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = seal_meta_check(s->db, s->secret, &whole);
	(void)pthread_mutex_unlock(&s->lock);
	return r ? r : whole ? 0 : -EUCLEAN;
}

static int mark_kept(struct snap *s, const struct snap_list *l, const bool *keep, struct marks *m)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++)
		if (keep[i])
			r = mark_tree(s, l->info[i]->ref, m);
	return r;
}

/* The write lock is held from before the list is read, so no snapshot can come in between. */
static int prune_begun(struct snap *s, const struct snap_policy *p, int64_t now, bool dry_run,
                       struct snap_pruned *ret)
{
	AUTO(base_free) bool *keep = NULL;
	struct snap_list l = { 0 };
	struct marks live = { 0 };
	int r = check_key(s);

	if (r == 0)
		r = snap_list_get(s, &l);

	if (r == 0) {
		keep = calloc(l.n + 1, sizeof(*keep));
		r = keep ? 0 : -ENOMEM;
	}
	if (r == 0) {
		choose(&l, p, now, keep);
		r = fill(&l, p, keep, ret);
	}
	if (r == 0 && ret->n && !dry_run) {
		r = mark_kept(s, &l, keep, &live);
		(void)pthread_mutex_lock(&s->lock);
		if (r == 0)
			r = run_locked(s, &live, ret);
		(void)pthread_mutex_unlock(&s->lock);
	}
	marks_done(&live);
	snap_list_done(&l);
	return r;
}

int snap_prune(struct snap *s, const struct snap_policy *p, int64_t now, bool dry_run,
               struct snap_pruned *ret)
{
	uint64_t before = snap_file_bytes(s), after;
	struct snap_pruned out = { 0 };
	int r = store_begin_write(s);

	if (r < 0)
		return r;
	r = prune_begun(s, p, now, dry_run, &out);
	store_end_write(s);
	if (r == 0 && out.n && !dry_run) {
		(void)pthread_mutex_lock(&s->lock);
		(void)store_exec(s->db, "PRAGMA incremental_vacuum");
		store_fold_log(s);
		(void)pthread_mutex_unlock(&s->lock);
		after = snap_file_bytes(s);
		out.bytes = before > after ? before - after : 0;
	}
	if (r < 0)
		snap_pruned_done(&out);
	else
		*ret = out;
	return r;
}

void snap_pruned_done(struct snap_pruned *p)
{
	free(p->ids);
	*p = (struct snap_pruned){ 0 };
}
