/* SPDX-License-Identifier: MIT */
/* How names, numbers and times become text: any byte goes in, only harmless bytes come out. */
#include "base/text.h"
#include "tests/scans.h"
#include "tests/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

typedef void escape_fn(struct text *t, const char *s, size_t len);

static void assert_escaped(escape_fn *escape, const char *in, size_t len, const char *want)
{
	struct text t = { 0 };

	escape(&t, in, len);
	assert_false(t.failed);
	assert_int_equal(t.len, strlen(want));
	assert_memory_equal(t.p, want, t.len);
	text_done(&t);
}

static void names_are_written_as_in_proc_mounts(void **state)
{
	(void)state;
	assert_escaped(text_escaped, "plain-name_1.txt", 16, "plain-name_1.txt");
	assert_escaped(text_escaped, "a b\tc\nd\\e", 9, "a\\040b\\011c\\012d\\134e");
	assert_escaped(text_escaped, "\x1b[31m\x7f", 6, "\\033[31m\\177");
	assert_escaped(text_escaped, "\xff\xfe", 2, "\\377\\376");
	assert_escaped(text_escaped, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 14,
	               "caf\xc3\xa9\\040\xe2\x82\xac\\040\xf0\x9f\x98\x80");
	assert_escaped(text_escaped, "", 0, "");
	assert_escaped(text_escaped_spaces, "a b\tc", 5, "a b\\011c");
}

static void what_is_not_utf8_is_octal(void **state)
{
	static const struct {
		const char *in, *want;
	} rows[] = {
		{ "\xc3", "\\303" }, /* cut off */
		{ "\xe2\x82", "\\342\\202" },
		{ "\xf0\x9f\x98", "\\360\\237\\230" },
		{ "\xc0\xaf", "\\300\\257" }, /* overlong */
		{ "\xe0\x80\xaf", "\\340\\200\\257" },
		{ "\xf0\x80\x80\xaf", "\\360\\200\\200\\257" },
		{ "\xed\xa0\x80", "\\355\\240\\200" },          /* a surrogate */
		{ "\xf4\x90\x80\x80", "\\364\\220\\200\\200" }, /* beyond Unicode */
		{ "\xf5\x80\x80\x80", "\\365\\200\\200\\200" },
		{ "\x80", "\\200" }, /* a tail without a head */
		{ "\xc3(", "\\303(" },
		{ "\xe2\x28\xa1", "\\342(\\241" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" }, /* the last code point there is */
		{ "\xed\x9f\xbf", "\xed\x9f\xbf" },
		{ "\xc2\xa0", "\xc2\xa0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_escaped(text_escaped, rows[i].in, strlen(rows[i].in), rows[i].want);
}

/* The first and the last of each range that steers a terminal or a reader, and their neighbours, which do not. */
static const struct {
	const char *in, *octal, *json;
} steering[] = {
	{ "\x7f", "\\177", "\\u007f" },
	{ "\xc2\x80", "\\302\\200", "\\u0080" },
	{ "\xc2\x85", "\\302\\205", "\\u0085" }, /* ends a line */
	{ "\xc2\x9b"
	  "2J",
	  "\\302\\2332J", "\\u009b2J" }, /* clears the screen */
	{ "\xc2\x9f", "\\302\\237", "\\u009f" },
	{ "\xc2\xa0", NULL, NULL },
	{ "\xd8\x9b", NULL, NULL },
	{ "\xd8\x9c", "\\330\\234", "\\u061c" },
	{ "\xd8\x9d", NULL, NULL },
	{ "\xe2\x80\x8d", NULL, NULL }, /* joins emoji */
	{ "\xe2\x80\x8e", "\\342\\200\\216", "\\u200e" },
	{ "\xe2\x80\x8f", "\\342\\200\\217", "\\u200f" },
	{ "\xe2\x80\x90", NULL, NULL },
	{ "\xe2\x80\xa7", NULL, NULL },
	{ "\xe2\x80\xa8", "\\342\\200\\250", "\\u2028" },
	{ "\xe2\x80\xa9", "\\342\\200\\251", "\\u2029" },
	{ "\xe2\x80\xaa", "\\342\\200\\252", "\\u202a" },
	{ "\xe2\x80\xae", "\\342\\200\\256", "\\u202e" },
	{ "\xe2\x80\xaf", NULL, NULL },
	{ "\xe2\x81\xa5", NULL, NULL },
	{ "\xe2\x81\xa6", "\\342\\201\\246", "\\u2066" },
	{ "\xe2\x81\xa9", "\\342\\201\\251", "\\u2069" },
	{ "\xe2\x81\xaa", NULL, NULL },
	{ "\xf0\x9f\x98\x80", NULL, NULL },
};

static void assert_json(const char *in, size_t len, const char *want, bool want_lossy);

static void what_steers_a_terminal_or_a_reader_is_escaped(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steering); i++) {
		const char *in = steering[i].in;
		char quoted[32];

		assert_escaped(text_escaped, in, strlen(in),
		               steering[i].octal ? steering[i].octal : in);
		assert_escaped(text_escaped_spaces, in, strlen(in),
		               steering[i].octal ? steering[i].octal : in);
		(void)snprintf(quoted, sizeof(quoted), "\"%s\"",
		               steering[i].json ? steering[i].json : in);
		assert_json(in, strlen(in), quoted, false);
	}
}

static void a_json_field_keeps_lossy_bytes(void **state)
{
	struct text t = { 0 };

	(void)state;
	text_json_field(&t, "path", "a\xc2\x9b", 3);
	text_puts(&t, " ");
	text_json_field(&t, "root", "\xff", 1);
	text_add(&t, "", 1);
	assert_string_equal(t.p,
	                    "\"path\":\"a\\u009b\" \"root\":\"\xef\xbf\xbd\",\"root_hex\":\"ff\"");
	text_done(&t);
}

/* Undo \ooo. */
static size_t unescape(const struct text *t, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < t->len; i++) {
		unsigned char c = (unsigned char)t->p[i];

		assert_true(c > 0x20 && c != 0x7f);
		if (c != '\\') {
			out[n++] = (char)c;
			continue;
		}
		assert_true(i + 3 < t->len);
		out[n++] = (char)((t->p[i + 1] - '0') << 6 | (t->p[i + 2] - '0') << 3 |
		                  (t->p[i + 3] - '0'));
		i += 3;
	}
	return n;
}

