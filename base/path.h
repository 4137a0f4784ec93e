/* SPDX-License-Identifier: MIT */
/* path - what can be said of absolute paths without looking at a file system. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

/** The part of path that lies below root, "" for root itself; NULL if path is not in it. */
const char *path_below(const char *root, const char *path);

#endif
