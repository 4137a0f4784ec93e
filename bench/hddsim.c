/* SPDX-License-Identifier: MIT */
/*
 * hddsim - serves a disk image with the timing of a 7200 rpm disk, as the one file MOUNTPOINT/disk.
 *
 *     a read request arrives                 disk_read       the FUSE thread only queues it
 *     the disk takes the one soonest done    take_nearest    among the 32 oldest, as NCQ does
 *     seek, wait for the sector, transfer    position_ns     computed, then slept
 *     the answer                             serve           with what the image holds
 *
 * Reads that go on where the last one ended, or a little further, cost the transfer only: a disk
 * reads ahead. The disk is read-only. To scan on it:
 *
 *     hddsim ext4.img mnt && loop=$(losetup --show -f -r --direct-io=on mnt/disk)
 *     echo 1 > /sys/block/${loop#/dev/}/queue/rotational && mount -o ro,noload $loop fs
 *     ... umount fs; losetup -d $loop; fusermount3 -u mnt
 *
 * A new mount starts cold, so no caches need to be dropped. Make the file system with -b 4096:
 * small images get smaller blocks otherwise.
 */
#define FUSE_USE_VERSION 312
#include "base/base.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum {
	NCQ_DEPTH = 32,
	REVOLUTION_NS = 60 * 1000000000LL / 7200,
	TRACK_BYTES = 1 << 20,
	TRANSFER_BYTES_PER_US = 150,
	READ_AHEAD_BYTES = 512 << 10,
	NEAR_BYTES = 8 << 20, /* a few tracks away: the arm hardly moves */
	NEAR_SEEK_NS = 800000,
	DISK_INO = 2,
	CACHE_S = 3600, /* the kernel may remember name and size */
};

struct request {
	struct request *next;
	fuse_req_t req;
	uint64_t offset;
	size_t size_bytes;
	uint64_t arrived_ns;
};

struct disk {
	int fd;
	uint64_t size_bytes;
	pthread_t server;
	_Atomic bool stop; /* set once, when no more requests come */

	/* The disk thread's own. */
	uint64_t head;    /* where the last read ended */
	uint64_t free_ns; /* and when */

	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct request *oldest; /* lock: waiting */
	struct request **newest;
};

static struct disk *disk_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* How long until the head is over the offset, if it starts to move at start_ns. */
static uint64_t position_ns(const struct disk *d, uint64_t offset, uint64_t start_ns)
{
	uint64_t distance = offset > d->head ? offset - d->head : d->head - offset;
	uint64_t seek_ns = NEAR_SEEK_NS, angle_ns, wanted_ns;

	if (offset >= d->head && distance <= READ_AHEAD_BYTES)
		return 0;
	if (distance > NEAR_BYTES) {
		double share = (double)distance / (double)d->size_bytes;

		seek_ns = (uint64_t)(1e6 + 14e6 * sqrt(share / 2));
	}
	/* The platter turns whether someone reads or not, so its angle is the time of day. */
	angle_ns = (start_ns + seek_ns) % REVOLUTION_NS;
	wanted_ns = offset % TRACK_BYTES * REVOLUTION_NS / TRACK_BYTES;
	return seek_ns + (wanted_ns + REVOLUTION_NS - angle_ns) % REVOLUTION_NS;
}

static uint64_t done_ns(const struct disk *d, const struct request *r)
{
	uint64_t start = MAX(d->free_ns, r->arrived_ns);

	return start + position_ns(d, r->offset, start) +
	       r->size_bytes * 1000 / TRANSFER_BYTES_PER_US;
}

/* Under the lock. The queue is not empty. */
static struct request *take_nearest(struct disk *d)
{
	struct request **best = &d->oldest, **p = &d->oldest, *r;
	unsigned i = 0;

	for (; *p && i < NCQ_DEPTH; p = &(*p)->next, i++)
		if (done_ns(d, *p) < done_ns(d, *best))
			best = p;
	r = *best;
	*best = r->next;
	if (!*best && d->newest == &r->next)
		d->newest = best;
	return r;
}

static void serve(struct disk *d, struct request *r)
{
	uint64_t done = done_ns(d, r);
	const struct timespec until = { (time_t)(done / 1000000000), (long)(done % 1000000000) };
	AUTO(base_free) char *buf = malloc(MAX(r->size_bytes, 1));
	ssize_t n = buf ? pread(d->fd, buf, r->size_bytes, (off_t)r->offset) : -1;
	int err = buf ? errno : ENOMEM;

	d->head = r->offset + r->size_bytes;
	d->free_ns = done;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	if (n < 0)
		fuse_reply_err(r->req, err);
	else
		fuse_reply_buf(r->req, buf, (size_t)n);
	free(r);
}

static void *run_disk(void *arg)
{
	struct disk *d = arg;
	struct request *r;

	(void)prctl(PR_SET_TIMERSLACK, 1UL); /* wake up on time, not within 50 us of it */
	for (;;) {
		pthread_mutex_lock(&d->lock);
		while (!d->oldest && !d->stop)
			pthread_cond_wait(&d->arrived, &d->lock);
		r = d->oldest ? take_nearest(d) : NULL;
		pthread_mutex_unlock(&d->lock);
		if (!r)
			return NULL;
		serve(d, r);
	}
}

