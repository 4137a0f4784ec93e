/* SPDX-License-Identifier: MIT */
/*
 * view - the answers: from a path and a moment to a directory, and from a directory to a text.
 *
 * Model:   a generation is the newest snapshot of every root at one moment, joined into one tree. Of a
 *          directory in it a usage_dir says all that a virtual file may know; the table usage_files has a
 *          function for each, which appends the text. A text depends on path and snapshots alone.
 * Owner:   view_init() borrows the index until view_done(). A generation is pinned until gen_put().
 * Errors:  0 or -errno. -EUCLEAN: the index is damaged, -EINTR: told to stop.
 * Threads: any number; a generation never changes but for what its lock guards.
 */
#ifndef FS_VIEW_VIEW_H
#define FS_VIEW_VIEW_H

#include "base/text.h"
#include "snapshot/snapshot.h"

#include <pthread.h>
#include <stdatomic.h>

/* -- windows of growth: past.c. A row gives .usage/growth/W with its twin, .growth/W, a line of span -- */
#define EACH_WINDOW(ROW)                  \
	ROW("1h", 3600, "hour")           \
	ROW("1d", 86400, "day")           \
	ROW("7d", 7 * 86400, "7 days")    \
	ROW("30d", 30 * 86400, "30 days") \
	ROW("365d", 365 * 86400, "365 days")

struct window {
	const char *name;
	int64_t seconds;
};

enum {
#define COUNT_WINDOW(name, seconds, words) +1
	WINDOWS = 0 EACH_WINDOW(COUNT_WINDOW)
#undef COUNT_WINDOW
};
extern const struct window windows[WINDOWS];
int window_find(const char *name);

/* -- generations: view.c -- */
struct then {
	int64_t id;   /* the snapshot that the moment is named by */
	uint64_t ref; /* the top */
};

struct gen { /* what is shown between two snapshots; but for what lock guards it never changes */
	uint32_t number;
	struct snap_list all; /* all snapshots */
	struct snap_list
		list; /* newest of each root shown, out of all; an outer root before an inner one */
	struct snap_roots roots;  /* of all */
	pthread_mutex_t lock;     /* guards what is made on demand: growth, virtuals, then */
	uint64_t growth[WINDOWS]; /* top of the tree of growth, 0: not made yet */
	uint64_t
		*root_key; /* per root: a number for whoever shows it, set before it is published */
	bool *hidden;      /* per root: an outer root has a newer snapshot of the same directory */
	uint64_t top_ref;
	uint64_t *virtuals; /* made for this generation */
	size_t n_virtuals;
	struct then *then; /* the roots joined as they were, each moment once */
	size_t n_then, cap_then;
	_Atomic unsigned users;
};

enum {
	GENS_KEPT = 256
};

struct view {
	struct snap *s;
	const char *root;     /* the top, or NULL: all roots under their absolute paths */
	pthread_mutex_t lock; /* guards the ring */
	struct gen *ring[GENS_KEPT];
	struct gen *_Atomic now;
	uint32_t n_gens;
};

/** Show what the index has now. root is borrowed. */
int view_init(struct view *v, struct snap *s, const char *root);
void view_done(struct view *v);
struct gen *view_now(struct view *v);                                 /* pinned */
struct gen *view_gen(struct view *v, uint32_t number, uint32_t mask); /* pinned; NULL if dropped */
void gen_put(struct view *v, struct gen *g);
/** Read the index; *ret is a new generation, or NULL if nothing changed. */
int view_load(struct view *v, struct gen **ret);
/** Make g the one that is shown, and the view's own. */
void view_publish(struct view *v, struct gen *g);

/* -- other trees of a generation: join.c, grown.c; call with g->lock -- */
/**
 * Join nodes of the roots the way the generation joins the newest: one per root of g->list, 0: none.
 * -ENOENT never: a top that is not in this tree is an empty directory.
 */
int join_refs(struct view *v, struct gen *g, const uint64_t *refs, uint64_t *ret);
/** The tree under .growth for a window. */
int grown_make(struct view *v, struct gen *g, size_t window, uint64_t *ret);

