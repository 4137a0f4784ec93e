/* SPDX-License-Identifier: MIT */
/*
 * db - SQLite as we use it: errors, single statements, transactions.
 *
 * One connection per handle, used under the handle's lock. Reads happen inside a transaction that stays
 * open until snap_release(): single reads outside of one cost five times as much.
 */
#include "snapshot/internal.h"

#include <sys/statvfs.h>

enum {
	RESERVE_MIN = 64 << 10,
	RESERVE_SMALL = 256 << 10, /* of an index up to some megabytes, at most */
};

/*
 * A full disk, and a limit that is reached, show in any call, and the one that failed set errno last. Of a lock
 * that no process holds SQLite says busy, or that the others do not follow the protocol.
 */
int snap_errno(int sqlite_rc)
{
	int r;

	switch (sqlite_rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		r = place_lock_error();
		return r ? r : -EBUSY;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOTADB:
		return -EMEDIUMTYPE;
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_CANTOPEN:
		return -EACCES;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_TOOBIG:
		return -EOVERFLOW;
	case SQLITE_IOERR:
		r = place_lock_error();
		if (r)
			return r;
		r = errno;
		return r == ENOSPC || r == EDQUOT || r == EFBIG ? -r : -EIO;
	default: /* CORRUPT, and a schema or value that we did not write */
		return -EUCLEAN;
	}
}

const char *snap_strerror(int error)
{
	static const struct {
		int error;
		const char *sentence;
	} table[] = {
		{ EBUSY, "another process is writing to it" },
		{ ENOSPC, "no space left on its device" },
		{ EDQUOT, "no space left for its owner: the disk quota is used up" },
		{ EFBIG, "no space left: the limit on the size of a file (ulimit -f) is reached" },
		{ EMEDIUMTYPE, "not a DiskTracker index" },
		{ EPROTONOSUPPORT, "written by a newer version of DiskTracker" },
		{ EPROTO,
		  "in the format of a version before the first release: move it away and scan again" },
		{ EOPNOTSUPP,
		  "written by an older version of DiskTracker, and converting it needs the right to write it" },
		{ EUCLEAN, "damaged" },
		{ ESTALE,
		  "a part of it is missing: damaged, or just pruned; 'disktracker check' tells" },
		{ ENOLINK,
		  "the log beside it cannot be used, since its directory cannot be written" },
		{ ENOLCK, "its file system cannot lock files, or has no locks left" },
		{ EROFS, "it cannot be written" },
		{ EPERM, "owned or writable by somebody else; refused" },
		{ ENOTUNIQ,
		  "its directory is owned or writable by somebody else, who could exchange it; refused" },
		{ ELOOP, "a symbolic link; refused, name what it leads to" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].error == -error)
			return table[i].sentence;
	return strerror(-error);
}

/* For at most about BUSY_MS; there is no use in waiting for a lock that no other process holds. */
static int wait_for_lock(void *db, int tries)
{
	enum {
		FAST = 6,
		SLOW_MS = 50
	};

	(void)db;
	if (place_lock_failed() || tries >= FAST + BUSY_MS / SLOW_MS)
		return 0;
	(void)sqlite3_sleep(tries < FAST ? 1 << tries : SLOW_MS);
	return 1;
}

void store_patience(sqlite3 *db, bool patient)
{
	(void)sqlite3_busy_handler(db, patient ? wait_for_lock : NULL, NULL);
}

int store_exec(sqlite3 *db, const char *sql)
{
	return snap_errno(sqlite3_exec(db, sql, NULL, NULL, NULL));
}

int store_int(sqlite3 *db, const char *sql, int64_t *ret)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return rc == SQLITE_ROW ? 0 : rc == SQLITE_DONE ? -EUCLEAN : snap_errno(rc);
}

int store_bytes(struct snap *s, uint64_t *ret)
{
	int64_t pages = 0, size = 0;
	int r = store_int(s->db, "PRAGMA page_count", &pages);

	if (r == 0)
		r = store_int(s->db, "PRAGMA page_size", &size);
	*ret = (uint64_t)(pages * size);
	return r;
}

