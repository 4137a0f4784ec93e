/* SPDX-License-Identifier: MIT */
/*
 * writer - turns what a scan reports into nodes, packs and one snapshot, in one transaction.
 *
 *     listing(): encode the entries, find the directory in the previous snapshot
 *     node():    fingerprint; the same as there? take the old ref; else, stored already? else append to
 *                the worker's own pack -> when full: compress, insert
 *     commit:    last packs, snapshot row, COMMIT (durable), fold the log back
 *
 * Of the previous snapshot, sums and fingerprints are read; its listings only where sub-directories came or
 * went, to see which is which.
 *
 * Workers share the tables of known fingerprints and, a few times a second, the connection.
 */
#include "snapshot/writer.h"

enum {
	CLOCK_TICK = 2
};

enum token_word {
	T_REF,
	T_FP0,
	T_FP1,
	T_FLAGS
};
enum token_flags {
	T_LISTABLE = 1,
	T_OWNER = 2
};

struct state { /* of a directory between its listing() and its node() */
	uint8_t *listing;
	size_t listing_len;
	uint64_t n_entries, n_children, names;
	struct scan_meta meta;
	bool single_owner; /* the entries right here are the directory's owner's */
	bool has_previous;
	/* Pinned; with its listing if its sub-directories have other names. */
	struct snap_node previous;
	struct node_key previous_key;
	uint64_t *previous_children; /* if it has the same sub-directories: refs by index */
};

/* A worker uses the last one again: mostly a directory is finished as soon as it was listed. */
static struct state *state_new(struct builder *b)
{
	struct state *st = b->spare;

	b->spare = NULL;
	if (!st)
		return calloc(1, sizeof(*st));
	memset(st, 0, sizeof(*st));
	return st;
}

/* b: NULL, or the builder of the worker that is here. */
static void state_free(struct snap_writer *w, struct builder *b, struct state *st)
{
	if (!st)
		return;
	if (st->has_previous)
		snap_node_put(w->s, &st->previous);
	free(st->previous_children);
	free(st->listing);
	if (b && !b->spare)
		b->spare = st;
	else
		free(st);
}

/* -- listing() ------------------------------------------------------------------------------- */

/* A large listing is taken over, a small one copied to what it needs. */
static int keep_listing(struct snap_writer *w, const struct scan_listing *l, struct state *st)
{
	struct bytes *b = l->bytes;

	st->n_entries = l->n;
	st->n_children = l->n_children;
	st->single_owner = l->one_owner;
	st->names = w->s->seed;
	for (size_t i = 0; i < l->n_children; i++) {
		const char *name = scan_listing_child(l, i);

		st->names = names_hash(st->names, name, strlen(name));
	}
	st->listing_len = b->len;
	if (b->len > PACK_TARGET) {
		st->listing = b->p;
		*b = (struct bytes){ 0 };
		return 0;
	}
	st->listing = malloc(b->len);
	if (!st->listing)
		return -ENOMEM;
	memcpy(st->listing, b->p, b->len);
	return 0;
}

static uint64_t previous_ref(struct snap_writer *w, const struct scan_dirinfo *dir)
{
	const struct state *parent = dir->parent;
	struct snap_entry e;

	if (!parent)
		return w->previous;
	if (parent->previous_children)
		return dir->index < parent->previous.n_children
		               ? parent->previous_children[dir->index]
		               : 0;
	if (!parent->previous.listing ||
	    snap_node_find(&parent->previous, dir->name, dir->name_len, &e, NULL) <= 0)
		return 0;
	return e.child;
}

static int decode_children(struct state *st)
{
	const uint8_t *p = st->previous.children;
	uint64_t last = st->previous.ref;
	struct node_child child;

	st->previous_children = calloc(st->previous.n_children, sizeof(*st->previous_children));
	if (!st->previous_children)
		return -ENOMEM;
	for (uint64_t i = 0; i < st->previous.n_children; i++) {
		if (!record_next_child(&p, st->previous.children_end, &last, &child))
			return -EUCLEAN;
		st->previous_children[i] = child.ref;
	}
	return 0;
}

