/* SPDX-License-Identifier: MIT */
/*
 * sysfs - block devices as the kernel describes them: how to find one, what kind of disk it is.
 *
 * Model:   a device is its canonical directory in sysfs, such as /sys/devices/.../block/sda/sda1.
 * Owner:   the caller frees what comes back.
 * Errors:  what is missing is NULL or false. No memory is remembered in error as well.
 * Source:  Documentation/ABI/stable/sysfs-block of Linux.
 */
#ifndef SCANNER_SYSFS_H
#define SCANNER_SYSFS_H

#include "scanner/storage.h"

struct sysfs {
	const char *root; /* canonical */
	int error;        /* -ENOMEM has happened, or 0 */
};

/** The canonical form of dir/name, or NULL. */
char *sysfs_resolve(struct sysfs *sys, const char *dir, const char *name);
/** Calls add with each name in dir, sorted. Returns how many there were, -1 if dir cannot be read. */
int sysfs_each(const char *dir, void (*add)(void *ctx, const char *name), void *ctx);
/** Reads one attribute, without the newline and blanks at its end. */
bool sysfs_attr(const char *dir, const char *name, char *buf, size_t size);
/** Does the attribute exist and say value? */
bool sysfs_attr_is(const char *dir, const char *name, const char *value);

char *sysfs_device(struct sysfs *sys, unsigned major, unsigned minor);
/** The device of a path such as "/dev/sda1", or NULL. */
char *sysfs_device_of_node(struct sysfs *sys, const char *path);

/** The kind of a disk, which lies on nothing else, and the end of a sentence that says why. */
enum storage_kind sysfs_disk_kind(const struct sysfs *sys, const char *dir, char *why, size_t size);

#endif
