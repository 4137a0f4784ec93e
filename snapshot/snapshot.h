/* SPDX-License-Identifier: MIT */
/*
 * snapshot - remembers what a tree looked like and tells two moments apart.
 *
 * Model:   a listing is one directory with its entries; a node is a listing and the nodes of its
 *          sub-directories. A node's fingerprint is the XXH3-128, keyed per index, of all that, so equal
 *          fingerprints are equal subtrees and each is stored once. A ref names a stored node; equal refs
 *          are equal subtrees. A snapshot is a root path, a time, a root node.
 * Units:   sizes in bytes, times in seconds since the epoch, durations in ns; totals recursive, an inode
 *          with several names counted once.
 * Owner:   who calls snap_open() calls snap_close(); snap_node_get() pins a node until snap_node_put().
 * Errors:  0 or -errno; snap_strerror() is the sentence for people. -EUCLEAN: the index is damaged.
 * Threads: a handle may be used by many threads at once; a writer belongs to one scan.
 * Source:  the byte layout is in docs/FORMAT.md; XXH3 as specified by xxHash 0.8.
 */
#ifndef SNAPSHOT_SNAPSHOT_H
#define SNAPSHOT_SNAPSHOT_H

#include "scanner/entry_codec.h"
#include "scanner/scanner.h"

struct snap;

enum snap_flags {
	SNAP_READ = 0,  /* open an existing index for reading; works on a read-only medium */
	SNAP_WRITE = 1, /* create it if missing, its directory too */
};

enum snap_mode {
	SNAP_COLD,  /* the previous snapshot is not looked at */
	SNAP_WARM,  /* walked beside the previous snapshot of the root */
	SNAP_QUICK, /* trusts directory times; approximate */
};

struct snap_fingerprint {
	uint8_t b[16]; /* canonical (big-endian) byte order */
};

enum {
	SNAP_FOUND_MAX = 160
};

/* How a snapshot came about. */
struct snap_details {
	struct scan_stats stats;
	struct statvfs statvfs; /* of the root's file system when the scan began */
	char *options; /* how it was scanned: command line words, NUL after each; what decides the result */
	size_t options_len;
	struct scan_mark mark; /* where its source stood when the scan began */
	uint64_t nodes_written, listings_written, index_bytes;
};

/* One moment of one root. */
struct snap_info {
	int64_t id;             /* 0: not stored */
	_Atomic unsigned users; /* what holds it, if it is in a list */
	enum snap_mode mode;
	bool complete; /* no errors below */
	char *root;    /* absolute path, raw bytes */
	int64_t time;  /* when the scan began */
	uint64_t ref;
	struct snap_fingerprint fingerprint;
	struct scan_totals totals;
	struct snap_details *details; /* NULL in a list, which may be long: see snap_info_get() */
};

/** The index to use when none is named, as disktracker(1) says under FILES. Free *ret. */
int snap_default_path(char **ret);

/** Open the index at path; one of an older format is converted. Sets *ret on success, leaves it alone on failure. */
int snap_open(const char *path, unsigned flags, struct snap **ret);
void snap_close(struct snap *s); /* NULL is fine */
DEFINE_AUTO(snap_close, struct snap *);
const char *snap_path(const struct snap *s);
/** Bytes of the index file and its log on disk. */
uint64_t snap_file_bytes(const struct snap *s);
/** A sentence (without a path) for a negative errno of this module. */
const char *snap_strerror(int error);

/** Changes whenever another connection has committed; cheap to ask. */
int snap_data_version(struct snap *s, uint64_t *ret);
/** End the handle's read transaction, so that the log can be folded back. Call when idle. */
void snap_release(struct snap *s);

/* -- snapshots ------------------------------------------------------------------------------- */

struct snap_shelf;

struct snap_list {
	struct snap_info **info;
	size_t n;
	struct snap_shelf *shelf; /* what holds them; NULL: another list does */
	int64_t *damaged;         /* ids of rows that can't be trusted, in order */
	size_t n_damaged;
};

