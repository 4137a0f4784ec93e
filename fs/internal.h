/* SPDX-License-Identifier: MIT */
/*
 * internal - what the files of fs/ share. Nothing outside includes this.
 *
 *     view.c         generations: which snapshots are shown now; path -> node
 *     join.c         several roots as one tree
 *     rows.c         the directories the kernel knows, by number
 *     names.c        real names that give way to virtual ones
 *     usage_files.c  the table of virtual files; render_*.c and past.c make their text with text.c,
 *                    best.c finds what is greatest
 *     grown.c        the trees under .growth
 *     live.c         the files in .telemetry
 *     texts.c        finished texts
 *     jobs.c         the threads that make slow ones
 *     request.h      the FUSE requests: request.c, lookup.c, read.c, readdir.c, fixed.c, refuse.c, ops.c
 *     follow.c       notices new snapshots and tells the kernel
 *     rescan.c       makes new snapshots, when asked to or every so often
 *     mount.c        the session
 */
#ifndef FS_INTERNAL_H
#define FS_INTERNAL_H

#define FUSE_USE_VERSION 314

#include "fs/fs.h"
#include "base/path.h"
#include "base/text.h"
#include "base/varint.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

/* -- node ids: see request.c -- */
enum node_kind {
	NODE_DIR,
	NODE_FILE,
	NODE_VIRTUAL
};

enum virtual_kind {
	V_TWIN = 0x80,      /* set: the NUL-separated twin of a usage file */
	V_LIVE = 0x60,      /* + number of a telemetry file */
	V_USAGE = 0x70,     /* the directory .usage */
	V_TELEMETRY = 0x71, /* the directory .telemetry */
	V_GROWTH = 0x72,    /* the directory .usage/growth */
	V_AT = 0x73,        /* the directory .usage/at */
	V_GROWN = 0x74,     /* the directory .growth at the top */
	V_WINDOW = 0x78,    /* + number of a window: the way into a tree of growth */
};

struct node_id {
	enum node_kind kind;
	uint32_t row; /* of the directory it is in, or that it is */
	/* NODE_FILE: modulo GEN_FILE_MASK + 1; a telemetry file: the number of its text */
	uint32_t gen;
	uint32_t entry; /* NODE_FILE: ordinal */
	uint8_t virt;   /* NODE_VIRTUAL: enum virtual_kind or number of a usage file */
};

enum {
	ROW_TOP = 1,
	ROW_RETRY = -1,
	ROW_BITS = 28,
	ENTRY_BITS = 26,
	GEN_FILE_BITS = 9,
	GEN_BITS = 26,
};

fuse_ino_t node_id_pack(const struct node_id *id);
struct node_id node_id_unpack(fuse_ino_t ino);

/* -- rows.c -- */
struct gen;

struct row {
	uint64_t ino;   /* of the path, the same in all snapshots; 0: free */
	uint64_t ref;   /* its node now; 0: gone */
	uint64_t texts; /* virtual files that the kernel may have cached, a bit each */
	uint32_t parent;
	uint32_t refs;  /* lookups by the kernel and rows below */
	uint32_t next;  /* in its bucket, or free list */
	uint32_t fixed; /* 0, or in a tree that never changes: kind and snapshot */
};

/* Trees beside the present one. */
enum fixed_tree {
	FIXED_NONE,
	FIXED_AT = 1,       /* as it was: the id is a snapshot */
	FIXED_GROWTH = 2,   /* what changed: the id is a window */
	FIXED_AT_AGAIN = 3, /* FIXED_AT, entered from the same snapshot: tells where it begins */
};

static inline uint32_t fixed_make(enum fixed_tree kind, int64_t id)
{
	return (uint32_t)kind << 30 | (uint32_t)(id & ((1 << 30) - 1));
}

static inline enum fixed_tree fixed_kind(uint32_t fixed)
{
	return fixed >> 30 == FIXED_AT_AGAIN ? FIXED_AT : (enum fixed_tree)(fixed >> 30);
}

static inline int64_t fixed_id(uint32_t fixed)
{
	return fixed & ((1 << 30) - 1);
}

struct rows {
	pthread_rwlock_t lock; /* guards all */
	struct row **chunk;
	uint32_t *bucket;
	uint32_t n_chunks, n_buckets, used, free, live;
	uint64_t created; /* rows ever made: tells whether any came in meanwhile */
};

int rows_init(struct rows *t, uint64_t top_ino, uint64_t top_ref);
void rows_done(struct rows *t);
/* A copy of a row. False if there is none. */
bool rows_get(struct rows *t, uint32_t row, struct row *ret);
/*
 * The row of a child, made if need be, with one more lookup. 0: no memory. ROW_RETRY: *now is no longer
 * seen, the generation that ref was found in; look again.
 */
uint32_t rows_lookup(struct rows *t, uint32_t parent, uint64_t ino, uint64_t ref, uint32_t fixed,
                     struct gen *const _Atomic *now, const struct gen *seen);
