/* SPDX-License-Identifier: MIT */
/* path - the path of a directory in flight, for people; the scan itself never uses paths. */
#include "scanner/internal.h"

/* Writes root/.../name to buf; when it does not fit, the beginning gives way to "...". */
size_t path_of(const struct scan_dir *d, const char *root, char *buf, size_t size)
{
	size_t at = size - 1, root_len = strlen(root);

	buf[at] = '\0';
	for (; d->parent; d = d->parent) {
		size_t n = strlen(d->name);

		if (at < n + 1 + 4)
			break;
		at -= n;
		memcpy(buf + at, d->name, n);
		buf[--at] = '/';
	}
	if (d->parent || at < root_len) {
		at -= 3;
		memcpy(buf + at, "...", 3);
	} else if (root_len > 1 || buf[at] == '\0') {
		at -= root_len;
		memcpy(buf + at, root, root_len);
	}
	memmove(buf, buf + at, size - at);
	return size - 1 - at;
}

void source_path(const struct source_dir *dir, char *buf, size_t size)
{
	const struct scan_dir *d = dir->at;

	(void)path_of(d, "", buf, size);
	memmove(buf, buf + (*buf == '/'), strlen(buf) + (*buf != '/'));
}
