/* SPDX-License-Identifier: MIT */
/*
 * open - reaches directories by name relative to a held descriptor, with a bounded number of them.
 *
 * A directory keeps its descriptor until its last child is opened, as long as the budget allows. Beyond
 * the budget (very deep trees) it is closed after reading. Its children are then reached from the
 * worker's cursor, the directory it read last: depth first means that the parent is an ancestor of it,
 * so ".." leads there, checked by device and inode. If that fails, the way down from the root is walked.
 */
#include "scanner/internal.h"

#include <fcntl.h>

static bool is_directory(struct worker *w, int fd, const struct scan_dir *d)
{
	struct statx st;

	return open_statx(w, fd, "", AT_EMPTY_PATH, STATX_INO, &st) == 0 &&
	       (!d->ino || st.stx_ino == d->ino) && statx_dev(&st) == d->dev;
}

/* From the directory read last up to d, which is depth first's next parent. fd or -errno. */
static int climb(struct worker *w, const struct scan_dir *d)
{
	int fd = w->cursor_fd;

	if (fd < 0 || w->cursor_depth < d->depth)
		return -ENOENT;
	for (size_t depth = w->cursor_depth; depth > d->depth; depth--) {
		int up = sys_openat(w, fd, "..", O_PATH | O_DIRECTORY);

		open_close(w, fd);
		w->cursor_fd = -1;
		if (up < 0)
			return up;
		fd = up;
	}
	w->cursor_fd = -1;
	if (is_directory(w, fd, d))
		return fd;
	open_close(w, fd);
	return -ENOENT;
}

/* From the root down to d by names. fd or -errno. */
static int descend(struct worker *w, const struct scan_dir *d)
{
	AUTO(base_free)
	const struct scan_dir **chain = malloc((d->depth + 1) * sizeof(struct scan_dir *));
	int fd = w->scan->root_fd;

	if (!chain)
		return -ENOMEM;
	for (const struct scan_dir *a = d; a->parent; a = a->parent)
		chain[a->depth] = a;
	for (size_t depth = 1; depth <= d->depth; depth++) {
		int next = sys_openat(w, fd, chain[depth]->name, O_PATH | O_DIRECTORY | O_NOFOLLOW);

		if (fd != w->scan->root_fd)
			open_close(w, fd);
		if (next < 0)
			return next;
		fd = next;
	}
	if (is_directory(w, fd, d))
		return fd;
	if (fd != w->scan->root_fd)
		open_close(w, fd);
	return -ENOENT;
}

/* The parent's descriptor, or a way to one; *own says whether the caller has to close it. */
static int reach(struct worker *w, const struct scan_dir *parent, bool *own)
{
	int fd;

	*own = false;
	if (!parent)
		return w->scan->root_fd;
	if (parent->fd >= 0)
		return parent->fd;
	*own = true;
	fd = climb(w, parent);
	if (fd < 0)
		fd = descend(w, parent);
	if (fd == w->scan->root_fd)
		*own = false;
	return fd;
}

/* One child of parent was opened or given up; the last one closes the parent's descriptor. */
void open_drop_parent(struct worker *w, struct scan_dir *parent)
{
	if (!parent || atomic_fetch_sub(&parent->unopened, 1) != 1)
		return;
	if (parent->held) {
		open_close(w, parent->fd);
		parent->fd = -1;
		atomic_fetch_sub(&w->scan->held, 1);
	} else if (parent->parent) { /* the root's stays open to the end */
		atomic_fetch_sub(&w->scan->unheld, 1);
	}
}

/* Remember the directory just read, if some directory on a stack has no descriptor; else close it. */
void open_keep_cursor(struct worker *w, const struct scan_dir *d, int fd)
{
	if (atomic_load_explicit(&w->scan->unheld, memory_order_relaxed) == 0) {
		open_close(w, fd);
		fd = -1;
	}
	if (w->cursor_fd >= 0)
		open_close(w, w->cursor_fd);
	w->cursor_fd = fd;
	w->cursor_depth = d->depth;
}

static void fill_from_statx(struct worker *w, struct scan_dir *d, const struct statx *st)
{
	d->dev = statx_dev(st);
	d->ino = st->stx_ino;
	d->mnt_id = st->stx_mnt_id;
	meta_from_statx(st, w->scan->root_dev, &d->meta);
}

static bool is_outside(const struct worker *w, const struct scan_dir *d, const struct statx *st)
{
	const struct scan *s = w->scan;

	if (!d->parent || s->options->cross_mounts)
		return false;
	return s->have_mnt_id ? st->stx_mnt_id != s->root_mnt : statx_dev(st) != s->root_dev;
}

