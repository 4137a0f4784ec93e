/* SPDX-License-Identifier: MIT */
/*
 * prune - removes snapshots, then what only they used, in one transaction, or several on a full disk.
 *
 *     choose by the rules -> delete their rows -> mark every node that the others reach
 *     -> delete packs without a mark, empty the unmarked slots of the rest -> give pages back
 *
 * Refs stay what they are: a slot that is emptied keeps its number, and pack ids are never used again.
 * A process that still shows a removed snapshot gets -ESTALE for what is no longer there.
 */
#include "snapshot/lookup.h"
#include "snapshot/mark.h"

#include <inttypes.h>
#include <stdio.h>

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

static int add_ref(struct refs *to, uint64_t ref)
{
	int r = base_reserve(&to->ref, &to->cap, to->n + 1, sizeof(*to->ref));

	if (r == 0)
		to->ref[to->n++] = ref;
	return r;
}

static int push_ref(struct refs *stack, struct marks *m, uint64_t ref)
{
	int r = marks_add(m, ref);

	return r <= 0 ? r : add_ref(stack, ref);
}

/* A node is pushed once, so a ring in a damaged index ends too. */
static int push_children(struct snap *s, struct refs *stack, struct marks *m, uint64_t ref)
{
	struct snap_node n;
	struct node_child child;
	const uint8_t *p;
	uint64_t last = ref;
	int r = snap_head_get(s, ref, &n);

	if (r < 0)
		return r;
	p = n.children;
	for (uint64_t i = 0; r == 0 && i < n.n_children; i++) {
		if (!record_next_child(&p, n.children_end, &last, &child))
			r = -EUCLEAN;
		else if (child.ref)
			r = push_ref(stack, m, child.ref);
	}
	snap_node_put(s, &n);
	return r;
}

static int mark_tree(struct snap *s, uint64_t root, struct marks *m)
{
	struct refs stack = { 0 };
	int r = push_ref(&stack, m, root);

	while (r == 0 && stack.n)
		r = push_children(s, &stack, m, stack.ref[--stack.n]);
	free(stack.ref);
	return r;
}

/* -- sweeping -------------------------------------------------------------------------------- */

struct sweep {
	struct snap *s;
	const struct marks *live;
	sqlite3_stmt *list, *remove, *insert;
	struct packer pack;
	struct refs partly;
	uint64_t nodes;
};

static bool is_live(const struct sweep *w, const struct snap_pack *p, size_t slot)
{
	return pack_has(p, slot) && marks_has(w->live, p->id << REF_SLOT_BITS | slot);
}

static int remove_pack(struct sweep *w, uint64_t id)
{
	int r;

	(void)sqlite3_bind_int64(w->remove, 1, (int64_t)id);
	r = snap_errno(sqlite3_step(w->remove));
	(void)sqlite3_reset(w->remove);
	return r;
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
	if (r == 0)
		r = remove_pack(
			w,
			p->id); /* first: replacing it would take new pages before it frees the old ones */
	return r == 0 ? pack_row_write(w->insert, &row) : r;
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

/* A pack that is to be rebuilt is noted: those that go entirely go first, so that the file does not grow meanwhile. */
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
	pack_free(p);
	w->nodes += used - live;
	if (live == 0) {
		r = remove_pack(w, id);
	} else if (live < used) {
		r = add_ref(&w->partly, id);
	}
	return r;
}

static int rebuild_pack(struct sweep *w, uint64_t id)
{
	struct snap_pack *p = NULL;
	int r = read_pack(w, id, true, &p);

	if (r == 0)
		r = rebuild(w, p);
	pack_free(p);
	return r;
}

static int list_packs(struct sweep *w, struct refs *ids)
{
	int r = 0, rc = SQLITE_DONE;

	while (r == 0 && (rc = sqlite3_step(w->list)) == SQLITE_ROW)
		r = add_ref(ids, (uint64_t)sqlite3_column_int64(w->list, 0));
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
		rc = sqlite3_prepare_v2(s->db, "INSERT " PACK_VALUES, -1, &w.insert, NULL);
	r = rc == SQLITE_OK ? list_packs(&w, &ids) : snap_errno(rc);
	for (size_t i = 0; r == 0 && i < ids.n; i++)
		r = sweep_pack(&w, ids.ref[i]);
	for (size_t i = 0; r == 0 && i < w.partly.n; i++)
		r = rebuild_pack(&w, w.partly.ref[i]);
	(void)sqlite3_finalize(w.list);
	(void)sqlite3_finalize(w.remove);
	(void)sqlite3_finalize(w.insert);
	packer_done(&w.pack);
	free(ids.ref);
	free(w.partly.ref);
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
		r = store_commit(s);
	return r;
}

