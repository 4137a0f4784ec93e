/* SPDX-License-Identifier: MIT */
/*
 * follow - notices a new snapshot and brings the mount to it in one step.
 *
 *     ask the index a few times a second whether something was committed
 *     compare the new generation with the shown one, only where the kernel knows a directory
 *     with the rows locked: change those rows, show the new generation
 *     wait until requests that began before are answered
 *     tell the kernel, from here and with no lock held: attributes, names and texts that changed
 *
 * Until the kernel is told it may answer from its cache, all of the old snapshot; afterwards it asks.
 * (Telling it takes the directory's lock in the kernel, which a LOOKUP may hold while it waits for us.)
 */
#include "fs/internal.h"

#include <malloc.h>

enum {
	POLL_MS = 250,
	TRIES = 3,
	MANY_REQUESTS = 10000
};

struct change {
	uint32_t row;
	uint64_t old, now; /* 0: not there */
	uint64_t texts;
};

struct changes {
	struct change *c;
	size_t n, cap;
};

static uint32_t known_row(struct fs *fs, const struct row *want)
{
	uint32_t row;

	(void)pthread_rwlock_rdlock(&fs->rows.lock);
	row = rows_find(&fs->rows, want);
	(void)pthread_rwlock_unlock(&fs->rows.lock);
	return row;
}

static int add_change(struct changes *all, uint32_t row, uint64_t old, uint64_t now)
{
	int r = base_reserve(&all->c, &all->cap, all->n + 1, sizeof(*all->c));

	if (r == 0)
		all->c[all->n++] = (struct change){ .row = row, .old = old, .now = now };
	return r;
}

/* Two listings side by side, in name order. */
struct pair {
	struct fs *fs;
	struct snap_node old, now;
	struct snap_iter a, b;
	int more_a, more_b;
};

static int pair_open(struct fs *fs, const struct change *c, struct pair *p)
{
	int r = 0;

	memset(p, 0, sizeof(*p));
	p->fs = fs;
	if (c->old)
		r = snap_node_get(fs->s, c->old, &p->old);
	if (r == 0 && c->now) {
		r = snap_node_get(fs->s, c->now, &p->now);
		if (r < 0 && c->old)
			snap_node_put(fs->s, &p->old);
	}
	if (r < 0)
		return r;
	snap_iter_init(&p->a, &p->old);
	snap_iter_init(&p->b, &p->now);
	p->more_a = c->old ? snap_iter_next(&p->a) : 0;
	p->more_b = c->now ? snap_iter_next(&p->b) : 0;
	return 0;
}

static void pair_close(struct pair *p)
{
	snap_node_put(p->fs->s, &p->old);
	snap_node_put(p->fs->s, &p->now);
}

/* The next name; an entry that is only on one side leaves the other NULL. False at the end. */
static bool pair_step(struct pair *p, struct snap_entry *a, struct snap_entry *b, bool *in_a,
                      bool *in_b)
{
	int c;

	if (p->more_a <= 0 && p->more_b <= 0)
		return false;
	c = p->more_a <= 0 ? 1 : p->more_b <= 0 ? -1 : strcmp(p->a.e.name, p->b.e.name);
	*in_a = c <= 0;
	*in_b = c >= 0;
	if (*in_a) {
		*a = p->a.e;
		p->more_a = snap_iter_next(&p->a);
		*in_a = snap_entry_exists(a);
	}
	if (*in_b) {
		*b = p->b.e;
		p->more_b = snap_iter_next(&p->b);
		*in_b = snap_entry_exists(b);
	}
	return true;
}

static uint64_t dir_ref(const struct snap_entry *e, bool present)
{
	return present && e->type == SCAN_DIR ? e->child : 0;
}

/* Add the known sub-directories of a changed one that changed too. */
static int compare(struct fs *fs, struct changes *all, size_t i)
{
	struct change c = all->c[i];
	struct snap_entry a, b;
	bool in_a, in_b;
	struct pair p;
	struct row row;
	int r;

	if (!rows_get(&fs->rows, c.row, &row))
		return 0;
	r = pair_open(fs, &c, &p);
	while (r == 0 && pair_step(&p, &a, &b, &in_a, &in_b)) {
		uint64_t old = dir_ref(&a, in_a), now = dir_ref(&b, in_b);
		const struct snap_entry *e = in_a ? &a : &b;
		uint32_t child;

		if (old == now)
			continue;
		child = known_row(
			fs, &(struct row){ .key = ino_key(&fs->ino, row.key, e->name, e->name_len),
		                           .ref = old,
		                           .parent = c.row & ROW_MASK });
		if (child)
			r = add_change(all, child, old, now);
	}
	pair_close(&p);
	return r;
}

static int collect(struct fs *fs, const struct gen *old, const struct gen *now, struct changes *all)
{
	int r = 0;

	all->n = 0;
	if (old->top_ref != now->top_ref)
		r = add_change(all, ROW_TOP, old->top_ref, now->top_ref);
	for (size_t i = 0; r == 0 && i < all->n; i++)
		r = compare(fs, all, i);
	return r;
}

/*
 * The old generation cannot be read any more (pruned, or damaged): look for every known directory by its
 * path in the new one.
 */
