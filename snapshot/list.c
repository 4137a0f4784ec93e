/* SPDX-License-Identifier: MIT */
/*
 * list - the snapshots there are, by id.
 *
 * A mount keeps hundreds of lists, each with one snapshot more than the one before: they share a shelf, of
 * which each sees what was there when it was made. Only new rows are read.
 */
#include "snapshot/internal.h"

static void info_put(struct snap_info *i)
{
	if (atomic_fetch_sub(&i->users, 1) > 1)
		return;
	snap_info_done(i);
	free(i);
}

struct snap_shelf {
	_Atomic unsigned users; /* lists */
	size_t n, cap;
	struct snap_info *info[];
};

static void shelf_put(struct snap_shelf *shelf)
{
	if (!shelf || atomic_fetch_sub(&shelf->users, 1) > 1)
		return;
	for (size_t i = 0; i < shelf->n; i++)
		info_put(shelf->info[i]);
	free(shelf);
}

/* A shelf with the snapshots of a list and room for more. */
static struct snap_shelf *shelf_new(const struct snap_list *l)
{
	size_t cap = l->n + l->n / 2 + 16;
	struct snap_shelf *shelf = malloc(sizeof(*shelf) + cap * sizeof(struct snap_info *));

	if (!shelf)
		return NULL;
	atomic_init(&shelf->users, 1);
	shelf->cap = cap;
	shelf->n = l->n;
	for (size_t i = 0; i < l->n; i++) {
		shelf->info[i] = l->info[i];
		atomic_fetch_add(&shelf->info[i]->users, 1);
	}
	return shelf;
}

/* Append a snapshot, taking over one use of it. Who has a shorter list of the same shelf does not see it. */
static int list_add(struct snap_list *l, struct snap_info *i)
{
	struct snap_shelf *shelf = l->shelf;

	if (!shelf || shelf->n != l->n || shelf->n == shelf->cap) {
		shelf = shelf_new(l);
		if (!shelf)
			return -ENOMEM;
		shelf_put(l->shelf);
		l->shelf = shelf;
		l->info = shelf->info;
	}
	shelf->info[shelf->n++] = i;
	l->n = shelf->n;
	return 0;
}

/* A snapshot never changes and its id is never used again; *at goes along known, which is by id too. */
static struct snap_info *find_known(const struct snap_list *known, size_t *at, int64_t id)
{
	while (*at < known->n && known->info[*at]->id < id)
		(*at)++;
	if (*at == known->n || known->info[*at]->id != id)
		return NULL;
	atomic_fetch_add(&known->info[*at]->users, 1);
	return known->info[*at];
}

static int new_info(struct snap *s, sqlite3_stmt *st, struct snap_info **ret)
{
	struct snap_info *i = calloc(1, sizeof(*i));
	int r;

	if (!i)
		return -ENOMEM;
	atomic_init(&i->users, 1);
	r = catalog_read(s, st, false, i);
	if (r < 0)
		info_put(i);
	else
		*ret = i;
	return r;
}

static int add_damaged(struct snap_list *l, int64_t id)
{
	int64_t *ids = realloc(l->damaged, (l->n_damaged + 1) * sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	l->damaged = ids;
	ids[l->n_damaged++] = id;
	return 0;
}

static int read_rows(struct snap *s, sqlite3_stmt *st, const struct snap_list *known,
                     struct snap_list *l)
{
	int rc = SQLITE_DONE, r = 0;
	size_t at = 0;

	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(st, 0);
		struct snap_info *i = find_known(known, &at, id);

		if (!i)
			r = new_info(s, st, &i);
		if (r == -EUCLEAN) {
			r = add_damaged(l, id);
		} else if (r == 0) {
			r = list_add(l, i);
			if (r < 0)
				info_put(i);
		}
	}
	return r ? r : snap_errno(rc);
}

/* Damaged rows before the last good one: those after it are looked at again. */
static size_t damaged_before(const struct snap_list *l)
{
	size_t n = 0;

	while (n < l->n_damaged && l->damaged[n] < l->info[l->n - 1]->id)
		n++;
	return n;
}

/* Ids are never used again: as many up to the last known as before are the same ones. */
static int all_are_left(struct snap *s, const struct snap_list *known, bool *ret)
{
	static const char count[] = "SELECT count(*) FROM snapshot WHERE +id <= ?";
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(s->db, count, -1, &st, NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, known->info[known->n - 1]->id);
		rc = sqlite3_step(st);
	}
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0) == (int64_t)(known->n + damaged_before(known));
	(void)sqlite3_finalize(st);
	return snap_errno(rc);
}

static int list_rows(struct snap *s, const struct snap_list *known, struct snap_list *l)
{
	int64_t after = INT64_MIN;
	bool left = false;
	sqlite3_stmt *st;
	int r = known->shelf ? all_are_left(s, known, &left) : 0;

	if (r < 0)
		return r;
	if (left) {
		*l = *known;
		atomic_fetch_add(&l->shelf->users, 1);
		after = l->info[l->n - 1]->id;
		l->damaged = NULL;
		l->n_damaged = 0;
		for (size_t i = 0; r == 0 && i < damaged_before(known); i++)
			r = add_damaged(l, known->damaged[i]);
	}
	if (r == 0)
		r = catalog_select(s, "s.id > ? ORDER BY s.id", after, &st);
	if (r == 0) {
		r = read_rows(s, st, known, l);
		(void)sqlite3_finalize(st);
	}
	return r;
}

int snap_list_get(struct snap *s, struct snap_list *ret)
{
	const struct snap_list none = { 0 };

	return snap_list_refresh(s, &none, ret);
}

int snap_list_refresh(struct snap *s, const struct snap_list *known, struct snap_list *ret)
{
	struct snap_list l = { 0 };
	int r;

	(void)pthread_mutex_lock(&s->lock);
	r = store_begin_read(s);
	if (r == 0)
		r = list_rows(s, known, &l);
	(void)pthread_mutex_unlock(&s->lock);
	if (r < 0)
		snap_list_done(&l);
	else
		*ret = l;
	return r;
}

int snap_list_newest(const struct snap_list *all, struct snap_list *ret)
{
	struct snap_roots roots;
	int r = snap_roots_get(all, &roots);

	if (r < 0)
		return r;
	*ret = (struct snap_list){ .info = calloc(roots.n + 1, sizeof(struct snap_info *)) };
	ret->n = ret->info ? roots.n : 0;
	for (size_t i = 0; i < ret->n; i++)
		ret->info[i] = roots.root[i].info[roots.root[i].n - 1];
	snap_roots_done(&roots);
	return ret->info ? 0 : -ENOMEM;
}

void snap_list_done(struct snap_list *l)
{
	if (l->shelf)
		shelf_put(l->shelf);
	else
		free(l->info);
	free(l->damaged);
	*l = (struct snap_list){ 0 };
}
