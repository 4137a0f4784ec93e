/* SPDX-License-Identifier: MIT */
/*
 * varint - integers in as few bytes as they need (LEB128), and signed ones as small unsigned ones.
 *
 * Threads: everything here is pure or acts on its arguments only.
 */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

/* Varints: seven bits a byte, low bits first, top bit set on all but the last (LEB128). */
enum {
	VARINT_MAX = 10
};

static inline uint8_t *varint_put(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* Reads one; NULL when it is cut off, longer than 64 bits, or p is NULL already. */
static inline const uint8_t *varint_get(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; p && p < end && shift < 64; shift += 7) {
		uint8_t byte = *p++;

		if (shift == 63 && byte > 1)
			return NULL;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = v;
			return p;
		}
	}
	return NULL;
}

/* Signed numbers with small absolute value as small unsigned ones. */
static inline uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

#endif