/* Find the directory in the previous snapshot, and what its sub-directories will need of it. */
static int find_previous(struct snap_writer *w, const struct scan_dirinfo *dir, struct builder *b,
                         struct state *st)
{
	uint64_t ref = previous_ref(w, dir);
	int r;

	if (!ref)
		return 0;
	r = snap_keyed_head_get(w->s, &b->near, ref, &st->previous, &st->previous_key);
	if (r < 0)
		return r;
	st->has_previous = true;
	if (st->previous.pack != b->near.pack) {
		snap_node_put(w->s, &b->near);
		snap_node_dup(w->s, &st->previous, &b->near);
	}
	if (st->previous.n_children == 0 || st->n_children == 0)
		return 0;
	if (st->previous.n_children == st->n_children && st->previous.names == st->names)
		return decode_children(st);
	snap_node_put(w->s, &st->previous);
	return snap_node_get(w->s, ref, &st->previous);
}

/* Gives the first error of all workers in place of r. */
static int note_error(struct snap_writer *w, int r)
{
	int first = 0;

	if (r < 0 && !atomic_compare_exchange_strong(&w->error, &first, r))
		r = first;
	return r;
}

/* -- reuse(): --quick takes the entries of a directory whose time of modification is as before -------- */

/* What was left out may have to be in now: the options may have changed. */
static bool has_skipped(const struct snap_node *n)
{
	struct snap_iter it;

	if (n->totals.skipped == 0)
		return false;
	snap_iter_init(&it, n);
	while (snap_iter_next(&it) > 0)
		if (!snap_entry_exists(&it.e))
			return true;
	return false;
}

/* What was not whole is read again. */
static bool is_trusted(const struct snap_writer *w, const struct snap_node *n,
                       const struct scan_meta *now)
{
	const struct scan_totals *t = &n->totals;

	return n->meta.mtime == now->mtime && now->mtime < w->trusted_until && !n->problem &&
	       totals_problems(t) == t->skipped && !has_skipped(n);
}

static int sink_reuse(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
                      struct scan_reading *l)
{
	struct snap_writer *w = ctx;
	uint64_t ref = previous_ref(w, dir);
	struct snap_node n;
	int r;

	(void)worker;
	if (!ref)
		return 0;
	r = snap_node_get(w->s, ref, &n);
	if (r < 0)
		return note_error(w, r);
	if (is_trusted(w, &n, &dir->meta))
		r = scan_reuse(l, n.entries, (size_t)(n.end - n.entries), n.n_entries);
	snap_node_put(w->s, &n);
	return note_error(w, r);
}

/* -- keep(): the source says that all is as it was ---------------------------------------------------- */

/* The files with several names below a node that links leave. A damaged index could hold a ring. */
static int keep_links(struct snap_writer *w, const struct snap_node *top, struct scan_kept *k)
{
	AUTO(base_free) uint64_t *refs = NULL;
	uint64_t left = top->totals.dirs + 1;
	size_t n_refs = 0, cap = 0;
	int r = base_reserve(&refs, &cap, 1, sizeof(*refs));

	if (r == 0)
		refs[n_refs++] = top->ref;
	while (r == 0 && n_refs > 0) {
		struct snap_node n;
		struct snap_iter it;

		if (left-- == 0)
			return -EUCLEAN;
		r = snap_node_get(w->s, refs[--n_refs], &n);
		if (r < 0)
			return r;
		snap_iter_init(&it, &n);
		while (n.links_leave && (r = snap_iter_next(&it)) > 0) {
			if (it.e.meta.multi)
				r = scan_kept_link(k, &it.e.meta);
			else if (it.e.child)
				r = base_reserve(&refs, &cap, n_refs + 1, sizeof(*refs));
			else
				continue;
			if (r < 0)
				break;
			if (it.e.child)
				refs[n_refs++] = it.e.child;
		}
		snap_node_put(w->s, &n);
	}
	return r;
}