/* One more lookup of something in a row; text >= 0 notes which virtual file. */
bool rows_hold(struct rows *t, uint32_t row, int text);
void rows_forget(struct rows *t, uint32_t row, uint64_t n);
/* With the lock held by the caller: */
struct row *rows_at(const struct rows *t, uint32_t row);
uint32_t rows_find(const struct rows *t, uint64_t ino);

/* -- view.c -- */
struct gen { /* what is shown between two snapshots; but for what lock guards it never changes */
	uint32_t number;
	struct snap_list all;  /* all snapshots */
	struct snap_list list; /* newest of each root shown, out of all */
	pthread_mutex_t lock;  /* guards what is made on demand: growth, virtuals */
	uint64_t growth[8];    /* per window: top of the tree of growth, 0: not made yet */
	uint64_t *root_ino;    /* per root */
	bool *hidden; /* per root: an outer root has a newer snapshot of the same directory */
	uint64_t top_ref;
	uint64_t *virtuals; /* made for this generation */
	size_t n_virtuals;
	_Atomic unsigned users;
};

enum {
	GENS_KEPT = 256
};

struct view {
	struct snap *s;
	const char *root; /* option --root */
	uint64_t top_ino;
	pthread_mutex_t lock; /* guards the ring */
	struct gen *ring[GENS_KEPT];
	struct gen *_Atomic now; /* changes with lock and the rows' write lock held */
	uint32_t n_gens;
	struct rows rows;
};

int view_init(struct view *v, struct snap *s, const char *root);
void view_done(struct view *v);
struct gen *view_now(struct view *v);                                 /* pinned */
struct gen *view_gen(struct view *v, uint32_t number, uint32_t mask); /* pinned; NULL if dropped */
void gen_put(struct view *v, struct gen *g);
/* Read the index; *ret is a new generation, or NULL if nothing changed. */
int view_load(struct view *v, struct gen **ret);
void view_publish(struct view *v, struct gen *g);
/* The node of a row in a generation. -ENOENT if it is not there. */
int view_node(struct view *v, const struct gen *g, uint32_t row, struct snap_node *ret);
int view_ref(struct view *v, const struct gen *g, uint32_t row, uint64_t *ret);
/* The path of a row below the top, without leading slash; "" for the top. */
int view_path(struct view *v, const struct gen *g, uint32_t row, struct text *ret);
/* The snapshot a row belongs to, NULL on the way to the roots. */
const struct snap_info *view_snapshot(struct view *v, const struct gen *g, uint32_t row);
int64_t view_asof(struct view *v, const struct gen *g, uint32_t row);
/* The last snapshot that counts for the row: the one of .usage/at/ID that it is in, or INT64_MAX. */
int64_t view_until(struct view *v, uint32_t row);

uint64_t ino_child(uint64_t parent, const char *name, size_t len);
uint64_t ino_of_path(struct snap *s, const char *path);
uint64_t ino_link(uint64_t root_ino, uint64_t ino);
uint64_t ino_virtual(uint64_t dir, uint8_t virt);

/* -- join.c -- */
/* In the order that the others need: a directory's roots together, an outer one before an inner one. */
void join_sort(struct snap_list *l);
/* Make g->top_ref from the newest snapshots in g->list. */
int join_newest(struct view *v, struct gen *g);
/*
 * Join other nodes of the roots in the same way, one per root of g->list, 0: none: the trees of growth, or
 * of an earlier moment. Call with g->lock.
 */
int join_refs(struct view *v, struct gen *g, const uint64_t *refs, uint64_t *ret);
/* Let a node that lives in memory go when g goes. */
int join_keep(struct gen *g, uint64_t ref);

/* -- usage_files.c -- */
struct usage_dir { /* what a renderer may know */
	struct snap *s;
	const struct snap_node *node;
	const struct snap_info *snapshot; /* NULL on the way to the roots */
	int64_t asof;
	const struct snap_list *all; /* snapshots by id */
	const char *path;            /* absolute, in the view; only where the table asks for it */
	bool raw;                    /* the twin: raw names, NUL instead of newline */
	const _Atomic bool *stop;    /* give up: -EINTR */
};

typedef int render_fn(const struct usage_dir *dir, struct text *out);

struct usage_file {
	const char *name;
	render_fn *render;
	const char *help;
	bool twin;  /* NAME.0 exists too */
	bool slow;  /* may read many directories */
	bool path;  /* wants usage_dir.path */
	bool asof;  /* changes with every snapshot, even where nothing changed */
	bool grown; /* exists in .growth, and only there */
};

extern const struct usage_file usage_files[];
extern const size_t n_usage_files;

/* Number of the file called name in V_USAGE or V_GROWTH (V_TWIN set for a twin), or -1. */
int usage_file_find(uint8_t dir, const char *name);
uint8_t usage_file_dir(uint8_t virt);
void usage_file_name(uint8_t virt, char buf[64]);
bool usage_is_stopped(const struct usage_dir *d);

/* past.c: what was */
enum {
	WINDOWS = 5
};
extern const char *const window_names[WINDOWS];
int window_find(const char *name);
/* The snapshot that window w of snapshot i begins with: as old as the window, or the oldest; NULL: none. */
const struct snap_info *window_start(const struct snap_list *all, const struct snap_info *i,
                                     size_t w);