/* Call with the lock held. */
int store_begin_read(struct snap *s)
{
	int r = 0;

	if (!s->in_read) {
		r = store_exec(s->db, "BEGIN");
		s->in_read = r == 0;
	}
	return r;
}

int store_begin_write(struct snap *s)
{
	int r = -EBUSY;

	(void)pthread_mutex_lock(&s->lock);
	if (s->in_read && !s->writing) {
		(void)store_exec(s->db, "COMMIT");
		s->in_read = false;
	}
	if (!s->writing) {
		store_patience(s->db, false);
		r = store_exec(s->db, "BEGIN IMMEDIATE");
		store_patience(s->db, true);
	}
	if (r == 0)
		s->in_read = s->writing = true, s->lost = 0;
	(void)pthread_mutex_unlock(&s->lock);
	return r;
}

/*
 * Removing a snapshot writes every pack that it shares with others: some 50 KiB in the smallest index, all of it in
 * one of a few packs, a small part of a large one.
 */
static uint64_t log_reserve(const struct snap *s)
{
	struct stat st;
	uint64_t size;

	if (place_stat(&s->place, "", &st) < 0)
		return 0;
	size = (uint64_t)st.st_size;
	return MIN(MAX(size + size / 8, RESERVE_MIN), MAX(size / 32, RESERVE_SMALL));
}

void store_fold_log(struct snap *s)
{
	store_patience(s->db, false);
	(void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	store_patience(s->db, true);
	place_reserve(&s->place, log_reserve(s));
}

int store_in_write(struct snap *s, int r)
{
	if (!s->writing || !sqlite3_get_autocommit(s->db))
		return r;
	if (!s->lost)
		s->lost = r < 0 ? r : -EIO;
	return s->lost;
}

/*
 * The log may lie in the space that is reserved for it. If the file can't grow by what it holds, it can't be folded
 * back, and the reserve is gone for prune.
 */
static int check_room(struct snap *s)
{
	struct statvfs fs;
	struct stat st;
	uint64_t size = 0;
	int r = store_bytes(s, &size);

	if (r < 0 || place_stat(&s->place, "", &st) < 0 || size <= (uint64_t)st.st_size ||
	    fstatvfs(s->place.dir, &fs) < 0 || fs.f_blocks == 0)
		return r;
	return size - (uint64_t)st.st_size <= fs.f_bfree * fs.f_frsize ? 0 : -ENOSPC;
}

int store_commit(struct snap *s)
{
	int r = check_room(s);

	return r == 0 ? store_exec(s->db, "COMMIT") : r;
}

void store_end_write(struct snap *s)
{
	(void)pthread_mutex_lock(&s->lock);
	if (s->writing) {
		if (!sqlite3_get_autocommit(s->db))
			(void)store_exec(s->db, "ROLLBACK");
		s->in_read = s->writing = false;
		/* What a failed one left in the log would be cut off when it is closed, and the reserve with it. */
		store_fold_log(s);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

void snap_release(struct snap *s)
{
	(void)pthread_mutex_lock(&s->lock);
	if (s->in_read && !s->writing) {
		(void)store_exec(s->db, "COMMIT");
		s->in_read = false;
	}
	(void)pthread_mutex_unlock(&s->lock);
}

int snap_data_version(struct snap *s, uint64_t *ret)
{
	int rc = SQLITE_OK;

	snap_release(s);
	(void)pthread_mutex_lock(&s->lock);
	if (!s->get_version)
		rc = sqlite3_prepare_v3(s->db, "PRAGMA data_version", -1, SQLITE_PREPARE_PERSISTENT,
		                        &s->get_version, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s->get_version);
	if (rc == SQLITE_ROW)
		*ret = (uint64_t)sqlite3_column_int64(s->get_version, 0);
	(void)sqlite3_reset(s->get_version);
	(void)pthread_mutex_unlock(&s->lock);
	return rc == SQLITE_ROW ? 0 : snap_errno(rc);
}