static void make_token(const struct snap_node *n, uint32_t uid, const struct snap_fingerprint *fp,
                       struct scan_token *ret)
{
	ret->word[T_REF] = n->ref;
	memcpy(&ret->word[T_FP0], fp->b, sizeof(fp->b));
	ret->word[T_FLAGS] = (n->world_listable ? T_LISTABLE : 0) |
	                     (n->single_owner ? T_OWNER : 0) | (uint64_t)uid << 32;
}

/*
 * What was not whole is read again, and so is what was left out: it may have to be in now. Where the audience
 * does not see all, which links it sees is told by reading the directory, and what is below may be kept.
 */
static int sink_keep(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
                     struct scan_kept *ret)
{
	struct snap_writer *w = ctx;
	uint64_t ref = previous_ref(w, dir);
	struct snap_fingerprint fp;
	struct snap_node n;
	int r;

	(void)worker;
	if (!ref)
		return 0;
	r = snap_node_get(w->s, ref, &n);
	if (r < 0)
		return note_error(w, r);
	r = totals_problems(&n.totals) || n.problem || n.partial || n.totals.bytes == INT64_MAX ||
	                    n.totals.apparent == INT64_MAX
	            ? 0
	            : 1;
	if (r == 1) {
		int e = snap_node_fingerprint(w->s, ref, &fp);

		if (e == 0 && n.links_leave)
			e = keep_links(w, &n, ret);
		ret->meta = n.meta;
		ret->totals = n.totals;
		make_token(&n, n.meta.uid, &fp, &ret->token);
		r = e < 0 ? e : 1;
	}
	snap_node_put(w->s, &n);
	return note_error(w, r);
}

static int sink_listing(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
                        const struct scan_listing *l, void **ret)
{
	struct snap_writer *w = ctx;
	struct builder *b = builder_of(w, worker);
	struct state *st = b ? state_new(b) : NULL;
	int r = st ? keep_listing(w, l, st) : -ENOMEM;

	if (r == 0 && w->previous)
		r = find_previous(w, dir, b, st);
	if (r < 0) {
		state_free(w, b, st);
		return note_error(w, r);
	}
	st->meta = dir->meta;
	*ret = st;
	return 0;
}

/* -- node() ---------------------------------------------------------------------------------- */

/* Store the node unless there is one with its fingerprint; n->ref becomes its ref. */
static int store_node(struct snap_writer *w, struct builder *b, struct snap_node *n,
                      const struct node_key *key, const uint8_t *listing, size_t len)
{
	uint32_t check = 0;
	int r = stored_find(w, key, n->totals.newest, &n->ref, &check);

	if (r == 0 && n->ref)
		return check == key->check ? 0 : -EUCLEAN;
	if (r == 0 && packer_is_full(&b->pack))
		r = builder_flush(w, b);
	if (r < 0)
		return r;
	known_lock(w->fresh, &key->fp);
	n->ref = known_find(w->fresh, &key->fp, &check);
	if (n->ref) {
		r = check == key->check ? 0 : -EUCLEAN;
	} else {
		n->ref = b->id << REF_SLOT_BITS | b->pack.n;
		r = builder_append(w, b, n, key, listing, len);
		if (r == 0)
			r = known_add(w->fresh, key, n->ref);
	}
	known_unlock(w->fresh, &key->fp);
	return r;
}

static int take_children(struct builder *b, const struct scan_child *children, size_t n)
{
	int r = base_reserve(&b->children, &b->children_cap, n, sizeof(*b->children));

	if (r == 0)
		r = base_reserve(&b->child_fps, &b->fps_cap, n, sizeof(*b->child_fps));
	for (size_t i = 0; r == 0 && i < n; i++) {
		const uint64_t *word = children[i].token.word;

		b->children[i] = (struct node_child){ children[i].problem ? 0 : word[T_REF],
			                              children[i].problem, children[i].error };
		memcpy(b->child_fps[i].b, &word[T_FP0], sizeof(b->child_fps[i].b));
	}
	return r;
}

