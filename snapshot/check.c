/* SPDX-License-Identifier: MIT */
/*
 * check - verifies all that is stored and says which snapshots can be trusted.
 *
 *     each pack: its sums, its heads and listings, every node's fingerprint (from its listing and its
 *     children's fingerprints), totals and sums for the audience (from its listing and its children's)
 *     and hash of names
 *     each row about a snapshot, and meta: their sums, and that none is missing
 *     each snapshot: the root's fingerprint and totals, and that everything below it was found good
 */
#include "snapshot/lookup.h"
#include "snapshot/mark.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct checker {
	struct snap *s;
	struct marks bad; /* nodes that are wrong in themselves */
	struct marks
		linked; /* nodes with multi-link files below: their sums are bounds, not equations */
	struct marks seen; /* found good with all below */
	struct bytes scratch;
	struct node_child *children;
	struct snap_fingerprint *fps;
	size_t children_cap, fps_cap;
	struct snap_damage *ret;
};

static int load_children(struct checker *c, const struct snap_node *n)
{
	int r = record_children(n, &c->children, &c->children_cap);

	if (r == 0)
		r = base_reserve(&c->fps, &c->fps_cap, n->n_children, sizeof(*c->fps));
	for (uint64_t i = 0; r == 0 && i < n->n_children; i++) {
		memset(&c->fps[i], 0, sizeof(c->fps[i]));
		if (c->children[i].ref)
			r = snap_node_fingerprint(c->s, c->children[i].ref, &c->fps[i]);
	}
	return r;
}

static int check_fingerprint(struct checker *c, const struct snap_node *n)
{
	struct node_key stored;
	struct snap_fingerprint made;
	int r = load_children(c, n);

	if (r == 0)
		r = snap_node_key(c->s, n->ref, &stored);
	if (r == 0)
		r = fingerprint_node(c->s->secret, &c->scratch, n, c->children, c->fps, &made);
	if (r < 0)
		return r;
	return memcmp(&stored.fp, &made, sizeof(made)) == 0 && stored.check == record_check(n)
	               ? 0
	               : -EUCLEAN;
}

/* What a node's listing and its children say it should store. */
struct expected {
	struct scan_totals totals, audience;
	uint64_t names;
	bool world_listable, single_owner;
	bool linked; /* a file with several names is below: sums are bounds */
};

static int add_child(struct checker *c, struct expected *x, const struct snap_node *n, uint64_t ref)
{
	struct scan_totals alone; /* what is seen of it by who may not list it */
	struct snap_node child;
	int r = snap_node_get(c->s, ref, &child);

	if (r < 0)
		return r;
	totals_add(&x->totals, &child.totals);
	alone = (struct scan_totals){ .bytes = child.meta.blocks * 512,
		                      .newest = child.meta.mtime };
	totals_add(&x->audience,
	           scan_audience_covers(&child.meta, &n->meta) ? &child.audience : &alone);
	x->linked = x->linked || marks_has(&c->linked, ref);
	x->world_listable = x->world_listable && child.world_listable;
	x->single_owner = x->single_owner && child.single_owner && child.meta.uid == n->meta.uid;
	snap_node_put(c->s, &child);
	return 0;
}

static void add_file(struct scan_totals *t, const struct snap_entry *e)
{
	totals_add_problem(t, e->problem);
	if (!snap_entry_exists(e))
		return;
	t->entries++;
	t->files += e->type == SCAN_FILE;
	if (e->problem)
		return;
	t->bytes = size_sum(t->bytes, e->meta.blocks * 512);
	t->apparent = size_sum(t->apparent, e->meta.size);
	t->newest = MAX(t->newest, e->meta.mtime);
}

static int add_entry(struct checker *c, struct expected *x, const struct snap_node *n,
                     const struct snap_entry *e)
{
	if (e->placed)
		x->names = names_hash(x->names, e->name, e->name_len);
	if (e->type == SCAN_DIR && e->child)
		return add_child(c, x, n, e->child);
	add_file(&x->totals, e);
	add_file(&x->audience, e);
	if (e->problem)
		return 0;
	x->linked = x->linked || e->meta.multi;
	x->single_owner = x->single_owner && (e->type == SCAN_DIR || e->meta.uid == n->meta.uid);
	return 0;
}

/*
 * Two numbers do not follow from the listing and the children: what is shared depends on names elsewhere, and
 * a name that the kernel listed twice counts as changed without an entry of its own. Where a file has several
 * names, sizes are bounds.
 */
