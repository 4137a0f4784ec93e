/* SPDX-License-Identifier: MIT */
/*
 * snaps - what the tests of snapshot/ share: an index beside a tree, scans into it, SQL by hand.
 *
 * Errors: 0 or -errno where a test may expect one; what cannot fail ends the program.
 */
#ifndef TESTS_SNAPS_H
#define TESTS_SNAPS_H

#include "snapshot/snapshot.h"
#include "tests/scans.h"
#include "tests/tree.h"

struct fixture {
	struct tree tree;  /* what is scanned */
	struct tree place; /* where indexes lie */
	char index[160];   /* place/index.db */
};

int snaps_set_up(void **state);
int snaps_tear_down(void **state);

/** place/name; forty bytes of name at most. */
const char *snaps_path(const struct fixture *f, const char *name, char buf[256]);
/** Scan root into s. */
int snaps_take(struct snap *s, const char *root, enum snap_mode mode, unsigned threads,
               struct snap_info *ret);
/** The same by the index's path. */
int snaps_take_at(const char *index, const char *root, enum snap_mode mode, unsigned threads,
                  struct snap_info *ret);
/** Run SQL on the index, as somebody with sqlite3 could. 0, or an SQLite error. */
int snaps_sql(const char *index, const char *sql);
/** Make the sums of all rows right again, as they are now. */
void snaps_seal(const char *index);
/** A number that SQL asks for. */
int64_t snaps_number(const char *index, const char *sql);
/** A copy of an index that nobody has open, byte by byte, in place of what was there. */
void snaps_copy(const char *from, const char *to);
/** A new index with the secret of another one: equal trees have equal fingerprints in both. */
void snaps_twin(const char *index, const char *twin);
/** Totals and metadata of each directory as the index has them. -errno when one can't be read. */
int snaps_read(struct snap *s, uint64_t ref, struct record *ret);
/** Number of snapshots listed, or -errno. */
int snaps_count(const char *index);

#endif