static void an_escaped_name_can_be_read_back(void **state)
{
	uint64_t random = 5;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		char name[64], back[64];
		size_t len = tree_draw(&random) % sizeof(name);
		struct text t = { 0 };

		for (size_t c = 0; c < len; c++)
			name[c] = (char)(i % 2 ? tree_draw(&random)
			                       : 0xe0 + tree_draw(&random) % 0x20);
		text_escaped(&t, name, len);
		assert_int_equal(unescape(&t, back), len);
		assert_memory_equal(back, name, len);
		for (size_t at = 0; at < t.len;) { /* and it is valid UTF-8 */
			size_t n = text_utf8_len(t.p + at, t.len - at);

			assert_true(n > 0);
			at += n;
		}
		text_done(&t);
	}
}

static void assert_json(const char *in, size_t len, const char *want, bool want_lossy)
{
	struct text t = { 0 };
	bool lossy = false;

	text_json_string(&t, in, len, &lossy);
	assert_int_equal(t.len, strlen(want));
	assert_memory_equal(t.p, want, t.len);
	assert_int_equal(lossy, want_lossy);
	text_done(&t);
}

static void json_strings_are_quoted(void **state)
{
	(void)state;
	assert_json("", 0, "\"\"", false);
	assert_json("a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"", false);
	assert_json("\n\x01\x1f\x7f", 4, "\"\\u000a\\u0001\\u001f\\u007f\"", false);
	assert_json("\xc3\xa9", 2, "\"\xc3\xa9\"", false);
	assert_json("a\xff"
	            "b",
	            3,
	            "\"a\xef\xbf\xbd"
	            "b\"",
	            true);
}

/* All that python3 cannot parse, or understands in another way, fails. */
static const char parse_back[] = "import json, sys\n"
				 "for line in open(sys.argv[1], 'rb'):\n"
				 "    raw, text = line.rstrip(b'\\n').split(b' ', 1)\n"
				 "    raw = bytes.fromhex(raw.decode()[1:])\n"
				 "    got = json.loads(text.decode('utf-8', 'strict'))\n"
				 "    try:\n"
				 "        assert got == raw.decode('utf-8', 'strict'), (raw, got)\n"
				 "    except UnicodeDecodeError:\n"
				 "        assert '\\ufffd' in got, (raw, got)\n"
				 "print('fine', end='')\n";

static void json_strings_parse_back(void **state)
{
	struct tree place;
	uint64_t random = 8;
	char path[160], *said;
	size_t len;
	FILE *f;

	(void)state;
	tree_new(&place);
	(void)snprintf(path, sizeof(path), "%s/lines", place.path);
	f = fopen(path, "we");
	assert_non_null(f);
	for (int i = 0; i < 20000; i++) {
		char name[32];
		size_t n = tree_draw(&random) % sizeof(name);
		struct text t = { 0 };
		bool lossy = false;

		for (size_t c = 0; c < n; c++)
			name[c] = (char)(i % 2 ? tree_draw(&random) : tree_draw(&random) % 128);
		text_json_string(&t, name, n, &lossy);
		(void)fputc('x', f);
		for (size_t c = 0; c < n; c++)
			(void)fprintf(f, "%02x", (unsigned char)name[c]);
		(void)fprintf(f, " %.*s\n", (int)t.len, t.p);
		text_done(&t);
	}
	assert_int_equal(fclose(f), 0);
	said = scans_output((char *[]){ (char *)"python3", (char *)"-c",
	                                (char *)(uintptr_t)parse_back, path, NULL },
	                    &len);
	tree_remove(&place);
	assert_non_null(said);
	assert_string_equal(said, "fine");
	free(said);
}

static void sizes_are_for_people(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} rows[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1536, "1.5 KiB" },
		{ 1024 * 1024 - 1, "1.0 MiB" }, /* not 1024.0 KiB */
		{ UINT64_C(1503238554), "1.4 GiB" },
		{ INT64_MAX, "8.0 EiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char buf[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		text_human(rows[i].bytes, buf);
		assert_string_equal(buf, rows[i].want);
	}
}

