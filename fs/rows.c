/* SPDX-License-Identifier: MIT */
/*
 * rows - the directories that the kernel knows, numbered; 40 bytes each, gone when the kernel forgets.
 *
 * A row is found by its path's inode number. It always holds the node that its path has now: when a
 * snapshot lands, follow.c changes the rows that differ in one step. Only rows of fixed trees, the past and
 * growth, stay as they were made. Files and virtual files have no
 * rows: their node ids say which directory and which entry. Each of them holds its directory's row, and
 * a row holds its parent's, so a path can always be traced to the top.
 */
#include "fs/internal.h"

enum {
	CHUNK_ROWS = 4096,
	FIRST_BUCKETS = 4096
};

struct row *rows_at(const struct rows *t, uint32_t row)
{
	return &t->chunk[row / CHUNK_ROWS][row % CHUNK_ROWS];
}

static uint32_t *bucket_of(const struct rows *t, uint64_t ino)
{
	return &t->bucket[ino & (t->n_buckets - 1)];
}

uint32_t rows_find(const struct rows *t, uint64_t ino)
{
	uint32_t i = *bucket_of(t, ino);

	while (i && rows_at(t, i)->ino != ino)
		i = rows_at(t, i)->next;
	return i;
}

static void grow_buckets(struct rows *t)
{
	uint32_t n = t->n_buckets * 2, *bucket = calloc(n, sizeof(*bucket));

	if (!bucket)
		return; /* chains get longer, nothing else */
	free(t->bucket);
	t->bucket = bucket;
	t->n_buckets = n;
	for (uint32_t i = 1; i < t->used; i++) {
		struct row *r = rows_at(t, i);

		if (!r->ino)
			continue;
		r->next = *bucket_of(t, r->ino);
		*bucket_of(t, r->ino) = i;
	}
}

static uint32_t take_free(struct rows *t)
{
	uint32_t i = t->free;

	if (i) {
		t->free = rows_at(t, i)->next;
		return i;
	}
	if (t->used == 1u << ROW_BITS)
		return 0;
	if (t->used == t->n_chunks * CHUNK_ROWS) {
		struct row **chunk = realloc(t->chunk, (t->n_chunks + 1) * sizeof(struct row *));

		if (!chunk)
			return 0;
		t->chunk = chunk;
		chunk[t->n_chunks] = calloc(CHUNK_ROWS, sizeof(struct row));
		if (!chunk[t->n_chunks])
			return 0;
		t->n_chunks++;
	}
	return t->used++;
}

static uint32_t add(struct rows *t, uint32_t parent, uint64_t ino, uint64_t ref, uint32_t fixed)
{
	uint32_t i = take_free(t);
	struct row *r;

	if (!i)
		return 0;
	if (t->live >= t->n_buckets)
		grow_buckets(t);
	r = rows_at(t, i);
	*r = (struct row){
		.ino = ino, .ref = ref, .fixed = fixed, .parent = parent, .next = *bucket_of(t, ino)
	};
	*bucket_of(t, ino) = i;
	if (parent)
		rows_at(t, parent)->refs++;
	t->live++;
	t->created++;
	return i;
}

int rows_init(struct rows *t, uint64_t top_ino, uint64_t top_ref)
{
	(void)pthread_rwlock_init(&t->lock, NULL);
	t->used = 1; /* 0 is no row */
	t->n_buckets = FIRST_BUCKETS;
	t->bucket = calloc(t->n_buckets, sizeof(*t->bucket));
	t->chunk = calloc(1, sizeof(struct row *));
	if (!t->bucket || !t->chunk)
		return -ENOMEM;
	t->chunk[0] = calloc(CHUNK_ROWS, sizeof(struct row));
	if (!t->chunk[0])
		return -ENOMEM;
	t->n_chunks = 1;
	if (add(t, 0, top_ino, top_ref, 0) != ROW_TOP)
		return -ENOMEM;
	rows_at(t, ROW_TOP)->refs = 1; /* the mount's own */
	return 0;
}

void rows_done(struct rows *t)
{
	for (uint32_t i = 0; i < t->n_chunks; i++)
		free(t->chunk[i]);
	free(t->chunk);
	free(t->bucket);
	(void)pthread_rwlock_destroy(&t->lock);
}

bool rows_get(struct rows *t, uint32_t row, struct row *ret)
{
	bool found = false;

	(void)pthread_rwlock_rdlock(&t->lock);
	if (row && row < t->used && rows_at(t, row)->ino) {
		*ret = *rows_at(t, row);
		found = true;
	}
	(void)pthread_rwlock_unlock(&t->lock);
	return found;
}

uint32_t rows_lookup(struct rows *t, uint32_t parent, uint64_t ino, uint64_t ref, uint32_t fixed,
                     struct gen *const _Atomic *now, const struct gen *seen)
{
	uint32_t i;

	(void)pthread_rwlock_wrlock(&t->lock);
	if (!fixed && atomic_load(now) != seen) {
		(void)pthread_rwlock_unlock(&t->lock);
		return (uint32_t)ROW_RETRY;
	}
	i = rows_find(t, ino);
	if (!i)
		i = add(t, parent, ino, ref, fixed);
	if (i)
		rows_at(t, i)->refs++;
	(void)pthread_rwlock_unlock(&t->lock);
	return i;
}

bool rows_hold(struct rows *t, uint32_t row, int text)
{
	bool found = false;

	(void)pthread_rwlock_wrlock(&t->lock);
	if (row < t->used && rows_at(t, row)->ino) {
		rows_at(t, row)->refs++;
		if (text >= 0)
			rows_at(t, row)->texts |= UINT64_C(1) << MIN(text, 63);
		found = true;
	}
	(void)pthread_rwlock_unlock(&t->lock);
	return found;
}

static void release(struct rows *t, uint32_t i)
{
	struct row *r = rows_at(t, i);
	uint32_t *at = bucket_of(t, r->ino);

	while (*at != i)
		at = &rows_at(t, *at)->next;
	*at = r->next;
	*r = (struct row){ .next = t->free };
	t->free = i;
	t->live--;
}

void rows_forget(struct rows *t, uint32_t row, uint64_t n)
{
	(void)pthread_rwlock_wrlock(&t->lock);
	while (row && row < t->used && rows_at(t, row)->ino) {
		struct row *r = rows_at(t, row);
		uint32_t parent = r->parent;

		r->refs -= (uint32_t)MIN(n, r->refs);
		if (r->refs)
			break;
		release(t, row);
		row = parent;
		n = 1;
	}
	(void)pthread_rwlock_unlock(&t->lock);
}
