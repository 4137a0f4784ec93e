/* SPDX-License-Identifier: MIT */
/*
 * ops - the table of FUSE requests, and the few that are answered in a line.
 */
#include "fs/request.h"

#include <inttypes.h>
#include <stdio.h>

/* -- the rest -------------------------------------------------------------------------------- */

/* Leaves *ret alone if the snapshot was pruned since. */
static int statfs_of(struct fs *fs, int64_t id, struct statvfs *ret)
{
	struct snap_info i;
	int r = snap_info_get(fs->s, id, &i);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (i.details->statvfs.f_bsize)
		*ret = i.details->statvfs;
	snap_info_done(&i);
	return 0;
}

/* As it was when the root was scanned; never asked of the file system, which may be gone. */
static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = req_begin(req, C_OTHER);
	struct gen *g = view_now(&fs->view);
	const struct snap_info *i = place_snapshot(fs, g, node_id_unpack(ino).row);
	struct statvfs v = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255 };
	int r;

	if (!i && g->list.n)
		i = g->list.info[0];
	r = i ? statfs_of(fs, i->id, &v) : 0;
	if (r < 0)
		req_error(fs, req, r);
	else
		(void)fuse_reply_statfs(req, &v);
	gen_put(&fs->view, g);
	req_end(fs);
}

/* user.disktracker.NAME for each number of a subtree, and what CephFS calls some of them. */
static bool xattr_value(const struct snap_node *n, const char *name, char buf[64])
{
	static const char own[] = "user.disktracker.";
	static const struct {
		const char *name, *number, *after;
	} ceph[] = {
		{ "ceph.dir.rbytes", "bytes", "" },
		{ "ceph.dir.rfiles", "files", "" },
		{ "ceph.dir.rsubdirs", "dirs", "" },
		{ "ceph.dir.rentries", "entries", "" },
		{ "ceph.dir.rctime", "newest", ".000000000" },
	};
	const char *number =
		strncmp(name, own, sizeof(own) - 1) == 0 ? name + sizeof(own) - 1 : NULL;
	const char *after = "";
	int64_t v;

	for (size_t i = 0; !number && i < ARRAY_SIZE(ceph); i++) {
		if (strcmp(ceph[i].name, name) != 0)
			continue;
		number = ceph[i].number;
		after = ceph[i].after;
	}
	if (!number || !usage_number(&n->totals, number, &v))
		return false;
	(void)snprintf(buf, 64, "%" PRId64 "%s", v, after);
	return true;
}

/* Answered by name, never listed, so that copies do not carry them. Off by default: ls -l asks a lot. */
static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct fs *fs = req_begin(req, C_OTHER);
	struct node_id id = node_id_unpack(ino);
	struct gen *g = view_now(&fs->view);
	struct snap_node n;
	char buf[64];
	int r = fs->o->xattr ? -ENODATA : -ENOSYS;

	if (fs->o->xattr && id.kind == NODE_DIR)
		r = place_node(fs, g, id.row, &n);
	if (r == 0) {
		r = xattr_value(&n, name, buf) ? 0 : -ENODATA;
		snap_node_put(fs->s, &n);
	}
	if (r < 0)
		req_error(fs, req, r);
	else if (size == 0)
		(void)fuse_reply_xattr(req, strlen(buf));
	else if (size < strlen(buf))
		(void)fuse_reply_err(req, ERANGE);
	else
		(void)fuse_reply_buf(req, buf, strlen(buf));
	gen_put(&fs->view, g);
	req_end(fs);
}

const struct fuse_lowlevel_ops fs_ops = {
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
	.write = op_write,
	.setattr = op_setattr,
	.access = op_access,
	.mknod = no_mknod,
	.mkdir = no_mkdir,
	.unlink = no_remove,
	.rmdir = no_remove,
	.symlink = no_symlink,
	.rename = no_rename,
	.link = no_link,
	.create = no_create,
	.setxattr = no_setxattr,
	.removexattr = no_remove,
};
