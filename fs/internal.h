/* SPDX-License-Identifier: MIT */
/*
 * internal - what the files of fs/ share. Nothing outside includes this.
 *
 *     view/          the answers, a room of its own: fs/view/view.h
 *     rows.c         the directories the kernel knows, by number
 *     place.c        from a row to its node, path, snapshot
 *     ino.c          inode numbers
 *     live.c         the files in .telemetry
 *     texts.c        finished texts
 *     jobs.c         the threads that make slow ones
 *     request.h      the FUSE requests: request.c, lookup.c, read.c, readdir.c, fixed.c, refuse.c, ops.c
 *     follow.c       notices new snapshots and tells the kernel
 *     rescan.c       makes new snapshots, when asked to or every so often
 *     mountpoint.c   where it is mounted
 *     mount.c        the session
 *     say.c          what goes wrong meanwhile
 */
#ifndef FS_INTERNAL_H
#define FS_INTERNAL_H

#define FUSE_USE_VERSION 314

#include "base/path.h"
#include "base/text.h"
#include "fs/fs.h"
#include "fs/view/view.h"

#include <assert.h>
#include <fuse_lowlevel.h>

/* -- node ids: see request.c -- */
enum node_kind {
	NODE_DIR,
	NODE_FILE,
	NODE_VIRTUAL
};

enum virtual_kind {
	V_TWIN = USAGE_TWIN, /* set: the NUL-separated twin of a usage file */
	V_LIVE = 0x60,       /* + number of a telemetry file */
	V_USAGE = 0x70,      /* the directory .usage */
	V_TELEMETRY = 0x71,  /* the directory .telemetry */
	V_GROWTH = 0x72,     /* the directory .usage/growth */
	V_AT = 0x73,         /* the directory .usage/at */
	V_GROWN = 0x74,      /* the directory .growth at the top */
	V_WINDOW = 0x78,     /* + number of a window: the way into a tree of growth */
};

static_assert((int)V_WINDOW + (int)WINDOWS <= (int)V_TWIN, "the windows lie below the twins");

/* The virtual directory that a usage file is in. */
static inline uint8_t virt_dir(uint8_t virt)
{
	return usage_file_where(virt) == USAGE_GROWTH ? V_GROWTH : V_USAGE;
}

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
	ROW_MASK = (1 << ROW_BITS) - 1,
	ENTRY_BITS = 26,
	GEN_FILE_BITS = 9,
	GEN_BITS = 26,
};

fuse_ino_t node_id_pack(const struct node_id *id);
struct node_id node_id_unpack(fuse_ino_t ino);

