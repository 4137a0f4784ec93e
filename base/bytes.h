/* SPDX-License-Identifier: MIT */
/*
 * bytes - a growing byte string; all zeros are an empty one. The owner frees p.
 *
 * Errors:  0 or -ENOMEM, and nothing has changed.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/base.h"

struct bytes {
	uint8_t *p;
	size_t len, cap;
};

/** Room for more bytes behind len. */
static inline int bytes_reserve(struct bytes *b, size_t more)
{
	return base_reserve(&b->p, &b->cap, b->len + more, 1);
}

static inline int bytes_add(struct bytes *b, const void *p, size_t len)
{
	int r = bytes_reserve(b, len);

	if (r == 0 && len) {
		memcpy(b->p + b->len, p, len);
		b->len += len;
	}
	return r;
}

#endif
