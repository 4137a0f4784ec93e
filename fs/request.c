/* SPDX-License-Identifier: MIT */
/*
 * request - what all FUSE requests share: node ids, attributes, replies, texts.
 *
 * A node id says everything, so nothing is kept per file:
 *
 *     directory    00 | row                                  the same through all snapshots
 *     file         1 | generation (9) | row (28) | entry (26)
 *     virtual      01 | kind (8) | generation (26) | row (28)  a file's text belongs to one generation;
 *                                                             in .telemetry: number of the text
 */
#include "fs/request.h"

fuse_ino_t node_id_pack(const struct node_id *id)
{
	uint64_t row = id->row;

	switch (id->kind) {
	case NODE_FILE:
		return UINT64_C(1) << 63 |
		       (uint64_t)(id->gen & GEN_FILE_MASK) << (ROW_BITS + ENTRY_BITS) |
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

struct fs *req_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

struct fs *req_begin(fuse_req_t req, enum counted what)
{
	struct fs *fs = req_fs(req);

	atomic_fetch_add_explicit(&fs->count[what], 1, memory_order_relaxed);
	(void)pthread_rwlock_rdlock(&fs->requests);
	return fs;
}

void req_end(struct fs *fs)
{
	(void)pthread_rwlock_unlock(&fs->requests);
}

static int to_errno(struct fs *fs, int r)
{
	if (r == -EUCLEAN) {
		fs_say(fs, "cannot read the", r);
		return EIO;
	}
	return -r;
}

void req_error(struct fs *fs, fuse_req_t req, int r)
{
	(void)fuse_reply_err(req, to_errno(fs, r));
}

/* What was read from a generation may be cached only while that generation is shown. */
double req_timeout(struct fs *fs, const struct gen *g)
{
	return atomic_load(&fs->view.now) == g ? TIMEOUT_FOREVER : 0;
}

/* -- attributes ------------------------------------------------------------------------------ */

bool is_virtual_dir(uint8_t virt)
{
	return virt == V_USAGE || virt == V_TELEMETRY || virt == V_GROWTH || virt == V_AT ||
	       virt == V_GROWN;
}

static void set_times(struct stat *st, int64_t t)
{
	st->st_mtim.tv_sec = st->st_ctim.tv_sec = st->st_atim.tv_sec = t;
}

void attr_dir(uint64_t ino, const struct snap_node *n, struct stat *ret)
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

mode_t attr_mode(uint8_t type)
{
	static const mode_t modes[] = {
		[SCAN_UNKNOWN] = S_IFREG, [SCAN_FILE] = S_IFREG,  [SCAN_DIR] = S_IFDIR,
		[SCAN_SYMLINK] = S_IFLNK, [SCAN_FIFO] = S_IFIFO,  [SCAN_SOCKET] = S_IFSOCK,
		[SCAN_CHAR] = S_IFCHR,    [SCAN_BLOCK] = S_IFBLK,
	};

	return modes[type & 7];
}

void attr_file(uint64_t ino, const struct snap_entry *e, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = ino,
		.st_mode = attr_mode(e->type) | e->meta.mode,
		.st_nlink = e->meta.multi ? 2 : 1,
		.st_uid = e->meta.uid,
		.st_gid = e->meta.gid,
		.st_size = (off_t)e->meta.size,
		.st_blocks = (blkcnt_t)e->meta.blocks,
		.st_blksize = 4096,
	};
	set_times(ret, e->meta.mtime);
}

void attr_virtual(struct fs *fs, const struct node_id *id, const struct row *dir,
                  const struct gen *g, mode_t mode, size_t size, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = ino_virtual(&fs->ino, dir, id->virt),
		.st_mode = mode,
		.st_nlink = 1,
		.st_uid = getuid(),
		.st_gid = getgid(),
		.st_size = (off_t)size,
		.st_blksize = 4096,
	};
	set_times(ret, place_asof(fs, g, id->row));
	/* The kernel keeps a listing while this time stays: two snapshots may share a second. */
	if (id->virt == V_AT || id->virt == V_GROWN)
		ret->st_mtim.tv_nsec = g->number % 1000000000;
}

void attr_live(struct fs *fs, const struct node_id *id, const struct row *dir, const struct gen *g,
               const struct live_stat *st, struct stat *ret)
{
	attr_virtual(fs, id, dir, g, S_IFREG | live_mode(id->virt - V_LIVE), st->size, ret);
	ret->st_mtim = ret->st_ctim = ret->st_atim = st->mtime;
}

/* Names of one inode have one number; it belongs to the root, not to the path. */
uint64_t ino_file(struct fs *fs, const struct gen *g, uint32_t row, const struct row *dir,
                  const struct snap_entry *e, uint64_t *root_key)
{
	const struct snap_info *i;

	if (!e->meta.multi)
		return ino_entry(&fs->ino, dir, e->name, e->name_len);
	if (!*root_key) {
		i = place_snapshot(fs, g, row);
		*root_key = ino_key_path(&fs->ino, i ? i->root : "/");
	}
	return ino_link(&fs->ino, *root_key, e->meta.ino);
}

