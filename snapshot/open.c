/* SPDX-License-Identifier: MIT */
/* open - opens the index file: who may, which format, how SQLite is set up; creates it. */
#include "snapshot/internal.h"

#include <stdio.h>
#include <sys/random.h>

/* sqlite3_open_v2() takes special characters only percent-encoded in a URI. */
static char *immutable_uri(const char *path)
{
	char *uri = malloc(strlen(path) * 3 + 32), *p = uri;

	if (!uri)
		return NULL;
	p += sprintf(p, "file:");
	for (; *path; path++)
		p += strchr("?#%", *path) ? sprintf(p, "%%%02X", (unsigned char)*path)
		                          : sprintf(p, "%c", *path);
	(void)sprintf(p, "?immutable=1");
	return uri;
}

static int try_open(const char *path, int flags, sqlite3 **ret)
{
	sqlite3 *db = NULL;
	int64_t version;
	int rc = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
	                         PLACE_VFS),
	    r;

	if (rc == SQLITE_OK)
		store_patience(db, true);
	r = rc == SQLITE_OK ? store_int(db, "PRAGMA schema_version", &version) : snap_errno(rc);
	if (r < 0) {
		(void)sqlite3_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

/*
 * On a read-only medium a file in WAL mode opens only as immutable, and that is right only if no log is
 * left beside it: it would be ignored, and the newest snapshots with it.
 */
static int open_read_only(const struct place *p, sqlite3 **ret)
{
	AUTO(base_free) char *uri = NULL;
	struct stat st;
	int r = try_open(p->file, SQLITE_OPEN_READONLY, ret);

	if (r != -EACCES && r != -EROFS)
		return r;
	if (place_stat(p, "-wal", &st) == 0 && st.st_size > 0)
		return -ENOLINK;
	uri = immutable_uri(p->file);
	return uri ? try_open(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, ret) : -ENOMEM;
}

static int set_up(sqlite3 *db, unsigned flags)
{
	int keep_log = 1;
	int r = store_exec(db, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"
	                       "PRAGMA cache_size=-128; PRAGMA temp_store=MEMORY;");

	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	if (r < 0 || !(flags & SNAP_WRITE))
		return r;
	/* A reader caches packs itself; a writer gains from pages in memory. */
	r = store_exec(db, "PRAGMA cache_size=-512");
	if (r < 0)
		return r;
	/* An empty log file left in place spares its directory a sync at each snapshot. */
	(void)sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep_log);
	return store_exec(db, "PRAGMA secure_delete=OFF; PRAGMA synchronous=FULL;"
	                      "PRAGMA journal_size_limit=4194304; PRAGMA foreign_keys=ON;");
}

static int store_connect(struct snap *s)
{
	int r = place_open(s->path, s->flags & SNAP_WRITE, &s->place);

	if (r == 0)
		r = s->flags & SNAP_WRITE ? try_open(s->place.file, SQLITE_OPEN_READWRITE, &s->db)
		                          : open_read_only(&s->place, &s->db);
	return r == 0 ? set_up(s->db, s->flags) : r;
}

static int store_secret(sqlite3 *db)
{
	uint8_t secret[SECRET_SIZE];
	sqlite3_stmt *st;
	int rc;

	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	rc = sqlite3_prepare_v2(
		db,
		"INSERT INTO meta VALUES ('next_pack', 1), ('newest', ?1), ('future_last', ?1),"
		" ('future_first', ?3), ('secret', ?2), ('last', 0)",
		-1, &st, NULL);
	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, INT64_MIN);
		(void)sqlite3_bind_int64(st, 3, INT64_MAX);
		(void)sqlite3_bind_blob(st, 2, secret, sizeof(secret), SQLITE_STATIC);
		rc = sqlite3_step(st);
	}
	(void)sqlite3_finalize(st);
	return rc == SQLITE_DONE ? seal_meta(db, secret) : snap_errno(rc);
}

