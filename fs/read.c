/* SPDX-License-Identifier: MIT */
/*
 * read - attributes and contents. Open is answered with ENOSYS once: the kernel then opens by itself and
 * caches pages; what it caches is right until follow.c says otherwise.
 */
#include "fs/request.h"

/* Reading a link would change its time of access, so its target is not known. */
static const char placeholder[] = "(target not recorded)";

/* -- getattr --------------------------------------------------------------------------------- */

static int getattr_dir(struct fs *fs, const struct gen *g, uint32_t row, struct stat *ret)
{
	struct snap_node n;
	struct row at;
	int r;

	if (!rows_get(&fs->rows, row, &at))
		return -ESTALE;
	r = place_node(fs, g, row, &n);
	if (r < 0)
		return r;
	attr_dir(ino_row(&fs->ino, &at), &n, ret);
	snap_node_put(fs->s, &n);
	return 0;
}

static int getattr_file(struct fs *fs, const struct gen *g, const struct node_id *id,
                        struct stat *ret)
{
	uint64_t root_key = 0;
	struct snap_iter it;
	struct snap_node n;
	struct row at;
	int r;

	if (!rows_get(&fs->rows, id->row, &at))
		return -ESTALE;
	r = place_node(fs, g, id->row, &n);
	if (r < 0)
		return r;
	snap_iter_init(&it, &n);
	r = snap_iter_seek(&it, id->entry);
	if (r == 0)
		r = snap_iter_next(&it);
	if (r > 0)
		attr_file(ino_file(fs, g, id->row, &at, &it.e, &root_key), &it.e, ret);
	snap_node_put(fs->s, &n);
	return r > 0 ? 0 : r < 0 ? r : -ESTALE;
}

static int getattr_usage(struct fs *fs, const struct gen *g, const struct node_id *id,
                         const _Atomic bool *stop, struct stat *ret)
{
	struct row at;
	size_t size;
	int r;

	if (!rows_get(&fs->rows, id->row, &at))
		return -ESTALE;
	r = req_text_size(fs, g, id, stop, &size);
	if (r == 0)
		attr_virtual(fs, id, &at, g, S_IFREG | 0444, size, ret);
	return r;
}

static void job_getattr(struct fs *fs, struct job *j)
{
	struct node_id id = node_id_unpack(j->ino);
	struct gen *g = req_gen(fs, &id);
	struct stat st;
	int r = g ? getattr_usage(fs, g, &id, &j->stop, &st) : -ESTALE;

	jobs_end(j);
	if (r < 0)
		req_error(fs, j->req, r);
	else
		(void)fuse_reply_attr(j->req, &st, TIMEOUT_FOREVER); /* a text never changes */
	gen_put(&fs->view, g);
}

static int getattr_virtual(struct fs *fs, const struct gen *now, const struct node_id *id,
                           struct stat *ret, double *timeout_s)
{
	struct live_stat st;
	struct row at;
	int r;

	if (!rows_get(&fs->rows, id->row, &at))
		return -ESTALE;
	if (is_virtual_dir(id->virt)) {
		attr_virtual(fs, id, &at, now, S_IFDIR | 0555, 0, ret);
		if (id->virt == V_AT || id->virt == V_GROWN)
			*timeout_s = 0;
		return 0;
	}
	r = is_live_file(id->virt) ? live_stat(fs, id->virt - V_LIVE, id->gen, &st) : -ESTALE;
	if (r == 0)
		attr_live(fs, id, &at, now, &st, ret);
	*timeout_s = 0;
	return r;
}

/* True if the reply comes later. */
static bool getattr_text(struct fs *fs, fuse_req_t req, fuse_ino_t ino, const struct node_id *id,
                         int *r, struct stat *ret)
{
	struct gen *g;

	if (!req_text_ready(fs, id)) {
		req_park(fs, req, ino, job_getattr, 0, 0);
		return true;
	}
	g = req_gen(fs, id);
	*r = g ? getattr_usage(fs, g, id, NULL, ret) : -ESTALE;
	gen_put(&fs->view, g);
	return false;
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = req_begin(req, C_GETATTR);
	struct node_id id = node_id_unpack(ino);
	struct gen *g = view_now(&fs->view), *own = NULL;
	double timeout_s = TIMEOUT_FOREVER;
	bool parked = false;
	struct stat st;
	int r = 0;

	(void)fi;
	if (id.kind == NODE_DIR) {
		r = getattr_dir(fs, g, id.row, &st);
		timeout_s = req_timeout(fs, g);
	} else if (id.kind == NODE_FILE) {
		own = req_gen(fs, &id);
		r = own ? getattr_file(fs, own, &id, &st) : -ESTALE;
	} else if (is_usage_file(id.virt)) {
		parked = getattr_text(fs, req, ino, &id, &r, &st);
	} else {
		r = getattr_virtual(fs, g, &id, &st, &timeout_s);
	}
	if (!parked && r < 0)
		req_error(fs, req, r);
	else if (!parked)
		(void)fuse_reply_attr(req, &st, timeout_s);
	req_end(fs);
	gen_put(&fs->view, own);
	gen_put(&fs->view, g);
}

/* -- reading --------------------------------------------------------------------------------- */

static void read_text(struct fs *fs, fuse_req_t req, const struct node_id *id, size_t size,
                      off_t off)
{
	struct gen *g = req_gen(fs, id);
	struct text t = { 0 };
	struct text_copy *c;
	int r = -ESTALE;

	if (g && usage_of(id->virt)->slow) {
		r = req_text(fs, g, id, NULL, &c);
		if (r == 0) {
			req_reply_part(req, c->p, c->len, size, off);
			texts_release(fs->texts, c);
		}
	} else if (g) {
		r = req_render(fs, g, id, NULL, &t);
		if (r == 0)
			req_reply_part(req, t.p, t.len, size, off);
		text_done(&t);
	}
	if (r < 0)
		req_error(fs, req, r);
	gen_put(&fs->view, g);
}

static void job_read(struct fs *fs, struct job *j)
{
	struct node_id id = node_id_unpack(j->ino);
	struct gen *g = req_gen(fs, &id);
	struct text_copy *c;
	int r = g ? req_text(fs, g, &id, &j->stop, &c) : -ESTALE;

	jobs_end(j);
	if (r == 0) {
		req_reply_part(j->req, c->p, c->len, j->size, j->off);
		texts_release(fs->texts, c);
	} else {
		req_error(fs, j->req, r);
	}
	gen_put(&fs->view, g);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs *fs = req_begin(req, C_READ);
	struct node_id id = node_id_unpack(ino);

	(void)fi;
	if (id.kind != NODE_VIRTUAL)
		(void)fuse_reply_err(req, EOPNOTSUPP);
	else if (is_live_file(id.virt))
		live_read(fs, id.virt - V_LIVE, id.gen, req, size, off);
	else if (!is_usage_file(id.virt))
		(void)fuse_reply_err(req, EISDIR);
	else if (!req_text_ready(fs, &id))
		req_park(fs, req, ino, job_read, size, off);
	else
		read_text(fs, req, &id, size, off);
	req_end(fs);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	(void)fuse_reply_err(req, ENOSYS);
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	(void)ino;
	(void)fuse_reply_readlink(req, placeholder);
}
