/* SPDX-License-Identifier: MIT */
/*
 * fstype - what is known of file systems by their type. Nothing outside scanner/ includes this.
 *
 * Threads: everything here is constant.
 */
#ifndef SCANNER_FSTYPE_H
#define SCANNER_FSTYPE_H

#include "base/base.h"

enum fstype_flags {
	FS_KERNEL = 1,  /* holds nobody's data: never crossed into */
	FS_NETWORK = 2, /* each request waits for a server */
	FS_MEMORY = 4,
	FS_FLASH = 8, /* on flash chips without a block device */
	FS_FUSE = 16, /* a server, unless it has a block device */
	FS_LOOK = 32, /* opening a directory may mount something or wait: look first */
};

struct fstype {
	const char *name;
	unsigned flags;
	uint32_t magic; /* f_type of statfs(2), where something depends on it */
};

/** By its name in mountinfo; "fuse.sshfs" is "fuse" unless it has a row of its own. NULL if there is none. */
const struct fstype *fstype_find(const char *name);
/** Does the file system that fd is on have that flag? By its magic number. */
bool fstype_of_fd_has(int fd, unsigned flag);

#endif
