/* SPDX-License-Identifier: MIT */
/*
 * place - from a row to the node and the path that it stands for in a generation, and to the snapshot that
 * it belongs to.
 */
#include "fs/internal.h"

/*
 * The way from the top, or from where a fixed tree is entered (.usage/at/ID, .growth/1d), to a row:
 * keys from below.
 */
struct chain {
	uint64_t *step;
	size_t n, cap;
	uint64_t ref, key; /* where it begins */
	uint32_t entrance; /* row of a fixed tree's beginning, or 0 */
};

/* The first row of a fixed tree is below one that is live, or of another kind of tree. */
static bool is_entrance(struct fs *fs, const struct row *r)
{
	struct row up;

	return r->fixed && rows_get(&fs->rows, r->parent, &up) && up.fixed != r->fixed;
}

static int chain_of(struct fs *fs, const struct gen *g, uint32_t row, struct chain *c)
{
	struct row r;

	c->ref = g->top_ref;
	while (row != ROW_TOP) {
		if (!rows_get(&fs->rows, row, &r))
			return -ESTALE;
		if (is_entrance(fs, &r)) {
			c->ref = r.ref;
			c->key = r.key;
			c->entrance = row;
			return 0;
		}
		if (base_reserve(&c->step, &c->cap, c->n + 1, sizeof(*c->step)) < 0)
			return -ENOMEM;
		c->step[c->n++] = r.key;
		row = r.parent;
	}
	if (!rows_get(&fs->rows, ROW_TOP, &r))
		return -ESTALE;
	c->key = r.key;
	return 0;
}

/* The sub-directory of n with this key; names are only known by hashing them. */
static int child_by_key(struct fs *fs, const struct snap_node *n, uint64_t dir, uint64_t key,
                        struct snap_entry *ret)
{
	struct snap_iter it;
	int r;

	snap_iter_init(&it, n);
	while ((r = snap_iter_next(&it)) > 0) {
		if (it.e.type != SCAN_DIR || !it.e.child)
			continue;
		if (ino_key(&fs->ino, dir, it.e.name, it.e.name_len) == key) {
			*ret = it.e;
			return 0;
		}
	}
	return r < 0 ? r : -ENOENT;
}

/* Walk down along the chain; give each name to path if wanted. */
static int descend(struct fs *fs, const struct chain *c, struct text *path, uint64_t *ref)
{
	uint64_t dir = c->key;

	*ref = c->ref;
	for (size_t i = c->n; i-- > 0;) {
		struct snap_entry e;
		struct snap_node n;
		int r = snap_node_get(fs->s, *ref, &n);

		if (r < 0)
			return r;
		r = child_by_key(fs, &n, dir, c->step[i], &e);
		snap_node_put(fs->s, &n);
		if (r < 0)
			return r;
		if (path && path->len)
			text_puts(path, "/");
		if (path)
			text_add(path, e.name, e.name_len);
		*ref = e.child;
		dir = c->step[i];
	}
	return path && path->failed ? -ENOMEM : 0;
}

/* The node's ref the slow way: by the keys of its path, from the top of g. */
int place_ref(struct fs *fs, const struct gen *g, uint32_t row, uint64_t *ret)
{
	struct chain c = { 0 };
	int r = chain_of(fs, g, row, &c);

	if (r == 0)
		r = descend(fs, &c, NULL, ret);
	free(c.step);
	return r;
}

/*
 * The row as it is in g, if g is what is shown now: rows and generation change under one lock. Rows of
 * fixed trees are the same in all.
 */
static bool row_now(struct fs *fs, const struct gen *g, uint32_t row, struct row *ret)
{
	bool now;

	(void)pthread_rwlock_rdlock(&fs->rows.lock);
	*ret = row && row < fs->rows.used ? *rows_at(&fs->rows, row) : (struct row){ 0 };
	now = atomic_load(&fs->view.now) == g || ret->fixed;
	(void)pthread_rwlock_unlock(&fs->rows.lock);
	return now;
}

int place_node(struct fs *fs, const struct gen *g, uint32_t row, struct snap_node *ret)
{
	struct row at;
	uint64_t ref = 0;
	int r;

	if (row_now(fs, g, row, &at)) {
		if (!at.key)
			return -ESTALE;
		return at.ref ? snap_node_get(fs->s, at.ref, ret) : -ENOENT;
	}
	r = place_ref(fs, g, row, &ref);
	return r == 0 ? snap_node_get(fs->s, ref, ret) : r;
}

int place_path(struct fs *fs, const struct gen *g, uint32_t row, struct text *ret)
{
	struct chain c = { 0 };
	struct row at;
	uint64_t ref;
	int r = chain_of(fs, g, row, &c);

	/* A path in the past begins with the path of the directory whose past it is. */
	if (r == 0 && c.entrance && rows_get(&fs->rows, c.entrance, &at) && at.parent != ROW_TOP)
		r = place_path(fs, g, at.parent, ret);
	if (r == 0)
		r = descend(fs, &c, ret, &ref);
	free(c.step);
	return r;
}

/* The absolute path of the source, terminated. */
int place_source(struct fs *fs, const struct gen *g, uint32_t row, struct text *ret)
{
	struct text below = { 0 };
	int r = place_path(fs, g, row, &below);

	if (fs->view.root && strcmp(fs->view.root, "/") != 0)
		text_puts(ret, fs->view.root);
	if (below.len || !ret->len)
		text_puts(ret, "/");
	text_add(ret, below.p, below.len);
	text_add(ret, "", 1);
	if (r == 0 && (ret->failed || below.failed))
		r = -ENOMEM;
	text_done(&below);
	return r;
}

/* The snapshot whose past is entered on the way to the row: its id, or INT64_MAX for the present. */
int64_t place_until(struct fs *fs, uint32_t row)
{
	struct row r;

	for (; rows_get(&fs->rows, row, &r) && row != ROW_TOP; row = r.parent)
		if (fixed_kind(r.fixed) == FIXED_AT)
			return fixed_id(r.fixed);
	return INT64_MAX;
}

/* Is this the live row of a root, or the top inside of one? */
static const struct snap_info *root_at(const struct gen *g, const struct row *r)
{
	for (size_t i = 0; i < g->list.n; i++)
		if (g->root_key[i] == r->key && !g->hidden[i])
			return g->list.info[i];
	return NULL;
}

/* In the past of a directory above the roots. */
static const struct snap_info *snapshot_then(struct fs *fs, const struct gen *g, uint32_t row,
                                             int64_t id)
{
	const struct snap_info *found = NULL;
	struct text path = { 0 };

	if (place_source(fs, g, row, &path) == 0)
		found = view_snapshot_then(&fs->view, g, path.p, id);
	text_done(&path);
	return found;
}

const struct snap_info *place_snapshot(struct fs *fs, const struct gen *g, uint32_t row)
{
	const struct snap_info *root = NULL;
	int64_t id = place_until(fs, row);
	struct row r;

	for (uint32_t i = row; !root && rows_get(&fs->rows, i, &r); i = r.parent) {
		root = root_at(g, &r);
		if (i == ROW_TOP)
			break;
	}
	if (!root && fs->view.root) /* the top may lie inside a root */
		root = view_snapshot_now(g, fs->view.root);
	if (id == INT64_MAX)
		return root;
	return root ? gen_info(g, id) : snapshot_then(fs, g, row, id);
}

int64_t place_asof(struct fs *fs, const struct gen *g, uint32_t row)
{
	return view_asof(g, place_snapshot(fs, g, row), place_until(fs, row));
}