static bool totals_agree(const struct scan_totals *stored, struct scan_totals made, bool linked)
{
	made.shared = stored->shared;
	made.changed = MAX(made.changed, stored->changed);
	if (linked) {
		made.bytes = MIN(made.bytes, stored->bytes);
		made.apparent = MIN(made.apparent, stored->apparent);
	}
	return memcmp(stored, &made, sizeof(made)) == 0;
}

/*
 * Names that were listed twice show in the totals. Which links an audience sees is not stored: what is shared
 * may be more than in the totals, since a link inside may be outside for it.
 */
static bool audience_agrees(const struct snap_node *n, const struct expected *x)
{
	const struct scan_totals *a = &n->audience;
	struct scan_totals made = x->audience;

	made.changed += n->totals.changed - MIN(n->totals.changed, x->totals.changed);
	if (!x->linked)
		return memcmp(a, &made, sizeof(made)) == 0;
	if (a->bytes > MIN(made.bytes, n->totals.bytes) ||
	    a->apparent > MIN(made.apparent, n->totals.apparent) || a->shared > a->bytes)
		return false;
	made.bytes = a->bytes;
	made.apparent = a->apparent;
	made.shared = a->shared;
	return memcmp(a, &made, sizeof(made)) == 0;
}

static bool head_agrees(const struct snap_node *n, const struct expected *x)
{
	return totals_agree(&n->totals, x->totals, x->linked) && audience_agrees(n, x) &&
	       (n->totals.shared == 0 || n->links_leave) && (x->linked || !n->links_leave) &&
	       (n->n_children == 0 || n->names == x->names) &&
	       n->world_listable == x->world_listable && n->single_owner == x->single_owner;
}

static int check_head(struct checker *c, const struct snap_node *n)
{
	struct expected x = { .totals = { .bytes = n->meta.blocks * 512, .newest = n->meta.mtime },
		              .names = c->s->seed,
		              .world_listable = scan_audience(&n->meta) == SCAN_ALL,
		              .single_owner = true };
	struct snap_iter it;
	int r = 0, more = 0;

	totals_add_problem(&x.totals, n->problem);
	x.audience = x.totals;
	snap_iter_init(&it, n);
	while (r == 0 && (more = snap_iter_next(&it)) > 0)
		r = add_entry(c, &x, n, &it.e);
	if (r == 0 && more < 0)
		r = more;
	if (r == 0 && x.linked && marks_add(&c->linked, n->ref) < 0)
		r = -ENOMEM;
	if (r == 0 && !head_agrees(n, &x))
		r = -EUCLEAN;
	return r;
}

/* Only what a disk or a hand can do to an index marks a node bad; the rest ends the check. */
static bool is_damage(int r)
{
	return r == -EUCLEAN || r == -ESTALE;
}

/* -- one snapshot: children before parents, each node once -- */

struct frame {
	uint64_t ref;
	bool opened;
};

struct frames {
	struct frame *f;
	size_t n, cap;
};

static int push_frame(struct frames *st, uint64_t ref)
{
	int r = base_reserve(&st->f, &st->cap, st->n + 1, sizeof(*st->f));

	if (r == 0)
		st->f[st->n++] = (struct frame){ .ref = ref };
	return r;
}

static int open_child(struct checker *c, struct frames *st, const struct snap_node *n, uint64_t ref)
{
	struct snap_node child;
	int r;

	if (!ref || marks_has(&c->seen, ref) || marks_has(&c->bad, ref))
		return 0;
	r = snap_child_head(c->s, n, ref,
	                    &child); /* a smaller tree: no ring can be followed for ever */
	if (r < 0)
		return r;
	snap_node_put(c->s, &child);
	return push_frame(st, ref);
}

static int open_frame(struct checker *c, struct frames *st, uint64_t ref)
{
	struct snap_node n;
	int r = snap_node_get(c->s, ref, &n);

	if (r < 0)
		return r;
	r = load_children(c, &n);
	for (uint64_t i = 0; r == 0 && i < n.n_children; i++)
		r = open_child(c, st, &n, c->children[i].ref);
	snap_node_put(c->s, &n);
	return r;
}

static int children_good(struct checker *c, const struct snap_node *n)
{
	int r = load_children(c, n);

	for (uint64_t i = 0; r == 0 && i < n->n_children; i++)
		if (c->children[i].ref && marks_has(&c->bad, c->children[i].ref))
			r = -ESTALE;
	return r;
}

static int close_frame(struct checker *c, uint64_t ref)
{
	struct snap_node n;
	int r = snap_node_get(c->s, ref, &n);

	if (r < 0)
		return r;
	r = children_good(c, &n);
	if (r == 0)
		r = check_fingerprint(c, &n);
	if (r == 0)
		r = check_head(c, &n);
	snap_node_put(c->s, &n);
	c->ret->nodes++;
	return r;
}

