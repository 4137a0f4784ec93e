/* SPDX-License-Identifier: MIT */
/*
 * scans - a sink that writes down what a scan says of every directory, and the oracle to compare with.
 *
 * Model:   scans_run() also checks what every scan promises: entries in bytewise order, no name twice,
 *          children before their parent, each child's token where it belongs. Broken promises end up in
 *          record.broken, a sentence.
 */
#ifndef TESTS_SCANS_H
#define TESTS_SCANS_H

#include "scanner/scanner.h"

#include <pthread.h>

struct record_dir {
	char *path; /* relative to the root; "." is the root */
	struct scan_totals totals, audience;
	struct scan_meta meta;
	uint8_t problem;
	int error;
	size_t n_entries, n_children;
	bool finished;
};

struct record {
	pthread_mutex_t lock;
	struct record_dir **dir; /* by path once the scan is over */
	size_t n, cap;
	const char *broken; /* NULL: all promises were kept */
	char *names;        /* "path: problem" lines of what was left out, sorted */
};

/** Scans path; -errno of scan_run(). Free both with record_done() and scan_report_done(). */
int scans_run(const char *path, const struct scan_options *o, struct record *ret,
              struct scan_report *report);
/** The same with the choice of threads only. */
int scans_run_threads(const char *path, unsigned threads, struct record *ret,
                      struct scan_report *report);
/** What tests/oracle.py says of the tree: totals of each directory, by path. */
void scans_ask_oracle(const char *path, struct record *ret);
void record_done(struct record *r);
const struct record_dir *record_find(const struct record *r, const char *path);

/** NULL if both say the same of every directory, else what differs first. */
const char *record_compare(const struct record *a, const struct record *b);
/** Does the scan list this name with that problem? */
bool record_has_problem(const struct record *r, const char *path, unsigned problem);

/** Standard output of a program, with the number of its bytes; NULL if it failed. */
char *scans_output(char *const argv[], size_t *len);

#endif