/* -- rows.c -- */
struct row {
	uint64_t key; /* of the path, the same in all snapshots, never shown: see ino.c; 0: free */
	uint64_t ref; /* its node now; 0: gone */
	uint64_t texts; /* virtual files that the kernel may have cached, a bit each */
	uint32_t parent : ROW_BITS;
	uint32_t twin : 32 - ROW_BITS; /* another row has the same key: tells their numbers apart */
	uint32_t refs;                 /* lookups by the kernel and rows below */
	uint32_t next;                 /* in its bucket, or free list */
	uint32_t fixed;                /* 0, or in a tree that never changes: kind and snapshot */
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

int rows_init(struct rows *t, uint64_t top_key, uint64_t top_ref);
void rows_done(struct rows *t);
/* A copy of a row. False if there is none. */
bool rows_get(struct rows *t, uint32_t row, struct row *ret);
/*
 * The row of a child, made if need be, with one more lookup; want says parent, key, ref and fixed, and becomes a
 * copy of the row. 0: no memory. ROW_RETRY: *now is no longer seen, the generation that ref was found in; look
 * again.
 */
uint32_t rows_lookup(struct rows *t, struct row *want, struct gen *const _Atomic *now,
                     const struct gen *seen);
/* One more lookup of something in a row; text >= 0 notes which virtual file. */
bool rows_hold(struct rows *t, uint32_t row, int text);
void rows_forget(struct rows *t, uint32_t row, uint64_t n);
/* With the lock held by the caller: */
struct row *rows_at(const struct rows *t, uint32_t row);
/* The row of parent, key and fixed; of several the one with ref. 0: none. */
uint32_t rows_find(const struct rows *t, const struct row *want);

/* -- place.c: rows and generations -- */
struct fs;

/* The node of a row in a generation. -ENOENT if it is not there. */
int place_node(struct fs *fs, const struct gen *g, uint32_t row, struct snap_node *ret);
int place_ref(struct fs *fs, const struct gen *g, uint32_t row, uint64_t *ret);
/* The path of a row below the top, without leading slash; "" for the top. */
int place_path(struct fs *fs, const struct gen *g, uint32_t row, struct text *ret);
/* The absolute path of the source, terminated. */
int place_source(struct fs *fs, const struct gen *g, uint32_t row, struct text *ret);
/* The snapshot a row belongs to, NULL on the way to the roots. */
const struct snap_info *place_snapshot(struct fs *fs, const struct gen *g, uint32_t row);
int64_t place_asof(struct fs *fs, const struct gen *g, uint32_t row);
/* The last snapshot that counts for the row: the one of .usage/at/ID that it is in, or INT64_MAX. */
int64_t place_until(struct fs *fs, uint32_t row);

/* -- ino.c -- */
struct inos { /* secrets of the index, one per purpose */
	uint64_t dirs[2], numbers[2], entries[2], links[2];
};

void ino_init(struct inos *t, const struct snap *s);
/* Keys of directories, never shown. */
uint64_t ino_key(const struct inos *t, uint64_t parent, const char *name, size_t len);
uint64_t ino_key_path(const struct inos *t, const char *path);
uint64_t ino_key_virtual(const struct inos *t, uint64_t dir, uint8_t virt);
/* Numbers for stat: of a directory, of a virtual one or file in it, of an entry, of one with several names. */
uint64_t ino_dir(const struct inos *t, uint64_t key, uint8_t twin);
uint64_t ino_row(const struct inos *t, const struct row *dir);
uint64_t ino_virtual(const struct inos *t, const struct row *dir, uint8_t virt);
uint64_t ino_entry(const struct inos *t, const struct row *dir, const char *name, size_t len);
uint64_t ino_link(const struct inos *t, uint64_t root, uint64_t ino);
/* Key the roots of a generation that is about to be published. */
void ino_roots(const struct inos *t, struct gen *g);

/* -- texts.c -- */
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

/* Sets fs->jobs; after an error too jobs_free() ends what was started. */
int jobs_start(struct fs *fs);
void jobs_free(struct jobs *j);
void jobs_add(struct jobs *j, struct job *job);
/* run() calls this before it answers. */
void jobs_end(struct job *job);

/* Reply with what lies at off, size bytes at most. */
static inline void req_reply_part(fuse_req_t req, const char *p, size_t len, size_t size, off_t off)
{
	size_t at = MIN((size_t)MAX(off, 0), len);

	(void)fuse_reply_buf(req, at < len ? p + at : NULL, MIN(size, len - at));
}

/* -- live.c -- */
enum {
	LIVE_FILES = 16 /* room for */
};

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
	struct view view; /* what it shows now changes with the rows' write lock held */
	struct rows rows;
	struct inos ino;
	pthread_rwlock_t requests; /* held for reading while a request is answered: see follow.c */
	struct texts *texts;
	struct jobs *jobs;
	struct rescan *rescan;
	struct fuse_session *session;
	pthread_mutex_t live_lock;
	struct live live[LIVE_FILES]; /* live_lock */
	_Atomic uint64_t count[C_MAX];
	_Atomic uint64_t snapshots_seen, notified;
	int64_t start;
	pthread_t follower;
	bool following;
	pthread_mutex_t stop_lock;
	pthread_cond_t stop_cond;
	bool stopping; /* stop_lock */
	int ready_fd;  /* tells the process that waits for the mount; -1: none */
	bool ready;    /* the kernel has asked, and was answered */
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

int follow_start(struct fs *fs);
void follow_stop(struct fs *fs);

/* mountpoint.c: 0, or what is wrong with the mount point was said. */
int mountpoint_check(const struct fs_options *o);

/* say.c: tell people once per cause. */
void fs_say(struct fs *fs, const char *what, int error);

#endif
