/* SPDX-License-Identifier: MIT */
/*
 * source - where the entries of a directory come from: system calls, or a file system's own tables.
 *
 * Model:   the walk stays in charge. It owns the tree, exclusions, mount points, hard links, order, sink
 *          and totals; a source only answers "what is in this directory". A source may decline: the scan
 *          (open), a directory (list), an entry (SOURCE_DOUBT). What is declined is read by system calls,
 *          so the result is that of the walk or the source is wrong; there is no third kind of answer.
 * Truth:   every value handed out was true at some moment between the start and the end of the scan.
 * Owner:   open() fills in a source, close() ends it; found names live during the call only.
 * Errors:  0 or -errno of something that ends the scan. Declining is not an error. Never a signal: tables
 *          are read with pread(2), not mapped, since a bad sector under a mapping is SIGBUS.
 * Threads: list() is called by all workers at once, each with its number; the others by one.
 */
#ifndef SCANNER_SOURCE_H
#define SCANNER_SOURCE_H

#include "scanner/scanner.h"

struct scan_source;
struct scan_reading;   /* the directory that a worker reads now */
struct source_changes; /* names of directories */

enum {
	SOURCE_WHY = 160
};

/* What is known of the root before anything is read. */
struct source_root {
	const char *path; /* canonical */
	int fd;
	uint64_t dev, ino, mnt_id; /* dev as in stat(2) */
};

/* One directory that is to be listed. */
struct source_dir {
	const char *name; /* "" for the root */
	uint64_t ino;     /* as its parent listed it; 0: not known */
	const void *at;   /* the walk's; for source_path() */
};

enum source_truth {
	SOURCE_KNOWN, /* meta and type are right; of a directory, that there is one */
	SOURCE_DOUBT, /* the name is right; ask the kernel for the rest */
};

struct source_found {
	const char *name; /* terminated */
	uint64_t ino;     /* as getdents64(2) has it; 0: not known */
	uint8_t type;     /* enum scan_type */
	uint8_t truth;    /* enum source_truth */
	struct scan_meta meta;
};

/* Why a directory was declined. */
enum source_declined {
	SOURCE_OK,
	SOURCE_CHANGED, /* touched since the scan began, or while it was read */
	SOURCE_FORM,    /* a form that the source leaves alone: encrypted, inline, unknown flag */
	SOURCE_DAMAGED, /* does not parse, or a checksum is wrong */
	SOURCE_UNREAD,  /* the device gave an error */
};

/* What may differ from what it was, beside the directory itself. */
enum source_extent {
	SOURCE_HERE,  /* nothing */
	SOURCE_BELOW, /* all below: it was moved here, or came in place of another */
};

struct source_ops {
	const char *name; /* one word of telemetry */
	/**
	 * Can this source read that root? 1: yes, *ret is set. 0: no, and why says it in one sentence. -errno:
	 * the scan cannot go on. Opens read-only and writes nothing.
	 */
	int (*open)(const struct source_root *root, void *ctx, struct scan_source **ret,
	            char why[SOURCE_WHY]);
	/** Calls source_add() for each entry and fills in *self; an enum source_declined, or -errno. */
	int (*list)(struct scan_source *s, unsigned worker, const struct source_dir *dir,
	            struct scan_meta *self, struct scan_reading *l);
	/**
	 * NULL, or: which directories may differ from what they were at the mark? Calls source_changed() for
	 * each, and sets *now for the next time. 1: that is all of them; 0: cannot say, read everything. A
	 * directory differs if its listing does, and so if one of its files has got another name elsewhere.
	 */
	int (*changes)(struct scan_source *s, const struct scan_mark *then, struct scan_mark *now,
	               struct source_changes *ret);
	void (*close)(struct scan_source *s);
};

/** For list(): one more entry, in any order; applies exclusions and mount points. 0 or -errno. */
int source_add(struct scan_reading *l, const struct source_found *f);
/** For list(): the path of the directory below the root, cut on the left if it is long. */
void source_path(const struct source_dir *dir, char *buf, size_t size);
/** For changes(): a directory that must be listed again, as a path below the root. 0 or -errno. */
int source_changed(struct source_changes *c, const char *path, enum source_extent extent);

/** The source of that name, NULL if there is none. */
const struct source_ops *source_find(const char *name);

extern const struct source_ops source_walk;

#endif