static void disk_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                      struct fuse_file_info *fi)
{
	struct disk *d = disk_of(req);
	struct request *r = calloc(1, sizeof(*r));

	(void)ino;
	(void)fi;
	if (!r) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*r = (struct request){ NULL, req, (uint64_t)off, size, clock_ns(CLOCK_MONOTONIC) };
	pthread_mutex_lock(&d->lock);
	*d->newest = r;
	d->newest = &r->next;
	pthread_cond_signal(&d->arrived);
	pthread_mutex_unlock(&d->lock);
}

static void fill_attr(const struct disk *d, fuse_ino_t ino, struct stat *ret)
{
	*ret = (struct stat){ .st_ino = ino, .st_nlink = 1, .st_mode = S_IFREG | 0400 };
	if (ino == FUSE_ROOT_ID) {
		ret->st_mode = S_IFDIR | 0700;
		ret->st_nlink = 2;
		return;
	}
	ret->st_size = (off_t)d->size_bytes;
	ret->st_uid = getuid();
	ret->st_gid = getgid();
}

static void disk_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	fill_attr(disk_of(req), ino, &st);
	fuse_reply_attr(req, &st, CACHE_S);
}

static void disk_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {
		.ino = DISK_INO,
		.attr_timeout = CACHE_S,
		.entry_timeout = CACHE_S,
	};

	if (parent != FUSE_ROOT_ID || strcmp(name, "disk") != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill_attr(disk_of(req), e.ino, &e.attr);
	fuse_reply_entry(req, &e);
}

static void disk_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                         struct fuse_file_info *fi)
{
	struct stat st;
	char buf[64];
	size_t n;

	(void)ino;
	(void)fi;
	fill_attr(disk_of(req), DISK_INO, &st);
	n = off == 0 ? fuse_add_direntry(req, buf, MIN(size, sizeof(buf)), "disk", &st, 1) : 0;
	fuse_reply_buf(req, buf, MIN(n, sizeof(buf)));
}

static void disk_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (ino != DISK_INO)
		fuse_reply_err(req, EISDIR);
	else if ((fi->flags & O_ACCMODE) != O_RDONLY)
		fuse_reply_err(req, EROFS);
	else {
		fi->direct_io = 1; /* no page cache of this file: each read reaches the disk */
		fuse_reply_open(req, fi);
	}
}

static void disk_init(void *arg, struct fuse_conn_info *conn)
{
	(void)arg;
	/* The kernel would send only 12 requests at once, and leave NCQ little to choose from. */
	conn->max_background = 4 * NCQ_DEPTH;
	conn->congestion_threshold = 4 * NCQ_DEPTH;
}

static const struct fuse_lowlevel_ops disk_ops = {
	.init = disk_init,
	.lookup = disk_lookup,
	.getattr = disk_getattr,
	.readdir = disk_readdir,
	.open = disk_open,
	.read = disk_read,
};

static void stop_server(struct disk *d)
{
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_signal(&d->arrived);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->server, NULL);
}

static int serve_mount(struct disk *d, const char *path, bool foreground)
{
	/* Absolute, since fuse_daemonize() changes to the root, in the foreground too. */
	AUTO(base_free) char *mountpoint = realpath(path, NULL);
	char *argv[] = { (char[]){ "hddsim" }, (char[]){ "-ofsname=hddsim,subtype=hddsim" }, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, argv);
	struct fuse_session *se;
	int r = 1;

	if (!mountpoint) {
		(void)fprintf(stderr, "hddsim: mount on '%s': %s\n", path, strerror(errno));
		return 1;
	}
	se = fuse_session_new(&args, &disk_ops, sizeof(disk_ops), d);
	if (!se)
		goto free_args;
	if (fuse_set_signal_handlers(se) != 0)
		goto destroy;
	if (fuse_session_mount(se, mountpoint) != 0)
		goto remove_handlers;
	/* Threads don't survive the fork in here. */
	if (fuse_daemonize(foreground) == 0 && pthread_create(&d->server, NULL, run_disk, d) == 0) {
		r = fuse_session_loop(se) < 0;
		stop_server(d);
	}
	fuse_session_unmount(se);
remove_handlers:
	fuse_remove_signal_handlers(se);
destroy:
	fuse_session_destroy(se);
free_args:
	fuse_opt_free_args(&args);
	return r;
}

static int open_image(struct disk *d, const char *path)
{
	off_t size;

	d->fd = open(path, O_RDONLY | O_CLOEXEC);
	size = d->fd < 0 ? -1 : lseek(d->fd, 0, SEEK_END);
	if (size < 0)
		return -errno;
	d->size_bytes = (uint64_t)size;
	return size == 0 ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	struct disk d = { .fd = -1, .newest = &d.oldest };
	bool foreground = false;
	int opt, r;

	while ((opt = getopt(argc, argv, "f")) == 'f')
		foreground = true;
	if (opt != -1 || optind + 2 != argc) {
		(void)fputs("usage: hddsim [-f] IMAGE MOUNTPOINT\n", stderr);
		return 2;
	}
	pthread_mutex_init(&d.lock, NULL);
	pthread_cond_init(&d.arrived, NULL);
	r = open_image(&d, argv[optind]);
	if (r < 0) {
		(void)fprintf(stderr, "hddsim: open image '%s': %s\n", argv[optind], strerror(-r));
		return 1;
	}
	return serve_mount(&d, argv[optind + 1], foreground);
}
