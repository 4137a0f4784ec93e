/* SPDX-License-Identifier: MIT */
/*
 * lookup - from a directory and a name to an entry; and forgetting it again.
 */
#include "fs/request.h"

/* -- lookup ---------------------------------------------------------------------------------- */

int entry_dir(struct fs *fs, const struct gen *g, uint32_t parent, const struct row *dir,
              const struct snap_node *n, const struct snap_entry *e, struct fuse_entry_param *ret)
{
	struct row want = { .key = ino_key(&fs->ino, dir->key, e->name, e->name_len),
		            .ref = e->child,
		            .parent = parent & ROW_MASK,
		            .fixed = dir->fixed };
	struct snap_node child;
	uint32_t row;
	int r = snap_child_get(fs->s, n, e->child, &child);

	if (r < 0)
		return r;
	row = rows_lookup(&fs->rows, &want, &fs->view.now, g);
	attr_dir(ino_row(&fs->ino, &want), &child, &ret->attr);
	snap_node_put(fs->s, &child);
	if (row == (uint32_t)ROW_RETRY)
		return -EAGAIN;
	ret->ino = row;
	ret->attr_timeout = TIMEOUT_FOREVER;
	return row ? 0 : -ENOMEM;
}

int entry_file(struct fs *fs, const struct gen *g, uint32_t parent, const struct row *dir,
               const struct snap_entry *e, uint64_t *root_key, struct fuse_entry_param *ret)
{
	struct node_id id = { .kind = NODE_FILE, .row = parent, .gen = g->number };

	if (e->ordinal >> ENTRY_BITS)
		return -EOVERFLOW;
	id.entry = (uint32_t)e->ordinal;
	if (!rows_hold(&fs->rows, parent, -1))
		return -ESTALE;
	attr_file(ino_file(fs, g, parent, dir, e, root_key), e, &ret->attr);
	ret->ino = node_id_pack(&id);
	ret->attr_timeout = TIMEOUT_FOREVER;
	return 0;
}

/* -EAGAIN: the generation changed. */
static int lookup_real(struct fs *fs, const struct gen *g, uint32_t parent, const char *shown,
                       struct fuse_entry_param *ret)
{
	uint64_t root_key = 0;
	char name[256];
	struct snap_entry e;
	struct snap_node n;
	struct row dir;
	int r;

	if (!rows_get(&fs->rows, parent, &dir))
		return -ESTALE;
	if (!name_to_real(parent == ROW_TOP, shown, name))
		return strlen(shown) > 255 ? -ENAMETOOLONG : -ENOENT;
	r = place_node(fs, g, parent, &n);
	if (r < 0)
		return r;
	r = snap_node_find(&n, name, strlen(name), &e, NULL);
	if (r == 0 || (r > 0 && !snap_entry_exists(&e)))
		r = -ENOENT;
	if (r > 0 && e.type == SCAN_DIR && e.child)
		r = entry_dir(fs, g, parent, &dir, &n, &e, ret);
	else if (r > 0)
		r = entry_file(fs, g, parent, &dir, &e, &root_key, ret);
	snap_node_put(fs->s, &n);
	return r;
}

/* .usage with growth and at, .telemetry, .growth: their node ids are the same in all generations. */
int lookup_virtual_dir(struct fs *fs, const struct gen *g, uint32_t row, uint8_t virt,
                       struct fuse_entry_param *ret)
{
	struct node_id id = { .kind = NODE_VIRTUAL, .row = row, .virt = virt };
	struct row dir;

	if (!rows_get(&fs->rows, row, &dir) || !dir.ref)
		return -ENOENT;
	if ((virt == V_AT || virt == V_GROWTH) && fixed_kind(dir.fixed) == FIXED_GROWTH)
		return -ENOENT;
	if (!rows_hold(&fs->rows, row, -1))
		return -ESTALE;
	attr_virtual(fs, &id, &dir, g, S_IFDIR | 0555, 0, &ret->attr);
	ret->ino = node_id_pack(&id);
	ret->attr_timeout = virt == V_AT || virt == V_GROWN ? 0 : TIMEOUT_FOREVER;
	return 0;
}

/* A tree of growth has only the files that say how much. */
bool usage_is_offered(const struct row *dir, uint8_t virt)
{
	return usage_of(virt)->grown == (fixed_kind(dir->fixed) == FIXED_GROWTH);
}

static int lookup_usage(struct fs *fs, const struct gen *g, const struct node_id *id,
                        const _Atomic bool *stop, struct fuse_entry_param *ret)
{
	struct row dir;
	size_t size;
	int r;

	if (!rows_get(&fs->rows, id->row, &dir))
		return -ESTALE;
	if (!usage_is_offered(&dir, id->virt))
		return -ENOENT;
	r = req_text_size(fs, g, id, stop, &size);
	if (r < 0)
		return r;
	attr_virtual(fs, id, &dir, g, S_IFREG | 0444, size, &ret->attr);
	ret->ino = node_id_pack(id);
	ret->attr_timeout = TIMEOUT_FOREVER;
	return rows_hold(&fs->rows, id->row, id->virt & ~V_TWIN) ? 0 : -ESTALE;
}

static int lookup_live(struct fs *fs, const struct gen *g, const char *name,
                       struct fuse_entry_param *ret)
{
	int i = live_find(name), r;
	struct node_id id = { .kind = NODE_VIRTUAL, .row = ROW_TOP };
	struct live_stat st;
	struct row top;

