/* SPDX-License-Identifier: MIT */
/*
 * table - see table.h.
 */
#include "bench/table.h"

#include <assert.h>
#include <stdio.h>

enum {
	COLUMNS_MAX = 64
};

static const void *field(const struct column *c, const void *row)
{
	return (const char *)row + c->offset;
}

static const char *string(const struct column *c, const void *row)
{
	const char *s = c->type == TEXT ? *(const char *const *)field(c, row) : field(c, row);

	return s ? s : "";
}

double column_number(const struct column *c, const void *row)
{
	const void *at = field(c, row);

	switch (c->type) {
	case COUNT:
		return (double)*(const uint64_t *)at;
	case UINT:
		return *(const unsigned *)at;
	case FLAG:
		return *(const bool *)at;
	case REAL:
	case KB:
		return *(const double *)at;
	default:
		return 0;
	}
}

static bool is_text(const struct column *c)
{
	return c->type == TEXT || c->type == CHARS;
}

static unsigned kind_of(const struct table *t, const void *row)
{
	return t->kinds ? *(const unsigned *)((const char *)row + t->kind_offset) : 0;
}

static bool has_kind(const struct column *c, unsigned kinds)
{
	return !c->kinds || !kinds || (c->kinds & kinds);
}

const void *table_row(const struct table *t, size_t i)
{
	const void *row = (const char *)t->rows + i * t->row_bytes;

	return t->kinds && !(kind_of(t, row) & t->kinds) ? NULL : row;
}

const struct column *table_column(const struct table *t, const char *key)
{
	const struct column *c = t->columns;

	while (!c->key || strcmp(c->key, key) != 0)
		c++;
	return c;
}

/* -- for people ------------------------------------------------------------------------------ */

/* What stands around the parts of a table. */
struct syntax {
	const char *title[2], *head[2], *row[2];
	const char *head_cell[3], *cell[3]; /* before one that stands right, left; after it */
	const char *between, *end, *note[3], *line[2]; /* first note, before, after */
};

/* clang-format off */
static const struct syntax syntaxes[] = {
	[FORMAT_TABLE] = {
		{ "\n", "\n\n" }, { "", "\n" }, { "", "\n" }, { "", "", "" }, { "", "", "" }, "  ", "",
		{ "\n", "", "\n" }, { "", "\n" } },
	[FORMAT_MARKDOWN] = {
		{ "\n### ", "\n\n" }, { "", "|\n" }, { "", "|\n" }, { "| ", "| ", " " }, { "| ", "| ", " " }, "", "",
		{ "\n", "- ", "\n" }, { "- ", "\n" } },
	[FORMAT_HTML] = {
		{ "<h2>", "</h2>\n<div class=\"scroll\"><table>\n" },
		{ "<thead><tr>", "</tr></thead>\n<tbody>\n" }, { "<tr>", "</tr>\n" },
		{ "<th>", "<th class=\"t\">", "</th>" }, { "<td>", "<td class=\"t\">", "</td>" }, "",
		"</tbody></table></div>\n", { "", "<p class=\"note\">", "</p>\n" }, { "<li>", "</li>\n" } },
};
/* clang-format on */

/* Plain text, but for what the format itself uses. */
static void put_plain(struct text *out, enum table_format format, const char *s, size_t len)
{
	static const char special[] = "&<>\"";
	static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&quot;" };

	for (size_t i = 0; i < len; i++) {
		const char *at = s[i] ? strchr(special, s[i]) : NULL;

		if (format == FORMAT_MARKDOWN && s[i] == '|')
			text_puts(out, "\\");
		if (format == FORMAT_HTML && at)
			text_puts(out, names[at - special]);
		else
			text_add(out, s + i, 1);
	}
}

/* Any bytes: those that would steer a terminal are escaped in each format. */
static void put_escaped(struct text *out, enum table_format format, const char *s, size_t len)
{
	struct text plain = { 0 };

	text_escaped_spaces(&plain, s, len);
	put_plain(out, format, plain.p, plain.len);
	out->failed |= plain.failed;
	text_done(&plain);
}

void table_html(struct text *out, const char *s)
{
	put_escaped(out, FORMAT_HTML, s, strlen(s));
}

void table_lines(const struct text *lines, enum table_format format, bool notes, struct text *out)
{
	const struct syntax *s = &syntaxes[format];
	const char *end;

	if (notes && lines->len)
		text_puts(out, s->note[0]);
	for (const char *p = lines->p; p && p < lines->p + lines->len; p = end + 1) {
		end = memchr(p, '\n', (size_t)(lines->p + lines->len - p));
		if (!end)
			end = lines->p + lines->len;
		text_puts(out, notes ? s->note[1] : s->line[0]);
		put_plain(out, format, p, (size_t)(end - p));
		text_puts(out, notes ? s->note[2] : s->line[1]);
	}
}

static bool is_left(const struct column *c)
{
	return c->flags & LEFT || (is_text(c) && !(c->flags & RIGHT));
}

static void put_number(struct text *out, const struct column *c, const void *row)
{
	double v = column_number(c, row);

	if (c->type == COUNT)
		text_u64(out, *(const uint64_t *)field(c, row));
	else if (c->type == FLAG)
		text_puts(out, v > 0 ? "yes" : "no: failed");
	else if (c->type == KB)
		text_printf(out, "%.1f", v / 1024);
	else
		text_printf(out, "%.*f", c->flags & SHORT && v >= 100 ? 0 : c->digits, v);
}

