/* SPDX-License-Identifier: MIT */
/*
 * report - what the formats share: tables and opening sentences, made once.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/bench.h"

enum {
	REPORT_TABLES = 9,
	SCALING_ROWS = 4, /* 1, 2, 4, 8 readers */
	SCALING_KINDS = 3,
	FACTS = 3,
};

struct scaling {
	uint64_t readers;
	double ms[SCALING_KINDS], faster[SCALING_KINDS]; /* 0: not measured */
};

struct fact {
	const char *name, *value;
};

struct report {
	const struct bench *bench;
	struct table table[REPORT_TABLES];
	size_t n_tables;
	struct text lines; /* what was measured, on what */
	const struct table *bars, *scaling;

	/* Rows. */
	struct scaling scaling_row[SCALING_ROWS];
	struct fact fact[FACTS];
	char readers[32];
	struct target target[TARGETS_MAX];
};

/** The HTML page; charts are inline SVG. */
void page_put(const struct report *r, struct text *out);
void chart_all(const struct report *r, struct text *out);

#endif
