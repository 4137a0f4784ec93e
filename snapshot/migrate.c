/* SPDX-License-Identifier: MIT */
/*
 * migrate - brings an index of an older format up to date, step by step in one transaction.
 *
 * There is one format so far: what came before 3 was never released. The next format gets a row here, which
 * says what to do with the tables of the one before, and a test that opens such an index.
 */
#include "snapshot/internal.h"

#include <stdio.h>

static const struct migration migrations[] = {
	{ 0, NULL } /* end */
};

static const struct migration *find_step(const struct migration *steps, int64_t from)
{
	while (steps->run && steps->from != from)
		steps++;
	return steps->run ? steps : NULL;
}

static int run_steps(struct snap *s, const struct migration *steps, int64_t to)
{
	const struct migration *step;
	int64_t version = 0;
	char sql[48];
	int r = store_int(s->db, "PRAGMA user_version",
	                  &version); /* somebody may have been faster */

	for (; r == 0 && version < to; version++) {
		step = find_step(steps, version);
		r = step ? step->run(s) : -EPROTO;
	}
	if (r == 0 && version > to)
		r = -EPROTONOSUPPORT;
	(void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", (int)to);
	return r == 0 ? store_exec(s->db, sql) : r;
}

int migrate_steps(struct snap *s, const struct migration *steps, int64_t to)
{
	int r = store_exec(s->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	r = run_steps(s, steps, to);
	if (r == 0)
		r = store_exec(s->db, "COMMIT");
	if (r < 0) {
		if (!sqlite3_get_autocommit(s->db))
			(void)store_exec(s->db, "ROLLBACK");
		return r;
	}
	(void)store_exec(s->db, "PRAGMA incremental_vacuum");
	store_fold_log(s);
	return 0;
}

bool store_can_migrate(int64_t version)
{
	return find_step(migrations, version);
}

int store_migrate(struct snap *s)
{
	return migrate_steps(s, migrations, SNAP_FORMAT);
}
