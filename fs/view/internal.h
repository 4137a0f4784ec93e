/* SPDX-License-Identifier: MIT */
/*
 * internal - what the files of fs/view/ share. Nothing outside includes this.
 *
 *     view.c         generations: which snapshots are shown now
 *     resolve.c      from a path to a directory and a virtual file
 *     names.c        real names that give way to virtual ones
 *     access.c       who may see what
 *     moment.c       which snapshot a path is of
 *     join.c         several roots as one tree
 *     grown.c        the trees under .growth
 *     registry.c     the table of virtual files; their texts:
 *     tables.c       lists           best.c finds what is greatest
 *     past.c         history, growth
 *     summary.c      for people
 */
#ifndef FS_VIEW_INTERNAL_H
#define FS_VIEW_INTERNAL_H

#include "base/path.h"
#include "base/varint.h"
#include "fs/view/view.h"

/* -- join.c -- */
/* Make g->top_ref from the newest snapshots in g->list. */
int join_newest(struct view *v, struct gen *g);
/* Let a node that lives in memory go when g goes. */
int join_keep(struct gen *g, uint64_t ref);

/* -- past.c -- */
/* The snapshot that window w of snapshot i begins with. */
const struct snap_info *window_start(const struct snap_list *all, const struct snap_info *i,
                                     size_t w);

/* -- access.c -- */
/* May they read it? 0 or -EACCES. */
int access_ask(const struct usage_dir *d, uint8_t file, const struct viewer *who);

/* -- texts -- */
render_fn render_summary, render_children, render_top, render_largest, render_crowded,
	render_errors, render_history, render_growth, render_span;
/* One line of a table: a number, a tab, a path. */
void table_line(const struct usage_dir *d, struct text *out, uint64_t number, const char *path,
                size_t len);
void table_text_line(const struct usage_dir *d, struct text *out, const char *first,
                     const char *path, size_t len);

static inline bool usage_is_stopped(const struct usage_dir *d)
{
	return d->stop && atomic_load_explicit(d->stop, memory_order_relaxed);
}

/* -- best.c: the greatest below a directory without reading everything -- */
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

#endif