/** All snapshots by id, but for those whose rows are damaged. */
int snap_list_get(struct snap *s, struct snap_list *ret);
/** The same; what is in an earlier list is not read again and takes no more memory. */
int snap_list_refresh(struct snap *s, const struct snap_list *known, struct snap_list *ret);
/** Of a list by id the newest of each root, in the order of snap_roots; good as long as that list is. */
int snap_list_newest(const struct snap_list *all, struct snap_list *ret);
/** How many of a list by id have an id below before. */
size_t snap_list_before(const struct snap_list *l, int64_t before);
void snap_list_done(struct snap_list *l);

/* The snapshots of a list by root. */
struct snap_root {
	const char *path;
	struct snap_info **info; /* its own, by id */
	size_t n;                /* at least one */
	size_t outer;            /* number of the nearest root around it, SIZE_MAX: none */
	int64_t outer_since; /* id of the first snapshot of any root around it, INT64_MAX: none */
};

struct snap_roots {
	struct snap_root *root; /* by path, what is below a directory right after it */
	size_t n;
	struct snap_info **info;
};

/** Good as long as the list is; snap_roots_done() it. */
int snap_roots_get(const struct snap_list *all, struct snap_roots *ret);
void snap_roots_done(struct snap_roots *r);
const struct snap_root *snap_root_find(const struct snap_roots *r, const char *path);
/** Its newest snapshot with an id below before; NULL: none, or no root. */
const struct snap_info *snap_root_before(const struct snap_root *root, int64_t before);

/** One snapshot with its details; snap_info_done() it. -ENOENT: there is none; -EUCLEAN: its row is damaged. */
int snap_info_get(struct snap *s, int64_t id, struct snap_info *ret);
void snap_info_done(struct snap_info *i);

/** Calls emit for each telemetry field in documented order; text: value is a string. Without details only some. */
void snap_info_fields(const struct snap_info *i,
                      void (*emit)(void *ctx, const char *key, const char *value, bool text),
                      void *ctx);

/* -- nodes ----------------------------------------------------------------------------------- */

struct snap_pack;

struct snap_node {
	uint64_t ref;
	struct scan_totals totals;
	struct scan_totals
		audience;      /* what all who may list it can add up (scan_audience_covers()) */
	struct scan_meta meta; /* of the directory itself */
	uint8_t problem;       /* SCAN_ERROR, SCAN_CACHE: the listing is not whole */
	int error;
	bool world_listable; /* here and in all directories below, all may list and enter */
	bool single_owner;   /* all below belongs to meta.uid */
	bool links_leave;    /* here or below is an inode that also has a name elsewhere */
	bool partial;        /* audience is not the same as totals */
	uint64_t n_entries;  /* listed, those with a problem too */
	uint64_t n_children;
	uint64_t names; /* equal in two nodes: the same sub-directories by name, child by child */
	const uint8_t *children, *children_end; /* encoded */
	const uint8_t *listing, *entries, *end; /* encoded: the whole listing, its entries */
	struct snap_pack *pack;                 /* pinned */
	const struct node_index *index;         /* of a large directory */
};

struct snap_entry {
	char name[256]; /* NUL-terminated raw bytes */
	uint16_t name_len;
	uint8_t type;    /* enum scan_type */
	uint8_t problem; /* enum scan_problem; SCAN_OK and SCAN_ERROR entries exist */
	int error;
	struct scan_meta meta; /* empty for directories: their node has it */
	uint64_t child;        /* SCAN_DIR without problem: its ref */
	bool placed;           /* has a place among the node's children, with or without a ref */
	uint64_t ordinal;      /* position in the listing */
};

/** Walks the entries of a node in bytewise order. */
struct snap_iter {
	const struct snap_node *node;
	struct entry_cursor at;
	const uint8_t *kp;
	struct snap_entry e;
	uint64_t last_ref;
};

int snap_node_get(struct snap *s, uint64_t ref, struct snap_node *ret);
/**
 * Only the head of a node, at a fraction of the cost: ref, totals, attributes, number of entries, children.
 * Its own metadata is left out (meta, problem, error), and it has no entries to walk.
 */
int snap_head_get(struct snap *s, uint64_t ref, struct snap_node *ret);
/** Both for a sub-directory of n, which must be the smaller tree: a damaged index could hold a ring. */
int snap_child_get(struct snap *s, const struct snap_node *n, uint64_t ref, struct snap_node *ret);
int snap_child_head(struct snap *s, const struct snap_node *n, uint64_t ref, struct snap_node *ret);
void snap_node_put(struct snap *s, struct snap_node *n);
/** A second pin on a node already held. */
void snap_node_dup(struct snap *s, const struct snap_node *n, struct snap_node *ret);

