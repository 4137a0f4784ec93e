/* SPDX-License-Identifier: MIT */
/*
 * internal - what the files of snapshot/ share. Nothing outside includes this.
 */
#ifndef SNAPSHOT_INTERNAL_H
#define SNAPSHOT_INTERNAL_H

#include "base/bytes.h"
#include "base/varint.h"
#include "scanner/entry_codec.h"
#include "snapshot/snapshot.h"

#include <assert.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>

enum {
	SNAP_APPLICATION_ID = 0x44546b72, /* "DTkr" */
	SNAP_FORMAT = 3,
	SECRET_SIZE = 192,
	RESTART = ENTRY_RESTART,
	REF_SLOT_BITS = 12, /* ref = pack id << 12 | slot */
	PACK_SLOTS_MAX = 1 << REF_SLOT_BITS,
	PACK_TARGET = 16 * 1024, /* raw bytes after which a pack is closed */
	PACK_RAW_MAX = 1 << 30,  /* bytes of either part */
	AUDIENCE_MAX = 12 * VARINT_MAX,
	FP_STORED = 20, /* fingerprint and the check of what it stands for */
	CODEC_RAW = 0,
	CODEC_ZSTD = 1,
	CACHE_DEFAULT = 8 << 20,
	CACHE_WRITER =
		256 << 10, /* it walks along each tree once; memory used again is faster than new */
};

/* -- listing.c: the canonical form of a directory's entries -- */
struct listing_encoder {
	struct entry_encoder entries;
	uint64_t names; /* see names_hash() */
};

/* seed: that of the index. */
int listing_begin(struct listing_encoder *e, struct bytes *out, const struct scan_dirinfo *dir,
                  uint64_t seed);
int listing_add(struct listing_encoder *e, const struct scan_entry *entry);
/*
 * The hash of the names of all sub-directories that have a place among the children, in their order: begins
 * with the seed, takes up each. Where it is the same in two nodes, so are the names, child by child.
 */
uint64_t names_hash(uint64_t before, const char *name, size_t len);
struct restart_point {
	uint32_t entry, child; /* offsets in the encoded entries and children */
	uint64_t last_ref;
};

struct node_index {
	struct restart_point *at;
	size_t n, bytes;
};

struct node_index *node_index_new(const struct snap_node *n);
void node_index_free(struct node_index *i);

/* -- record.c: the head of a node as it lies in a pack -- */
struct node_child {
	uint64_t ref; /* 0: none, problem says why */
	uint8_t problem;
	int error;
};

/* Append a head; self is the ref the node gets. 0 or -ENOMEM. */
int record_add(struct bytes *out, uint64_t self, const struct snap_node *n,
               const struct node_child *children);
int record_parse(const uint8_t *p, const uint8_t *end, struct snap_node *ret);
int record_listing(const uint8_t *p, const uint8_t *end, struct snap_node *ret);
uint64_t child_word(const struct node_child *k);
/* Next child of a head; false when malformed. */
bool record_next_child(const uint8_t **p, const uint8_t *end, uint64_t *last_ref,
                       struct node_child *ret);
/* All children of a node into *ret, which grows as needed. 0, -ENOMEM, -EUCLEAN. */
int record_children(const struct snap_node *n, struct node_child **ret, size_t *cap);
struct node_child child_from_word(uint64_t word);
/* Append the sums for the audience that differ from the totals; room for AUDIENCE_MAX bytes. */
uint8_t *record_put_audience(uint8_t *p, const struct snap_node *n);
/* A number that two equal nodes share: their totals and length, to check a fingerprint's promise. */
uint32_t record_check(const struct snap_node *n);

/* -- fingerprint.c -- */
struct node_key {
	struct snap_fingerprint fp;
	uint32_t check;
};

/* From the FP_STORED bytes of a slot. */
static inline struct node_key node_key_at(const uint8_t *p)
{
	struct node_key key;

	memcpy(key.fp.b, p, sizeof(key.fp.b));
	memcpy(&key.check, p + sizeof(key.fp.b), sizeof(key.check));
	return key;
}