static int create_tables(sqlite3 *db)
{
	char *sql = sqlite3_mprintf(
		"PRAGMA application_id=%d; PRAGMA user_version=%d;"
		"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
		"CREATE TABLE root(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);"
		"CREATE TABLE " PACK_TABLE ";"
		"CREATE TABLE lookup(id INTEGER PRIMARY KEY, sum INT, data BLOB);",
		SNAP_APPLICATION_ID, SNAP_FORMAT);
	int r = sql ? store_exec(db, sql) : -ENOMEM;

	sqlite3_free(sql);
	if (r == 0)
		r = catalog_create(db);
	return r == 0 ? store_secret(db) : r;
}

static int is_empty(sqlite3 *db, bool *ret)
{
	int64_t objects = 0;
	int r = store_int(db, "SELECT count(*) FROM sqlite_schema", &objects);

	*ret = objects == 0;
	return r;
}

/*
 * A log beside a file of no bytes is thrown away (SQLite's pagerOpenWalIfPresent), so the file has to be there.
 * By the connection's own descriptor: closing another one of the same file would give up all its locks (fcntl(2)),
 * and the next process that closes the index would take away the log that is being written.
 */
static int sync_file(sqlite3 *db)
{
	sqlite3_file *file = NULL;
	int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

	if (rc == SQLITE_OK)
		rc = file && file->pMethods
		             ? file->pMethods->xSync(file,
		                                     SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY)
		             : SQLITE_IOERR;
	return snap_errno(rc);
}

/*
 * A new file gets its tables in one transaction, so a killed process leaves it empty or whole. There is
 * nothing to lose yet, so the transaction is not waited for: it lies in the log, which the first snapshot
 * makes durable with itself.
 */
static int create_index(sqlite3 *db)
{
	bool empty;
	int full,
		r = store_exec(
			db,
			"PRAGMA synchronous=OFF; PRAGMA page_size=4096;"
			"PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE;");

	if (r == 0)
		r = is_empty(db, &empty); /* another process may have been faster */
	if (r == 0 && empty)
		r = create_tables(db);
	if (r == 0)
		r = store_exec(db, "COMMIT");
	if (r < 0 && !sqlite3_get_autocommit(db))
		(void)store_exec(db, "ROLLBACK");
	full = store_exec(db,
	                  "PRAGMA synchronous=FULL;"); /* also when another process was faster */
	if (r == 0)
		r = full;
	return r == 0 ? sync_file(db) : r;
}

/* Changing the journal does not wait for others (sqlite3_busy_handler), so several at once take turns. */
static int create_or_wait(sqlite3 *db)
{
	const struct timespec pause = { 0, 20000000 };
	bool empty = true;
	int r = -EBUSY;

	for (int i = 0; r == -EBUSY && i < BUSY_MS / 20; i++) {
		if (i > 0)
			(void)nanosleep(&pause, NULL);
		r = is_empty(db, &empty);
		if (r == 0 && empty)
			r = create_index(db);
	}
	return r;
}

static int check_format(sqlite3 *db, int64_t *version)
{
	int64_t id = 0;
	int r = store_int(db, "PRAGMA application_id", &id);

	if (r == 0)
		r = store_int(db, "PRAGMA user_version", version);
	if (r < 0)
		return r;
	if (id != SNAP_APPLICATION_ID)
		return -EMEDIUMTYPE;
	if (*version > SNAP_FORMAT)
		return -EPROTONOSUPPORT;
	if (*version < 1)
		return -EUCLEAN;
	return *version == SNAP_FORMAT || store_can_migrate(*version) ? 0 : -EPROTO;
}