	if (i < 0)
		return -ENOENT;
	if (!rows_get(&fs->rows, ROW_TOP, &top) || !rows_hold(&fs->rows, ROW_TOP, -1))
		return -ESTALE;
	r = live_lookup(fs, (size_t)i, &st);
	if (r < 0) {
		rows_forget(&fs->rows, ROW_TOP, 1);
		return r;
	}
	id.virt = (uint8_t)(V_LIVE + i);
	id.gen = st.number;
	attr_live(fs, &id, &top, g, &st, &ret->attr);
	ret->ino = node_id_pack(&id);
	ret->entry_timeout = TIMEOUT_NEVER; /* the next lookup gives the next text */
	return 0;
}

static void job_lookup(struct fs *fs, struct job *j)
{
	struct node_id id = node_id_unpack(j->ino);
	struct fuse_entry_param e = { 0 };
	struct gen *g = req_gen(fs, &id);
	int r = g ? lookup_usage(fs, g, &id, &j->stop, &e) : -ESTALE;

	jobs_end(j);
	(void)pthread_rwlock_rdlock(&fs->requests);
	if (r < 0)
		req_error(fs, j->req, r);
	else
		req_entry(fs, j->req, g, &e);
	req_end(fs);
	gen_put(&fs->view, g);
}

/* True if the reply comes later, from a job. */
static bool lookup_text(struct fs *fs, fuse_req_t req, const struct gen *g,
                        const struct node_id *parent, const char *name, int *r,
                        struct fuse_entry_param *ret)
{
	struct node_id id = { .kind = NODE_VIRTUAL,
		              .row = parent->row,
		              .gen = g->number & GEN_MASK };
	int virt = usage_file_find(parent->virt == V_GROWTH ? USAGE_GROWTH : USAGE_HERE, name);
	struct row dir;

	*r = virt < 0 || !rows_get(&fs->rows, id.row, &dir) ||
	                     !usage_is_offered(&dir, (uint8_t)virt)
	             ? -ENOENT
	             : 0;
	if (*r < 0)
		return false;
	id.virt = (uint8_t)virt;
	if (!req_text_ready(fs, &id)) {
		req_park(fs, req, node_id_pack(&id), job_lookup, 0, 0);
		return true;
	}
	*r = lookup_usage(fs, g, &id, NULL, ret);
	return false;
}

/* True if the reply comes later, from a job. */
static bool lookup_in_virtual(struct fs *fs, fuse_req_t req, struct gen *g,
                              const struct node_id *parent, const char *name, int *r,
                              struct fuse_entry_param *ret)
{
	switch (parent->virt) {
	case V_TELEMETRY:
		*r = lookup_live(fs, g, name, ret);
		return false;
	case V_GROWN:
		return lookup_window(fs, req, name, r);
	case V_AT:
		*r = lookup_at(fs, g, parent->row, name, ret);
		return false;
	case V_USAGE:
		if (strcmp(name, "at") != 0 && strcmp(name, "growth") != 0)
			return lookup_text(fs, req, g, parent, name, r, ret);
		*r = lookup_virtual_dir(fs, g, parent->row, name[0] == 'a' ? V_AT : V_GROWTH, ret);
		return false;
	case V_GROWTH:
		return lookup_text(fs, req, g, parent, name, r, ret);
	default:
		*r = -ENOTDIR;
		return false;
	}
}

static int lookup_in_dir(struct fs *fs, const struct gen *g, uint32_t parent, const char *name,
                         struct fuse_entry_param *ret)
{
	if (strcmp(name, ".usage") == 0)
		return lookup_virtual_dir(fs, g, parent, V_USAGE, ret);
	if (parent == ROW_TOP && strcmp(name, ".telemetry") == 0)
		return lookup_virtual_dir(fs, g, parent, V_TELEMETRY, ret);
	if (parent == ROW_TOP && strcmp(name, ".growth") == 0)
		return lookup_virtual_dir(fs, g, parent, V_GROWN, ret);
	return lookup_real(fs, g, parent, name, ret);
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = req_begin(req, C_LOOKUP);
	struct node_id id = node_id_unpack(parent);
	struct fuse_entry_param e;
	bool parked = false;
	struct gen *g;
	int r;

	do {
		g = view_now(&fs->view);
		e = (struct fuse_entry_param){ 0 };
		if (id.kind == NODE_DIR)
			r = lookup_in_dir(fs, g, id.row, name, &e);
		else if (id.kind == NODE_VIRTUAL)
			parked = lookup_in_virtual(fs, req, g, &id, name, &r, &e);
		else
			r = -ENOTDIR;
		if (r == -EAGAIN)
			gen_put(&fs->view, g);
	} while (r == -EAGAIN);
	if (!parked && r < 0)
		req_error(fs, req, r);
	else if (!parked)
		req_entry(fs, req, g, &e);
	req_end(fs);
	gen_put(&fs->view, g);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	struct fs *fs = req_fs(req);

	atomic_fetch_add_explicit(&fs->count[C_FORGET], 1, memory_order_relaxed);
	req_forget(fs, ino, n);
	fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct fs *fs = req_fs(req);

	atomic_fetch_add_explicit(&fs->count[C_FORGET], count, memory_order_relaxed);
	for (size_t i = 0; i < count; i++)
		req_forget(fs, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}
