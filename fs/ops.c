/* SPDX-License-Identifier: MIT */
/*
 * ops - the FUSE requests. Each finds its directory's node in a generation and answers from it.
 *
 * A node id says everything, so nothing is kept per file:
 *
 *     directory    00 | row                                  the same through all snapshots
 *     file         1 | generation (9) | row (28) | entry (26)
 *     virtual      01 | kind (8) | generation (26) | row (28)  a file's text belongs to one snapshot
 *
 * Open and opendir are answered with ENOSYS once: the kernel then opens by itself and caches pages and
 * listings. What it caches is right until follow.c says otherwise.
 */
#include "fs/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/xattr.h>

static const double forever = 86400;

enum {
	AT_DOT = 1,
	AT_DOTDOT,
	AT_USAGE,
	AT_TELEMETRY,
	AT_ENTRIES = 16, /* + ordinal of the entry that comes next */
	COOKIE_SHIFT = 40,
	COOKIE_GEN_MASK = (1 << 20) - 1,
	GEN_FILE_MASK = (1 << GEN_FILE_BITS) - 1,
	GEN_MASK = (1 << GEN_BITS) - 1,
};

static const char placeholder[] = "(target not recorded)";

fuse_ino_t node_id_pack(const struct node_id *id)
{
	uint64_t row = id->row;

	switch (id->kind) {
	case NODE_FILE:
		return UINT64_C(1) << 63 | (uint64_t)(id->gen & GEN_FILE_MASK) << (ROW_BITS + ENTRY_BITS) |
		       row << ENTRY_BITS | id->entry;
	case NODE_VIRTUAL:
		return UINT64_C(1) << 62 | (uint64_t)id->virt << (GEN_BITS + ROW_BITS) |
		       (uint64_t)(id->gen & GEN_MASK) << ROW_BITS | row;
	default:
		return row;
	}
}

struct node_id node_id_unpack(fuse_ino_t ino)
{
	const uint64_t row_mask = (1 << ROW_BITS) - 1;

	if (ino >> 63)
		return (struct node_id){ .kind = NODE_FILE,
					 .gen = ino >> (ROW_BITS + ENTRY_BITS) & GEN_FILE_MASK,
					 .row = (uint32_t)(ino >> ENTRY_BITS & row_mask),
					 .entry = ino & ((1 << ENTRY_BITS) - 1) };
	if (ino >> 62)
		return (struct node_id){ .kind = NODE_VIRTUAL,
					 .virt = (uint8_t)(ino >> (GEN_BITS + ROW_BITS)),
					 .gen = ino >> ROW_BITS & GEN_MASK,
					 .row = (uint32_t)(ino & row_mask) };
	return (struct node_id){ .kind = NODE_DIR, .row = (uint32_t)(ino & row_mask) };
}

static struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct fs *begin(fuse_req_t req, enum counted what)
{
	struct fs *fs = fs_of(req);

	atomic_fetch_add_explicit(&fs->count[what], 1, memory_order_relaxed);
	(void)pthread_rwlock_rdlock(&fs->requests);
	return fs;
}

static void end(struct fs *fs)
{
	(void)pthread_rwlock_unlock(&fs->requests);
}

static int to_errno(struct fs *fs, int r)
{
	if (r == -EUCLEAN) {
		fs_say(fs, "read the index", r);
		return EIO;
	}
	return -r;
}

static void reply_error(struct fs *fs, fuse_req_t req, int r)
{
	(void)fuse_reply_err(req, to_errno(fs, r));
}

/* What was read from a generation may be cached only while that generation is shown. */
static double timeout(struct fs *fs, const struct gen *g)
{
	return atomic_load(&fs->view.now) == g ? forever : 0;
}

/* -- attributes ------------------------------------------------------------------------------ */

static void set_times(struct stat *st, int64_t t)
{
	st->st_mtim.tv_sec = st->st_ctim.tv_sec = st->st_atim.tv_sec = t;
}

static void dir_attr(uint64_t ino, const struct snap_node *n, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = S_IFDIR | n->meta.mode,
		.st_nlink = 1,
		.st_uid = n->meta.uid,
		.st_gid = n->meta.gid,
		.st_size = (off_t)n->totals.bytes,
		.st_blocks = (blkcnt_t)n->meta.blocks,
		.st_blksize = 4096,
	};
	set_times(ret, n->meta.mtime);
}

static mode_t type_mode(uint8_t type)
{
	static const mode_t modes[] = {
		[SCAN_UNKNOWN] = S_IFREG, [SCAN_FILE] = S_IFREG,    [SCAN_DIR] = S_IFDIR,
		[SCAN_SYMLINK] = S_IFLNK, [SCAN_FIFO] = S_IFIFO,    [SCAN_SOCKET] = S_IFSOCK,
		[SCAN_CHAR] = S_IFCHR,	  [SCAN_BLOCK] = S_IFBLK,
	};

	return modes[type & 7];
}