static int resolve_all(struct fs *fs, const struct gen *old, const struct gen *now,
                       struct changes *all)
{
	struct row row;
	uint64_t ref;
	uint32_t used;
	int r = 0;

	(void)old;
	all->n = 0;
	(void)pthread_rwlock_rdlock(&fs->rows.lock);
	used = fs->rows.used;
	(void)pthread_rwlock_unlock(&fs->rows.lock);
	for (uint32_t i = 1; r == 0 && i < used; i++) {
		if (!rows_get(&fs->rows, i, &row) || row.fixed)
			continue;
		r = place_ref(fs, now, i, &ref);
		if (r == -ENOENT)
			ref = 0;
		if (r == 0 || r == -ENOENT)
			r = add_change(all, i, 0, ref);
	}
	return r;
}

/* With the rows locked for writing. */
static void apply(struct fs *fs, struct changes *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct row *r = rows_at(&fs->rows, all->c[i].row);

		if (!r->key)
			continue;
		r->ref = all->c[i].now;
		all->c[i].texts = r->texts;
		r->texts = 0;
	}
}

/* Texts that say when the snapshot was taken change everywhere. */
static uint64_t asof_texts(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < n_usage_files; i++)
		if (usage_files[i].asof)
			mask |= UINT64_C(1) << MIN(i, 63);
	return mask;
}

static int collect_asof(struct fs *fs, uint32_t number, struct changes *ret)
{
	struct rows *t = &fs->rows;
	/* Generations are not kept for ever, but the kernel may keep a name for long. */
	uint64_t mask = number % (GENS_KEPT / 2) == 0 ? UINT64_MAX : asof_texts();
	int r = 0;

	for (uint32_t i = 1; r == 0 && i < t->used; i++) {
		struct row *row = rows_at(t, i);

		if (!row->key || row->fixed || !(row->texts & mask))
			continue;
		r = add_change(ret, i, row->ref, row->ref);
		if (r == 0) {
			ret->c[ret->n - 1].texts = row->texts & mask;
			row->texts &= ~mask;
		}
	}
	return r;
}

/* -- telling the kernel ---------------------------------------------------------------------- */

static void tell_name(struct fs *fs, fuse_ino_t dir, const char *name)
{
	(void)fuse_lowlevel_notify_inval_entry(fs->session, dir, name, strlen(name));
	atomic_fetch_add(&fs->notified, 1);
}

static void tell_inode(struct fs *fs, fuse_ino_t ino)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session, ino, 0, 0);
	atomic_fetch_add(&fs->notified, 1);
}

static void tell_texts(struct fs *fs, const struct change *c)
{
	struct node_id id = { .kind = NODE_VIRTUAL, .row = c->row, .virt = V_USAGE };
	char name[64];

	if (!c->texts)
		return;
	tell_inode(fs, node_id_pack(&id));
	for (size_t i = 0; i < n_usage_files; i++) {
		if (!(c->texts >> MIN(i, 63) & 1))
			continue;
		id.virt = virt_dir((uint8_t)i);
		usage_file_name((uint8_t)i, name);
		tell_name(fs, node_id_pack(&id), name);
		if (!usage_files[i].twin)
			continue;
		usage_file_name((uint8_t)(i | V_TWIN), name);
		tell_name(fs, node_id_pack(&id), name);
	}
}

static bool is_other(const struct snap_entry *a, const struct snap_entry *b)
{
	if (a->type != b->type || a->problem != b->problem)
		return true;
	return a->type != SCAN_DIR && memcmp(&a->meta, &b->meta, sizeof(a->meta)) != 0;
}

/* Names in a changed directory that are gone or are another thing now. */
static void tell_entries(struct fs *fs, const struct change *c)
{
	struct snap_entry a, b;
	bool in_a, in_b;
	char shown[260];
	struct pair p;

	if (pair_open(fs, c, &p) < 0)
		return;
	while (pair_step(&p, &a, &b, &in_a, &in_b)) {
		if (!in_a || (in_b && !is_other(&a, &b)))
			continue;
		name_to_shown(c->row == ROW_TOP, a.name, shown);
		tell_name(fs, c->row, shown);
	}
	pair_close(&p);
}

static bool is_stopping(struct fs *fs)
{
	bool stop;

	(void)pthread_mutex_lock(&fs->stop_lock);
	stop = fs->stopping;
	(void)pthread_mutex_unlock(&fs->stop_lock);
	return stop;
}

static void tell_all(struct fs *fs, const struct changes *changed, const struct changes *asof)
{
	for (size_t i = 0; i < changed->n && !is_stopping(fs); i++) {
		tell_inode(fs, changed->c[i].row);
		tell_texts(fs, &changed->c[i]);
		tell_entries(fs, &changed->c[i]);
	}
	for (size_t i = 0; i < asof->n; i++)
		tell_texts(fs, &asof->c[i]);
}

/* Forget every name below the top: what was there is not known. */
static void tell_top(struct fs *fs)
{
	struct gen *g = view_now(&fs->view);
	struct change all = { .row = ROW_TOP, .old = g->top_ref };

	tell_entries(fs, &all);
	gen_put(&fs->view, g);
}