static void times_are_utc_and_never_fail(void **state)
{
	static const struct {
		int64_t t;
		const char *want;
	} rows[] = {
		{ 0, "1970-01-01T00:00:00Z" },
		{ -1, "1969-12-31T23:59:59Z" },
		{ 1777593600, "2026-05-01T00:00:00Z" },
		{ INT64_C(253402300800), "10000-01-01T00:00:00Z" },
		{ INT64_MAX, "@9223372036854775807" },
		{ INT64_MIN, "@-9223372036854775808" },
	};
	char buf[32];

	(void)state;
	(void)setenv("TZ", "Asia/Tokyo", 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		text_utc(rows[i].t, buf);
		assert_string_equal(buf, rows[i].want);
	}
	for (int shift = 0; shift < 63; shift++) { /* each magnitude fits the buffer */
		text_utc(INT64_MAX >> shift, buf);
		assert_true(strlen(buf) > 1);
		text_utc(INT64_MIN >> shift, buf);
		assert_true(strlen(buf) > 1);
	}
}

static void numbers_are_plain(void **state)
{
	struct text t = { 0 };

	(void)state;
	text_u64(&t, 0);
	text_puts(&t, " ");
	text_u64(&t, UINT64_MAX);
	text_puts(&t, " ");
	text_i64(&t, INT64_MIN);
	text_puts(&t, " ");
	text_i64(&t, -7);
	text_printf(&t, " %d%s", 5, "!");
	text_add(&t, "", 1);
	assert_string_equal(t.p, "0 18446744073709551615 -9223372036854775808 -7 5!");
	text_done(&t);
	assert_null(t.p);
	assert_int_equal(t.len, 0);
}

static void a_long_text_grows(void **state)
{
	static char word[2000];
	struct text t = { 0 };

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	text_printf(&t, "<%s>", word);
	assert_int_equal(t.len, sizeof(word) + 1);
	assert_int_equal(t.p[t.len - 1], '>');
	t.len = 0;
	for (int i = 0; i < 100000; i++)
		text_puts(&t, "0123456789");
	assert_false(t.failed);
	assert_int_equal(t.len, 1000000);
	for (size_t i = 0; i < t.len; i += 999)
		assert_int_equal(t.p[i], '0' + (int)(i % 10));
	text_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_written_as_in_proc_mounts),
		cmocka_unit_test(what_is_not_utf8_is_octal),
		cmocka_unit_test(what_steers_a_terminal_or_a_reader_is_escaped),
		cmocka_unit_test(a_json_field_keeps_lossy_bytes),
		cmocka_unit_test(an_escaped_name_can_be_read_back),
		cmocka_unit_test(json_strings_are_quoted),
		cmocka_unit_test(json_strings_parse_back),
		cmocka_unit_test(sizes_are_for_people),
		cmocka_unit_test(times_are_utc_and_never_fail),
		cmocka_unit_test(numbers_are_plain),
		cmocka_unit_test(a_long_text_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