static void file_attr(uint64_t ino, const struct snap_entry *e, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = type_mode(e->type) | e->meta.mode,
		.st_nlink = e->meta.multi ? 2 : 1,
		.st_uid = e->meta.uid,
		.st_gid = e->meta.gid,
		.st_size = (off_t)e->meta.size,
		.st_blocks = (blkcnt_t)e->meta.blocks,
		.st_blksize = 4096,
	};
	set_times(ret, e->meta.mtime);
}

static void virtual_attr(struct fs *fs, const struct node_id *id, uint64_t dir_ino, const struct gen *g,
			 mode_t mode, size_t size, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = ino_virtual(dir_ino, id->virt),
		.st_mode = mode,
		.st_nlink = 1,
		.st_uid = getuid(),
		.st_gid = getgid(),
		.st_size = (off_t)size,
		.st_blksize = 4096,
	};
	set_times(ret, view_asof(&fs->view, g, id->row));
}

/* Names of one inode have one number; it belongs to the root, not to the path. */
static uint64_t file_ino(struct fs *fs, const struct gen *g, uint32_t row, uint64_t dir_ino,
			 const struct snap_entry *e, uint64_t *root_ino)
{
	const struct snap_info *i;

	if (!e->meta.multi)
		return ino_child(dir_ino, e->name, e->name_len);
	if (!*root_ino) {
		i = view_snapshot(&fs->view, g, row);
		*root_ino = i ? ino_of_path(i->root) : ino_top();
	}
	return ino_link(*root_ino, e->meta.ino);
}

/* -- texts of usage files -------------------------------------------------------------------- */

static const struct usage_file *usage_of(uint8_t virt)
{
	return &usage_files[virt & ~V_TWIN];
}

static bool is_usage_file(uint8_t virt)
{
	return (size_t)(virt & ~V_TWIN) < n_usage_files;
}

/* The absolute path of the source, terminated. */
static int put_path(struct fs *fs, const struct gen *g, uint32_t row, struct text *ret)
{
	struct text below = { 0 };
	int r = view_path(&fs->view, g, row, &below);

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

static int render(struct fs *fs, const struct gen *g, const struct node_id *id, const _Atomic bool *stop,
		  struct text *out)
{
	const struct usage_file *f = usage_of(id->virt);
	struct text path = { 0 };
	struct snap_node n;
	struct usage_dir d = {
		.s = fs->s,
		.node = &n,
		.raw = id->virt & V_TWIN,
		.stop = stop,
	};
	int r = view_node(&fs->view, g, id->row, &n);

	if (r < 0)
		return r;
	d.snapshot = view_snapshot(&fs->view, g, id->row);
	d.asof = view_asof(&fs->view, g, id->row);
	if (f->path)
		r = put_path(fs, g, id->row, &path);
	d.path = path.p;
	if (r == 0)
		r = f->render(&d, out);
	if (r == 0 && out->failed)
		r = -ENOMEM;
	text_done(&path);
	snap_node_put(fs->s, &n);
	return r;
}

/* The text of a slow file, made if need be. Release it. */
static int get_text(struct fs *fs, const struct gen *g, const struct node_id *id, const _Atomic bool *stop,
		    struct text_copy **ret)
{
	uint64_t key = node_id_pack(id);
	struct text t = { 0 };
	int r;

	*ret = texts_get(fs->texts, key);
	if (*ret)
		return 0;
	r = render(fs, g, id, stop, &t);
	if (r == 0) {
		*ret = texts_put(fs->texts, key, &t);
		r = *ret ? 0 : -ENOMEM;
	}
	text_done(&t);
	return r;
}

/* Length of a usage file's text. */
static int text_size(struct fs *fs, const struct gen *g, const struct node_id *id, const _Atomic bool *stop,
		     size_t *ret)
{
	struct text t = { 0 };
	struct text_copy *c;
	int r;

	if (usage_of(id->virt)->slow) {
		r = get_text(fs, g, id, stop, &c);
		if (r < 0)
			return r;
		*ret = c->len;
		texts_release(fs->texts, c);
		return 0;
	}
	r = render(fs, g, id, stop, &t);
	*ret = t.len;
	text_done(&t);
	return r;
}

static bool is_ready(struct fs *fs, const struct node_id *id)
{
	struct text_copy *c;

	if (!usage_of(id->virt)->slow)
		return true;
	c = texts_get(fs->texts, node_id_pack(id));
	if (c)
		texts_release(fs->texts, c);
	return c != NULL;
}

static void park(struct fs *fs, fuse_req_t req, fuse_ino_t ino, void (*run)(struct fs *, struct job *),
		 size_t size, off_t off)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	j->req = req;
	j->ino = ino;
	j->run = run;
	j->size = size;
	j->off = off;
	jobs_add(fs->jobs, j);
}