/* Row NULL: the title of the column. */
static void put_cell(struct text *out, const struct table *t, const struct column *c,
                     const void *row, enum table_format format)
{
	const char *s = !row ? c->title : is_text(c) ? string(c, row) : NULL;

	if (row && (!has_kind(c, kind_of(t, row)) ||
	            (c->flags & DASH && !is_text(c) && column_number(c, row) <= 0)))
		text_puts(out, "-");
	else if (s)
		put_escaped(out, format, s, strlen(s));
	else
		put_number(out, c, row);
}

static bool is_shown(const struct table *t, const struct column *c)
{
	return c->title && has_kind(c, t->kinds);
}

static void put_row(struct text *out, const struct table *t, const void *row,
                    enum table_format format, const size_t *width)
{
	const struct syntax *s = &syntaxes[format];
	const char *const *around = row ? s->cell : s->head_cell;
	const char *between = "";
	size_t blanks = 0;

	text_puts(out, row ? s->row[0] : s->head[0]);
	for (size_t i = 0; i < t->n_columns; i++) {
		const struct column *c = &t->columns[i];
		struct text cell = { 0 };
		size_t pad;

		if (!is_shown(t, c))
			continue;
		put_cell(&cell, t, c, row, format);
		pad = width[i] > cell.len ? width[i] - cell.len : 0;
		text_printf(out, "%*s%s%s%*s", (int)blanks, "", between, around[is_left(c)],
		            is_left(c) ? 0 : (int)pad, "");
		text_add(out, cell.p, cell.len);
		text_puts(out, around[2]);
		blanks = is_left(c) ? pad : 0; /* none at the end of the line */
		between = s->between;
		out->failed |= cell.failed;
		text_done(&cell);
	}
	text_puts(out, row ? s->row[1] : s->head[1]);
}

static void find_widths(const struct table *t, size_t width[static COLUMNS_MAX])
{
	for (size_t i = 0; i < t->n_columns; i++)
		for (size_t k = 0; is_shown(t, &t->columns[i]) && k <= t->n_rows; k++) {
			const void *row = k ? table_row(t, k - 1) : NULL;
			struct text cell = { 0 };

			if (k && !row)
				continue;
			put_cell(&cell, t, &t->columns[i], row, FORMAT_TABLE);
			width[i] = MAX(width[i], cell.len);
			text_done(&cell);
		}
}

void table_print(const struct table *t, enum table_format format, struct text *out)
{
	const struct syntax *s = &syntaxes[format];
	size_t width[COLUMNS_MAX] = { 0 };

	assert(t->n_columns <= COLUMNS_MAX);
	if (!t->title)
		return;
	if (format == FORMAT_TABLE)
		find_widths(t, width);
	text_puts(out, s->title[0]);
	put_escaped(out, format, t->title, strlen(t->title));
	text_puts(out, s->title[1]);
	put_row(out, t, NULL, format, width);
	if (format == FORMAT_MARKDOWN) {
		for (size_t i = 0; i < t->n_columns; i++)
			if (is_shown(t, &t->columns[i]))
				text_puts(out, is_left(&t->columns[i]) ? "|---" : "|--:");
		text_puts(out, "|\n");
	}
	for (size_t i = 0; i < t->n_rows; i++)
		if (table_row(t, i))
			put_row(out, t, table_row(t, i), format, width);
	text_puts(out, s->end);
	table_lines(&t->notes, format, true, out);
}

/* -- for programs ---------------------------------------------------------------------------- */

static void put_json(struct text *out, const struct column *c, const void *row)
{
	const struct text *json = field(c, row);
	bool lossy;

	if (is_text(c))
		text_json_string(out, string(c, row), strlen(string(c, row)), &lossy);
	else if (c->type == JSON)
		text_add(out, json->p, json->len);
	else if (c->type == FLAG)
		text_puts(out, column_number(c, row) > 0 ? "true" : "false");
	else if (c->type == COUNT)
		text_u64(out, *(const uint64_t *)field(c, row));
	else
		text_printf(out, "%.*f", c->type == REAL ? 4 : 0, column_number(c, row));
}

static bool is_empty(const struct column *c, const void *row)
{
	return is_text(c) ? !*string(c, row) : column_number(c, row) <= 0;
}

void table_json_row(const struct column *columns, size_t n, const void *row, unsigned kind,
                    unsigned flags, const char *separator, struct text *out)
{
	const char *group = "", *between = "";

	for (const struct column *c = columns; c < columns + n; c++) {
		const char *its = c->group && !flags ? c->group : "";

		if (!c->key || !has_kind(c, kind) || (c->flags & flags) != flags ||
		    (c->flags & OPTIONAL && is_empty(c, row)))
			continue;
		if (*group && strcmp(group, its) != 0)
			text_puts(out, "}");
		text_puts(out, *group && strcmp(group, its) == 0 ? ", " : between);
		if (*its && strcmp(group, its) != 0)
			text_printf(out, "\"%s\": {", its);
		text_printf(out, "\"%s\": ", c->key);
		put_json(out, c, row);
		group = its;
		between = separator;
	}
	text_puts(out, *group ? "}" : "");
}

void table_json(const struct table *t, unsigned flags, struct text *out)
{
	const char *before = "\n    {";

	text_printf(out, "\"%s\": [", t->key);
	for (size_t i = 0; i < t->n_rows; i++) {
		const void *row = table_row(t, i);

		if (!row)
			continue;
		text_puts(out, before);
		table_json_row(t->columns, t->n_columns, row, flags ? 0 : kind_of(t, row), flags,
		               ", ", out);
		text_puts(out, "}");
		before = ",\n    {";
	}
	text_puts(out, before[0] == ',' ? "\n  ]" : "]");
}
