/* SPDX-License-Identifier: MIT */
/*
 * table - rows are structs; a column says once what a field is called, and how it is written.
 *
 * Model:   a column with a title is in the table for people, one with a key in JSON. Rows may be of
 *          kinds, each one bit: a table takes those it asks for, a column those that have it.
 * Owner:   tables borrow everything but their notes.
 * Errors:  those of struct text: look at `failed` of the output and of the notes, once, in the end.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "base/text.h"

enum column_type {
	TEXT,  /* const char *; NULL is empty */
	CHARS, /* char[] */
	JSON,  /* struct text: JSON as it is */
	COUNT, /* uint64_t */
	UINT,  /* unsigned */
	REAL,  /* double */
	KB,    /* double; MB for people */
	FLAG,  /* bool */
};

enum column_flags {
	DASH = 1,     /* 0 stands for "there is none": "-" for people */
	OPTIONAL = 2, /* nothing in JSON when empty or 0 */
	RIGHT = 4,    /* a text that stands right */
	LEFT = 32,    /* what is no text stands left */
	CHECKED = 8,  /* exact: compared with a checked-in file */
	SHORT = 16,   /* digits only below 100 */
};

struct column {
	const char *key, *title;
	enum column_type type;
	size_t offset;
	unsigned kinds; /* rows that have it; 0: all */
	unsigned flags;
	int digits;
	const char *group; /* the object it is in, in JSON */
};

struct table {
	const char *key, *title;
	const struct column *columns;
	size_t n_columns;
	const void *rows;
	size_t row_bytes, n_rows;
	unsigned kinds;     /* of the rows to show; 0: all, they have no kinds */
	size_t kind_offset; /* of an enum in the row */
	struct text notes;  /* lines of plain text */
};

enum table_format {
	FORMAT_TABLE,
	FORMAT_MARKDOWN,
	FORMAT_JSON,
	FORMAT_HTML,
};

/** Row i, or NULL if the table doesn't show it. */
const void *table_row(const struct table *t, size_t i);
/** The column with that key; there must be one. */
const struct column *table_column(const struct table *t, const char *key);
/** A number, as it is in JSON. */
double column_number(const struct column *c, const void *row);

/** For people; nothing without a title. */
void table_print(const struct table *t, enum table_format format, struct text *out);
/** Each line of plain text in the way of the format: as a list, or (`notes`) below a table. */
void table_lines(const struct text *lines, enum table_format format, bool notes, struct text *out);
/** Text of an HTML page or attribute. */
void table_html(struct text *out, const char *s);

/** "key": value, ... of one row; flags: only columns that have them, and no groups. */
void table_json_row(const struct column *columns, size_t n, const void *row, unsigned kind,
                    unsigned flags, const char *separator, struct text *out);
/** "key": [ all rows ], one a line. */
void table_json(const struct table *t, unsigned flags, struct text *out);

#endif