static struct gen *gen_of(struct fs *fs, const struct node_id *id)
{
	return view_gen(&fs->view, id->gen, id->kind == NODE_FILE ? GEN_FILE_MASK : GEN_MASK);
}

/* -- lookup ---------------------------------------------------------------------------------- */

static void reply_entry(struct fs *fs, fuse_req_t req, const struct gen *g, uint32_t row,
			struct fuse_entry_param *e)
{
	e->entry_timeout = e->entry_timeout < 0 ? forever : timeout(fs, g);
	if (e->attr_timeout != 0)
		e->attr_timeout = e->entry_timeout;
	if (fuse_reply_entry(req, e) < 0) /* interrupted: the kernel will not forget it */
		rows_forget(&fs->view.rows, row, 1);
}

static int entry_dir(struct fs *fs, const struct gen *g, uint32_t parent, uint64_t dir_ino,
		     const struct snap_entry *e, uint32_t *row, struct fuse_entry_param *ret)
{
	uint64_t ino = ino_child(dir_ino, e->name, e->name_len);
	struct snap_node n;
	int r = snap_node_get(fs->s, e->kid, &n);

	if (r < 0)
		return r;
	*row = rows_lookup(&fs->view.rows, parent, ino, e->kid, &fs->view.now, g);
	dir_attr(ino, &n, &ret->attr);
	snap_node_put(fs->s, &n);
	if (*row == (uint32_t)ROW_RETRY)
		return -EAGAIN;
	ret->ino = *row;
	ret->attr_timeout = forever;
	return *row ? 0 : -ENOMEM;
}

static int entry_file(struct fs *fs, const struct gen *g, uint32_t parent, uint64_t dir_ino,
		      const struct snap_entry *e, uint64_t *root_ino, struct fuse_entry_param *ret)
{
	struct node_id id = { .kind = NODE_FILE, .row = parent, .gen = g->number };

	if (e->ordinal >> ENTRY_BITS)
		return -EOVERFLOW;
	id.entry = (uint32_t)e->ordinal;
	if (!rows_hold(&fs->view.rows, parent, -1))
		return -ESTALE;
	file_attr(file_ino(fs, g, parent, dir_ino, e, root_ino), e, &ret->attr);
	ret->ino = node_id_pack(&id);
	ret->attr_timeout = forever;
	return 0;
}

/* *row is whose count of lookups went up. -EAGAIN: the generation changed. */
static int lookup_real(struct fs *fs, const struct gen *g, uint32_t parent, const char *shown,
		       uint32_t *row, struct fuse_entry_param *ret)
{
	uint64_t root_ino = 0;
	char name[256];
	struct snap_entry e;
	struct snap_node n;
	struct row dir;
	int r;

	if (!rows_get(&fs->view.rows, parent, &dir))
		return -ESTALE;
	if (!name_to_real(parent == ROW_TOP, shown, name))
		return -ENOENT;
	r = view_node(&fs->view, g, parent, &n);
	if (r < 0)
		return r;
	r = snap_node_find(&n, name, strlen(name), &e, NULL);
	if (r == 0 || (r > 0 && !snap_entry_exists(&e)))
		r = -ENOENT;
	*row = parent;
	if (r > 0 && e.type == SCAN_DIR && e.kid)
		r = entry_dir(fs, g, parent, dir.ino, &e, row, ret);
	else if (r > 0)
		r = entry_file(fs, g, parent, dir.ino, &e, &root_ino, ret);
	snap_node_put(fs->s, &n);
	return r;
}

/* .usage, .telemetry: their node ids are the same in all generations. */
static int lookup_virtual_dir(struct fs *fs, const struct gen *g, uint32_t row, uint8_t virt,
			      struct fuse_entry_param *ret)
{
	struct node_id id = { .kind = NODE_VIRTUAL, .row = row, .virt = virt };
	struct row dir;

	if (!rows_get(&fs->view.rows, row, &dir) || !dir.ref)
		return -ENOENT;
	if (!rows_hold(&fs->view.rows, row, -1))
		return -ESTALE;
	virtual_attr(fs, &id, dir.ino, g, S_IFDIR | 0555, 0, &ret->attr);
	ret->ino = node_id_pack(&id);
	ret->attr_timeout = forever;
	return 0;
}

static int lookup_usage(struct fs *fs, const struct gen *g, const struct node_id *id,
			const _Atomic bool *stop, struct fuse_entry_param *ret)
{
	struct row dir;
	size_t size;
	int r;

	if (!rows_get(&fs->view.rows, id->row, &dir))
		return -ESTALE;
	r = text_size(fs, g, id, stop, &size);
	if (r < 0)
		return r;
	virtual_attr(fs, id, dir.ino, g, S_IFREG | 0444, size, &ret->attr);
	ret->ino = node_id_pack(id);
	ret->attr_timeout = forever;
	return rows_hold(&fs->view.rows, id->row, id->virt & ~V_TWIN) ? 0 : -ESTALE;
}

