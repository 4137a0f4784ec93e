/* SPDX-License-Identifier: MIT */
/* source - the table of sources. The first is what all others decline to. */
#include "scanner/source.h"

static const struct source_ops *const sources[] = {
	&source_walk,
};

const struct source_ops *source_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (strcmp(sources[i]->name, name) == 0)
			return sources[i];
	return NULL;
}