static int mark_bad(struct checker *c, uint64_t ref)
{
	int r = marks_add(&c->bad, ref);

	c->ret->bad_nodes += r > 0;
	return r < 0 ? r : 0;
}

static int step(struct checker *c, struct frames *st)
{
	struct frame *f = &st->f[st->n - 1];
	uint64_t ref = f->ref;
	int r;

	if (f->opened || marks_has(&c->seen, ref) || marks_has(&c->bad, ref)) {
		bool fresh = f->opened && !marks_has(&c->seen, ref) && !marks_has(&c->bad, ref);

		st->n--;
		r = fresh ? close_frame(c, ref) : 0;
		if (r == 0 && fresh && marks_add(&c->seen, ref) < 0)
			r = -ENOMEM;
	} else {
		f->opened = true;
		r = open_frame(c, st, ref);
	}
	return is_damage(r) ? mark_bad(c, ref) : r;
}

static int check_tree(struct checker *c, uint64_t root)
{
	struct frames st = { 0 };
	int r = push_frame(&st, root);

	while (r == 0 && st.n)
		r = step(c, &st);
	free(st.f);
	return r;
}

static int root_agrees(struct checker *c, const struct snap_info *i)
{
	struct snap_fingerprint fp;
	struct snap_node n;
	int r = snap_node_get(c->s, i->ref, &n);

	if (r < 0)
		return r;
	if (memcmp(&n.totals, &i->totals, sizeof(n.totals)) != 0)
		r = -EUCLEAN;
	snap_node_put(c->s, &n);
	if (r == 0)
		r = snap_node_fingerprint(c->s, i->ref, &fp);
	return r == 0 && memcmp(&fp, &i->fingerprint, sizeof(fp)) != 0 ? -EUCLEAN : r;
}

static int check_snapshot(struct checker *c, const struct snap_info *i)
{
	int r = check_tree(c, i->ref);

	if (r < 0)
		return r;
	r = marks_has(&c->bad, i->ref) ? -EUCLEAN : root_agrees(c, i);
	if (r < 0 && !is_damage(r))
		return r;
	if (r < 0)
		c->ret->ids[c->ret->n++] = i->id;
	return 0;
}

/* -- rows -- */

static int say(struct snap_damage *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

static int say(struct snap_damage *d, const char *fmt, ...)
{
	void *more = realloc(d->found, (d->n_found + 1) * sizeof(*d->found));
	va_list args;

	if (!more)
		return -ENOMEM;
	d->found = more;
	va_start(args, fmt);
	(void)vsnprintf(d->found[d->n_found++], sizeof(*d->found), fmt, args);
	va_end(args);
	return 0;
}

static int check_row(struct checker *c, sqlite3_stmt *st, int64_t *last)
{
	int64_t id = sqlite3_column_int64(st, 0), before = catalog_before(st);
	struct snap_info i = { 0 };
	int r = catalog_read(c->s, st, true, &i);

	snap_info_done(&i);
	if (r == -EUCLEAN) {
		c->ret->ids[c->ret->n++] = id;
		r = say(c->ret,
		        "snapshot %" PRId64
		        ": its row is damaged; it is left out, and the next 'prune' removes it",
		        id);
	} else if (r == 0 && before != *last) {
		r = say(c->ret,
		        "snapshot %" PRId64 " is missing: its row is gone, and only a copy of the"
		        " index has it",
		        before > *last ? before : *last + 1);
	}
	*last = id;
	return r;
}

static int check_meta(struct checker *c, int64_t last)
{
	static const char *const keys[] = {
		"SELECT value FROM meta WHERE key='next_pack'",
		"SELECT ifnull(max(id), 0) FROM pack",
		"SELECT value FROM meta WHERE key='last'",
	};
	int64_t v[ARRAY_SIZE(keys)] = { 0 };
	bool whole = false;
	int r = seal_meta_check(c->s->db, c->s->secret, &whole);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
		r = store_int(c->s->db, keys[i], &v[i]);
		if (r == -EUCLEAN) /* it is not there */
			r = 0, whole = false;
	}
	if (r == 0 && v[0] <= v[1])
		r = say(c->ret, "meta: next_pack is too small; the next scan repairs it");
	if (r == 0 && !whole)
		r = say(c->ret, "meta: a key or a table is not as it was written; if snapshots are"
		                " damaged too, it is the secret, else the next scan repairs it");
	else if (r == 0 && last < v[2])
		r = say(c->ret,
		        "snapshot %" PRId64 " is missing: its row is gone, and only a copy of the"
		        " index has it",
		        v[2]);
	return r;
}