static int lookup_live(struct fs *fs, const struct gen *g, const char *name, struct fuse_entry_param *ret)
{
	int i = live_find(name);
	struct node_id id = { .kind = NODE_VIRTUAL, .row = ROW_TOP };
	struct timespec mtime;
	size_t size;

	if (i < 0)
		return -ENOENT;
	id.virt = (uint8_t)(V_LIVE + i);
	live_refresh(fs, (size_t)i, &size, &mtime);
	virtual_attr(fs, &id, fs->view.top_ino, g, S_IFREG | 0444, size, &ret->attr);
	ret->attr.st_mtim = mtime;
	ret->ino = node_id_pack(&id);
	ret->entry_timeout = -1; /* its name never changes, its attributes always may */
	ret->attr_timeout = 0;
	return rows_hold(&fs->view.rows, ROW_TOP, -1) ? 0 : -ESTALE;
}

static void job_lookup(struct fs *fs, struct job *j)
{
	struct node_id id = node_id_unpack(j->ino);
	struct fuse_entry_param e = { 0 };
	struct gen *g = gen_of(fs, &id);
	int r = g ? lookup_usage(fs, g, &id, &j->stop, &e) : -ESTALE;

	(void)pthread_rwlock_rdlock(&fs->requests);
	if (r < 0)
		reply_error(fs, j->req, r);
	else
		reply_entry(fs, j->req, g, id.row, &e);
	end(fs);
	gen_put(&fs->view, g);
}

/* True if the reply comes later, from a job. */
static bool lookup_in_virtual(struct fs *fs, fuse_req_t req, const struct gen *g,
			      const struct node_id *parent, const char *name, int *r,
			      struct fuse_entry_param *ret)
{
	struct node_id id = { .kind = NODE_VIRTUAL, .row = parent->row, .gen = g->number & GEN_MASK };
	int virt;

	if (parent->virt == V_TELEMETRY) {
		*r = lookup_live(fs, g, name, ret);
		return false;
	}
	virt = parent->virt == V_USAGE ? usage_file_find(name) : -1;
	*r = virt < 0 ? -ENOENT : 0;
	if (virt < 0)
		return false;
	id.virt = (uint8_t)virt;
	if (!is_ready(fs, &id)) {
		park(fs, req, node_id_pack(&id), job_lookup, 0, 0);
		return true;
	}
	*r = lookup_usage(fs, g, &id, NULL, ret);
	return false;
}