/* -- texts of usage files -------------------------------------------------------------------- */

const struct usage_file *usage_of(uint8_t virt)
{
	return &usage_files[virt & ~V_TWIN];
}

bool is_usage_file(uint8_t virt)
{
	return (size_t)(virt & ~V_TWIN) < n_usage_files;
}

bool is_live_file(uint8_t virt)
{
	return virt >= V_LIVE && (size_t)(virt - V_LIVE) < n_live_files;
}

int req_render(struct fs *fs, const struct gen *g, const struct node_id *id,
               const _Atomic bool *stop, struct text *out)
{
	const struct usage_file *f = usage_of(id->virt);
	struct text path = { 0 };
	struct snap_node n;
	struct snap_list until = g->all;
	struct usage_dir d = {
		.s = fs->s,
		.node = &n,
		.raw = id->virt & V_TWIN,
		.stop = stop,
	};
	int64_t last;
	int r = place_node(fs, g, id->row, &n);

	if (r < 0)
		return r;
	d.snapshot = place_snapshot(fs, g, id->row);
	last = place_until(fs, id->row);
	d.asof = view_asof(g, d.snapshot, last);
	/* What came later is not in the past. */
	if (last < INT64_MAX)
		until.n = snap_list_before(&until, last + 1);
	d.all = &until;
	if (f->path)
		r = place_source(fs, g, id->row, &path);
	d.path = path.p;
	if (r == 0)
		r = usage_text(&d, id->virt, &(struct viewer){ .uid = getuid() }, out);
	text_done(&path);
	snap_node_put(fs->s, &n);
	return r;
}

/*
 * What a text is kept under: its directory's inode number, for when the kernel forgets the directory, its row's
 * number is given to another one.
 */
static uint64_t text_key(struct fs *fs, const struct node_id *id)
{
	struct node_id rowless = *id;
	struct row row = { 0 };
	uint64_t ino;

	rowless.row = 0;
	(void)rows_get(&fs->rows, id->row, &row);
	ino = ino_row(&fs->ino, &row);
	return snap_hash(&ino, sizeof(ino), node_id_pack(&rowless));
}

/* The text of a slow file, made if need be. Release it. */
int req_text(struct fs *fs, const struct gen *g, const struct node_id *id, const _Atomic bool *stop,
             struct text_copy **ret)
{
	uint64_t key = text_key(fs, id);
	struct text t = { 0 };
	int r;

	*ret = texts_get(fs->texts, key);
	if (*ret)
		return 0;
	r = req_render(fs, g, id, stop, &t);
	if (r == 0) {
		*ret = texts_put(fs->texts, key, &t);
		r = *ret ? 0 : -ENOMEM;
	}
	text_done(&t);
	return r;
}

/* Length of a usage file's text. */
int req_text_size(struct fs *fs, const struct gen *g, const struct node_id *id,
                  const _Atomic bool *stop, size_t *ret)
{
	struct text t = { 0 };
	struct text_copy *c;
	int r;

	if (usage_of(id->virt)->slow) {
		r = req_text(fs, g, id, stop, &c);
		if (r < 0)
			return r;
		*ret = c->len;
		texts_release(fs->texts, c);
		return 0;
	}
	r = req_render(fs, g, id, stop, &t);
	*ret = t.len;
	text_done(&t);
	return r;
}

bool req_text_ready(struct fs *fs, const struct node_id *id)
{
	struct text_copy *c;

	if (!usage_of(id->virt)->slow)
		return true;
	c = texts_get(fs->texts, text_key(fs, id));
	if (c)
		texts_release(fs->texts, c);
	return c != NULL;
}

void req_park(struct fs *fs, fuse_req_t req, fuse_ino_t ino, void (*run)(struct fs *, struct job *),
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

struct gen *req_gen(struct fs *fs, const struct node_id *id)
{
	return view_gen(&fs->view, id->gen, id->kind == NODE_FILE ? GEN_FILE_MASK : GEN_MASK);
}

void req_forget(struct fs *fs, fuse_ino_t ino, uint64_t n)
{
	struct node_id id = node_id_unpack(ino);

	if (id.kind == NODE_VIRTUAL && is_live_file(id.virt))
		live_forget(fs, id.virt - V_LIVE, id.gen, n);
	rows_forget(&fs->rows, id.row, n);
}

void req_entry(struct fs *fs, fuse_req_t req, const struct gen *g, struct fuse_entry_param *e)
{
	double now = req_timeout(fs, g);

	if (e->entry_timeout == 0)
		e->entry_timeout = now;
	else if (e->entry_timeout == TIMEOUT_NEVER)
		e->entry_timeout = 0;
	if (e->attr_timeout != 0)
		e->attr_timeout = now;
	if (fuse_reply_entry(req, e) < 0) /* interrupted: the kernel will not forget it */
		req_forget(fs, e->ino, 1);
}
