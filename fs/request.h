/* SPDX-License-Identifier: MIT */
/*
 * request - what the files that answer FUSE requests share; private to fs/.
 *
 *     request.c  node ids, attributes, texts, replies       read.c     getattr, read, readlink, open
 *     lookup.c   lookup, forget                             readdir.c  readdir, readdirplus
 *     fixed.c    the ways into .usage/at and .growth        refuse.c   whatever would write
 *     ops.c      statfs, extended attributes, the table
 *
 * Errors: -errno up to req_error(). -EAGAIN from a lookup: the generation changed, look again.
 */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

#include "fs/internal.h"

enum {
	GEN_FILE_MASK = (1 << GEN_FILE_BITS) - 1,
	GEN_MASK = (1 << GEN_BITS) - 1,
};

/* Seconds that the kernel may keep what does not change; follow.c tells it what does. */
#define TIMEOUT_FOREVER 86400.0
/* In an entry_timeout that is not final yet: do not keep the name. 0 there means the usual. */
#define TIMEOUT_NEVER (-1.0)

/* Every handler is between these two: see follow.c. */
struct fs *req_begin(fuse_req_t req, enum counted what);
void req_end(struct fs *fs);
struct fs *req_fs(fuse_req_t req);
void req_error(struct fs *fs, fuse_req_t req, int r);
/* How long the kernel may keep what was read from g: not at all if g is no longer shown. */
double req_timeout(struct fs *fs, const struct gen *g);
/* Reply with an entry whose lookup is counted. */
void req_entry(struct fs *fs, fuse_req_t req, const struct gen *g, struct fuse_entry_param *e);
/* Leave the request to a job: run() answers it. */
void req_park(struct fs *fs, fuse_req_t req, fuse_ino_t ino, void (*run)(struct fs *, struct job *),
              size_t size, off_t off);
/* The generation a node id belongs to, pinned; NULL if it is gone. */
struct gen *req_gen(struct fs *fs, const struct node_id *id);

bool is_virtual_dir(uint8_t virt);
bool is_usage_file(uint8_t virt);
bool is_live_file(uint8_t virt);
const struct usage_file *usage_of(uint8_t virt);
bool usage_is_offered(const struct row *dir, uint8_t virt);
mode_t attr_mode(uint8_t type);
void attr_dir(uint64_t ino, const struct snap_node *n, struct stat *ret);
void attr_file(uint64_t ino, const struct snap_entry *e, struct stat *ret);
void attr_virtual(struct fs *fs, const struct node_id *id, const struct row *dir,
                  const struct gen *g, mode_t mode, size_t size, struct stat *ret);
void attr_live(struct fs *fs, const struct node_id *id, const struct row *dir, const struct gen *g,
               const struct live_stat *st, struct stat *ret);
/* *root_key is found once and may be kept for further entries of the directory; begin with 0. */
uint64_t ino_file(struct fs *fs, const struct gen *g, uint32_t row, const struct row *dir,
                  const struct snap_entry *e, uint64_t *root_key);
uint64_t key_window(struct fs *fs, const struct row *top, const struct gen *g, size_t window);
uint64_t key_at(struct fs *fs, const struct row *dir, const char *name, int64_t id);

int req_render(struct fs *fs, const struct gen *g, const struct node_id *id,
               const _Atomic bool *stop, struct text *out);
int req_text(struct fs *fs, const struct gen *g, const struct node_id *id, const _Atomic bool *stop,
             struct text_copy **ret);
int req_text_size(struct fs *fs, const struct gen *g, const struct node_id *id,
                  const _Atomic bool *stop, size_t *ret);
/* Can the text be given at once? */
bool req_text_ready(struct fs *fs, const struct node_id *id);

/* Entries with one more lookup counted. n is the node of the directory they are in, dir its row. */
int entry_dir(struct fs *fs, const struct gen *g, uint32_t parent, const struct row *dir,
              const struct snap_node *n, const struct snap_entry *e, struct fuse_entry_param *ret);
int entry_file(struct fs *fs, const struct gen *g, uint32_t parent, const struct row *dir,
               const struct snap_entry *e, uint64_t *root_key, struct fuse_entry_param *ret);
int lookup_virtual_dir(struct fs *fs, const struct gen *g, uint32_t row, uint8_t virt,
                       struct fuse_entry_param *ret);
int lookup_at(struct fs *fs, struct gen *g, uint32_t parent, const char *name,
              struct fuse_entry_param *ret);
/* True if the reply comes later, from a job; else *r says why not. */
bool lookup_window(struct fs *fs, fuse_req_t req, const char *name, int *r);

/* Give lookups of a node id back. */
void req_forget(struct fs *fs, fuse_ino_t ino, uint64_t n);

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                    struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
              struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                struct fuse_file_info *fi);
void op_access(fuse_req_t req, fuse_ino_t ino, int mask);
void no_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void no_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void no_remove(fuse_req_t req, fuse_ino_t parent, const char *name);
void no_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name);
void no_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
               const char *newname, unsigned flags);
void no_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname);
void no_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi);
void no_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                 int flags);

#endif
