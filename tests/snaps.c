/* SPDX-License-Identifier: MIT */
/* snaps - see snaps.h. */
#include "tests/snaps.h"

#include "snapshot/internal.h"

#include <err.h>
#include <sqlite3.h>
#include <stdio.h>

int snaps_set_up(void **state)
{
	static struct fixture f;

	tree_new(&f.tree);
	tree_new(&f.place);
	(void)snprintf(f.index, sizeof(f.index), "%s/index.db", f.place.path);
	*state = &f;
	return 0;
}

int snaps_tear_down(void **state)
{
	struct fixture *f = *state;

	tree_remove(&f->tree);
	tree_remove(&f->place);
	return 0;
}

const char *snaps_path(const struct fixture *f, const char *name, char buf[256])
{
	(void)snprintf(buf, 256, "%s/%s", f->place.path, name);
	return buf;
}

int snaps_take(struct snap *s, const char *root, enum snap_mode mode, unsigned threads,
               struct snap_info *ret)
{
	const struct scan_options o = { .threads = threads };
	struct scan_report report;
	struct snap_writer *w;
	char *canonical;
	int r = scan_root_path(root, &canonical);

	if (r == 0) {
		r = snap_write_begin(s, canonical, mode, &w);
		free(canonical);
	}
	if (r < 0)
		return r;
	r = scan_run(root, &o, snap_write_sink(w), &report);
	if (r < 0) {
		snap_write_abort(w);
		return r;
	}
	r = snap_write_commit(w, &report, ret);
	scan_report_done(&report);
	return r;
}

int snaps_take_at(const char *index, const char *root, enum snap_mode mode, unsigned threads,
                  struct snap_info *ret)
{
	struct snap *s;
	int r = snap_open(index, SNAP_WRITE, &s);

	if (r < 0)
		return r;
	r = snaps_take(s, root, mode, threads, ret);
	snap_close(s);
	return r;
}

int snaps_sql(const char *index, const char *sql)
{
	sqlite3 *db;
	int rc = sqlite3_open(index, &db);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	(void)sqlite3_close(db);
	return rc;
}

void snaps_seal(const char *index)
{
	static const char chain[] =
		"UPDATE snapshot SET before=ifnull((SELECT max(id) FROM snapshot b"
		" WHERE b.id < snapshot.id), 0);"
		"UPDATE meta SET value=(SELECT ifnull(max(id), 0) FROM snapshot) WHERE key='last'";
	sqlite3_stmt *st;
	struct snap *s;

	if (snap_open(index, SNAP_WRITE, &s) < 0 || store_exec(s->db, chain) < 0 ||
	    sqlite3_prepare_v2(s->db, "SELECT id FROM snapshot", -1, &st, NULL) != SQLITE_OK)
		errx(99, "cannot open '%s'", index);
	while (sqlite3_step(st) == SQLITE_ROW)
		if (catalog_seal(s, sqlite3_column_int64(st, 0)) < 0)
			errx(99, "cannot seal a row");
	(void)sqlite3_finalize(st);
	if (seal_meta(s->db, s->secret) < 0)
		errx(99, "cannot seal meta");
	snap_close(s);
}

int64_t snaps_number(const char *index, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t number = -1;
	sqlite3 *db;

	if (sqlite3_open(index, &db) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK ||
	    sqlite3_step(st) != SQLITE_ROW)
		warnx("%s: %s", sql, sqlite3_errmsg(db));
	else
		number = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(db);
	return number;
}

void snaps_copy(const char *from, const char *to)
{
	char *const argv[] = { (char *)"cp", (char *)(uintptr_t)from, (char *)(uintptr_t)to, NULL };
	size_t len;

	free(scans_output(argv, &len));
}

void snaps_twin(const char *index, const char *twin)
{
	struct snap *s;
	char sql[512];

	if (snap_open(twin, SNAP_WRITE, &s) < 0)
		errx(99, "cannot make a second index");
	snap_close(s);
	(void)snprintf(sql, sizeof(sql),
	               "ATTACH '%s' AS other;"
	               "UPDATE meta SET value=(SELECT value FROM other.meta WHERE key='secret')"
	               " WHERE key='secret'",
	               index);
	if (snaps_sql(twin, sql) != 0)
		errx(99, "cannot copy the secret");
	snaps_seal(twin);
}

static struct record_dir *add_dir(struct record *r, const struct snap_node *n, char *path)
{
	struct record_dir *d = calloc(1, sizeof(*d));

	if (!d || !path ||
	    base_reserve(&r->dir, &r->cap, r->n + 1, sizeof(struct record_dir *)) < 0)
		errx(99, "no memory");
	d->path = path;
	d->totals = n->totals;
	d->meta = n->meta;
	d->problem = n->problem;
	d->error = n->error;
	d->n_entries = n->n_entries;
	d->n_children = n->n_children;
	r->dir[r->n++] = d;
	return d;
}

struct task {
	struct snap_node node; /* pinned */
	char *path;
};

/* Note one directory and put its sub-directories on the list. */
static int read_node(struct snap *s, struct record *r, struct task *job, struct task **todo,
                     size_t *n, size_t *cap)
{
	bool top = strcmp(job->path, ".") == 0;
	struct snap_iter it;
	int rc;

	(void)add_dir(r, &job->node, job->path);
	snap_iter_init(&it, &job->node);
	while ((rc = snap_iter_next(&it)) > 0) {
		struct task next;

		if (!it.e.child)
			continue;
		rc = snap_child_get(s, &job->node, it.e.child, &next.node);
		if (rc < 0)
			break;
		if (base_reserve(todo, cap, *n + 1, sizeof(**todo)) < 0 ||
		    asprintf(&next.path, "%s%s%s", top ? "" : job->path, top ? "" : "/",
		             it.e.name) < 0)
			errx(99, "no memory");
		(*todo)[(*n)++] = next;
	}
	snap_node_put(s, &job->node);
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp((*(struct record_dir *const *)a)->path,
	              (*(struct record_dir *const *)b)->path);
}

int snaps_read(struct snap *s, uint64_t ref, struct record *ret)
{
	struct task *todo = NULL, job = { .path = NULL };
	size_t n = 0, cap = 0;
	int r = snap_node_get(s, ref, &job.node);

	*ret = (struct record){ .lock = PTHREAD_MUTEX_INITIALIZER };
	if (r == 0) {
		job.path = strdup(".");
		r = read_node(s, ret, &job, &todo, &n, &cap);
	}
	while (r == 0 && n > 0) {
		job = todo[--n];
		r = read_node(s, ret, &job, &todo, &n, &cap);
	}
	while (n > 0) {
		snap_node_put(s, &todo[--n].node);
		free(todo[n].path);
	}
	free(todo);
	if (ret->n)
		qsort(ret->dir, ret->n, sizeof(struct record_dir *), by_path);
	return r;
}

int snaps_count(const char *index)
{
	struct snap_list l;
	struct snap *s;
	int r = snap_open(index, SNAP_READ, &s);

	if (r < 0)
		return r;
	r = snap_list_get(s, &l);
	if (r == 0) {
		r = (int)l.n;
		snap_list_done(&l);
	}
	snap_close(s);
	return r;
}
