/* SPDX-License-Identifier: MIT */
/*
 * view - which snapshots are shown, and what node a path has in them.
 *
 * A generation is the newest snapshot of every root at one moment, joined into one tree: directories
 * that lead to the roots are made up, and of a root inside another root's tree the newer snapshot shows,
 * with the sums above adjusted. A root that the outer scan did not enter (a file system mounted there) is
 * put in its place, and not summed. Generations never change; requests pin one.
 */
#include "fs/internal.h"

/* -- inode numbers: of the path, so that they stay from snapshot to snapshot and across remounts -- */

static uint64_t usable(uint64_t h)
{
	return h > 1 ? h : h + 2; /* 0 and 1 mean other things to FUSE */
}

/* Keyed by the index, so that nobody can make two paths with one number. */
static uint64_t ino_top(struct snap *s)
{
	return usable(snap_hash("/", 1, snap_seed(s)));
}

uint64_t ino_child(uint64_t parent, const char *name, size_t len)
{
	return usable(snap_hash(name, len, parent));
}

uint64_t ino_of_path(struct snap *s, const char *path)
{
	uint64_t ino = ino_top(s);

	while (*path) {
		size_t len = strcspn(path, "/");

		if (len)
			ino = ino_child(ino, path, len);
		path += len;
		path += *path == '/';
	}
	return ino;
}

uint64_t ino_link(uint64_t root_ino, uint64_t ino)
{
	return usable(snap_hash(&ino, sizeof(ino), ~root_ino));
}

/* A slash cannot be in a name, so this is no other path's number. */
uint64_t ino_virtual(uint64_t dir, uint8_t virt)
{
	const char name[2] = { '/', (char)virt };

	return ino_child(dir, name, sizeof(name));
}

/* -- making a generation --------------------------------------------------------------------- */

static void gen_free(struct view *v, struct gen *g)
{
	for (size_t i = 0; i < g->n_virtuals; i++)
		snap_virtual_drop(v->s, g->virtuals[i]);
	free(g->virtuals);
	free(g->root_ino);
	free(g->hidden);
	snap_list_done(&g->list); /* which points into all */
	snap_list_done(&g->all);
	(void)pthread_mutex_destroy(&g->lock);
	free(g);
}

void gen_put(struct view *v, struct gen *g)
{
	if (g && atomic_fetch_sub(&g->users, 1) == 1)
		gen_free(v, g);
}

static int gen_make(struct view *v, struct snap_list *list, struct gen **ret)
{
	struct gen *g = calloc(1, sizeof(*g));
	int r = 0;

	if (!g)
		return -ENOMEM;
	atomic_init(&g->users, 1);
	(void)pthread_mutex_init(&g->lock, NULL);
	g->list = *list;
	*list = (struct snap_list){ 0 };
	join_sort(&g->list);
	g->root_ino = calloc(g->list.n + 1, sizeof(*g->root_ino));
	g->hidden = calloc(g->list.n + 1, sizeof(*g->hidden));
	if (!g->root_ino || !g->hidden)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < g->list.n; i++)
		g->root_ino[i] = ino_of_path(v->s, g->list.info[i]->root);
	if (r == 0)
		r = join_newest(v, g);
	if (r < 0)
		gen_free(v, g);
	else
		*ret = g;
	return r;
}

static bool is_same(const struct gen *g, const struct snap_list *l)
{
	if (!g || g->all.n != l->n)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (g->all.info[i] != l->info[i])
			return false;
	return true;
}

static bool is_readable(struct view *v, const struct snap_info *i)
{
	struct snap_node n;
	int r = snap_node_get(v->s, i->ref, &n);

	if (r == 0)
		snap_node_put(v->s, &n);
	return r != -EUCLEAN && r != -ESTALE;
}

/*
 * A damaged snapshot must not hide the others: of each root the newest that can be read is shown, and
 * "disktracker check" says what is wrong. A root without any is left out, unless there is no other.
 */
