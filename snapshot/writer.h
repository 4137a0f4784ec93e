/* SPDX-License-Identifier: MIT */
/*
 * writer - what the files that write a snapshot share; private to snapshot/.
 *
 *     writer.c   listing() and node(), begin, commit, abort
 *     builder.c  packs in the making
 *     stored.c   which nodes are stored already
 *
 * Threads: a builder belongs to one worker; what several touch is atomic or names its lock.
 */
#ifndef SNAPSHOT_WRITER_H
#define SNAPSHOT_WRITER_H

#include "snapshot/lookup.h"
#include "snapshot/mark.h"

struct state;

/* The newest times of nodes: none is later than newest, or it lies between first and last. */
struct node_times {
	int64_t newest;
	int64_t future_first,
		future_last; /* of those later than the horizon of the scan that stored them */
};
#define TIMES_NONE ((struct node_times){ INT64_MIN, INT64_MAX, INT64_MIN })

struct stored {              /* s->lock guards what names nothing else */
	_Atomic bool opened; /* known and lookup are there */
	_Atomic bool all;    /* known has all that is stored */
	bool damaged;        /* the lookup is */
	struct known *known; /* of the packs that were read; locked by itself */
	struct lookup lookup;
	sqlite3_stmt *get;
	struct marks read; /* packs */
	uint64_t asked;
};

struct builder { /* a worker's pack in the making */
	uint64_t id;
	struct packer pack;
	struct bytes scratch;
	/* Of the previous snapshot, pinned: the next is mostly in the same pack. */
	struct snap_node near;
	struct node_times times; /* of what is in the packs */
	struct state *spare;     /* of a directory that is finished */
	struct node_child *children;
	struct snap_fingerprint *child_fps;
	size_t children_cap, fps_cap;
};

struct snap_writer {
	struct snap *s;
	char *root, *options;
	size_t options_len;
	int64_t root_id;
	enum snap_mode mode;
	bool meta_is_whole;
	struct snap_info before; /* the previous snapshot, if it was looked for and is there */
	uint64_t previous;       /* root node to walk beside, 0 if none */
	int64_t trusted_until;   /* --quick: directories changed later than this are read */
	struct scan_sink sink;
	sqlite3_stmt *insert; /* s->lock */
	_Atomic int error;    /* the first -errno of a callback */
	_Atomic uint64_t next_pack, nodes_written, listings_written;
	struct known *fresh;  /* the nodes of this scan */
	struct stored stored; /* ... and of all before */
	uint64_t first_pack;  /* of this scan */
	struct node_times times, times_stored;
	int64_t horizon; /* later times are the future */
	struct builder *_Atomic builder[SCAN_THREADS_MAX];
};

/* The worker's own; NULL: no memory. */
struct builder *builder_of(struct snap_writer *w, unsigned worker);
void builder_free(struct snap_writer *w, struct builder *b);
/* Add a node, whose children are in b, to the pack; n->ref says where. */
int builder_append(struct snap_writer *w, struct builder *b, const struct snap_node *n,
                   const struct node_key *key, const uint8_t *listing, size_t len);
/* Store the pack, if there is anything in it, and begin a new one. */
int builder_flush(struct snap_writer *w, struct builder *b);

void times_add(struct node_times *t, int64_t newest, int64_t horizon);
/* Read where packs begin and how new they are; write it, with what the lookup needs to know. Lock held. */
int stored_begin(struct snap_writer *w);
int stored_commit(struct snap_writer *w);
/* The ref and check of a node that was stored before this scan began; *ref 0: there is none. */
int stored_find(struct snap_writer *w, const struct node_key *key, int64_t newest, uint64_t *ref,
                uint32_t *check);
void stored_done(struct stored *st);

#endif
