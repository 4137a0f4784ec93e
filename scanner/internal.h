/* SPDX-License-Identifier: MIT */
/*
 * internal - what the files of the scanner share. Nothing outside scanner/ includes this.
 *
 * One scan has workers; each worker has a stack of directories whose sub-directories wait to be read
 * (queue.c). How many of them read is decided, and changed, in readers.c; storage.c says what the tree
 * lives on. A directory lives from the moment it is taken until its node is reported (walk.c).
 */
#ifndef SCANNER_INTERNAL_H
#define SCANNER_INTERNAL_H

#include "scanner/entry_codec.h"
#include "scanner/scanner.h"
#include "scanner/source.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Counters have one writer; the progress reader only needs a value that is not torn. */
#define COUNT(field, n)                                                                   \
	atomic_store_explicit(&(field),                                                   \
	                      atomic_load_explicit(&(field), memory_order_relaxed) + (n), \
	                      memory_order_relaxed)

struct scan_counters {
	_Atomic uint64_t openat, statx, getdents64, close;
	_Atomic uint64_t entries, bytes, dirs, steals;
	uint32_t by_errno[SCAN_ERRNO_SLOTS];
	uint64_t listed, declined, doubted, kept; /* directories, by a source */
};

/* links.c: inodes with several names below a directory, not all of them seen yet. */
struct link {
	uint64_t ino; /* scan_meta's: tells devices apart */
	uint64_t bytes, size;
	uint32_t nlink, seen;
};

struct link_set {
	struct link *slot;     /* open addressing, empty if nlink == 0 */
	size_t n, mask;        /* mask + 1 slots, or slot == NULL */
	bool hidden;           /* not for the parent's audience */
	struct link_set *next; /* in a parent's list of finished children */
};

/* dir.c: what the audience of a directory sees of it, where that is less than all. */
struct dir_view {
	size_exact bytes, apparent;
	struct scan_totals sum; /* all but bytes and apparent */
	struct link_set *links; /* of finished children that have a view, too */
	struct link_set own;
};

/* mounts.c: mount points below the root, as a tree of names. */
struct mount_trap {
	char *name;
	char *fstype; /* NULL: nothing is mounted right here, only below */
	struct mount_trap *child, *sibling;
};

/* runs.c: sorted, encoded chunks of a directory too large to keep as items. */
struct run {
	uint8_t *data;
	struct entry_cursor at;
	struct scan_entry e; /* decoded; its name is in name[] */
	char name[256];
};

struct runs {
	struct run *run;
	size_t n, cap;
	uint32_t *heap; /* runs by their current name */
	size_t heap_len;
};

/* entries.c: the directory that a worker reads now. */
struct item {
	uint64_t prefix; /* first eight bytes of the name, big-endian: sorts like memcmp */
	uint64_t place;  /* inode number as listed */
	struct scan_meta meta;
	uint32_t name_off; /* into names; NUL-terminated there */
	int error;
	uint16_t name_len;
	uint8_t type, problem;
	bool doubt; /* to be looked at */
};

/* changes.c: what a source says may differ, sorted by path; a directory has a part of it. */
struct source_changes {
	struct change {
		char *path;
		bool below;
	} * change;
	size_t n, cap;
};

struct change_range {
	size_t from, to; /* those at or below the directory */
	size_t off;      /* of what is below it in their paths */
	bool below;      /* nothing below it may be kept */
};

struct scan_dir;
struct worker;

struct scan_reading {
	struct scan_listing made;
	struct worker *w;
	struct scan_dir *dir;
	int fd; /* of the directory, or -1 */
	bool doubts, taking;
	struct item *items;
	uint32_t *order;
	char *names;
	size_t n, cap, order_cap;
	size_t names_len, names_cap;
	struct runs runs;
	struct bytes out; /* the listing, encoded */
	struct entry_encoder enc;
};

struct scan_dir {
	struct scan_dir *parent;
	const char *name; /* in the parent's child_names */
	size_t index, depth;
	const struct mount_trap *trap;
	int fd;    /* for opening children; -1 if not held or no longer needed */
	bool held; /* fd counts against the descriptor budget */
	bool cut;  /* holds a CACHEDIR.TAG */
	uint8_t problem;
	int error;
	uint64_t dev, ino, mnt_id;
	struct scan_meta meta;
	void *state;  /* the sink's */
	bool foreign; /* on another mount than the root: the source does not know it */
	bool kept;    /* the sink has its node already, which is token */
	struct change_range changes;
	struct scan_token token;

	struct scan_child *children;
	char *child_names;
	uint32_t *child_name; /* offsets into child_names */
	uint64_t *child_ino;  /* in inode order, or if a source asks for them */
	uint32_t *visit;      /* in inode order: which child comes when */
	size_t n_children, children_cap, child_names_len, child_names_cap, child_name_cap,
		child_ino_cap;