static void leave_out_damaged(struct view *v, const struct snap_list *all, struct snap_list *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct snap_info *info = l->info[i];
		size_t at;

		while (info && !is_readable(v, info))
			info = snap_select_before(all, info->root, INT64_MAX, info->id, &at) == 0
			               ? all->info[at]
			               : NULL;
		if (!info && l->n == 1)
			return;
		if (info)
			l->info[kept++] = info;
	}
	l->n = kept;
}

int view_load(struct view *v, struct gen **ret)
{
	struct gen *now = atomic_load(&v->now);
	struct snap_list all, newest = { 0 };
	int r = now ? snap_list_refresh(v->s, &now->all, &all) : snap_list_get(v->s, &all);

	*ret = NULL;
	if (r < 0)
		return r;
	if (!is_same(now, &all)) {
		r = snap_list_newest(&all, &newest);
		if (r == 0) {
			leave_out_damaged(v, &all, &newest);
			r = gen_make(v, &newest, ret);
		}
		if (r == 0) {
			(*ret)->all = all;
			return 0;
		}
	}
	snap_list_done(&newest);
	snap_list_done(&all);
	return r;
}

/* Make g the one that is shown. The caller has brought the rows to it and still holds their lock. */
void view_publish(struct view *v, struct gen *g)
{
	struct gen **slot;

	(void)pthread_mutex_lock(&v->lock);
	g->number = v->n_gens++;
	slot = &v->ring[g->number % GENS_KEPT];
	gen_put(v, *slot);
	*slot = g;
	atomic_store(&v->now, g);
	(void)pthread_mutex_unlock(&v->lock);
}

int view_init(struct view *v, struct snap *s, const char *root)
{
	struct gen *g = NULL;
	int r;

	v->s = s;
	v->root = root;
	v->top_ino = ino_of_path(s, root ? root : "/");
	(void)pthread_mutex_init(&v->lock, NULL);
	r = view_load(v, &g);
	if (r < 0)
		return r;
	view_publish(v, g);
	return rows_init(&v->rows, v->top_ino, g->top_ref);
}

void view_done(struct view *v)
{
	rows_done(&v->rows);
	for (size_t i = 0; i < GENS_KEPT; i++)
		gen_put(v, v->ring[i]);
	(void)pthread_mutex_destroy(&v->lock);
}

struct gen *view_now(struct view *v)
{
	struct gen *g;

	(void)pthread_mutex_lock(&v->lock);
	g = atomic_load(&v->now);
	atomic_fetch_add(&g->users, 1);
	(void)pthread_mutex_unlock(&v->lock);
	return g;
}

/* The newest generation kept whose number ends in these bits. */
struct gen *view_gen(struct view *v, uint32_t number, uint32_t mask)
{
	struct gen *g = NULL;

	(void)pthread_mutex_lock(&v->lock);
	for (uint32_t i = 0; i < GENS_KEPT && i < v->n_gens; i++) {
		struct gen *at = v->ring[(v->n_gens - 1 - i) % GENS_KEPT];

		if ((at->number & mask) == number) {
			g = at;
			atomic_fetch_add(&g->users, 1);
			break;
		}
	}
	(void)pthread_mutex_unlock(&v->lock);
	return g;
}

/* -- from rows to nodes and paths ------------------------------------------------------------ */

/*
 * The way from the top, or from where a fixed tree is entered (.usage/at/ID, .growth/1d), to a row:
 * inode numbers from below.
 */
struct chain {
	uint64_t *step;
	size_t n, cap;
	uint64_t ref, ino; /* where it begins */
	uint32_t entrance; /* row of a fixed tree's beginning, or 0 */
};

/* The first row of a fixed tree is below one that is live, or of another kind of tree. */
static bool is_entrance(struct view *v, const struct row *r)
{
	struct row up;

	return r->fixed && rows_get(&v->rows, r->parent, &up) && up.fixed != r->fixed;
}

