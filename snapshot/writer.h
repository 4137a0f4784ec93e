/* SPDX-License-Identifier: MIT */
/*
 * writer - what the files that write a snapshot share; private to snapshot/.
 *
 *     writer.c   listing() and node(), begin, commit, abort
 *     builder.c  packs in the making, and the fingerprints that are stored already
 *
 * Threads: a builder belongs to one worker; what several touch is atomic or names its lock.
 */
#ifndef SNAPSHOT_WRITER_H
#define SNAPSHOT_WRITER_H

#include "snapshot/internal.h"

struct state;

struct builder { /* a worker's pack in the making */
	uint64_t id;
	struct packer pack;
	struct bytes scratch;
	/* Of the previous snapshot, pinned: the next is mostly in the same pack. */
	struct snap_node near;
	struct state *spare; /* of a directory that is finished */
	struct node_kid *kids;
	struct snap_fingerprint *kid_fps;
	size_t kids_cap, fps_cap;
};

struct snap_writer {
	struct snap *s;
	char *root, *options;
	size_t options_len;
	int64_t root_id;
	enum snap_mode mode;
	uint64_t previous;     /* root node to walk beside, 0 if none */
	int64_t trusted_until; /* --quick: directories changed later than this are read */
	struct scan_sink sink;
	sqlite3_stmt *insert; /* s->lock */
	_Atomic int error;    /* the first -errno of a callback */
	_Atomic uint64_t next_pack, nodes_written, listings_written;
	/*
	 * Which nodes there are already. One that is newer than anything stored cannot be among the
	 * stored ones, so those are only loaded for one that is not: most changes are new.
	 */
	int64_t newest_stored;        /* no stored node is newer */
	struct known *fresh;          /* of this scan */
	pthread_mutex_t stored_lock;  /* loading */
	struct known *_Atomic stored; /* of all snapshots; set once, then only read */
	struct builder *_Atomic builder[SCAN_THREADS_MAX];
};

/* The worker's own; NULL: no memory. */
struct builder *builder_of(struct snap_writer *w, unsigned worker);
void builder_free(struct snap_writer *w, struct builder *b);
/* Add a node, whose kids are in b, to the pack; n->ref says where. */
int builder_append(struct snap_writer *w, struct builder *b, const struct snap_node *n,
                   const struct node_key *key, const uint8_t *listing, size_t len);
/* Store the pack, if there is anything in it, and begin a new one. */
int builder_flush(struct snap_writer *w, struct builder *b);
/* The fingerprints of all stored nodes; loaded by the first who asks. */
int builder_stored(struct snap_writer *w, struct known **ret);

#endif