/* Of n the sums, the listing and the number of children. What scratch held is lost. 0 or -ENOMEM. */
int fingerprint_node(const uint8_t *secret, struct bytes *scratch, const struct snap_node *n,
                     const struct node_child *children, const struct snap_fingerprint *child_fps,
                     struct snap_fingerprint *ret);
/* What two blobs of a pack's row hash to; its id is part of it, so rows cannot be exchanged. */
uint64_t pack_sum(const uint8_t *secret, uint64_t id, const void *a, size_t a_len, const void *b,
                  size_t b_len);

/* -- pack.c: rows of the pack table, and making them -- */
#define PACK_HEAD_COLUMNS "id, codec, size, sum, head" /* SQLite reads what is asked for */
#define PACK_COLUMNS      PACK_HEAD_COLUMNS ", list_codec, list_sum, fps, list"
#define PACK_VALUES       "INTO pack VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define PACK_TABLE                                                   \
	"pack(id INTEGER PRIMARY KEY, codec INT, size INT, sum INT," \
	" head BLOB, list_codec INT, list_sum INT, fps BLOB, list BLOB)"

struct snap_pack;
struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

struct pack_row { /* what it points to belongs to the statement or the packer it comes from */
	uint64_t id, sum, list_sum;
	int codec, list_codec;
	int64_t size;
	const uint8_t *head, *fps, *list;
	size_t head_len, fps_len, list_len;
};

/* A row of PACK_COLUMNS; fps and list are NULL unless wanted. 0 or -EUCLEAN. */
int pack_row_read(sqlite3_stmt *st, bool lists, struct pack_row *ret);
/* The row of a pack, -ESTALE if there is none; good until pack_row_done(), which follows in any case. */
int pack_row_find(struct snap *s, uint64_t id, bool lists, struct pack_row *ret);
void pack_row_done(struct snap *s, bool lists);
/* Is the sum of the heads right; of fingerprints and list, which must have been read? */
bool pack_heads_are_whole(const struct snap *s, const struct pack_row *row);
bool pack_lists_are_whole(const struct snap *s, const struct pack_row *row);
/* Unpack what a codec made of size bytes; *ret is to be freed, also after an error. 0, -ENOMEM, -EUCLEAN. */
int pack_unpack(struct ZSTD_DCtx_s *zstd, int codec, const uint8_t *data, size_t len, size_t size,
                uint8_t **ret);
/* Run a statement that takes the columns as ?1 to ?9. */
int pack_row_write(sqlite3_stmt *st, const struct pack_row *row);

struct packer { /* a pack in the making; zeros are an empty one */
	struct bytes heads, lists, lens, fps;
	struct bytes raw, packed_head, packed_list;
	size_t n;
	struct ZSTD_CCtx_s *zstd;
};

/* Append a node; n->ref is what it will be. */
int packer_add(struct packer *p, const struct snap_node *n, const struct node_child *children,
               const uint8_t *listing, size_t len, const struct node_key *key);
/* Append a slot of another pack as it is; an empty one. */
int packer_copy(struct packer *p, const struct snap_pack *from, size_t slot);
int packer_skip(struct packer *p);
bool packer_is_full(const struct packer *p);
/* Compress what there is into a row, good until the packer is used again. */
int packer_finish(struct packer *p, const uint8_t *secret, uint64_t id, struct pack_row *ret);
void packer_reset(struct packer *p);
void packer_done(struct packer *p);

/* -- known.c: fingerprint -> ref, for many threads -- */
struct known;
struct known *known_new(void);
void known_free(struct known *k);
/* Lock the part that holds fp; then known_find() and known_add(); then unlock. */
void known_lock(struct known *k, const struct snap_fingerprint *fp);
void known_unlock(struct known *k, const struct snap_fingerprint *fp);
uint64_t known_find(struct known *k, const struct snap_fingerprint *fp, uint32_t *check);
int known_add(struct known *k, const struct node_key *key, uint64_t ref);

/* -- place.c -- */
#define PLACE_VFS "disktracker" /* for sqlite3_open_v2() of a place's file */

