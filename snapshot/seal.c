/* SPDX-License-Identifier: MIT */
/*
 * seal - a keyed sum over a row, so that it shows when somebody or something has changed it.
 *
 * Values are hashed with their types, texts and blobs with their lengths. What is sealed is read back from the
 * tables, so it is what a reader will see.
 */
#include "snapshot/internal.h"

#include <endian.h>
#include <xxhash.h>

enum {
	COLUMNS_MAX = 64
};

uint64_t seal_row(const uint8_t *secret, sqlite3_stmt *st, int n)
{
	uint64_t v[COLUMNS_MAX * 2];

	assert(n <= COLUMNS_MAX);
	for (int i = 0; i < n; i++) {
		int type = sqlite3_column_type(st, i);
		bool number = type == SQLITE_INTEGER || type == SQLITE_NULL;
		const void *p = number ? NULL : sqlite3_column_blob(st, i);
		size_t len = number ? 0 : (size_t)sqlite3_column_bytes(st, i);

		v[2 * i] = htole64((uint64_t)len << 8 | (uint64_t)type);
		v[2 * i + 1] =
			htole64(number ? (uint64_t)sqlite3_column_int64(st, i)
		                       : XXH3_64bits_withSecret(p, len, secret, SECRET_SIZE));
	}
	return XXH3_64bits_withSecret(v, (size_t)n * 2 * sizeof(v[0]), secret, SECRET_SIZE);
}

/* The sums of all rows of a statement go on into one. */
static int seal_rows(sqlite3 *db, const uint8_t *secret, const char *sql, uint64_t *sum)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	while (snap_errno(rc) == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		uint64_t v[2] = { htole64(*sum),
			          htole64(seal_row(secret, st, sqlite3_column_count(st))) };

		*sum = XXH3_64bits_withSecret(v, sizeof(v), secret, SECRET_SIZE);
	}
	(void)sqlite3_finalize(st);
	return snap_errno(rc);
}

/* Of what the index is: its keys, and its tables. */
static int sum_meta(sqlite3 *db, const uint8_t *secret, uint64_t *ret)
{
	int r;

	*ret = 0;
	r = seal_rows(db, secret, "SELECT key, value FROM meta WHERE key<>'sum' ORDER BY key", ret);
	return r ? r
	         : seal_rows(db, secret,
	                     "SELECT type, name, tbl_name, sql FROM sqlite_schema"
	                     " WHERE name NOT LIKE 'sqlite%' ORDER BY name",
	                     ret);
}

int seal_meta(sqlite3 *db, const uint8_t *secret)
{
	uint64_t sum;
	int r = sum_meta(db, secret, &sum);

	return r ? r : seal_set(db, "REPLACE INTO meta VALUES ('sum', ?)", (int64_t)sum, 0);
}

int seal_meta_check(sqlite3 *db, const uint8_t *secret, bool *ret)
{
	uint64_t sum;
	int64_t stored = 0;
	int r = sum_meta(db, secret, &sum);

	if (r == 0)
		r = store_int(db, "SELECT value FROM meta WHERE key='sum'", &stored);
	*ret = r == 0 && (uint64_t)stored == sum;
	return r == -EUCLEAN ? 0 : r;
}

int seal_set(sqlite3 *db, const char *sql, int64_t value, int64_t id)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, value);
		if (sqlite3_bind_parameter_count(st) > 1)
			(void)sqlite3_bind_int64(st, 2, id);
		rc = sqlite3_step(st);
	}
	(void)sqlite3_finalize(st);
	return snap_errno(rc);
}
