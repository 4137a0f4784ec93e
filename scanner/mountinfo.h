/* SPDX-License-Identifier: MIT */
/*
 * mountinfo - the mounts of this mount namespace, as the kernel lists them.
 *
 * Owner:   mountinfo_done() frees what mountinfo_load() filled in, all strings included.
 * Errors:  0 or -errno.
 * Source:  proc(5), /proc/[pid]/mountinfo.
 */
#ifndef SCANNER_MOUNTINFO_H
#define SCANNER_MOUNTINFO_H

#include "base/base.h"

struct mount {
	uint64_t id; /* statx calls it STATX_MNT_ID */
	unsigned major, minor;
	char *point, *type, *source;
	char *options; /* of the file system; its values are still escaped */
};

struct mountinfo {
	struct mount *mount;
	size_t n, cap;
	char *text; /* cut into the strings */
};

int mountinfo_load(const char *path, struct mountinfo *ret);
void mountinfo_done(struct mountinfo *mi);

/** The mount that holds an absolute path, or NULL. Looks at names only, never at the path. */
const struct mount *mountinfo_of_path(const struct mountinfo *mi, const char *path);
/** The mount with this id or else the first one with this device, or NULL. */
const struct mount *mountinfo_of_device(const struct mountinfo *mi, uint64_t id, unsigned major,
                                        unsigned minor);

/** Is path the directory at point or below it? */
bool mountinfo_is_below(const char *path, const char *point);
/** Undoes the \ooo of the kernel in place. */
void mountinfo_unescape(char *text);

#endif
