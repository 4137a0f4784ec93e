/* SPDX-License-Identifier: MIT */
/*
 * base - what every module needs: scope cleanup, saturating sums, small helpers.
 *
 * Threads: everything here is pure or acts on its arguments only.
 */
#ifndef SCANNER_BASE_H
#define SCANNER_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* AUTO(free_fn) T x: runs free_fn_auto(&x) at the end of the scope; DEFINE_AUTO makes it from free_fn(T). */
#define AUTO(fn) __attribute__((cleanup(fn##_auto)))
#define DEFINE_AUTO(fn, type)                 \
	static inline void fn##_auto(type *p) \
	{                                     \
		fn(*p);                       \
	}                                     \
	struct scan_base_semicolon

/* Hand the value of p over and leave an empty p behind, so that its AUTO has nothing to do. */
#define TAKE(p)                         \
	({                              \
		__typeof__(p) t_ = (p); \
		(p) = NULL;             \
		t_;                     \
	})

#define ARRAY_SIZE(a)          (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)              ((a) < (b) ? (a) : (b))
#define MAX(a, b)              ((a) > (b) ? (a) : (b))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define PRIVATE_CACHE_LINE     __attribute__((aligned(64)))

static inline void base_free(void *p)
{
	free(p);
}

static inline void base_free_auto(void *p)
{
	free(*(void **)p);
}

static inline void base_close(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}
DEFINE_AUTO(base_close, int);

/* Sums of sizes stop at INT64_MAX: st_size and SQLite's integers are signed. */
static inline uint64_t size_sum(uint64_t a, uint64_t b)
{
	uint64_t s;

	if (__builtin_add_overflow(a, b, &s) || s > INT64_MAX)
		return INT64_MAX;
	return s;
}

/* Exact sums while they may still shrink again (hard links); clamp once at the end. */
typedef unsigned __int128 size_exact;

static inline uint64_t size_clamp(size_exact v)
{
	return v > INT64_MAX ? INT64_MAX : (uint64_t)v;
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Grow the array whose pointer is stored at slot to want elements of size bytes. 0 or -ENOMEM. */
static inline int base_reserve(void *slot, size_t *cap, size_t want, size_t size)
{
	size_t n = *cap ? *cap : 16;
	void *p;

	if (want <= *cap)
		return 0;
	while (n < want)
		n += n / 2;
	memcpy(&p, slot, sizeof(p));
	p = realloc(p, n * size);
	if (!p)
		return -ENOMEM;
	memcpy(slot, &p, sizeof(p));
	*cap = n;
	return 0;
}

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
