/* SPDX-License-Identifier: MIT */
/*
 * report - what the report's parts share: its tables and opening sentences, made once for all formats.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/bench.h"
#include "bench/grid.h"

enum {
	REPORT_GRIDS = 8,
	REPORT_LINES = 8,
	REPORT_LINE_BYTES = 400
};

struct report {
	struct grid grid[REPORT_GRIDS];
	size_t n_grids;
	char line[REPORT_LINES][REPORT_LINE_BYTES]; /* what was measured, on what */
	size_t n_lines;
};

/** Fill in the tables; report_done() frees them. 0 or -ENOMEM. */
int report_make(const struct bench *b, struct report *r);
void report_done(struct report *r);
/** "45000" */
uint64_t report_calls(const struct bench_counts *c);

/** Inline SVG, for the HTML report. */
void chart_wall(const struct bench *b, FILE *out);
void chart_scaling(const struct bench *b, FILE *out);
void chart_calls(const struct bench *b, FILE *out);
void chart_memory(const struct bench *b, FILE *out);

#endif