struct job {
	const struct snap_policy *policy;
	int64_t now;
	bool dry_run;
	size_t most; /* to remove in one transaction */
};

/*
 * The ids to remove, ascending as both lists are: the oldest of those that are not kept, at most as many, with the
 * damaged; the rest is kept for now.
 */
static int fill(const struct snap_list *l, const struct job *job, bool *keep,
                struct snap_pruned *ret)
{
	size_t d = 0, n_damaged = has_rules(job->policy) ? l->n_damaged : 0, most = job->most;

	ret->ids = calloc(l->n + n_damaged + 1, sizeof(*ret->ids));
	if (!ret->ids)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++) {
		for (; d < n_damaged && l->damaged[d] < l->info[i]->id; d++)
			ret->ids[ret->n++] = l->damaged[d];
		keep[i] = keep[i] || most == 0;
		if (!keep[i]) {
			ret->ids[ret->n++] = l->info[i]->id;
			most--;
		}
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
static int prune_begun(struct snap *s, const struct job *job, struct snap_pruned *ret)
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
		choose(&l, job->policy, job->now, keep);
		r = fill(&l, job, keep, ret);
	}
	if (r == 0 && ret->n && !job->dry_run) {
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

/* Cut free pages off the file: all at once, or where there is no room to move so many, some at a time. */
static void give_back(struct snap *s)
{
	int64_t most = INT32_MAX, left = 0, before = INT64_MAX;
	int r = 0;

	(void)pthread_mutex_lock(&s->lock);
	store_fold_log(s);
	while (most > 0 && store_int(s->db, "PRAGMA freelist_count", &left) == 0 && left > 0 &&
	       (r < 0 || left < before)) {
		char sql[60];

		most = MIN(most, left);
		before = left;
		(void)snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%" PRId64 ")", most);
		r = store_exec(s->db, sql);
		store_fold_log(s);
		if (r < 0 && r != -ENOSPC)
			break;
		most = r < 0 ? most / 2 : most * 2;
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* all becomes both. */
static int add_part(struct snap_pruned *all, struct snap_pruned *part)
{
	int64_t *ids = reallocarray(all->ids, all->n + part->n + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	memcpy(ids + all->n, part->ids, part->n * sizeof(*ids));
	all->ids = ids;
	all->n += part->n;
	all->nodes += part->nodes;
	return 0;
}

/*
 * All in one transaction. On a full disk there is room for a log as large as what is reserved for it: then half of
 * them in one, and so on, and what one has freed is room for the next.
 */
int snap_prune(struct snap *s, const struct snap_policy *p, int64_t now, bool dry_run,
               struct snap_pruned *ret)
{
	struct job job = { .policy = p, .now = now, .dry_run = dry_run, .most = SIZE_MAX };
	uint64_t before = snap_file_bytes(s), after;
	struct snap_pruned all = { 0 };
	bool more = true;
	int r = 0;

	while (more && r == 0) {
		struct snap_pruned part = { 0 };

		r = store_begin_write(s);
		if (r == 0) {
			r = prune_begun(s, &job, &part);
			store_end_write(s);
		}
		more = r == 0 && part.n >= job.most;
		if (r == 0) {
			r = add_part(&all, &part);
			if (part.n && !dry_run)
				give_back(s);
		} else if (r == -ENOSPC && MIN(part.n, job.most) > 1) {
			job.most = MIN(part.n, job.most) / 2;
			more = true;
			/* A page that does not stay in memory is written to the log each time. */
			r = store_exec(s->db, "PRAGMA cache_size=-16384");
		}
		snap_pruned_done(&part);
	}
	after = snap_file_bytes(s);
	all.bytes = before > after ? before - after : 0;
	all.left = all.n ? r : 0;
	if (r < 0 && !all.n)
		snap_pruned_done(&all);
	else
		*ret = all;
	return all.n ? 0 : r;
}

void snap_pruned_done(struct snap_pruned *p)
{
	free(p->ids);
	*p = (struct snap_pruned){ 0 };
}