void snap_iter_init(struct snap_iter *it, const struct snap_node *n);
/** Next entry into it->e. 1, 0 at the end, -EUCLEAN. Entries that were skipped or vanished included. */
int snap_iter_next(struct snap_iter *it);
/** Continue with the entry at ordinal. */
int snap_iter_seek(struct snap_iter *it, uint64_t ordinal);
/** Find name; 1 and *ret, or 0, or -EUCLEAN. *where, if given, gets the ordinal of the first entry >= name. */
int snap_node_find(const struct snap_node *n, const char *name, size_t len, struct snap_entry *ret,
                   uint64_t *where);
/** Is this entry something that exists (as opposed to vanished or skipped)? */
static inline bool snap_entry_exists(const struct snap_entry *e)
{
	return e->problem == SCAN_OK || e->problem == SCAN_ERROR;
}

/* A directory that is in no index: the way from the top to the scanned roots. */
struct snap_virtual {
	const struct snap_node *base; /* NULL, or a directory to extend: keeps its metadata */
	struct scan_meta meta;        /* without base */
	struct scan_totals totals;
	const struct scan_entry *entries; /* sorted by name; those in base too give way */
	const uint64_t *refs;             /* per entry: of a directory, else 0 */
	size_t n;
};

/** Make such a node, readable with snap_node_get() until snap_virtual_drop(). */
int snap_virtual_add(struct snap *s, const struct snap_virtual *v, uint64_t *ret);
void snap_virtual_drop(struct snap *s, uint64_t ref);

/* Limit the memory of the node cache (default 8 MiB). What is pinned may exceed it. */
void snap_cache_limit(struct snap *s, size_t bytes);
size_t snap_cache_bytes(struct snap *s);

/** The node at a relative path below ref; "" is ref itself. -ENOENT if there is no such directory. */
int snap_path_ref(struct snap *s, uint64_t ref, const char *path, uint64_t *ret);

/* A path to be followed in one snapshot after the other: what is as before on the way is not looked at again. */
struct snap_trail {
	struct trail_step *step;
	size_t n;
	uint64_t looked_at; /* directories */
};

/** The path is used until snap_trail_done(), which follows in any case. 0 or -ENOMEM. */
int snap_trail_init(struct snap_trail *t, const char *path);
/** As snap_path_ref(). */
int snap_trail_follow(struct snap *s, struct snap_trail *t, uint64_t root, uint64_t *ret);
void snap_trail_done(struct snap_trail *t);

/** A 64-bit hash for numbers that derive from names (XXH3); no secret, the same for ever. */
uint64_t snap_hash(const void *p, size_t len, uint64_t seed);
/** A key that only the index knows, the same for its whole life, another one for each purpose. */
void snap_derive(const struct snap *s, const char *purpose, uint64_t ret[2]);

/* -- choosing snapshots ------------------------------------------------------------------------ */

/**
 * The snapshot of root (NULL: any) that spec names, as an index into l (all snapshots by id): an id, a
 * UTC time (2026-05-01, 2026-05-01T12:00:00Z: the newest taken until then), an age before now (7d), prev
 * or latest. -EINVAL: not understood, -ENOENT: there is none.
 */
int snap_select(const struct snap_list *l, const char *root, const char *spec, int64_t now,
                size_t *ret);
/** The newest snapshot of root taken at or before time with an id below before; -ENOENT if none. */
int snap_select_before(const struct snap_list *l, const char *root, int64_t time, int64_t before,
                       size_t *ret);
/**
 * The snapshot that a window of so many seconds before newer begins with: the newest of its root that is at
 * least as old and was taken before it, else the root's oldest; newer itself if that is the only one.
 */
const struct snap_info *snap_select_window(const struct snap_list *l, const struct snap_info *newer,
                                           int64_t seconds);
/** "90s", "15m", "12h", "7d", "2w" in seconds. -EINVAL. */
int snap_parse_age(const char *text, int64_t *ret);
/** "2026-05-01" or "2026-05-01T12:00:00Z". -EINVAL. */
int snap_parse_time(const char *text, int64_t *ret);