/* -- which snapshot a path is of: moment.c. Paths are absolute, those of the source -- */
/** The snapshot with that id, NULL: none. */
const struct snap_info *gen_info(const struct gen *g, int64_t id);
/** The snapshot that shows path now; NULL on the way to the roots. */
const struct snap_info *view_snapshot_now(const struct gen *g, const char *path);
/** The one that showed it in the past that ends with snapshot id, entered above the roots. */
const struct snap_info *view_snapshot_then(struct view *v, const struct gen *g, const char *path,
                                           int64_t id);
/** When the numbers were true; above several roots the oldest of them. until: INT64_MAX for the present. */
int64_t view_asof(const struct gen *g, const struct snap_info *shown, int64_t until);
/** What NAME in .usage/at/NAME means in a directory shown from that snapshot; NULL: nothing. */
const struct snap_info *view_select_then(const struct gen *g, const struct snap_info *shown,
                                         const char *name);
/** The node of path then. Takes g->lock. */
int view_ref_then(struct view *v, struct gen *g, const char *path, const struct snap_info *shown,
                  const struct snap_info *then, uint64_t *ret);

/* -- virtual files: registry.c -- */
struct usage_dir { /* what a virtual file may know */
	struct snap *s;
	const struct usage_file *file; /* set by usage_text() */
	const struct snap_node *node;
	const struct snap_info *snapshot; /* NULL on the way to the roots */
	int64_t asof;                     /* when the numbers were true */
	const struct snap_list *all;      /* snapshots by id, up to the shown moment */
	const char *path;         /* absolute, in the view; only where the table asks for it */
	bool raw;                 /* the twin: raw names, NUL instead of newline */
	const _Atomic bool *stop; /* give up: -EINTR */
};

typedef int render_fn(const struct usage_dir *dir, struct text *out);

struct usage_file {
	const char *name;
	render_fn *render;
	const char *help; /* NULL: that of the number of this name in totals_fields */
	bool twin;        /* NAME.0 exists too */
	bool slow;        /* may read many directories */
	bool path;        /* wants usage_dir.path */
	bool asof;        /* changes with every snapshot, even where nothing changed */
	bool grown;       /* exists in .growth, and only there */
};

enum {
	USAGE_TWIN = 0x80 /* in the number of a file: its twin */
};

enum usage_where {
	USAGE_HERE,  /* .usage */
	USAGE_GROWTH /* .usage/growth */
};

extern const struct usage_file usage_files[]; /* sorted by name */
extern const size_t n_usage_files;

/* -- who asks: access.c -- */
struct access_rule;

struct viewer {
	const struct access_rule *rule; /* NULL: the first one, "private" */
	uid_t uid;
	gid_t gid;
};

/** The rule of that name, NULL: none. */
const struct access_rule *access_find(const char *name);
/** The text of a file for somebody: the only way to it. -EACCES when it is not for them. */
int usage_text(const struct usage_dir *d, uint8_t file, const struct viewer *who, struct text *out);

/** Number of the file of that name (USAGE_TWIN set for a twin), or -1. */
int usage_file_find(enum usage_where where, const char *name);
enum usage_where usage_file_where(uint8_t file);
/** One of totals_fields by name, a time that is none as 0; false: there is no such number. */
bool usage_number(const struct scan_totals *t, const char *name, int64_t *ret);
const char *usage_file_help(const struct usage_file *f);
/** Its name there. */
void usage_file_name(uint8_t file, char buf[64]);

/* -- names: names.c. A real .usage is shown as .usage~ -- */
/** The real name behind a shown one; false if there is none, since the name is the virtual one's. */
bool name_to_real(bool top, const char *shown, char real[256]);
void name_to_shown(bool top, const char *real, char shown[260]);

/* -- from a path: resolve.c -- */
struct view_found {
	struct usage_dir dir; /* points to what follows */
	int file;             /* number of the virtual file, -1: the directory itself */
	bool in_growth;       /* under .growth, where only what is grown exists */
	struct snap_node node;
	struct snap_list until;
	struct text path;
	struct view *v;
	struct gen *g;
};

/**
 * What a path names, written as a mount of the view shows it; view_found_done() it. -ENOENT, -ENOTDIR, and
 * -EISDIR for a virtual directory.
 */
int view_resolve(struct view *v, const char *path, struct view_found *ret);
void view_found_done(struct view_found *f);

#endif
