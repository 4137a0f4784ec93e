/* SPDX-License-Identifier: MIT */
/*
 * base - what every module needs: scope cleanup, saturating sums, small helpers.
 *
 * Threads: everything here is pure or acts on its arguments only.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

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
	struct base_semicolon

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

#endif
