/* SPDX-License-Identifier: MIT */
/*
 * fs - shows an index as files.
 *
 * Model:   the tree of the newest snapshots, each directory with its total as st_size; beside the real
 *          entries, .usage in every directory, .telemetry and .growth at the top. See
 *          disktracker-files(5).
 * Owner:   fs_mount() borrows its options during the call.
 * Errors:  0 or -errno, after a sentence to options->say.
 * Threads: fs_mount() starts its own and ends them all before it returns.
 */
#ifndef FS_FS_H
#define FS_FS_H

#include "base/text.h"
#include "snapshot/snapshot.h"

struct fs_options {
	const char *index;        /* path */
	const char *root;         /* absolute path shown as the top, or NULL for all roots */
	const char *mountpoint;   /* absolute */
	const char *fuse_options; /* comma-separated generic mount options, or NULL */
	size_t cache_bytes;       /* for nodes; 0: default */
	int64_t every;            /* seconds between scans that the mount runs itself; 0: none */
	bool foreground;
	bool show_usage; /* list .usage everywhere */
	bool xattr;      /* answer user.disktracker.* and ceph.dir.* */
	/** Says one thing to people: at start, and once per cause while running. */
	void (*say)(void *ctx, const char *what, const char *reason);
	void *say_ctx;
};

/**
 * Mount and serve until unmounted. Unless foreground, a child serves: the calling process ends as soon as
 * the mount answers (status 0) or has failed (3), and it is the child that this returns in.
 */
int fs_mount(const struct fs_options *o);

/** Is path the mount point of a disktracker whose process is gone? Then unmount it. 1 if it did. */
int fs_clean_dead(const char *path);
/** Is a disktracker mounted exactly at this absolute path? */
bool fs_is_mounted(const char *path);
/** Unmount, as root or through fusermount3. 0 or -errno. */
int fs_umount(const char *path);

/** Row i of the table of virtual files: name and what it says; false past the end. */
bool fs_virtual_file(size_t i, const char **name, const char **help);

#endif
