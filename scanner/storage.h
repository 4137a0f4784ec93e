/* SPDX-License-Identifier: MIT */
/*
 * storage - what kind of device a tree lives on, and how one can tell. Nothing outside scanner/ includes this.
 *
 * Model:   from the mount down to the disks: file system, partition, dm, md, loop and bcache devices, members
 *          of btrfs, layers of overlay. Of several disks the one that minds most decides: rotational, then
 *          network, virtual, solid, memory.
 * Owner:   nothing is kept; all answers are in *ret.
 * Errors:  0 or -ENOMEM. What cannot be found out is STORAGE_UNKNOWN with a sentence that says why.
 * Threads: any; reads sysfs and mountinfo only, and never touches the tree itself.
 */
#ifndef SCANNER_STORAGE_H
#define SCANNER_STORAGE_H

#include "base/base.h"

enum storage_kind {
	STORAGE_UNKNOWN,
	STORAGE_ROTATIONAL, /* seeks: one reader in disk order */
	STORAGE_SOLID,
	STORAGE_VIRTUAL, /* a hypervisor's disk; what is behind it cannot be seen */
	STORAGE_NETWORK, /* each request waits for somebody else: NFS, FUSE, nbd, ... */
	STORAGE_MEMORY,
};

struct storage {
	enum storage_kind kind;
	char evidence
		[240]; /* one line of printable ASCII: "ext4 on sda1 on sda: queue/rotational is 1" */
};

struct storage_where {
	const char *sysfs;             /* NULL: /sys */
	const char *mountinfo;         /* NULL: /proc/self/mountinfo */
	uint64_t mnt_id;               /* statx's STATX_MNT_ID; 0 if not known */
	unsigned dev_major, dev_minor; /* st_dev; decides if the mount is not listed */
};

/** What the tree at that place lives on. 0 or -ENOMEM. */
int storage_find(const struct storage_where *where, struct storage *ret);

/* One row for each kind. */
struct storage_traits {
	const char *name; /* one word, as telemetry has it */
	unsigned rank;    /* how much it minds the wrong number of readers */
	unsigned cold; /* readers while it is waited for, at least; one per CPU if that is more */
	bool spins;    /* ... but exactly that many, in inode order */
	bool remote;   /* a wait shows as giving up the CPU, not as reading from a disk */
	const char *first; /* why so many readers begin */
};

const struct storage_traits *storage_traits(enum storage_kind kind);

#endif
