/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include <string.h>

const char *path_below(const char *root, const char *path)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	return *path == '/' ? path + 1 : path;
}