	struct ahead *_Atomic
		ahead; /* children opened ahead; with lock, but for a look whether there are any */

	_Atomic size_t next;     /* first child that nobody has taken */
	_Atomic size_t unopened; /* children that still need fd */
	_Atomic size_t pending;  /* children without a node, + 1 until it has left the stack */

	pthread_mutex_t lock; /* guards what follows; finished children add to it */
	size_exact bytes, apparent;
	struct scan_totals sum; /* all but bytes and apparent */
	struct link_set *links; /* sets of finished children */
	struct dir_view *view;  /* NULL: the audience sees all */
	struct link_set own;    /* multi-link files right here; the reading worker's */
};

static inline const char *scan_dir_child_name(const struct scan_dir *d, size_t index)
{
	return d->child_names + d->child_name[index];
}

struct worker {
	struct scan *scan;
	unsigned id;
	pthread_t thread;
	pthread_mutex_t lock;    /* guards stack against thieves; only the owner pushes and pops */
	struct scan_dir **stack; /* lock to change; the owner may read without */
	size_t n_stack, cap_stack;
	size_t first;  /* lock: thieves need not look below */
	int cursor_fd; /* the directory read last, while some are not held */
	size_t cursor_depth;
	char *buf; /* for getdents64 */
	struct scan_reading reading;
	struct scan_counters count;
	bool parked; /* lock: it may not read now, so thieves tidy its stack */
	uint64_t user_ns, sys_ns, idle_ns, life_ns;
	long seen_inblock, seen_switches;
	unsigned since_look, look_after; /* directories */
} PRIVATE_CACHE_LINE;

/* readers.c: how many workers read, and why. Samples in, decisions out. */
struct readers_control {
	unsigned cached, cold; /* how many in either case */
	unsigned limit;        /* ... now */
	bool spins;            /* a disk that moves its head */
	unsigned base,
		hold; /* directories in a row without a wait that mean cached: at first, now */
	uint64_t dirs, samples; /* since the decision before */
	unsigned run, waits;    /* directories without a wait, samples with one */
	unsigned decisions;
};

struct readers {
	char kind[16], evidence[240];
	bool rotational, network, fixed;
	bool by_inode;
	_Atomic unsigned limit; /* workers below this number may read; changes under idle_lock */
	pthread_mutex_t lock;   /* guards what follows; taken before idle_lock */
	struct readers_control control;
	uint64_t cold_samples, cached_samples;
	unsigned changes; /* idle_lock */
	char log[512];    /* idle_lock */
};

struct seen_shard {
	pthread_mutex_t lock;
	uint64_t *slot;
	size_t n, mask;
};

enum {
	SEEN_SHARDS = 16
};

struct scan {
	const struct scan_options *options;
	const struct scan_sink *sink;
	char *root_path;
	int root_fd;
	uint64_t root_dev, root_mnt;
	bool have_mnt_id;
	bool stat_first; /* network file systems: look before opening, so that nothing is triggered */
	struct mount_trap traps;
	struct scan_dir *root;

	const struct source_ops *source_ops;
	struct scan_source *source_ctx;
	bool source; /* it is asked first, system calls only for what it declines */
	bool keeps;  /* changes is complete, and the sink keeps what is not in it */
	struct source_changes changes;
	struct scan_mark mark;
	char source_why[SOURCE_WHY];

	void *(*worker_main)(void *worker);
	struct worker *workers;
	unsigned n_workers; /* slots; n_started of them have a thread */
	unsigned n_started; /* idle_lock */
	struct readers readers;
	uint64_t start_ns, report_ns;
	size_t held_max;
	_Atomic size_t held;   /* descriptors kept for children */
	_Atomic size_t unheld; /* directories on stacks without one */
	_Atomic int failed;    /* -errno that ends the scan, 0 while all is well */
	_Atomic bool done;
	bool alone; /* no thread could be made: worker 0 is the caller, and reports progress, too */
	_Atomic bool want_path; /* the progress reader asks for a path */

	pthread_mutex_t idle_lock;
	pthread_cond_t idle_cond;
	_Atomic unsigned idle;    /* workers without work, or parked */
	pthread_cond_t done_cond; /* with idle_lock */

	pthread_mutex_t path_lock;
	char path[4096]; /* path_lock */

	struct seen_shard seen[SEEN_SHARDS];
	struct scan_totals totals;
	struct scan_token token;
};

/* queue.c */
int queue_push(struct worker *w, struct scan_dir *d);
bool queue_take(struct worker *w, struct scan_dir **parent, size_t *index);

/* state.c */
void state_fail(struct scan *s, int error);
void state_finish(struct scan *s);