static int chain_of(struct view *v, const struct gen *g, uint32_t row, struct chain *c)
{
	struct row r;

	c->ref = g->top_ref;
	c->ino = v->top_ino;
	while (row != ROW_TOP) {
		if (!rows_get(&v->rows, row, &r))
			return -ESTALE;
		if (is_entrance(v, &r)) {
			c->ref = r.ref;
			c->ino = r.ino;
			c->entrance = row;
			return 0;
		}
		if (base_reserve(&c->step, &c->cap, c->n + 1, sizeof(*c->step)) < 0)
			return -ENOMEM;
		c->step[c->n++] = r.ino;
		row = r.parent;
	}
	return 0;
}

/* The sub-directory of n with this inode number; names are only known by hashing them. */
static int child_by_ino(const struct snap_node *n, uint64_t dir_ino, uint64_t ino,
                        struct snap_entry *ret)
{
	struct snap_iter it;
	int r;

	snap_iter_init(&it, n);
	while ((r = snap_iter_next(&it)) > 0) {
		if (it.e.type != SCAN_DIR || !it.e.kid)
			continue;
		if (ino_child(dir_ino, it.e.name, it.e.name_len) == ino) {
			*ret = it.e;
			return 0;
		}
	}
	return r < 0 ? r : -ENOENT;
}

/* Walk down along the chain; give each name to path if wanted. */
static int descend(struct view *v, const struct chain *c, struct text *path, uint64_t *ref)
{
	uint64_t dir_ino = c->ino;

	*ref = c->ref;
	for (size_t i = c->n; i-- > 0;) {
		struct snap_entry e;
		struct snap_node n;
		int r = snap_node_get(v->s, *ref, &n);

		if (r < 0)
			return r;
		r = child_by_ino(&n, dir_ino, c->step[i], &e);
		snap_node_put(v->s, &n);
		if (r < 0)
			return r;
		if (path && path->len)
			text_puts(path, "/");
		if (path)
			text_add(path, e.name, e.name_len);
		*ref = e.kid;
		dir_ino = c->step[i];
	}
	return path && path->failed ? -ENOMEM : 0;
}

/* The node's ref the slow way: by the inode numbers of its path, from the top of g. */
int view_ref(struct view *v, const struct gen *g, uint32_t row, uint64_t *ret)
{
	struct chain c = { 0 };
	int r = chain_of(v, g, row, &c);

	if (r == 0)
		r = descend(v, &c, NULL, ret);
	free(c.step);
	return r;
}

/*
 * The row as it is in g, if g is what is shown now: rows and generation change under one lock. Rows of
 * fixed trees are the same in all.
 */
static bool row_now(struct view *v, const struct gen *g, uint32_t row, struct row *ret)
{
	bool now;

	(void)pthread_rwlock_rdlock(&v->rows.lock);
	*ret = row && row < v->rows.used ? *rows_at(&v->rows, row) : (struct row){ 0 };
	now = atomic_load(&v->now) == g || ret->fixed;
	(void)pthread_rwlock_unlock(&v->rows.lock);
	return now;
}

int view_node(struct view *v, const struct gen *g, uint32_t row, struct snap_node *ret)
{
	struct row at;
	uint64_t ref = 0;
	int r;

	if (row_now(v, g, row, &at)) {
		if (!at.ino)
			return -ESTALE;
		return at.ref ? snap_node_get(v->s, at.ref, ret) : -ENOENT;
	}
	r = view_ref(v, g, row, &ref);
	return r == 0 ? snap_node_get(v->s, ref, ret) : r;
}

int view_path(struct view *v, const struct gen *g, uint32_t row, struct text *ret)
{
	struct chain c = { 0 };
	struct row at;
	uint64_t ref;
	int r = chain_of(v, g, row, &c);

	/* A path in the past begins with the path of the directory whose past it is. */
	if (r == 0 && c.entrance && rows_get(&v->rows, c.entrance, &at) && at.parent != ROW_TOP)
		r = view_path(v, g, at.parent, ret);
	if (r == 0)
		r = descend(v, &c, ret, &ref);
	free(c.step);
	return r;
}