/* -- one new snapshot ------------------------------------------------------------------------ */

/*
 * Lookups go on while the trees are compared, and each may make a row that the comparison missed. Then
 * it is done again, now with everything in the cache; the last time with lookups waiting.
 */
typedef int collect_fn(struct fs *fs, const struct gen *old, const struct gen *now,
                       struct changes *all);

static int switch_to(struct fs *fs, struct gen *g, collect_fn *find, struct changes *changed,
                     struct changes *asof)
{
	struct rows *t = &fs->rows;
	struct gen *old = atomic_load(&fs->view.now);
	uint64_t created;
	int r;

	for (int i = 0; i < TRIES; i++) {
		(void)pthread_rwlock_rdlock(&t->lock);
		created = t->created;
		(void)pthread_rwlock_unlock(&t->lock);
		r = find(fs, old, g, changed);
		if (r < 0)
			return r;
		(void)pthread_rwlock_wrlock(&t->lock);
		if (t->created == created)
			break;
		if (i + 1 < TRIES)
			(void)pthread_rwlock_unlock(&t->lock);
	}
	if (t->created !=
	    created) { /* still held: nothing can be made now, so this time it is complete */
		(void)pthread_rwlock_unlock(&t->lock);
		(void)pthread_rwlock_wrlock(&fs->requests);
		r = find(fs, old, g, changed);
		(void)pthread_rwlock_wrlock(&t->lock);
		(void)pthread_rwlock_unlock(&fs->requests);
		if (r < 0) {
			(void)pthread_rwlock_unlock(&t->lock);
			return r;
		}
	}
	apply(fs, changed);
	view_publish(&fs->view, g);
	r = collect_asof(fs, g->number, asof);
	(void)pthread_rwlock_unlock(&t->lock);
	return r;
}

static int follow(struct fs *fs)
{
	struct changes changed = { 0 }, asof = { 0 };
	bool unknown = false;
	struct gen *g;
	int r = view_load(&fs->view, &g);

	if (r < 0 || !g)
		return r;
	ino_roots(&fs->ino, g);
	if (g->all.n_damaged)
		fs_say(fs, "a snapshot is left out of the", -EUCLEAN);
	r = switch_to(fs, g, collect, &changed, &asof);
	if ((r == -ESTALE || r == -EUCLEAN) && atomic_load(&fs->view.now) != g) {
		unknown = true;
		r = switch_to(fs, g, resolve_all, &changed, &asof);
	}
	if (r < 0 && atomic_load(&fs->view.now) != g) {
		gen_put(&fs->view, g);
	} else {
		r = 0;
		/* Requests that saw the old generation have answered once this lock was had. */
		(void)pthread_rwlock_wrlock(&fs->requests);
		(void)pthread_rwlock_unlock(&fs->requests);
		atomic_fetch_add(&fs->snapshots_seen, 1);
		tell_all(fs, &changed, &asof);
		if (unknown)
			tell_top(fs);
	}
	free(changed.c);
	free(asof.c);
	return r;
}

static bool wait_a_while(struct fs *fs)
{
	struct timespec until;
	bool stop;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += POLL_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	(void)pthread_mutex_lock(&fs->stop_lock);
	if (!fs->stopping)
		(void)pthread_cond_timedwait(&fs->stop_cond, &fs->stop_lock, &until);
	stop = fs->stopping;
	(void)pthread_mutex_unlock(&fs->stop_lock);
	return !stop;
}

struct quiet {
	uint64_t asked, given_back; /* requests up to the last look, and up to the last time */
};

/* When somebody has walked through a lot and is done, memory that is free again goes back to the system. */
static void give_back(struct fs *fs, struct quiet *q)
{
	uint64_t asked = 0;

	for (size_t i = 0; i < C_MAX; i++)
		asked += atomic_load_explicit(&fs->count[i], memory_order_relaxed);
	if (asked == q->asked && asked - q->given_back > MANY_REQUESTS) {
		(void)malloc_trim(0);
		q->given_back = asked;
	}
	q->asked = asked;
}

static void *follower_main(void *arg)
{
	struct fs *fs = arg;
	uint64_t seen = 0, version;
	struct quiet quiet = { 0 };
	int r;

	while (wait_a_while(fs)) {
		give_back(fs, &quiet);
		r = snap_data_version(fs->s, &version);
		if (r == 0 && version == seen)
			continue;
		if (r == 0)
			r = follow(fs);
		if (r == 0)
			seen = version;
		else
			fs_say(fs, "cannot follow the", r);
	}
	return NULL;
}

int follow_start(struct fs *fs)
{
	int r = pthread_create(&fs->follower, NULL, follower_main, fs);

	fs->following = r == 0;
	return -r;
}

void follow_stop(struct fs *fs)
{
	(void)pthread_mutex_lock(&fs->stop_lock);
	fs->stopping = true;
	(void)pthread_cond_broadcast(&fs->stop_cond);
	(void)pthread_mutex_unlock(&fs->stop_lock);
	if (fs->following)
		(void)pthread_join(fs->follower, NULL);
	fs->following = false;
}
