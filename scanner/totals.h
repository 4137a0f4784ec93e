/* SPDX-License-Identifier: MIT */
/*
 * totals - the numbers of a subtree, once: a row for each says its name and how it adds up.
 *
 * A number that is added here is added, compared, subtracted, hashed and kept in the index with the
 * others. Its place in a stored head is snapshot/record.c's to say.
 */
#ifndef SCANNER_TOTALS_H
#define SCANNER_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan_totals {
	uint64_t bytes, apparent;
	uint64_t files, dirs, entries; /* without the directory itself */
	uint64_t shared;               /* bytes below whose inode also has a name elsewhere */
	uint64_t errors, vanished, changed, skipped;
	int64_t newest; /* newest mtime here and below */
};

enum totals_how {
	TOTALS_SIZE,  /* adds up, and stops at INT64_MAX */
	TOTALS_COUNT, /* adds up */
	TOTALS_TIME,  /* the latest of all */
};

struct totals_field {
	const char *name;
	size_t offset; /* of a 64-bit number in struct scan_totals */
	enum totals_how how;
	uint64_t self; /* what a directory counts for in its parent, beside what is below it */
	const char *help;
};

enum {
	TOTALS_FIELDS = sizeof(struct scan_totals) / sizeof(uint64_t)
};
/** In the order of struct scan_totals. */
extern const struct totals_field totals_fields[TOTALS_FIELDS];

/** The totals of nothing. */
#define TOTALS_NONE                 \
	{                           \
		.newest = INT64_MIN \
	}

/** Sizes and counts fit an int64_t; a time that is INT64_MIN is none. */
int64_t totals_get(const struct scan_totals *t, const struct totals_field *f);
/** Add a sub-directory with all below it; take it out again, which a time does not follow. */
void totals_add(struct scan_totals *t, const struct scan_totals *child);
void totals_subtract(struct scan_totals *t, const struct scan_totals *child);
/** Count what an enum scan_problem says of an entry or directory. */
void totals_add_problem(struct scan_totals *t, unsigned problem);
/** How much of the subtree is not whole: errors, vanished, changed, skipped. */
uint64_t totals_problems(const struct scan_totals *t);

#endif
