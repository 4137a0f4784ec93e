/* SPDX-License-Identifier: MIT */
/*
 * scanner - says what is: reads one tree in parallel and reports each directory once, children first.
 *
 * Model:   scan_run() walks the mount that the root is on. For each directory it calls sink->listing()
 *          when the entries are known and sink->node() when everything below is finished too. A node's
 *          totals are a pure function of the tree: neither the order nor the number of threads matters.
 * Units:   sizes in bytes (st_blocks * 512 is disk usage), times in whole seconds since the epoch,
 *          durations in ns. Totals are recursive; an inode with several names counts once.
 * Owner:   what is handed to a callback is valid during that call only.
 * Errors:  scan_run() returns 0 or -errno of a failure that ends the scan (root missing, no memory,
 *          -ECANCELED, what a sink returned). What the tree does (unreadable, vanished, moved) is data.
 * Threads: callbacks run on the workers, named by their number; node() of a directory comes after the
 *          listing() of it and the node() of all its children, all visible to it.
 */
#ifndef SCANNER_SCANNER_H
#define SCANNER_SCANNER_H

#include "base/bytes.h"
#include "scanner/totals.h"

#include <stdatomic.h>
#include <sys/statvfs.h>

enum scan_type {
	SCAN_UNKNOWN,
	SCAN_FILE,
	SCAN_DIR,
	SCAN_SYMLINK,
	SCAN_FIFO,
	SCAN_SOCKET,
	SCAN_CHAR,
	SCAN_BLOCK,
};

/* Why an entry or directory is not whole. The numbers are stored in the index. */
enum scan_problem {
	SCAN_OK,
	SCAN_ERROR,     /* could not be read; an errno says why */
	SCAN_VANISHED,  /* was listed, then gone */
	SCAN_CHANGED,   /* moved, replaced or seen twice while scanning */
	SCAN_MOUNT,     /* skipped: another file system is mounted there */
	SCAN_EXCLUDED,  /* skipped: its name matches --exclude */
	SCAN_CACHE,     /* skipped: the directory holds a CACHEDIR.TAG */
	SCAN_AUTOMOUNT, /* skipped: an automount point, not triggered */
};

struct scan_meta {
	uint64_t size;   /* st_size */
	uint64_t blocks; /* in 512-byte units */
	uint64_t ino;    /* see multi */
	int64_t mtime;
	uint32_t uid, gid;
	uint16_t mode;  /* permission bits, 07777 */
	bool multi;     /* has several names: ino identifies the inode within the root */
	bool acl;       /* others than the mode says may or may not use it */
	uint32_t nlink; /* with multi: how many names */
};

struct scan_entry {
	const char *name; /* raw bytes, not terminated */
	uint16_t name_len;
	uint8_t type;          /* enum scan_type */
	uint8_t problem;       /* enum scan_problem; then meta is empty */
	int error;             /* errno of SCAN_ERROR */
	struct scan_meta meta; /* empty for SCAN_DIR: its own listing holds it */
};

/* Who may list a directory, as far as its own metadata tells. */
enum scan_audience {
	SCAN_OWNER,
	SCAN_GROUP, /* and the owner */
	SCAN_ALL
};

enum scan_audience scan_audience(const struct scan_meta *dir);
/** May all who may list dir list this sub-directory of it too? */
bool scan_audience_covers(const struct scan_meta *child, const struct scan_meta *dir);

/* What a sink keeps of a finished directory; the scanner stores it in the parent until its node(). */
struct scan_token {
	uint64_t word[4];
};

/* One sub-directory of a directory, in listing order. */
struct scan_child {
	struct scan_token token; /* set by node() if problem == SCAN_OK */
	uint8_t problem;         /* enum scan_problem: why it has no node */
	int error;
};

/* What is known of a directory when all below it is finished. */
struct scan_below {
	const struct scan_totals *totals;
	const struct scan_totals
		*audience; /* what all who may list it can add up; NULL: the same */
	bool links_leave;  /* here or below is an inode that also has a name elsewhere */
	const struct scan_child *children;
	size_t n_children;
};

struct scan_dirinfo {
	const char *name; /* "" for the root */
	size_t name_len;
	void *parent; /* what listing() gave for the parent, NULL for the root */
	size_t index; /* which of the parent's sub-directories this is, in listing order */
	struct scan_meta meta;
	uint8_t problem; /* SCAN_ERROR, SCAN_CACHE: the listing is empty or cut; else SCAN_OK */
	int error;
};

/* One directory's own metadata and its entries in bytewise order, in canonical form: entry_codec.h. */
struct scan_listing {
	struct bytes *bytes; /* the sink may take them */
	uint64_t n;          /* entries */
	size_t n_children;   /* ... that are sub-directories with a place in node()'s children */
	bool one_owner; /* all of them are the directory's owner's, as far as they are no directories */
	const struct scan_dir *dir;
};

/** Name of one of the sub-directories. */
const char *scan_listing_child(const struct scan_listing *l, size_t i);