/* grown.c: the tree of growth; call with g->lock. */
int grown_make(struct view *v, struct gen *g, size_t window, uint64_t *ret);

/* render_*.c */
render_fn render_summary, render_children, render_top, render_largest, render_crowded,
	render_errors, render_readme, render_history, render_growth_1h, render_growth_1d,
	render_growth_7d, render_growth_30d, render_growth_365d, render_delta;
/* One line of a table: a number, a tab, a path. */
void table_line(const struct usage_dir *d, struct text *out, uint64_t number, const char *path,
                size_t len);
void table_text_line(const struct usage_dir *d, struct text *out, const char *first,
                     const char *path, size_t len);

/* best.c: the greatest below a directory without reading everything */
struct best_item {
	uint64_t value;
	char *path; /* relative, raw */
	size_t path_len;
};

struct best {
	struct best_item *item; /* greatest first */
	size_t n;
};

enum best_what {
	BEST_DIRS,
	BEST_FILES,
	BEST_CROWDED
};
int best_find(const struct usage_dir *d, enum best_what what, size_t n, struct best *ret);
void best_done(struct best *b);

/* -- texts.c -- */
struct fs;
struct texts;
struct text_copy { /* a finished text; pinned */
	uint64_t key;
	char *p;
	size_t len;
	unsigned users;
	struct text_copy *next, *newer, *older;
};

struct texts *texts_new(size_t limit);
void texts_free(struct texts *t);
struct text_copy *texts_get(struct texts *t, uint64_t key);
/* Keep a text; takes it over. */
struct text_copy *texts_put(struct texts *t, uint64_t key, struct text *text);
void texts_release(struct texts *t, struct text_copy *c);
size_t texts_bytes(struct texts *t);

/* jobs.c */
struct jobs;

struct job {
	struct job *next;
	struct jobs *jobs;
	fuse_req_t req;
	fuse_ino_t ino;
	void (*run)(struct fs *fs, struct job *j);
	size_t size;
	off_t off;
	_Atomic bool stop; /* give up: the reader is gone, or the mount ends */
};

struct jobs *jobs_new(struct fs *fs);
void jobs_free(struct jobs *j);
void jobs_add(struct jobs *j, struct job *job);
/* run() calls this before it answers. */
void jobs_end(struct job *job);

/* -- live.c -- */
struct live_file {
	const char *name;
	void (*render)(struct fs *fs, struct text *out);
	const char *help;
};

extern const struct live_file live_files[];
extern const size_t n_live_files;

struct live_text {
	struct live_text *older;
	uint32_t number;
	uint64_t lookups; /* by the kernel */
	struct timespec mtime;
	char *p;
	size_t len;
};

struct live {                     /* one live file */
	struct live_text *newest; /* and those that the kernel still knows */
	uint64_t made_ns;
	uint32_t last_number;
};

struct live_stat {
	uint32_t number; /* of the text */
	size_t size;
	struct timespec mtime;
};

int live_find(const char *name);
mode_t live_mode(size_t i);
/* Renew the text if it is older than 200 ms; counts a lookup of the newest, until live_forget(). */
int live_lookup(struct fs *fs, size_t i, struct live_stat *ret);
int live_stat(struct fs *fs, size_t i, uint32_t number, struct live_stat *ret);
void live_read(struct fs *fs, size_t i, uint32_t number, fuse_req_t req, size_t size, off_t off);
void live_forget(struct fs *fs, size_t i, uint32_t number, uint64_t n);
void live_done(struct fs *fs);

/* -- the whole mount -- */
enum counted {
	C_LOOKUP,
	C_GETATTR,
	C_READDIR,
	C_READDIRPLUS,
	C_READ,
	C_FORGET,
	C_OTHER,
	C_MAX
};

struct fs {
	const struct fs_options *o;
	struct snap *s;
	struct view view;
	pthread_rwlock_t requests; /* held for reading while a request is answered: see follow.c */
	struct texts *texts;
	struct jobs *jobs;
	struct rescan *rescan;
	struct fuse_session *session;
	pthread_mutex_t live_lock;
	struct live live[16]; /* live_lock */
	_Atomic uint64_t count[C_MAX];
	_Atomic uint64_t snapshots_seen, notified;
	int64_t start;
	pthread_t follower;
	bool following;
	pthread_mutex_t stop_lock;
	pthread_cond_t stop_cond;
	bool stopping; /* stop_lock */
	int said[16];  /* stop_lock: causes that people were told of */
};

/* rescan.c */
struct rescan;
int rescan_start(struct fs *fs);
void rescan_stop(struct fs *fs);
void rescan_free(struct fs *fs);
void rescan_now(struct fs *fs);
void rescan_progress(struct fs *fs, struct text *out);

extern const struct fuse_lowlevel_ops fs_ops;

/* names.c: reserved names give way */
bool name_to_real(bool top, const char *shown, char real[256]);
void name_to_shown(bool top, const char *real, char shown[260]);

int follow_start(struct fs *fs);
void follow_stop(struct fs *fs);

/* Tell people once per cause. */
void fs_say(struct fs *fs, const char *what, int error);

#endif
