/* SPDX-License-Identifier: MIT */
/*
 * source_walk - getdents64(2) says the names, and everything else is doubted: the walk asks statx(2).
 */
#include "scanner/internal.h"
#include "scanner/source.h"

#include <dirent.h>

enum {
	BUFFER = 32 * 1024
};

static const uint8_t types[16] = {
	[DT_REG] = SCAN_FILE,  [DT_DIR] = SCAN_DIR,     [DT_LNK] = SCAN_SYMLINK,
	[DT_FIFO] = SCAN_FIFO, [DT_SOCK] = SCAN_SOCKET, [DT_CHR] = SCAN_CHAR,
	[DT_BLK] = SCAN_BLOCK,
};

static bool is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static int add_buffer(struct scan_reading *l, const char *buf, size_t n)
{
	int r = 0;

	for (size_t at = 0; at < n && r == 0;) {
		const struct dirent64 *e = (const struct dirent64 *)(const void *)(buf + at);

		at += e->d_reclen;
		if (!is_dot(e->d_name))
			r = reading_add(l, e->d_name, types[e->d_type & 15], e->d_ino, NULL);
	}
	return r;
}

static int no_open(const struct source_root *root, void *ctx, struct scan_source **ret,
                   char why[SOURCE_WHY])
{
	(void)root, (void)ctx, (void)why;
	*ret = NULL;
	return 1;
}

static void no_close(struct scan_source *s)
{
	(void)s;
}

/*
 * Of a directory that was opened, unless that failed. ENOENT from getdents64 means that it was removed while
 * it was open: then it is SOURCE_CHANGED, and what was added is not all.
 */
static int list(struct scan_source *s, unsigned worker, const struct source_dir *dir,
                struct scan_meta *self, struct scan_reading *l)
{
	struct worker *w = l->w;
	struct scan_dir *d = l->dir;

	(void)s, (void)worker, (void)dir, (void)self;
	if (!w->buf)
		w->buf = malloc(BUFFER);
	if (!w->buf)
		return -ENOMEM;
	while (l->fd >= 0 && !d->cut) {
		ssize_t n = getdents64(l->fd, w->buf, BUFFER);
		int r;

		COUNT(w->count.getdents64, 1);
		if (n == 0)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			w->count.by_errno[MIN(errno, SCAN_ERRNO_SLOTS - 1)]++;
			if (errno == ENOENT && d->parent)
				return SOURCE_CHANGED;
			d->problem = SCAN_ERROR;
			d->error = errno;
			break;
		}
		r = add_buffer(l, w->buf, (size_t)n);
		if (r < 0)
			return r;
	}
	return SOURCE_OK;
}

const struct source_ops source_walk = {
	.name = "walk",
	.open = no_open,
	.list = list,
	.close = no_close,
};