struct place {
	int dir;    /* of the index, held open; -1: none */
	char *name; /* in there */
	char *file; /* both, for SQLite */
};

/*
 * Find the index; write: make it and its directory if missing. -EPERM, -ENOTUNIQ (the directory): not safe for root.
 * place_done() in any case.
 */
int place_open(const char *path, bool write, struct place *ret);
void place_done(struct place *p);
/* Of the index ("") or what lies beside it ("-wal", "-shm"). */
int place_stat(const struct place *p, const char *suffix, struct stat *ret);
/* Keep this much space for the log, which without it could not be written on a full disk: prune could free nothing. */
void place_reserve(const struct place *p, uint64_t bytes);
/*
 * SQLite says that it cannot open something (r), and the index itself may be written: then what lies beside it
 * cannot be made, for reasons that SQLite keeps to itself. Returns the reason.
 */
int place_why(const struct place *p, int r);
/* Why the last lock that this thread asked for failed, if not for another process: -ENOLCK, -EIO; then forgets it. */
int place_lock_error(void);
bool place_lock_failed(void);

/* -- db.c -- */
enum {
	BUSY_MS = 5000 /* how long a reader waits for a lock that is held for a moment */
};

struct snap {
	char *path; /* as it was given, for people */
	struct place place;
	unsigned flags;
	uint8_t secret[SECRET_SIZE];
	uint64_t seed;        /* derived from the secret */
	pthread_mutex_t lock; /* guards all below */
	sqlite3 *db;
	sqlite3_stmt *get_pack, *get_head, *get_version;
	bool in_read; /* a transaction is open */
	bool writing; /* ... and a snap_writer owns it */
	int lost;     /* why SQLite rolled that back, 0 if it did not */
	struct pack_cache *cache;
	uint64_t rows_read; /* packs and lookups: what a question costs */
};

int snap_errno(int sqlite_rc);
/* Wait a while for locks that others hold, as is the rule, or not at all. */
void store_patience(sqlite3 *db, bool patient);
int store_exec(sqlite3 *db, const char *sql);
/* The first column of the first row. */
int store_int(sqlite3 *db, const char *sql, int64_t *ret);
/* Size of the index as this transaction sees it. */
int store_bytes(struct snap *s, uint64_t *ret);
int store_begin_read(struct snap *s);
/* Take the write lock and begin a transaction; -EBUSY if somebody has it. Both take the handle's lock. */
int store_begin_write(struct snap *s);
/*
 * Fold the log back into the file, as far as readers let it, without waiting for them, and reserve space for the
 * next one. Lock held, or alone.
 */
void store_fold_log(struct snap *s);
/* -ENOSPC also where the log would have room, but the file not for what the log holds. Lock held. */
int store_commit(struct snap *s);
/* Roll back unless it was committed. */
void store_end_write(struct snap *s);
/*
 * After a statement of a transaction that several threads work in, with the lock held: remembers the error
 * that made SQLite roll it back, and gives that in place of any that follows from it. Returns r otherwise.
 */
int store_in_write(struct snap *s, int r);

/* -- migrate.c -- */
struct migration {
	int64_t from; /* the format that it begins with; then it is the next */
	int (*run)(struct snap *s);
};

/* Take the steps, of which the last has no run, until the format is to; all in one transaction. */
int migrate_steps(struct snap *s, const struct migration *steps, int64_t to);
/* Is there a step for this format? */
bool store_can_migrate(int64_t version);
int store_migrate(struct snap *s);

/* -- seal.c -- */
/* A sum of the first n columns. */
uint64_t seal_row(const uint8_t *secret, sqlite3_stmt *st, int n);
/* After the last change to meta, or to the tables, in a transaction. */
int seal_meta(sqlite3 *db, const uint8_t *secret);
int seal_meta_check(sqlite3 *db, const uint8_t *secret, bool *ret);
/* Run a statement with ?1, and ?2 if it has that. */
int seal_set(sqlite3 *db, const char *sql, int64_t value, int64_t id);