static void set_attributes(struct snap_node *n, const struct state *st,
                           const struct scan_child *children, size_t n_children)
{
	n->world_listable = scan_audience(&st->meta) == SCAN_ALL;
	n->single_owner = st->single_owner;
	for (size_t i = 0; i < n_children; i++) {
		uint64_t flags = children[i].token.word[T_FLAGS];

		if (children[i].problem)
			continue;
		n->world_listable = n->world_listable && flags & T_LISTABLE;
		n->single_owner = n->single_owner && flags & T_OWNER && flags >> 32 == st->meta.uid;
	}
}

/* n->ref: of the previous snapshot's node if that is the same, else of one that is or gets stored. */
static int write_node(struct snap_writer *w, struct builder *b, const struct state *st,
                      struct snap_node *n, struct node_key *key)
{
	const struct node_key *old = &st->previous_key;
	size_t len = st->listing_len;
	int r = fingerprint_node(w->s->secret, &b->scratch, n, b->children, b->child_fps, &key->fp);

	if (r < 0)
		return r;
	key->check = record_check(n);
	if (!st->has_previous || memcmp(&key->fp, &old->fp, sizeof(key->fp)) != 0)
		return store_node(w, b, n, key, st->listing, len);
	n->ref = st->previous.ref;
	return key->check == old->check ? 0 : -EUCLEAN;
}

static int sink_node(void *ctx, unsigned worker, void *state, const struct scan_below *below,
                     struct scan_token *ret)
{
	struct snap_writer *w = ctx;
	struct state *st = state;
	struct builder *b = builder_of(w, worker);
	struct snap_node n = { .totals = *below->totals,
		               .links_leave = below->links_leave,
		               .n_children = below->n_children,
		               .n_entries = st->n_entries,
		               .names = st->names,
		               .listing = st->listing,
		               .end = st->listing + st->listing_len };
	struct node_key key = { 0 };
	int r = b ? take_children(b, below->children, below->n_children) : -ENOMEM;

	n.audience = below->audience ? *below->audience : n.totals;
	n.partial = memcmp(&n.audience, &n.totals, sizeof(n.totals)) != 0;
	set_attributes(&n, st, below->children, below->n_children);
	if (r == 0)
		r = write_node(w, b, st, &n, &key);
	make_token(&n, st->meta.uid, &key.fp, ret);
	state_free(w, b, st);
	return note_error(w, r);
}

static void sink_drop(void *ctx, void *state)
{
	state_free(ctx, NULL, state);
}

/* -- begin, commit, abort -------------------------------------------------------------------- */

static int begin_locked(struct snap_writer *w)
{
	struct snap *s = w->s;
	int r = stored_begin(w);

	if (r == 0)
		r = catalog_root(s, w->root, true, &w->root_id);
	if (r == 0 && w->mode != SNAP_COLD)
		r = catalog_latest(s, w->root_id, &w->before);
	if (r == -ENOENT)
		r = 0;
	if (r == 0 && w->before.details)
		w->previous = w->before.ref;
	if (!w->previous)
		w->mode = SNAP_COLD;
	/* What changed within a tick of the clock before that scan may have changed again unseen. */
	w->trusted_until = w->before.time - CLOCK_TICK;
	if (w->previous)
		w->sink.keep = sink_keep;
	if (w->mode == SNAP_QUICK)
		w->sink.reuse = sink_reuse;
	if (r == 0)
		r = snap_errno(sqlite3_prepare_v3(s->db, "INSERT " PACK_VALUES, -1,
		                                  SQLITE_PREPARE_PERSISTENT, &w->insert, NULL));
	return r;
}

int snap_write_begin(struct snap *s, const char *root, enum snap_mode mode,
                     struct snap_writer **ret)
{
	struct snap_writer *w = calloc(1, sizeof(*w));
	int r = w ? store_begin_write(s) : -ENOMEM;

