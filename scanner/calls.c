/* SPDX-License-Identifier: MIT */
/*
 * calls - the system calls of a scan, counted as strace counts them, and what an answer of statx means.
 */
#include "scanner/internal.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

static void count_error(struct worker *w, int error)
{
	w->count.by_errno[MIN(error, SCAN_ERRNO_SLOTS - 1)]++;
}

int sys_openat(struct worker *w, int dirfd, const char *name, int flags)
{
	int fd;

	do {
		fd = openat(dirfd, name, flags | O_CLOEXEC);
		COUNT(w->count.openat, 1);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0) {
		count_error(w, errno);
		return -errno;
	}
	return fd;
}

/* Only the owner of a directory may ask for O_NOATIME; others do without (open(2)). */
int open_to_read(struct worker *w, int dirfd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK;
	int fd = sys_openat(w, dirfd, name, flags | O_NOATIME);

	return fd == -EPERM ? sys_openat(w, dirfd, name, flags) : fd;
}

void open_close(struct worker *w, int fd)
{
	if (fd < 0)
		return;
	(void)close(fd);
	COUNT(w->count.close, 1);
}

int open_statx(struct worker *w, int fd, const char *name, int flags, unsigned mask,
               struct statx *ret)
{
	int r;

	do {
		r = statx(fd, name,
		          flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, mask,
		          ret);
		COUNT(w->count.statx, 1);
	} while (r < 0 && errno == EINTR);
	if (r < 0) {
		count_error(w, errno);
		return -errno;
	}
	return 0;
}

int open_statx_meta(struct worker *w, int fd, const char *name, int flags, struct statx *ret)
{
	return open_statx(w, fd, name, flags, STATX_BASIC_STATS | STATX_MNT_ID, ret);
}

uint64_t statx_dev(const struct statx *st)
{
	return makedev(st->stx_dev_major, st->stx_dev_minor);
}

/*
 * Inode numbers identify a file with several names within a root. On another device of the same mount
 * (btrfs subvolumes, overlay layers) the same number is another file, so the device is mixed in there.
 */
void meta_from_statx(const struct statx *st, uint64_t root_dev, struct scan_meta *ret)
{
	uint64_t dev = statx_dev(st);

	*ret = (struct scan_meta){
		.size = MIN(st->stx_size, (uint64_t)INT64_MAX),
		.blocks = MIN(st->stx_blocks, (uint64_t)INT64_MAX / 512),
		.ino = dev == root_dev ? st->stx_ino : (st->stx_ino ^ dev) * 0x9E3779B97F4A7C15u,
		.mtime = st->stx_mtime.tv_sec,
		.uid = st->stx_uid,
		.gid = st->stx_gid,
		.mode = st->stx_mode & 07777,
		.multi = st->stx_nlink > 1 && !S_ISDIR(st->stx_mode),
	};
	ret->nlink = ret->multi ? st->stx_nlink : 0;
}