static int lookup_in_dir(struct fs *fs, const struct gen *g, uint32_t parent, const char *name,
			 uint32_t *row, struct fuse_entry_param *ret)
{
	if (strcmp(name, ".usage") == 0)
		return lookup_virtual_dir(fs, g, parent, V_USAGE, ret);
	if (parent == ROW_TOP && strcmp(name, ".telemetry") == 0)
		return lookup_virtual_dir(fs, g, parent, V_TELEMETRY, ret);
	return lookup_real(fs, g, parent, name, row, ret);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = begin(req, C_LOOKUP);
	struct node_id id = node_id_unpack(parent);
	struct fuse_entry_param e;
	bool parked = false;
	uint32_t row;
	struct gen *g;
	int r;

	do {
		g = view_now(&fs->view);
		e = (struct fuse_entry_param){ 0 };
		row = id.row;
		if (id.kind == NODE_DIR)
			r = lookup_in_dir(fs, g, id.row, name, &row, &e);
		else if (id.kind == NODE_VIRTUAL)
			parked = lookup_in_virtual(fs, req, g, &id, name, &r, &e);
		else
			r = -ENOTDIR;
		if (r == -EAGAIN)
			gen_put(&fs->view, g);
	} while (r == -EAGAIN);
	if (!parked && r < 0)
		reply_error(fs, req, r);
	else if (!parked)
		reply_entry(fs, req, g, row, &e);
	end(fs);
	gen_put(&fs->view, g);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	struct fs *fs = fs_of(req);

	atomic_fetch_add_explicit(&fs->count[C_FORGET], 1, memory_order_relaxed);
	rows_forget(&fs->view.rows, node_id_unpack(ino).row, n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct fs *fs = fs_of(req);

	atomic_fetch_add_explicit(&fs->count[C_FORGET], count, memory_order_relaxed);
	for (size_t i = 0; i < count; i++)
		rows_forget(&fs->view.rows, node_id_unpack(forgets[i].ino).row, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* -- getattr --------------------------------------------------------------------------------- */

static int getattr_dir(struct fs *fs, const struct gen *g, uint32_t row, struct stat *ret)
{
	struct snap_node n;
	struct row at;
	int r;

	if (!rows_get(&fs->view.rows, row, &at))
		return -ESTALE;
	r = view_node(&fs->view, g, row, &n);
	if (r < 0)
		return r;
	dir_attr(at.ino, &n, ret);
	snap_node_put(fs->s, &n);
	return 0;
}

static int getattr_file(struct fs *fs, const struct gen *g, const struct node_id *id, struct stat *ret)
{
	uint64_t root_ino = 0;
	struct snap_iter it;
	struct snap_node n;
	struct row at;
	int r;

	if (!rows_get(&fs->view.rows, id->row, &at))
		return -ESTALE;
	r = view_node(&fs->view, g, id->row, &n);
	if (r < 0)
		return r;
	snap_iter_init(&it, &n);
	r = snap_iter_seek(&it, id->entry);
	if (r == 0)
		r = snap_iter_next(&it);
	if (r > 0)
		file_attr(file_ino(fs, g, id->row, at.ino, &it.e, &root_ino), &it.e, ret);
	snap_node_put(fs->s, &n);
	return r > 0 ? 0 : r < 0 ? r : -ESTALE;
}

static int getattr_usage(struct fs *fs, const struct gen *g, const struct node_id *id,
			 const _Atomic bool *stop, struct stat *ret)
{
	struct row at;
	size_t size;
	int r;

	if (!rows_get(&fs->view.rows, id->row, &at))
		return -ESTALE;
	r = text_size(fs, g, id, stop, &size);
	if (r == 0)
		virtual_attr(fs, id, at.ino, g, S_IFREG | 0444, size, ret);
	return r;
}

static void job_getattr(struct fs *fs, struct job *j)
{
	struct node_id id = node_id_unpack(j->ino);
	struct gen *g = gen_of(fs, &id);
	struct stat st;
	int r = g ? getattr_usage(fs, g, &id, &j->stop, &st) : -ESTALE;

	if (r < 0)
		reply_error(fs, j->req, r);
	else
		(void)fuse_reply_attr(j->req, &st, forever); /* a text never changes */
	gen_put(&fs->view, g);
}

static int getattr_virtual(struct fs *fs, const struct gen *now, const struct node_id *id, struct stat *ret,
			   double *timeout_s)
{
	struct timespec mtime;
	struct row at;
	size_t size;

	if (!rows_get(&fs->view.rows, id->row, &at))
		return -ESTALE;
	if (id->virt == V_USAGE || id->virt == V_TELEMETRY) {
		virtual_attr(fs, id, at.ino, now, S_IFDIR | 0555, 0, ret);
		return 0;
	}
	if (id->virt < V_LIVE || (size_t)(id->virt - V_LIVE) >= n_live_files)
		return -ESTALE;
	live_refresh(fs, (size_t)(id->virt - V_LIVE), &size, &mtime);
	virtual_attr(fs, id, at.ino, now, S_IFREG | 0444, size, ret);
	ret->st_mtim = mtime;
	*timeout_s = 0;
	return 0;
}

/* True if the reply comes later. */
static bool getattr_text(struct fs *fs, fuse_req_t req, fuse_ino_t ino, const struct node_id *id, int *r,
			 struct stat *ret)
{
	struct gen *g;

	if (!is_ready(fs, id)) {
		park(fs, req, ino, job_getattr, 0, 0);
		return true;
	}
	g = gen_of(fs, id);
	*r = g ? getattr_usage(fs, g, id, NULL, ret) : -ESTALE;
	gen_put(&fs->view, g);
	return false;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = begin(req, C_GETATTR);
	struct node_id id = node_id_unpack(ino);
	struct gen *g = view_now(&fs->view), *own = NULL;
	double timeout_s = forever;
	bool parked = false;
	struct stat st;
	int r = 0;

	(void)fi;
	if (id.kind == NODE_DIR) {
		r = getattr_dir(fs, g, id.row, &st);
		timeout_s = timeout(fs, g);
	} else if (id.kind == NODE_FILE) {
		own = gen_of(fs, &id);
		r = own ? getattr_file(fs, own, &id, &st) : -ESTALE;
	} else if (is_usage_file(id.virt)) {
		parked = getattr_text(fs, req, ino, &id, &r, &st);
	} else {
		r = getattr_virtual(fs, g, &id, &st, &timeout_s);
	}
	if (!parked && r < 0)
		reply_error(fs, req, r);
	else if (!parked)
		(void)fuse_reply_attr(req, &st, timeout_s);
	end(fs);
	gen_put(&fs->view, own);
	gen_put(&fs->view, g);
}

/* -- reading --------------------------------------------------------------------------------- */

static void reply_part(fuse_req_t req, const char *p, size_t len, size_t size, off_t off)
{
	size_t at = MIN((size_t)MAX(off, 0), len);

	(void)fuse_reply_buf(req, p + at, MIN(size, len - at));
}

static void read_text(struct fs *fs, fuse_req_t req, const struct node_id *id, const _Atomic bool *stop,
		      size_t size, off_t off)
{
	struct gen *g = gen_of(fs, id);
	struct text t = { 0 };
	struct text_copy *c;
	int r = -ESTALE;

	if (g && usage_of(id->virt)->slow) {
		r = get_text(fs, g, id, stop, &c);
		if (r == 0) {
			reply_part(req, c->p, c->len, size, off);
			texts_release(fs->texts, c);
		}
	} else if (g) {
		r = render(fs, g, id, stop, &t);
		if (r == 0)
			reply_part(req, t.p, t.len, size, off);
		text_done(&t);
	}
	if (r < 0)
		reply_error(fs, req, r);
	gen_put(&fs->view, g);
}

static void job_read(struct fs *fs, struct job *j)
{
	struct node_id id = node_id_unpack(j->ino);

	read_text(fs, j->req, &id, &j->stop, j->size, j->off);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs *fs = begin(req, C_READ);
	struct node_id id = node_id_unpack(ino);

	(void)fi;
	if (id.kind != NODE_VIRTUAL)
		(void)fuse_reply_err(req, EOPNOTSUPP);
	else if (id.virt >= V_LIVE && (size_t)(id.virt - V_LIVE) < n_live_files)
		live_read(fs, (size_t)(id.virt - V_LIVE), req, size, off);
	else if (!is_usage_file(id.virt))
		(void)fuse_reply_err(req, EISDIR);
	else if (!is_ready(fs, &id))
		park(fs, req, ino, job_read, size, off);
	else
		read_text(fs, req, &id, NULL, size, off);
	end(fs);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	(void)fuse_reply_err(req, ENOSYS);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	(void)ino;
	(void)fuse_reply_readlink(req, placeholder);
}

/* -- readdir --------------------------------------------------------------------------------- */

struct listing { /* one reply in the making */
	struct fs *fs;
	fuse_req_t req;
	const struct gen *g;
	char *buf;
	size_t size, len;
	bool plus, full, again;
	uint32_t row;
	uint64_t dir_ino, root_ino;
};

static off_t cookie_of(const struct gen *g, uint64_t at)
{
	return (off_t)((uint64_t)(g->number & COOKIE_GEN_MASK) << COOKIE_SHIFT | at);
}

static bool has_room(struct listing *l, const char *name)
{
	size_t need = l->plus ? fuse_add_direntry_plus(l->req, NULL, 0, name, NULL, 0) :
				fuse_add_direntry(l->req, NULL, 0, name, NULL, 0);

	l->full = l->full || l->len + need > l->size;
	return !l->full;
}

static void put_entry(struct listing *l, const char *name, const struct fuse_entry_param *e, uint64_t at)
{
	off_t cookie = cookie_of(l->g, at);
	char *p = l->buf + l->len;
	size_t room = l->size - l->len;

	l->len += l->plus ? fuse_add_direntry_plus(l->req, p, room, name, e, cookie) :
			    fuse_add_direntry(l->req, p, room, name, &e->attr, cookie);
}

/* "." and "..": the kernel takes only number and type of them; an ino of 0 makes no lookup. */
static void put_dot(struct listing *l, const char *name, uint64_t ino, uint64_t at)
{
	struct fuse_entry_param e = { .attr = { .st_ino = ino, .st_mode = S_IFDIR | 0755 } };

	if (has_room(l, name))
		put_entry(l, name, &e, at);
}

static uint64_t parent_ino(struct fs *fs, uint32_t row)
{
	struct row r, up;

	if (row != ROW_TOP && rows_get(&fs->view.rows, row, &r) && rows_get(&fs->view.rows, r.parent, &up))
		return up.ino;
	return fs->view.top_ino;
}

static void put_virtual_dir(struct listing *l, const char *name, uint8_t virt, uint64_t at)
{
	struct fuse_entry_param e = { .attr = { .st_ino = ino_virtual(l->dir_ino, virt),
						.st_mode = S_IFDIR | 0555 } };

	if (!has_room(l, name))
		return;
	if (l->plus && lookup_virtual_dir(l->fs, l->g, l->row, virt, &e) < 0)
		return;
	e.entry_timeout = e.attr_timeout = timeout(l->fs, l->g);
	put_entry(l, name, &e, at);
}

static int put_real(struct listing *l, const struct snap_entry *e)
{
	struct fuse_entry_param p = { 0 };
	char shown[260];
	uint32_t row = l->row;
	int r = 0;

	name_to_shown(l->row == ROW_TOP, e->name, shown);
	if (!has_room(l, shown))
		return 0;
	if (!l->plus) {
		p.attr.st_mode = type_mode(e->type);
		p.attr.st_ino = e->type == SCAN_DIR ?
					ino_child(l->dir_ino, e->name, e->name_len) :
					file_ino(l->fs, l->g, l->row, l->dir_ino, e, &l->root_ino);
	} else if (e->type == SCAN_DIR && e->kid) {
		r = entry_dir(l->fs, l->g, l->row, l->dir_ino, e, &row, &p);
	} else {
		r = entry_file(l->fs, l->g, l->row, l->dir_ino, e, &l->root_ino, &p);
	}
	if (r < 0)
		return r;
	p.entry_timeout = p.attr_timeout = timeout(l->fs, l->g);
	put_entry(l, shown, &p, AT_ENTRIES + e->ordinal + 1);
	return 0;
}

/* Where to go on in this generation after the entry that another one had at this place. */
static uint64_t translate(struct fs *fs, const struct snap_node *n, uint32_t row, uint32_t gen, uint64_t next)
{
	struct gen *old = next ? view_gen(&fs->view, gen, COOKIE_GEN_MASK) : NULL;
	struct snap_iter it;
	struct snap_node then;
	struct snap_entry e;
	uint64_t where = next;

	if (!old)
		return next;
	if (view_node(&fs->view, old, row, &then) == 0) {
		snap_iter_init(&it, &then);
		if (snap_iter_seek(&it, next - 1) == 0 && snap_iter_next(&it) > 0)
			where += snap_node_find(n, it.e.name, it.e.name_len, &e, &where) > 0 ? 1 : 0;
		snap_node_put(fs->s, &then);
	}
	gen_put(&fs->view, old);
	return where;
}

static int put_entries(struct listing *l, const struct snap_node *n, uint64_t next)
{
	struct snap_iter it;
	int r;

	snap_iter_init(&it, n);
	r = snap_iter_seek(&it, next);
	while (r == 0 && !l->full) {
		r = snap_iter_next(&it);
		if (r <= 0)
			return r;
		r = snap_entry_exists(&it.e) ? put_real(l, &it.e) : 0;
	}
	/* What is in the buffer already counts as looked up, so it must be sent. */
	if (r == -EAGAIN && l->len)
		r = 0;
	return r;
}

static int list_dir(struct listing *l, off_t off)
{
	uint64_t at = (uint64_t)off & ((UINT64_C(1) << COOKIE_SHIFT) - 1);
	uint32_t gen = (uint32_t)((uint64_t)off >> COOKIE_SHIFT);
	bool top = l->row == ROW_TOP;
	struct snap_node n;
	struct row dir;
	uint64_t next;
	int r;

	if (!rows_get(&l->fs->view.rows, l->row, &dir))
		return -ESTALE;
	r = view_node(&l->fs->view, l->g, l->row, &n);
	if (r < 0)
		return r;
	l->dir_ino = dir.ino;
	if (at < AT_DOT)
		put_dot(l, ".", dir.ino, AT_DOT);
	if (at < AT_DOTDOT)
		put_dot(l, "..", parent_ino(l->fs, l->row), AT_DOTDOT);
	if (at < AT_USAGE && (top || l->fs->o->show_usage))
		put_virtual_dir(l, ".usage", V_USAGE, AT_USAGE);
	if (at < AT_TELEMETRY && top)
		put_virtual_dir(l, ".telemetry", V_TELEMETRY, AT_TELEMETRY);
	next = at > AT_ENTRIES ? at - AT_ENTRIES : 0;
	if (gen != (l->g->number & COOKIE_GEN_MASK))
		next = translate(l->fs, &n, l->row, gen, next);
	r = put_entries(l, &n, next);
	snap_node_put(l->fs->s, &n);
	return r;
}

/* Name of the i-th file of a virtual directory; false past the end. Twins come after their file. */
static bool virtual_name(uint8_t dir, size_t i, char name[64], uint8_t *virt)
{
	if (dir == V_TELEMETRY) {
		if (i >= n_live_files)
			return false;
		(void)snprintf(name, 64, "%s", live_files[i].name + 11);
		*virt = (uint8_t)(V_LIVE + i);
		return true;
	}
	for (size_t f = 0; f < n_usage_files; f++, i--) {
		if (i == 0 || (usage_files[f].twin && i == 1)) {
			*virt = (uint8_t)(f | (i ? V_TWIN : 0));
			usage_file_name(*virt, name);
			return true;
		}
		i -= usage_files[f].twin;
	}
	return false;
}

/* Names and types only, so that listing .usage gathers no text. */
static int list_virtual(struct listing *l, uint8_t dir, off_t off)
{
	struct row at;
	char name[64];
	uint8_t virt;

	if (!rows_get(&l->fs->view.rows, l->row, &at))
		return -ESTALE;
	if (off < 1)
		put_dot(l, ".", ino_virtual(at.ino, dir), 1);
	if (off < 2)
		put_dot(l, "..", at.ino, 2);
	for (size_t i = off > 2 ? (size_t)off - 2 : 0; !l->full && virtual_name(dir, i, name, &virt); i++) {
		struct fuse_entry_param e = { .attr = { .st_ino = ino_virtual(at.ino, virt),
							.st_mode = S_IFREG | 0444 } };

		if (has_room(l, name))
			put_entry(l, name, &e, i + 3);
	}
	return 0;
}

static int list(struct listing *l, const struct node_id *id, off_t off)
{
	static const struct gen zero; /* places in a virtual directory are the same in all generations */

	if (id->kind == NODE_DIR)
		return list_dir(l, off);
	if (id->kind != NODE_VIRTUAL || (id->virt != V_USAGE && id->virt != V_TELEMETRY))
		return -ENOTDIR;
	l->g = &zero;
	return list_virtual(l, id->virt, off);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
	struct fs *fs = begin(req, plus ? C_READDIRPLUS : C_READDIR);
	struct node_id id = node_id_unpack(ino);
	struct listing l = { .fs = fs, .req = req, .size = size, .plus = plus, .row = id.row };
	struct gen *g;
	int r;

	l.buf = malloc(size);
	do {
		g = view_now(&fs->view);
		l.g = g;
		l.len = 0;
		r = l.buf ? list(&l, &id, off) : -ENOMEM;
		gen_put(&fs->view, g);
	} while (r == -EAGAIN);
	if (r < 0)
		reply_error(fs, req, r);
	else
		(void)fuse_reply_buf(req, l.buf, l.len);
	free(l.buf);
	end(fs);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)fi;
	do_readdir(req, ino, size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			   struct fuse_file_info *fi)
{
	(void)fi;
	do_readdir(req, ino, size, off, true);
}

/* -- the rest -------------------------------------------------------------------------------- */

/* As it was when the root was scanned; never asked of the file system, which may be gone. */
static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = begin(req, C_OTHER);
	struct gen *g = view_now(&fs->view);
	const struct snap_info *i = view_snapshot(&fs->view, g, node_id_unpack(ino).row);
	struct statvfs v = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255 };

	if (!i && g->list.n)
		i = &g->list.info[0];
	if (i && i->statvfs.f_bsize)
		v = i->statvfs;
	(void)fuse_reply_statfs(req, &v);
	gen_put(&fs->view, g);
	end(fs);
}

static bool xattr_value(const struct snap_node *n, const char *name, char buf[64])
{
	const struct scan_totals *t = &n->totals;
	const struct {
		const char *name;
		uint64_t value;
	} table[] = {
		{ "user.disktracker.bytes", t->bytes },	    { "user.disktracker.apparent", t->apparent },
		{ "user.disktracker.files", t->files },	    { "user.disktracker.dirs", t->dirs },
		{ "user.disktracker.entries", t->entries }, { "user.disktracker.shared", t->shared },
		{ "user.disktracker.errors", t->errors },   { "ceph.dir.rbytes", t->bytes },
		{ "ceph.dir.rfiles", t->files },	    { "ceph.dir.rsubdirs", t->dirs },
		{ "ceph.dir.rentries", t->entries },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, name) == 0) {
			(void)snprintf(buf, 64, "%" PRIu64, table[i].value);
			return true;
		}
	}
	if (strcmp(name, "ceph.dir.rctime") != 0)
		return false;
	(void)snprintf(buf, 64, "%" PRId64 ".090000000", t->newest == INT64_MIN ? 0 : t->newest);
	return true;
}

