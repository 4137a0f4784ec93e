/* SPDX-License-Identifier: MIT */
/*
 * grid - a table of text cells with a title and notes, printed aligned, as markdown or as HTML.
 *
 * Owner:   grid_init() borrows title and heads; grid_done() frees the cells.
 * Errors:  what doesn't fit in memory is left out, and `failed` is set.
 */
#ifndef BENCH_GRID_H
#define BENCH_GRID_H

#include "base/base.h"

#include <stdio.h>

enum {
	GRID_CELL_BYTES = 120,
	GRID_NOTES = 16,
	GRID_NOTE_BYTES = 400
};

struct grid {
	const char *title;
	const char *const *heads;
	size_t n_cols;
	uint32_t left; /* bit i: column i is text and stands left */
	char (*cell)[GRID_CELL_BYTES];
	size_t n_cells, cap;
	char note[GRID_NOTES][GRID_NOTE_BYTES];
	size_t n_notes;
	bool failed;
};

enum grid_format {
	GRID_TABLE,
	GRID_MARKDOWN,
	GRID_HTML
};

void grid_init(struct grid *g, const char *title, const char *const *heads, size_t n_cols,
               uint32_t left);
void grid_done(struct grid *g);
/** The next cell, row by row. */
void grid_cell(struct grid *g, const char *format, ...) PRINTF_LIKE(2, 3);
/** A line below the table. */
void grid_note(struct grid *g, const char *format, ...) PRINTF_LIKE(2, 3);
void grid_print(const struct grid *g, FILE *out, enum grid_format format);
/** Text of an HTML page or attribute. */
void grid_html_text(FILE *out, const char *text);

#endif