/* -- catalog.c: call with the lock held -- */
int catalog_create(sqlite3 *db);
/* The id of a root; with create it is added. -ENOENT if there is none. */
int catalog_root(struct snap *s, const char *path, bool create, int64_t *ret);
/* Is meta whole? If not, its numbers are not to be used; -EUCLEAN: nor can anything be added, the key is another. */
int catalog_begin(struct snap *s, bool *whole);
/* Add a snapshot row, with details, as the last change of a transaction; sets i->id and seals meta. */
int catalog_add(struct snap *s, int64_t root, struct snap_info *i);
/* Rows of snapshots that meet a condition on ?1; the id is the statement's first column. */
int catalog_select(struct snap *s, const char *condition, int64_t value, sqlite3_stmt **ret);
/* Of such a row: is it as it was written; the id of the row before it, as it says. */
bool catalog_is_whole(struct snap *s, sqlite3_stmt *st);
int64_t catalog_before(sqlite3_stmt *st);
/* *i is all zeros; to be given up with snap_info_done() in any case. -EUCLEAN: not whole. */
int catalog_read(struct snap *s, sqlite3_stmt *st, bool details, struct snap_info *i);
/* The newest snapshot of a root that is whole, with details. -ENOENT if there is none. */
int catalog_latest(struct snap *s, int64_t root, struct snap_info *ret);
/* Remove rows; ids ascend. */
int catalog_remove(struct snap *s, const int64_t *ids, size_t n);
/* Make a row that was changed right. */
int catalog_seal(struct snap *s, int64_t id);

/* -- unpack.c -- */

/*
 * The larger part of a pack: often not needed, since heads say what there is below, and fingerprints whether
 * it is the same.
 */
struct pack_lists {
	uint8_t *fps; /* n * FP_STORED */
	uint8_t *list;
	uint32_t *at; /* n + 1; comes with list */
};

struct snap_pack {
	uint64_t id, sum; /* as in its row: prune may write another one */
	uint8_t *head;
	uint32_t *at;              /* n + 1: the head of each slot */
	struct pack_lists lists;   /* each empty until wanted, then fixed: set under snap.lock */
	struct node_index **index; /* snap.lock; NULL as long as no directory is large */
	size_t n, bytes;
	_Atomic unsigned pins;           /* raised from 0, and found to be 0, under snap.lock */
	struct snap_pack *hash_next;     /* snap.lock */
	struct snap_pack *newer, *older; /* snap.lock */
};

/*
 * Unpack a row: its heads into *made unless p has them, fingerprints and lists if it has any. What was made
 * of either is the caller's, also after an error.
 */
int pack_row_unpack(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct pack_row *row,
                    const struct snap_pack *p, struct snap_pack **made, struct pack_lists *lists);
/* Give p what it has not got yet; the rest stays in l. Call with the lock held, or alone. Returns bytes added. */
size_t pack_lists_attach(struct snap_pack *p, struct pack_lists *l);
void pack_lists_done(struct pack_lists *l);
void pack_free(struct snap_pack *p);

/* -- cache.c -- */
struct pack_cache *cache_new(void);
void cache_free(struct pack_cache *c);
/*
 * As snap_head_get(), with the key; without the handle's lock if it lies in the pack of held, which is one
 * that this gave, or empty.
 */
int snap_keyed_head_get(struct snap *s, const struct snap_node *held, uint64_t ref,
                        struct snap_node *ret, struct node_key *key);
/* The stored fingerprint of a node, with and without its check. */
int snap_node_key(struct snap *s, uint64_t ref, struct node_key *ret);
int snap_node_fingerprint(struct snap *s, uint64_t ref, struct snap_fingerprint *ret);

uint64_t cache_virtual_id(struct snap *s);
void cache_add_virtual(struct snap *s, struct snap_pack *p);
/* Is there a node in this slot, or did prune empty it? */
bool pack_has(const struct snap_pack *p, size_t slot);
/* Verify and decode a row, with its lists if it has them. Call with the lock held, or alone. */
int pack_decode(struct snap *s, const struct pack_row *row, struct snap_pack **ret);

#endif