	if (r < 0) {
		free(w);
		return r;
	}
	snap_cache_limit(s, CACHE_WRITER);
	w->s = s;
	w->mode = mode;
	w->sink = (struct scan_sink){
		.ctx = w, .listing = sink_listing, .node = sink_node, .drop = sink_drop
	};
	w->root = strdup(root);
	w->fresh = known_new();
	(void)pthread_mutex_lock(&s->lock);
	r = w->root && w->fresh ? begin_locked(w) : -ENOMEM;
	(void)pthread_mutex_unlock(&s->lock);
	if (r < 0)
		snap_write_abort(w);
	else
		*ret = w;
	return r;
}

const struct scan_sink *snap_write_sink(struct snap_writer *w)
{
	return &w->sink;
}

int snap_write_options(struct snap_writer *w, const char *words, size_t len)
{
	char *copy = malloc(MAX(len, 1));

	if (!copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, words, len);
	free(w->options);
	w->options = copy;
	w->options_len = len;
	return 0;
}

const struct scan_mark *snap_write_mark(const struct snap_writer *w)
{
	const struct snap_details *d = w->before.details;

	if (!d || w->before.mode == SNAP_QUICK || d->options_len != w->options_len ||
	    (w->options_len && memcmp(d->options, w->options, w->options_len) != 0))
		return NULL;
	return &d->mark;
}

int snap_write_error(struct snap_writer *w)
{
	return atomic_load(&w->error);
}

void snap_write_abort(struct snap_writer *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->s->lock);
	(void)sqlite3_finalize(w->insert);
	stored_done(&w->stored);
	(void)pthread_mutex_unlock(&w->s->lock);
	store_end_write(w->s);
	for (size_t i = 0; i < SCAN_THREADS_MAX; i++)
		builder_free(w, atomic_load(&w->builder[i]));
	known_free(w->fresh);
	snap_info_done(&w->before);
	free(w->root);
	free(w->options);
	free(w);
}

static int fill_info(struct snap_writer *w, const struct scan_report *report, struct snap_info *i)
{
	uint64_t ref = report->token.word[T_REF];
	struct snap_details *d = malloc(sizeof(*d));

	*i = (struct snap_info){
		.time = report->start,
		.mode = w->mode,
		.complete = report->totals.errors == 0,
		.ref = ref,
		.totals = report->totals,
		.details = d,
		.root = strdup(w->root),
	};
	memcpy(i->fingerprint.b, &report->token.word[T_FP0], sizeof(i->fingerprint.b));
	if (!d)
		return -ENOMEM;
	*d = (struct snap_details){
		.stats = report->stats,
		.statvfs = report->statvfs,
		.options = TAKE(w->options),
		.options_len = w->options_len,
		.mark = report->mark,
		.nodes_written = atomic_load(&w->nodes_written),
		.listings_written = atomic_load(&w->listings_written),
	};
	return i->root ? 0 : -ENOMEM;
}

static int commit_locked(struct snap_writer *w, struct snap_info *i)
{
	struct snap *s = w->s;
	int r = store_bytes(s, &i->details->index_bytes);

	if (r == 0)
		r = stored_commit(w);
	if (r == 0)
		r = catalog_add(s, w->root_id, i);
	if (r == 0)
		r = store_commit(s);
	if (r < 0)
		return r;
	s->in_read = s->writing = false;
	store_fold_log(s); /* readers may hold it, then a later snapshot does */
	return 0;
}

int snap_write_commit(struct snap_writer *w, const struct scan_report *report,
                      struct snap_info *ret)
{
	struct snap_info info = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < SCAN_THREADS_MAX; i++) {
		struct builder *b = atomic_load(&w->builder[i]);

		if (b)
			r = builder_flush(w, b);
	}
	if (r == 0)
		r = fill_info(w, report, &info);
	if (r == 0) {
		(void)pthread_mutex_lock(&w->s->lock);
		r = commit_locked(w, &info);
		(void)pthread_mutex_unlock(&w->s->lock);
	}
	if (r < 0)
		snap_info_done(&info);
	else
		*ret = info;
	snap_write_abort(w);
	return r;
}