/* Answered by name, never listed, so that copies do not carry them. Off by default: ls -l asks a lot. */
static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct fs *fs = begin(req, C_OTHER);
	struct node_id id = node_id_unpack(ino);
	struct gen *g = view_now(&fs->view);
	struct snap_node n;
	char buf[64];
	int r = fs->o->xattr ? -ENODATA : -ENOSYS;

	if (fs->o->xattr && id.kind == NODE_DIR)
		r = view_node(&fs->view, g, id.row, &n);
	if (r == 0) {
		r = xattr_value(&n, name, buf) ? 0 : -ENODATA;
		snap_node_put(fs->s, &n);
	}
	if (r < 0)
		reply_error(fs, req, r);
	else if (size == 0)
		(void)fuse_reply_xattr(req, strlen(buf));
	else if (size < strlen(buf))
		(void)fuse_reply_err(req, ERANGE);
	else
		(void)fuse_reply_buf(req, buf, strlen(buf));
	gen_put(&fs->view, g);
	end(fs);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	conn->want |= conn->capable & (FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPIRE_ONLY);
	fs->expire_only = conn->want & FUSE_CAP_EXPIRE_ONLY;
}

const struct fuse_lowlevel_ops fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.open = op_open,
	.read = op_read,
	.opendir = op_open,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
};