/*
 * A mount point by name: is something really mounted there, and may we go in? When even the look fails
 * (another user's FUSE mount, a dead server), it is asked again for nothing, which succeeds without
 * contacting anybody and still shows that it is a mount root (statx(2)).
 */
static int check_mount_point(struct worker *w, int pfd, const struct scan_dir *d)
{
	struct statx st;
	int r = open_statx_meta(w, pfd, d->name, 0, &st);

	if (r == -ENOENT)
		return SCAN_VANISHED;
	if (r < 0)
		r = open_statx(w, pfd, d->name, 0, 0, &st);
	if (r < 0 || st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return w->scan->options->cross_mounts && mounts_may_cross(d->trap) ? SCAN_OK
		                                                                   : SCAN_MOUNT;
	return SCAN_OK;
}

/* Network file systems mount and look up on open: look first. */
static int look_first(struct worker *w, int pfd, struct scan_dir *d, bool *known)
{
	struct statx st;
	int r = open_statx_meta(w, pfd, d->name, 0, &st);

	if (r == -ENOENT)
		return SCAN_VANISHED;
	if (r < 0)
		return SCAN_OK; /* the open will say why */
	if (st.stx_attributes & STATX_ATTR_AUTOMOUNT)
		return SCAN_AUTOMOUNT;
	if (is_outside(w, d, &st))
		return SCAN_MOUNT;
	if (!S_ISDIR(st.stx_mode))
		return SCAN_CHANGED;
	fill_from_statx(w, d, &st);
	*known = true;
	return SCAN_OK;
}

/* The open failed: what the parent still says about the directory, for its own metadata. */
static int describe_unreadable(struct worker *w, int pfd, struct scan_dir *d, int error)
{
	struct statx st;

	if (error == -ENOENT)
		return SCAN_VANISHED;
	if (error == -ENOTDIR || error == -ELOOP)
		return SCAN_CHANGED;
	d->problem = SCAN_ERROR;
	d->error = -error;
	if (open_statx_meta(w, pfd, d->name, 0, &st) == 0) {
		if (is_outside(w, d, &st))
			return SCAN_MOUNT;
		fill_from_statx(w, d, &st);
	}
	return SCAN_OK;
}

/* There was no way back to the parent: it moved, or an error kept us from it and from all below. */
static int unreachable(struct scan_dir *d, int error)
{
	if (error == -ENOENT || error == -ENOTDIR)
		return SCAN_VANISHED;
	if (error == -ELOOP)
		return SCAN_CHANGED;
	d->problem = SCAN_ERROR;
	d->error = -error;
	return SCAN_OK;
}

static int open_known(struct worker *w, int pfd, struct scan_dir *d, bool known, int *ret_fd)
{
	struct statx st;
	int fd = ahead_open(w, pfd, d), r;

	if (fd < 0)
		return describe_unreadable(w, pfd, d, fd);
	if (!known) {
		r = open_statx_meta(w, fd, "", AT_EMPTY_PATH, &st);
		if (r < 0) {
			d->problem = SCAN_ERROR;
			d->error = -r;
			open_close(w, fd);
			return SCAN_OK;
		}
		fill_from_statx(w, d, &st);
		if (is_outside(w, d, &st)) {
			open_close(w, fd);
			return SCAN_MOUNT;
		}
	}
	*ret_fd = fd;
	return SCAN_OK;
}

/*
 * Open directory d, a child of d->parent (or the root), and learn its metadata. Returns an enum
 * scan_problem that says why d is left out, or SCAN_OK; then *ret_fd is the descriptor, or stays -1 if
 * d is there but cannot be read (d->problem).
 */
int open_child(struct worker *w, struct scan_dir *d, int *ret_fd)
{
	bool own = false, known = false;
	int pfd = reach(w, d->parent, &own), problem = SCAN_OK;

	*ret_fd = -1;
	if (pfd < 0) {
		open_drop_parent(w, d->parent);
		return unreachable(d, pfd);
	}
	if (d->trap && d->trap->fstype)
		problem = check_mount_point(w, pfd, d);
	else if (w->scan->stat_first)
		problem = look_first(w, pfd, d, &known);
	if (problem == SCAN_OK)
		problem = open_known(w, pfd, d, known, ret_fd);
	if (own)
		open_close(w, pfd);
	open_drop_parent(w, d->parent);
	/* Network and FUSE file systems may number different directories alike. */
	if (problem == SCAN_OK && *ret_fd >= 0 && !w->scan->stat_first &&
	    seen_before(w->scan, d->dev, d->ino)) {
		open_close(w, *ret_fd);
		*ret_fd = -1;
		problem = SCAN_CHANGED;
	}
	return problem;
}
