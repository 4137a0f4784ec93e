/* SPDX-License-Identifier: MIT */
/*
 * rows - the directories that the kernel knows, numbered; 40 bytes each, gone when the kernel forgets.
 *
 * A row is found by its path's key (ino.c), its parent and its node: should two paths ever have one key, each has
 * a row and a number of its own. It always holds the node that its path has now: when a
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

static uint32_t *bucket_of(const struct rows *t, uint64_t key)
{
	return &t->bucket[key & (t->n_buckets - 1)];
}

/* Is r, with the key that is wanted, what is wanted? What a fixed tree begins with is made anew now and then. */
static bool is_wanted(const struct rows *t, const struct row *r, const struct row *want)
{
	return r->parent == want->parent && r->fixed == want->fixed &&
	       (r->ref == want->ref || (r->fixed && rows_at(t, r->parent)->fixed != r->fixed));
}

/* Also counts the others with this key; the top has no parent to be asked about. */
static uint32_t find(const struct rows *t, const struct row *want, uint32_t *others)
{
	for (uint32_t i = *bucket_of(t, want->key); i; i = rows_at(t, i)->next) {
		const struct row *r = rows_at(t, i);

		if (r->key != want->key)
			continue;
		if (is_wanted(t, r, want))
			return i;
		*others = MAX(*others, r->twin + 1u);
	}
	return 0;
}

uint32_t rows_find(const struct rows *t, const struct row *want)
{
	uint32_t others = 0, i = find(t, want, &others);

	if (i || !others)
		return i;
	for (i = *bucket_of(t, want->key); i; i = rows_at(t, i)->next) {
		const struct row *r = rows_at(t, i);

		if (r->key == want->key && r->parent == want->parent && r->fixed == want->fixed)
			break;
	}
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

		if (!r->key)
			continue;
		r->next = *bucket_of(t, r->key);
		*bucket_of(t, r->key) = i;
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

static uint32_t add(struct rows *t, const struct row *want, uint32_t twin)
{
	uint32_t i = take_free(t);
	struct row *r;

	if (!i)
		return 0;
	if (t->live >= t->n_buckets)
		grow_buckets(t);
	r = rows_at(t, i);
	*r = (struct row){ .key = want->key,
		           .ref = want->ref,
		           .fixed = want->fixed,
		           .parent = want->parent,
		           .twin = MIN(twin, 15u) & 15u,
		           .next = *bucket_of(t, want->key) };
	*bucket_of(t, want->key) = i;
	if (want->parent)
		rows_at(t, want->parent)->refs++;
	t->live++;
	t->created++;
	return i;
}

int rows_init(struct rows *t, uint64_t top_key, uint64_t top_ref)
{
	const struct row top = { .key = top_key, .ref = top_ref };

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
	if (add(t, &top, 0) != ROW_TOP)
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
	if (row && row < t->used && rows_at(t, row)->key) {
		*ret = *rows_at(t, row);
		found = true;
	}
	(void)pthread_rwlock_unlock(&t->lock);
	return found;
}

uint32_t rows_lookup(struct rows *t, struct row *want, struct gen *const _Atomic *now,
                     const struct gen *seen)
{
	uint32_t i, others = 0;

	(void)pthread_rwlock_wrlock(&t->lock);
	if (!want->fixed && atomic_load(now) != seen) {
		(void)pthread_rwlock_unlock(&t->lock);
		return (uint32_t)ROW_RETRY;
	}
	i = find(t, want, &others);
	if (!i)
		i = add(t, want, others);
	if (i) {
		rows_at(t, i)->refs++;
		*want = *rows_at(t, i);
	}
	(void)pthread_rwlock_unlock(&t->lock);
	return i;
}

bool rows_hold(struct rows *t, uint32_t row, int text)
{
	bool found = false;

	(void)pthread_rwlock_wrlock(&t->lock);
	if (row < t->used && rows_at(t, row)->key) {
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
	uint32_t *at = bucket_of(t, r->key);

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
	while (row && row < t->used && rows_at(t, row)->key) {
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
