/* SPDX-License-Identifier: MIT */
/* text - a growing text; the only place where a name becomes text. */
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void text_done(struct text *t)
{
	free(t->p);
	*t = (struct text){ 0 };
}

void text_add(struct text *t, const void *p, size_t len)
{
	if (t->failed || base_reserve(&t->p, &t->cap, t->len + len, 1) < 0) {
		t->failed = true;
		return;
	}
	if (len)
		memcpy(t->p + t->len, p, len);
	t->len += len;
}

void text_puts(struct text *t, const char *s)
{
	text_add(t, s, strlen(s));
}

void text_printf(struct text *t, const char *fmt, ...)
{
	size_t room = t->cap - t->len;
	va_list ap, again;
	int n;

	if (t->failed)
		return;
	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(t->p ? t->p + t->len : NULL, room, fmt, ap);
	if (n < 0) {
		t->failed = true;
	} else if ((size_t)n < room) {
		t->len += (size_t)n;
	} else if (base_reserve(&t->p, &t->cap, t->len + (size_t)n + 1, 1) < 0) { /* and the NUL */
		t->failed = true;
	} else {
		(void)vsnprintf(t->p + t->len, (size_t)n + 1, fmt, again);
		t->len += (size_t)n;
	}
	va_end(again);
	va_end(ap);
}

void text_u64(struct text *t, uint64_t v)
{
	char buf[20];
	size_t at = sizeof(buf);

	do {
		buf[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	text_add(t, buf + at, sizeof(buf) - at);
}

void text_i64(struct text *t, int64_t v)
{
	if (v < 0)
		text_puts(t, "-");
	text_u64(t, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* Well-formed UTF-8 as in Unicode 15, table 3-7: no overlong forms, no surrogates. */
size_t text_utf8_len(const char *str, size_t len)
{
	const unsigned char *s = (const unsigned char *)str;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (len == 0)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (len < n || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

/* What steers a terminal, ends a line, or turns the direction in which the rest is shown. */
static const struct {
	uint16_t first, last;
} steering[] = {
	{ 0x0000, 0x001f }, /* C0 */
	{ 0x007f, 0x009f }, /* DEL and C1, of which U+009B is CSI */
	{ 0x061c, 0x061c }, /* Arabic letter mark */
	{ 0x200e, 0x200f }, /* left-to-right and right-to-left mark */
	{ 0x2028,
	  0x202e }, /* line and paragraph separator; embeddings and overrides of direction */
	{ 0x2066, 0x2069 }, /* isolates of direction */
};

static unsigned code_point(const char *str, size_t len)
{
	const unsigned char *s = (const unsigned char *)str;
	unsigned c = len == 1 ? s[0] : s[0] & (0x7fu >> len);

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (s[i] & 0x3f);
	return c;
}

static bool is_steering(const char *s, size_t len)
{
	unsigned c = code_point(s, len);

	if (c > 0x1f && c < 0x7f)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(steering); i++)
		if (c >= steering[i].first && c <= steering[i].last)
			return true;
	return false;
}

/* The second byte of what is steering is no valid beginning, so all bytes of it are escaped. */
static void escape(struct text *t, const char *s, size_t len, unsigned char first_plain)
{
	for (size_t i = 0; i < len;) {
		unsigned char c = (unsigned char)s[i];
		size_t n = text_utf8_len(s + i, len - i);

		if (n == 0 || c < first_plain || c == '\\' || is_steering(s + i, n)) {
			text_printf(t, "\\%03o", c);
			i++;
		} else {
			text_add(t, s + i, n);
			i += n;
		}
	}
}

void text_escaped(struct text *t, const char *s, size_t len)
{
	escape(t, s, len, 0x21);
}

void text_escaped_spaces(struct text *t, const char *s, size_t len)
{
	escape(t, s, len, 0x20);
}

void text_json_string(struct text *t, const char *s, size_t len, bool *lossy)
{
	text_puts(t, "\"");
	for (size_t i = 0; i < len;) {
		size_t n = text_utf8_len(s + i, len - i);

		if (n == 0) {
			text_puts(t, "\xef\xbf\xbd");
			*lossy = true;
		} else if (s[i] == '"' || s[i] == '\\') {
			text_printf(t, "\\%c", s[i]);
		} else if (is_steering(s + i, n)) {
			text_printf(t, "\\u%04x", code_point(s + i, n));
		} else {
			text_add(t, s + i, n);
		}
		i += MAX(n, (size_t)1);
	}
	text_puts(t, "\"");
}

void text_json_field(struct text *t, const char *key, const char *s, size_t len)
{
	bool lossy = false;

	text_printf(t, "\"%s\":", key);
	text_json_string(t, s, len, &lossy);
	if (!lossy)
		return;
	text_printf(t, ",\"%s_hex\":\"", key);
	for (size_t i = 0; i < len; i++)
		text_printf(t, "%02x", (unsigned char)s[i]);
	text_puts(t, "\"");
}

void text_human(uint64_t bytes, char buf[16])
{
	static const char units[] = "BKMGTPE";
	double v = (double)bytes;
	size_t u = 0;

	while (v >= 1023.95 && u < sizeof(units) - 2) {
		v /= 1024;
		u++;
	}
	if (u == 0)
		(void)snprintf(buf, 16, "%" PRIu64 " B", bytes);
	else
		(void)snprintf(buf, 16, "%.1f %ciB", v, units[u]);
}

void text_utc(int64_t t, char buf[32])
{
	time_t when = t;
	struct tm tm;

	if (!gmtime_r(&when, &tm) || strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		(void)snprintf(buf, 32, "@%" PRId64, t);
}