static inline bool state_has_failed(struct scan *s)
{
	return atomic_load_explicit(&s->failed, memory_order_relaxed) != 0;
}

/* dir.c */
struct scan_dir *dir_new(struct scan_dir *parent, size_t index);
void dir_free(struct scan_dir *d);
/* One thing that d waited for has happened. The last one reports d and goes on with its parent. */
void dir_finish(struct worker *w, struct scan_dir *d);
/* d has no node: its parent says why. */
void dir_leave_out(struct worker *w, struct scan_dir *d, int problem, int error);

/* progress.c */
void progress_path(struct worker *w, const struct scan_dir *d);
void progress_wait(struct scan *s);
void progress_look(struct scan *s); /* report if it is time; of a scan without threads */
void progress_stats(struct scan *s, struct scan_stats *ret);

/* runs.c */
int runs_add(struct runs *r, struct bytes *data, size_t n); /* of n entries; takes them over */
int runs_start(struct runs *r);
struct run *runs_first(struct runs *r); /* the least name left, NULL at the end */
void runs_next(struct runs *r);
void runs_clear(struct runs *r);

/* entries.c */
void reading_begin(struct scan_reading *l, struct worker *w, struct scan_dir *d, int fd);
/* known: NULL, or its metadata, which need not be looked at. 0, -errno; -EAGAIN: only with a descriptor. */
int reading_add(struct scan_reading *l, const char *name, uint8_t type, uint64_t place,
                const struct scan_meta *known);
int reading_finish(struct scan_reading *l);
void reading_done(struct scan_reading *l);

/* calls.c */
int sys_openat(struct worker *w, int dirfd, const char *name, int flags); /* fd or -errno */
int open_to_read(struct worker *w, int dirfd, const char *name);          /* fd or -errno */
void open_close(struct worker *w, int fd);
int open_statx(struct worker *w, int fd, const char *name, int flags, unsigned mask,
               struct statx *ret);
int open_statx_meta(struct worker *w, int fd, const char *name, int flags, struct statx *ret);
uint64_t statx_dev(const struct statx *st);
void meta_from_statx(const struct statx *st, uint64_t root_dev, struct scan_meta *ret);

/* open.c: finding and holding directories */
int open_child(struct worker *w, struct scan_dir *d, int *ret_fd);
void open_drop_parent(struct worker *w, struct scan_dir *parent);
void open_keep_cursor(struct worker *w, const struct scan_dir *d, int fd);

/* ahead.c: sub-directories that are opened before their turn, on disks that move their head */
enum {
	SCAN_AHEAD = 128
};

int ahead_open(struct worker *w, int pfd, struct scan_dir *d); /* fd or -errno */
void ahead_done(struct worker *w, struct scan_dir *d);

/* readers.c */
unsigned readers_max(const struct scan_options *o);
int readers_init(struct scan *s);
void readers_look(struct worker *w);
bool readers_may_read(const struct worker *w);
void readers_report(struct scan *s, struct scan_stats *ret);
bool readers_start(struct scan *s);
void readers_control_init(struct readers_control *c, unsigned cached, unsigned cold, bool spins,
                          bool starts_cold);
bool readers_decide(struct readers_control *c, bool cold, unsigned dirs);

/* links.c */
static inline struct link link_of(const struct scan_meta *m)
{
	return (struct link){ m->ino, m->blocks * 512, m->size, m->nlink, 1 };
}

int link_set_add(struct link_set *set, const struct link *l, size_exact *bytes,
                 size_exact *apparent);
int link_set_merge(struct link_set *into, struct link_set *list, size_exact *bytes,
                   size_exact *apparent);
/* Add a set that stays as it is. 0 or -ENOMEM. */
int link_set_copy(struct link_set *into, const struct link_set *from, size_exact *bytes,
                  size_exact *apparent);
uint64_t link_set_close(struct link_set *set);
void link_set_done(struct link_set *set);

/* mounts.c */
int mounts_load(const char *mountinfo, const char *root, struct mount_trap *ret);
void mounts_done(struct mount_trap *t);
const struct mount_trap *mounts_child(const struct mount_trap *t, const char *name);
bool mounts_may_cross(const struct mount_trap *t);

/* changes.c */
void changes_sort(struct source_changes *c);
void changes_done(struct source_changes *c);
struct change_range changes_all(const struct source_changes *c);
/* What of the parent's is at or below its sub-directory of that name. */
struct change_range changes_child(const struct source_changes *c, struct change_range parent,
                                  const char *name);

/* seen.c: directories met so far, to notice one that moves while we scan */
int seen_init(struct scan *s);
void seen_done(struct scan *s);
bool seen_before(struct scan *s, uint64_t dev, uint64_t ino);

/* path.c */
size_t path_of(const struct scan_dir *d, const char *root, char *buf, size_t size);

#endif
