/* SPDX-License-Identifier: MIT */
/*
 * text - a growing text and how names, numbers and times are written in it: one function per format.
 *
 * Errors:  running out of memory sets failed; further additions do nothing. Check it once at the end.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/base.h"

struct text {
	char *p; /* not terminated */
	size_t len, cap;
	bool failed;
};

void text_done(struct text *t);
void text_add(struct text *t, const void *p, size_t len);
void text_puts(struct text *t, const char *s);
void text_printf(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void text_u64(struct text *t, uint64_t v);
void text_i64(struct text *t, int64_t v);

/**
 * As in /proc/mounts: bytes < 0x21, backslash and what is not UTF-8 as three-digit octal, and so each byte of the
 * characters that steer a terminal, end a line or turn the direction of writing (U+007F to U+009F, U+061C, U+200E,
 * U+200F, U+2028 to U+202E, U+2066 to U+2069).
 */
void text_escaped(struct text *t, const char *s, size_t len);
/** The same, but spaces stay: for people. */
void text_escaped_spaces(struct text *t, const char *s, size_t len);
/** A JSON string in quotes, always valid UTF-8, the same characters as \u; *lossy: a byte had to become U+FFFD. */
void text_json_string(struct text *t, const char *s, size_t len, bool *lossy);
/** "key":"string", and if that is lossy ,"key_hex":"bytes". */
void text_json_field(struct text *t, const char *key, const char *s, size_t len);
/** Length of the UTF-8 sequence at s, 0 if it is not valid. */
size_t text_utf8_len(const char *s, size_t len);

/** "1.4 GiB", "12 B". */
void text_human(uint64_t bytes, char buf[16]);
/** UTC, 2026-05-01T00:00:00Z; far years as they are; beyond the calendar, @seconds. */
void text_utc(int64_t t, char buf[32]);

#endif