static int load_secret(struct snap *s)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key='secret'", -1, &st,
	                            NULL);
	int r = snap_errno(rc);

	if (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW &&
	    sqlite3_column_bytes(st, 0) == SECRET_SIZE) {
		memcpy(s->secret, sqlite3_column_blob(st, 0), SECRET_SIZE);
		s->seed = snap_hash(s->secret, SECRET_SIZE, 0);
	} else {
		r = r ? r : -EUCLEAN;
	}
	(void)sqlite3_finalize(st);
	return r;
}

static int prepare(struct snap *s)
{
	int rc = sqlite3_prepare_v3(s->db, "SELECT " PACK_COLUMNS " FROM pack WHERE id=?", -1,
	                            SQLITE_PREPARE_PERSISTENT, &s->get_pack, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v3(s->db, "SELECT " PACK_HEAD_COLUMNS " FROM pack WHERE id=?",
		                        -1, SQLITE_PREPARE_PERSISTENT, &s->get_head, NULL);

	return snap_errno(rc);
}

/* While a tree is read it is held for some microseconds at a time: waiting for it asleep would take longer. */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	(void)pthread_mutexattr_init(&attr);
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	(void)pthread_mutex_init(lock, &attr);
	(void)pthread_mutexattr_destroy(&attr);
}

/* For who only wants to read: an older format is brought up to date by another handle, if it can be written. */
static int convert(const char *path)
{
	struct snap *s;
	int r = snap_open(path, SNAP_WRITE, &s);

	if (r == 0)
		snap_close(s);
	return r == -EACCES || r == -EROFS || r == -EPERM ? -EOPNOTSUPP : r;
}

int snap_open(const char *path, unsigned flags, struct snap **ret)
{
	AUTO(snap_close) struct snap *s = calloc(1, sizeof(*s));
	int64_t version = SNAP_FORMAT;
	bool empty = false;
	int r;

	if (!s)
		return -ENOMEM;
	init_lock(&s->lock);
	s->flags = flags;
	s->place.dir = -1;
	s->path = strdup(path);
	s->cache = cache_new();
	if (!s->path || !s->cache)
		return -ENOMEM;
	r = store_connect(s);
	if (r == 0)
		r = is_empty(s->db, &empty);
	if (r == 0 && empty)
		r = flags & SNAP_WRITE ? create_or_wait(s->db) : -EMEDIUMTYPE;
	if (r == 0)
		r = check_format(s->db, &version);
	if (r == 0)
		r = load_secret(s);
	if (r == 0 && version < SNAP_FORMAT)
		r = flags & SNAP_WRITE ? store_migrate(s) : convert(path);
	if (r == 0)
		r = prepare(s);
	if (r == -EACCES && flags & SNAP_WRITE)
		r = place_why(&s->place, r);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

void snap_close(struct snap *s)
{
	if (!s)
		return;
	(void)sqlite3_finalize(s->get_pack);
	(void)sqlite3_finalize(s->get_head);
	(void)sqlite3_finalize(s->get_version);
	(void)sqlite3_close(s->db);
	place_done(&s->place);
	cache_free(s->cache);
	(void)pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

const char *snap_path(const struct snap *s)
{
	return s->path;
}

uint64_t snap_file_bytes(const struct snap *s)
{
	struct stat st;
	uint64_t n = place_stat(&s->place, "", &st) == 0 ? (uint64_t)st.st_size : 0;

	return place_stat(&s->place, "-wal", &st) == 0 ? n + (uint64_t)st.st_size : n;
}

int snap_default_path(char **ret)
{
	const char *env = getenv("DISKTRACKER_INDEX"), *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int n;

	if (env && *env)
		n = asprintf(ret, "%s", env);
	else if (geteuid() == 0)
		n = asprintf(ret, "/var/lib/disktracker/index.db");
	else if (state && *state == '/')
		n = asprintf(ret, "%s/disktracker/index.db", state);
	else if (home && *home)
		n = asprintf(ret, "%s/.local/state/disktracker/index.db", home);
	else
		return -ENOENT;
	return n < 0 ? -ENOMEM : 0;
}
