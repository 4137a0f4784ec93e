/* SPDX-License-Identifier: MIT */
/*
 * entry_codec - the canonical form of a directory's listing: its own metadata, then its entries by name.
 *
 * Model:   one directory has exactly one such form; it is what the scanner hands out, what the index keeps
 *          and hashes, and what a directory too large to be kept otherwise is cut into meanwhile. Names are
 *          coded against the name before; every ENTRY_RESTART entries one stands alone.
 * Errors:  0 or -errno; decoding checks everything, so damaged bytes are -EUCLEAN.
 * Source:  docs/FORMAT.md draws it.
 */
#ifndef SCANNER_ENTRY_CODEC_H
#define SCANNER_ENTRY_CODEC_H

#include "base/bytes.h"
#include "scanner/scanner.h"

enum {
	ENTRY_RESTART = 64,
	ENTRY_MAX = 420 /* bytes that one takes */
};

struct entry_encoder { /* zeros, and out */
	struct bytes *out;
	char last[256];
	size_t last_len, n;
	int64_t mtime;
	uint32_t uid, gid;
	uint16_t mode;
	bool places; /* a number follows each directory; not canonical */
};

/** What comes before the entries. */
int listing_head_encode(struct bytes *out, const struct scan_dirinfo *dir);
/** Sets meta, problem and error of ret; returns where the entries begin, or NULL. */
const uint8_t *listing_head_decode(const uint8_t *p, const uint8_t *end, struct scan_dirinfo *ret);

int entry_encode(struct entry_encoder *e, const struct scan_entry *entry, uint64_t place);

struct entry_cursor {
	const uint8_t *p, *end;
	uint64_t next, n; /* of n entries */
	uint64_t place;
	int64_t mtime;
	uint32_t uid, gid;
	uint16_t mode;
	uint16_t name_len; /* of the entry before */
	bool places;
};

/**
 * Decodes the next entry, whose name takes the place of the one before in the caller's name. 1, 0 at the end,
 * -EUCLEAN.
 */
int entry_decode(struct entry_cursor *c, char name[256], struct scan_entry *ret);

#endif