/* Each as it was written, and none missing between them. */
static int check_rows(struct checker *c, size_t *n)
{
	int64_t last = 0, count = 0;
	sqlite3_stmt *st;
	int rc = SQLITE_DONE, r = store_int(c->s->db, "SELECT count(*) FROM snapshot", &count);

	c->ret->ids = calloc((size_t)count + 1, sizeof(*c->ret->ids));
	*n = (size_t)count;
	if (r == 0 && !c->ret->ids)
		r = -ENOMEM;
	if (r == 0)
		r = catalog_select(c->s, "s.id >= ? ORDER BY s.id", INT64_MIN, &st);
	if (r < 0)
		return r;
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = c->ret->n < *n ? check_row(c, st, &last) : -EUCLEAN;
	(void)sqlite3_finalize(st);
	if (r == 0)
		r = snap_errno(rc);
	return r ? r : check_meta(c, last);
}

/* Packs that nothing refers to are read too: damage there is damage of the medium. */
static int check_packs(struct checker *c, void (*progress)(void *, uint64_t), void *ctx)
{
	sqlite3_stmt *st;
	int rc, r = 0;

	(void)pthread_mutex_lock(&c->s->lock);
	rc = sqlite3_prepare_v2(c->s->db, "SELECT " PACK_COLUMNS " FROM pack", -1, &st, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct snap_pack *p = NULL;
		struct pack_row row;

		r = pack_row_read(st, true, &row);
		if (r == 0)
			r = pack_decode(c->s, &row, &p);
		pack_free(p);
		c->ret->packs++;
		c->ret->bad_packs += is_damage(r);
		if (progress && c->ret->packs % 256 == 0)
			progress(ctx, c->ret->packs);
		if (r < 0 && !is_damage(r))
			break;
		r = 0;
		rc = SQLITE_OK;
	}
	(void)sqlite3_finalize(st);
	(void)pthread_mutex_unlock(&c->s->lock);
	return r ? r : snap_errno(rc);
}

/* It follows from the packs: where one is damaged it cannot be told whether this is right. */
static int check_lookup(struct checker *c)
{
	int r;

	if (c->ret->bad_packs)
		return 0;
	(void)pthread_mutex_lock(&c->s->lock);
	r = store_begin_read(c->s);
	if (r == 0)
		r = lookup_check(c->s);
	(void)pthread_mutex_unlock(&c->s->lock);
	c->ret->bad_lookup = is_damage(r);
	return is_damage(r) ? 0 : r;
}

/* Also that the indexes say what the tables do. */
static int check_structure(struct snap *s)
{
	sqlite3_stmt *st;
	bool ok = false;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	rc = sqlite3_prepare_v2(s->db, "PRAGMA integrity_check(1)", -1, &st, NULL);
	if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
		ok = strcmp((const char *)sqlite3_column_text(st, 0), "ok") == 0;
	(void)sqlite3_finalize(st);
	(void)pthread_mutex_unlock(&s->lock);
	return rc == SQLITE_ROW ? (ok ? 0 : -EUCLEAN) : snap_errno(rc);
}

int snap_check(struct snap *s, void (*progress)(void *ctx, uint64_t packs), void *ctx,
               struct snap_damage *ret)
{
	struct checker c = { .s = s, .ret = ret };
	struct snap_list l = { 0 };
	int structure = check_structure(s), r;
	size_t n = 0;

	*ret = (struct snap_damage){ 0 };
	r = is_damage(structure) ? say(ret, "the tables themselves are damaged") : structure;
	if (r == 0) {
		(void)pthread_mutex_lock(&s->lock);
		r = store_begin_read(s);
		if (r == 0)
			r = check_rows(&c, &n);
		(void)pthread_mutex_unlock(&s->lock);
	}
	if (r == 0)
		r = snap_list_get(s, &l);
	if (r == 0)
		r = check_packs(&c, progress, ctx);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		r = ret->n < n ? check_snapshot(&c, l.info[i]) : -EUCLEAN;
	if (r == 0)
		r = check_lookup(&c);
	if (structure < 0)
		ret->bad_packs = MAX(ret->bad_packs, 1);
	marks_done(&c.bad);
	marks_done(&c.linked);
	marks_done(&c.seen);
	free(c.scratch.p);
	free(c.children);
	free(c.fps);
	snap_list_done(&l);
	if (r < 0)
		snap_damage_done(ret);
	return r;
}

void snap_damage_done(struct snap_damage *d)
{
	free(d->ids);
	free(d->found);
	*d = (struct snap_damage){ 0 };
}
