/* SPDX-License-Identifier: MIT */
/*
 * grid - see grid.h.
 */
#include "bench/grid.h"

#include <stdarg.h>

enum {
	COLUMNS_MAX = 32
};

void grid_init(struct grid *g, const char *title, const char *const *heads, size_t n_cols,
               uint32_t left)
{
	*g = (struct grid){ .title = title, .heads = heads, .n_cols = n_cols, .left = left };
}

void grid_done(struct grid *g)
{
	free(g->cell);
}

void grid_cell(struct grid *g, const char *format, ...)
{
	va_list args;

	if (base_reserve(&g->cell, &g->cap, g->n_cells + 1, sizeof(*g->cell)) < 0) {
		g->failed = true;
		return;
	}
	va_start(args, format);
	(void)vsnprintf(g->cell[g->n_cells++], GRID_CELL_BYTES, format, args);
	va_end(args);
}

void grid_note(struct grid *g, const char *format, ...)
{
	va_list args;

	if (g->n_notes == GRID_NOTES)
		return;
	va_start(args, format);
	(void)vsnprintf(g->note[g->n_notes++], GRID_NOTE_BYTES, format, args);
	va_end(args);
}

/* -- text ------------------------------------------------------------------------------------ */

/* Bytes that would steer a terminal or break a row. */
static void put_plain(FILE *out, const char *text, bool markdown)
{
	for (; *text; text++) {
		if (markdown && *text == '|')
			(void)fputc('\\', out);
		(void)fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
	}
}

static void put_spaces(FILE *out, size_t n)
{
	(void)fprintf(out, "%*s", (int)n, "");
}

static void put_padded(FILE *out, const char *text, size_t width, bool left, bool last)
{
	size_t len = strlen(text), pad = width > len ? width - len : 0;

	if (!left)
		put_spaces(out, pad);
	put_plain(out, text, false);
	if (left && !last)
		put_spaces(out, pad);
}

static void find_widths(const struct grid *g, size_t width[static COLUMNS_MAX])
{
	for (size_t c = 0; c < g->n_cols; c++)
		width[c] = strlen(g->heads[c]);
	for (size_t i = 0; i < g->n_cells; i++)
		width[i % g->n_cols] = MAX(width[i % g->n_cols], strlen(g->cell[i]));
}

static void print_table(const struct grid *g, FILE *out)
{
	size_t width[COLUMNS_MAX];

	(void)fprintf(out, "\n%s\n\n", g->title);
	find_widths(g, width);
	for (size_t i = 0; i < g->n_cols + g->n_cells; i++) {
		size_t c = i % g->n_cols;
		bool last = c + 1 == g->n_cols;

		put_padded(out, i < g->n_cols ? g->heads[c] : g->cell[i - g->n_cols], width[c],
		           g->left >> c & 1, last);
		(void)fputs(last ? "\n" : "  ", out);
	}
	for (size_t i = 0; i < g->n_notes; i++) {
		(void)fputs(i == 0 ? "\n" : "", out);
		put_plain(out, g->note[i], false);
		(void)fputc('\n', out);
	}
}

static void print_markdown(const struct grid *g, FILE *out)
{
	(void)fprintf(out, "\n### %s\n\n", g->title);
	for (size_t c = 0; c < g->n_cols; c++)
		(void)fprintf(out, "%s %s ", c ? "|" : "|", g->heads[c]);
	(void)fputs("|\n", out);
	for (size_t c = 0; c < g->n_cols; c++)
		(void)fputs(g->left >> c & 1 ? "|---" : "|--:", out);
	(void)fputs("|\n", out);
	for (size_t i = 0; i < g->n_cells; i++) {
		(void)fputs("| ", out);
		put_plain(out, g->cell[i], true);
		(void)fputs((i + 1) % g->n_cols ? " " : " |\n", out);
	}
	for (size_t i = 0; i < g->n_notes; i++) {
		(void)fputs(i == 0 ? "\n- " : "- ", out);
		put_plain(out, g->note[i], true);
		(void)fputc('\n', out);
	}
}

/* -- HTML ------------------------------------------------------------------------------------ */

void grid_html_text(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			(void)fputs("&amp;", out);
			break;
		case '<':
			(void)fputs("&lt;", out);
			break;
		case '>':
			(void)fputs("&gt;", out);
			break;
		case '"':
			(void)fputs("&quot;", out);
			break;
		default:
			(void)fputc((unsigned char)*text < 0x20 ? '?' : *text, out);
		}
}

static void print_html_cell(const struct grid *g, FILE *out, size_t c, const char *tag,
                            const char *text)
{
	(void)fprintf(out, "<%s%s>", tag, g->left >> c & 1 ? " class=\"t\"" : "");
	grid_html_text(out, text);
	(void)fprintf(out, "</%s>", tag);
}

static void print_html(const struct grid *g, FILE *out)
{
	(void)fputs("<h2>", out);
	grid_html_text(out, g->title);
	(void)fputs("</h2>\n<div class=\"scroll\"><table>\n<thead><tr>", out);
	for (size_t c = 0; c < g->n_cols; c++)
		print_html_cell(g, out, c, "th", g->heads[c]);
	(void)fputs("</tr></thead>\n<tbody>\n", out);
	for (size_t i = 0; i < g->n_cells; i++) {
		size_t c = i % g->n_cols;

		(void)fputs(c == 0 ? "<tr>" : "", out);
		print_html_cell(g, out, c, "td", g->cell[i]);
		(void)fputs(c + 1 == g->n_cols ? "</tr>\n" : "", out);
	}
	(void)fputs("</tbody></table></div>\n", out);
	for (size_t i = 0; i < g->n_notes; i++) {
		(void)fputs("<p class=\"note\">", out);
		grid_html_text(out, g->note[i]);
		(void)fputs("</p>\n", out);
	}
}

void grid_print(const struct grid *g, FILE *out, enum grid_format format)
{
	if (format == GRID_TABLE)
		print_table(g, out);
	else if (format == GRID_MARKDOWN)
		print_markdown(g, out);
	else
		print_html(g, out);
}