/* -- differences ------------------------------------------------------------------------------- */

enum snap_change_kind {
	SNAP_CHANGED,
	SNAP_CREATED,
	SNAP_DELETED
};

/*
 * One directory's own part in a change: what its sub-directories do not explain. A created or deleted
 * directory stands for all below it. The parts of a change add up to it.
 */
struct snap_change {
	int64_t bytes, apparent, files, entries;
	char *path; /* relative; "" for the directory itself */
	size_t path_len;
	enum snap_change_kind kind;
};

struct snap_changes {
	struct snap_change *c; /* by bytes, the largest growth first; then by path */
	size_t n;
};

/** What changed from node a to node b (0: nothing there). stop, if given, ends it with -EINTR. */
int snap_diff(struct snap *s, uint64_t a, uint64_t b, const _Atomic bool *stop,
              struct snap_changes *ret);
/** Put several differences that were joined in order. */
void snap_changes_sort(struct snap_changes *c);
void snap_changes_done(struct snap_changes *c);

/* -- keeping house ----------------------------------------------------------------------------- */

struct snap_policy { /* per root; 0: rule not given */
	uint64_t keep_last, keep_daily, keep_weekly, keep_monthly;
	int64_t older_than; /* seconds before now; only older ones are removed */
};

struct snap_pruned {
	int64_t *ids; /* removed, or that would be */
	size_t n;
	uint64_t nodes, bytes; /* given back */
	int left;              /* why others that were to be removed are still there: 0 or -errno */
};

/**
 * Remove the snapshots that no rule keeps, in one transaction; on a full disk in as many as it takes, the oldest
 * first, for which the log has a reserve. The newest of each root always stays; those whose rows are damaged are
 * kept by no rule.
 * On success *ret is to be released, also when nothing was removed. -EBUSY when a scan is writing.
 */
int snap_prune(struct snap *s, const struct snap_policy *p, int64_t now, bool dry_run,
               struct snap_pruned *ret);
void snap_pruned_done(struct snap_pruned *p);

struct snap_damage {
	uint64_t packs, nodes; /* looked at */
	uint64_t bad_packs, bad_nodes;
	bool bad_lookup; /* what finds stored directories again; nothing is lost */
	int64_t *ids;    /* damaged snapshots */
	size_t n;
	char (*found)[SNAP_FOUND_MAX]; /* sentences: which row is wrong, and what to do */
	size_t n_found;
};

/** Verify everything stored: each pack, each fingerprint, each total, from every snapshot down. */
int snap_check(struct snap *s, void (*progress)(void *ctx, uint64_t packs), void *ctx,
               struct snap_damage *ret);
void snap_damage_done(struct snap_damage *d);

/* -- writing --------------------------------------------------------------------------------- */

struct snap_writer;

/**
 * Begin a snapshot of root (from scan_root_path()); takes the index's write lock. -EBUSY when another
 * scan holds it. SNAP_WARM falls back to SNAP_COLD when the root has no snapshot yet.
 */
int snap_write_begin(struct snap *s, const char *root, enum snap_mode mode,
                     struct snap_writer **ret);
/** What to hand to scan_run(). */
const struct scan_sink *snap_write_sink(struct snap_writer *w);
/** Remember the words that a scan with the same result needs (see snap_details.options). 0 or -ENOMEM. */
int snap_write_options(struct snap_writer *w, const char *words, size_t len);
/**
 * For scan_options.mark, after snap_write_options(): where the source of the previous snapshot stood. NULL if
 * that cannot be gone on from: it was approximate, or counted by other words.
 */
const struct scan_mark *snap_write_mark(const struct snap_writer *w);
/** What failed in the writer while the scan ran, 0 if nothing did: then the scan itself is to blame. */
int snap_write_error(struct snap_writer *w);
/** Store the snapshot durably and end the writer. Fills *ret (snap_info_done()). 0 or -errno: nothing stored. */
int snap_write_commit(struct snap_writer *w, const struct scan_report *report,
                      struct snap_info *ret);
/** End the writer and forget what it wrote. NULL is fine. */
void snap_write_abort(struct snap_writer *w);

#endif