/** For scan_sink.reuse(): the encoded entries of a listing, which are looked at before it returns. 1 or -errno. */
struct scan_reading;
int scan_reuse(struct scan_reading *l, const uint8_t *entries, size_t len, uint64_t n);

/* A subtree that is as it was. One whose audience does not see all is not kept: its links are not known. */
struct scan_kept {
	struct scan_meta meta;
	struct scan_totals totals;
	struct scan_token token;
	struct link_set *links;
};

/** For scan_sink.keep(): a file with several names in the subtree, for each that links leave. 0 or -errno. */
int scan_kept_link(struct scan_kept *k, const struct scan_meta *m);

struct scan_sink {
	void *ctx;
	/** A directory was read; *ret is handed to node() and to the children's listing(). 0 or -errno. */
	int (*listing)(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
	               const struct scan_listing *l, void **ret);
	/** A directory and all below it is finished. Takes state back. 0 or -errno. */
	int (*node)(void *ctx, unsigned worker, void *state, const struct scan_below *below,
	            struct scan_token *ret);
	/**
	 * NULL, or: may the entries be taken from what is known already? Then it gives them to scan_reuse() and
	 * returns what that does; 0: read the directory. Files with several names are looked at in any case.
	 */
	int (*reuse)(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
	             struct scan_reading *l);
	/**
	 * NULL, or: this directory and all below it is as it was at the mark; of dir only name, parent and index
	 * are known. 1: *ret is filled in, and neither listing() nor node() is called for it; 0: list it.
	 */
	int (*keep)(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
	            struct scan_kept *ret);
	/** Releases the state of a directory whose node() is never called: the scan failed. */
	void (*drop)(void *ctx, void *state);
};

enum {
	SCAN_ERRNO_SLOTS = 160,
	SCAN_THREADS_MAX = 256
};

/* Counters of one scan. Calls are system calls as strace counts them, failed ones included. */
struct scan_stats {
	uint64_t openat, statx, getdents64, close;
	uint64_t entries, bytes; /* seen so far, for progress; bytes not corrected for hard links */
	uint64_t dirs;
	uint64_t steals;
	uint32_t by_errno[SCAN_ERRNO_SLOTS]; /* failed calls; the last slot holds all above */
	uint64_t wall_ns, user_ns, sys_ns;
	uint64_t peak_rss_kb;
	uint64_t readers;           /* at the end */
	uint64_t readers_changes;   /* decisions, the first included */
	uint64_t by_inode;          /* 1: entries and sub-directories in inode order */
	uint64_t cached_percent;    /* samples that did not wait for the disk */
	uint64_t blocked_ns;        /* all readers: neither on a CPU nor without work */
	char readers_log[512];      /* the decisions as text */
	char source[16];            /* what listed the directories */
	char source_evidence[240];  /* a sentence: why not another, or how much of it */
	char storage[16];           /* kind of device under the root */
	char storage_evidence[240]; /* a sentence: how it was found out */
};

struct scan_progress {
	struct scan_stats stats;
	char path[4096]; /* where a worker was a moment ago, cut on the left if long */
};

enum scan_order {
	SCAN_ORDER_AUTO,
	SCAN_ORDER_INODE,
	SCAN_ORDER_DIRECTORY
};

/* Where a source stood when a snapshot was made; stored with it, opaque to the rest. */
struct scan_mark {
	char source[16]; /* "": no mark */
	uint8_t len;
	uint8_t bytes[64];
};

struct source_ops;

struct scan_options {
	unsigned threads;      /* 0: choose, and change while running */
	enum scan_order order; /* auto: by inode on rotational disks */
	char **exclude;        /* NULL or NULL-terminated globs, matched against names */
	bool exclude_caches;
	bool cross_mounts;
	const char *source;                  /* NULL: "walk", by system calls only */
	const struct source_ops *source_ops; /* NULL, or a source that has no name in the table */
	void *source_ctx;                    /* for its open() */
	const struct scan_mark *mark;        /* NULL, or of the snapshot that the sink knows */
	/** Called about five times a second from the calling thread; true stops the scan (-ECANCELED). */
	bool (*progress)(void *ctx, const struct scan_progress *p);
	void *progress_ctx;
};

struct scan_report {
	char *root; /* canonical path; free with scan_report_done() */
	struct scan_totals totals;
	struct scan_token token; /* of the root, if there was a sink */
	struct scan_stats stats;
	struct statvfs statvfs; /* of the root's file system when the scan began */
	int64_t start;          /* Unix time when the scan began */
	struct scan_mark mark;  /* for the next one */
};

/** Scan the tree at path. sink may be NULL: count only. Fills *ret on success. */
int scan_run(const char *path, const struct scan_options *options, const struct scan_sink *sink,
             struct scan_report *ret);
void scan_report_done(struct scan_report *r);

/** Canonical absolute path of a root, as scan_run() reports it; free it. 0 or -errno. */
int scan_root_path(const char *path, char **ret);

/** One word, as errors.list has it: "vanished", "mount". */
const char *scan_problem_name(unsigned problem);

#endif
