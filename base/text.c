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
	char buf[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n > 0)
		text_add(t, buf, MIN((size_t)n, sizeof(buf) - 1));
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

static void escape(struct text *t, const char *s, size_t len, unsigned char first_plain)
{
	for (size_t i = 0; i < len;) {
		unsigned char c = (unsigned char)s[i];
		size_t n = text_utf8_len(s + i, len - i);

		if (n == 0 || c < first_plain || c == 0x7f || c == '\\') {
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
		unsigned char c = (unsigned char)s[i];
		size_t n = text_utf8_len(s + i, len - i);

		if (n == 0) {
			text_puts(t, "\xef\xbf\xbd");
			*lossy = true;
			i++;
		} else if (c < 0x20 || c == 0x7f || c == '"' || c == '\\') {
			text_printf(t, c == '"' || c == '\\' ? "\\%c" : "\\u%04x", c);
			i++;
		} else {
			text_add(t, s + i, n);
			i += n;
		}
	}
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