static const struct snap_info *info_by_id(const struct gen *g, int64_t id)
{
	for (size_t i = 0; i < g->all.n; i++)
		if (g->all.info[i]->id == id)
			return g->all.info[i];
	return NULL;
}

/* The snapshot whose past is entered on the way to the row: its id, or INT64_MAX for the present. */
int64_t view_until(struct view *v, uint32_t row)
{
	struct row r;

	for (; rows_get(&v->rows, row, &r) && row != ROW_TOP; row = r.parent)
		if (fixed_kind(r.fixed) == FIXED_AT)
			return fixed_id(r.fixed);
	return INT64_MAX;
}

/* Is this the live row of a root, or the top inside of one? */
static const struct snap_info *root_at(const struct gen *g, const struct row *r)
{
	for (size_t i = 0; i < g->list.n; i++)
		if (g->root_ino[i] == r->ino && !g->hidden[i])
			return g->list.info[i];
	return NULL;
}

/* The top lies inside a root: the one with the longest matching path. */
static const struct snap_info *root_above_top(const struct view *v, const struct gen *g)
{
	for (size_t i = v->root ? g->list.n : 0; i-- > 0;) {
		size_t len = strlen(g->list.info[i]->root);

		if (strncmp(v->root, g->list.info[i]->root, len) == 0 &&
		    (len == 1 || v->root[len] == '/'))
			return g->list.info[i];
	}
	return NULL;
}

/*
 * A root's directory in the past of one above the roots: the newest snapshot until id that holds it. Of
 * a root inside another root's tree the newer one shows, as in the present.
 */
static const struct snap_info *snapshot_then(struct view *v, const struct gen *g, uint32_t row,
                                             int64_t id)
{
	bool all = !v->root || strcmp(v->root, "/") == 0;
	const struct snap_info *found = NULL;
	struct text path = { 0 };

	text_puts(&path, all ? "/" : v->root); /* view_path() puts a slash between */
	if (view_path(v, g, row, &path) < 0)
		path.failed = true;
	text_add(&path, "", 1);
	for (size_t i = 0; !path.failed && i < g->list.n;
	     i++) { /* an outer root comes before an inner one */
		const char *root = g->list.info[i]->root;
		uint64_t ref;
		size_t at;

		if (!path_below(root, path.p + all) ||
		    snap_select_before(&g->all, root, INT64_MAX, id + 1, &at) < 0)
			continue;
		if (!found || found->id < g->all.info[at]->id ||
		    snap_path_ref(v->s, found->ref, path_below(found->root, root), &ref) == -ENOENT)
			found = g->all.info[at];
	}
	text_done(&path);
	return found;
}

const struct snap_info *view_snapshot(struct view *v, const struct gen *g, uint32_t row)
{
	const struct snap_info *root = NULL;
	int64_t id = view_until(v, row);
	struct row r;

	for (uint32_t i = row; !root && rows_get(&v->rows, i, &r); i = r.parent) {
		root = root_at(g, &r);
		if (i == ROW_TOP)
			break;
	}
	if (!root)
		root = root_above_top(v, g);
	if (id == INT64_MAX)
		return root;
	return root ? info_by_id(g, id) : snapshot_then(v, g, row, id);
}

/* When the numbers were true; above several roots the oldest of them. */
int64_t view_asof(struct view *v, const struct gen *g, uint32_t row)
{
	const struct snap_info *i = view_snapshot(v, g, row);
	int64_t oldest = INT64_MAX, before = view_until(v, row);
	size_t at;

	if (i)
		return i->time;
	before += before < INT64_MAX;
	for (size_t n = 0; n < g->list.n; n++)
		if (snap_select_before(&g->all, g->list.info[n]->root, INT64_MAX, before, &at) == 0)
			oldest = MIN(oldest, g->all.info[at]->time);
	return oldest < INT64_MAX ? oldest : 0;
}
