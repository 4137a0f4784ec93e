/* SPDX-License-Identifier: MIT */
/*
 * refuse - everything that would write. Only .telemetry/rescan takes anything.
 */
#include "fs/request.h"

/* -- writing: only .telemetry/rescan takes anything ------------------------------------------- */

static bool is_rescan(fuse_ino_t ino)
{
	struct node_id id = node_id_unpack(ino);

	return id.kind == NODE_VIRTUAL && is_live_file(id.virt) &&
	       live_mode(id.virt - V_LIVE) & 0222;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
              struct fuse_file_info *fi)
{
	struct fs *fs = req_begin(req, C_OTHER);

	(void)buf;
	(void)off;
	(void)fi;
	if (is_rescan(ino) && fuse_req_ctx(req)->uid == getuid()) {
		rescan_now(fs);
		(void)fuse_reply_write(req, size);
	} else {
		(void)fuse_reply_err(req, is_rescan(ino) ? EACCES : EROFS);
	}
	req_end(fs);
}

/* Truncating rescan is what a shell does before it writes to it. */
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                struct fuse_file_info *fi)
{
	(void)attr;
	if (is_rescan(ino) &&
	    !(to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)))
		op_getattr(req, ino, fi);
	else
		(void)fuse_reply_err(req, EROFS);
}

void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	(void)fuse_reply_err(req, mask & W_OK && !is_rescan(ino) ? EROFS : 0);
}

void no_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	(void)parent, (void)name, (void)mode, (void)rdev;
	(void)fuse_reply_err(req, EROFS);
}

void no_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)parent, (void)name, (void)mode;
	(void)fuse_reply_err(req, EROFS);
}

void no_remove(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(void)parent, (void)name;
	(void)fuse_reply_err(req, EROFS);
}

void no_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	(void)link, (void)parent, (void)name;
	(void)fuse_reply_err(req, EROFS);
}

void no_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
               const char *newname, unsigned flags)
{
	(void)parent, (void)name, (void)newparent, (void)newname, (void)flags;
	(void)fuse_reply_err(req, EROFS);
}

void no_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	(void)ino, (void)newparent, (void)newname;
	(void)fuse_reply_err(req, EROFS);
}

void no_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi)
{
	(void)parent, (void)name, (void)mode, (void)fi;
	(void)fuse_reply_err(req, EROFS);
}

void no_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                 int flags)
{
	(void)ino, (void)name, (void)value, (void)size, (void)flags;
	(void)fuse_reply_err(req, EROFS);
}
