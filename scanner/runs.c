/* SPDX-License-Identifier: MIT */
/*
 * runs - sorted, encoded chunks of a directory that is too large to be kept as items, and their merge.
 */
#include "scanner/internal.h"

static int compare(const struct run *a, const struct run *b)
{
	int c = memcmp(a->name, b->name, MIN(a->e.name_len, b->e.name_len));

	return c ? c : (int)a->e.name_len - (int)b->e.name_len;
}

static void heap_sink(struct runs *r, size_t i)
{
	for (;;) {
		size_t least = i, child = 2 * i + 1;
		uint32_t t;

		for (size_t c = child; c < MIN(child + 2, r->heap_len); c++)
			if (compare(&r->run[r->heap[c]], &r->run[r->heap[least]]) < 0)
				least = c;
		if (least == i)
			return;
		t = r->heap[i];
		r->heap[i] = r->heap[least];
		r->heap[least] = t;
		i = least;
	}
}

/* Takes the bytes over, also when it fails. */
int runs_add(struct runs *r, struct bytes *data, size_t n)
{
	uint8_t *fit = realloc(data->p, MAX(data->len, 1));
	int e = base_reserve(&r->run, &r->cap, r->n + 1, sizeof(*r->run));

	if (e < 0) {
		free(fit ? fit : data->p);
		return e;
	}
	r->run[r->n] = (struct run){ .data = fit ? fit : data->p };
	r->run[r->n].at = (struct entry_cursor){
		.p = r->run[r->n].data, .end = r->run[r->n].data + data->len, .n = n, .places = true
	};
	r->n++;
	return 0;
}

int runs_start(struct runs *r)
{
	r->heap = malloc(r->n * sizeof(*r->heap));
	if (!r->heap)
		return -ENOMEM;
	r->heap_len = 0;
	for (uint32_t i = 0; i < r->n; i++)
		if (entry_decode(&r->run[i].at, r->run[i].name, &r->run[i].e) > 0)
			r->heap[r->heap_len++] = i;
	for (size_t i = r->heap_len; i-- > 0;)
		heap_sink(r, i);
	return 0;
}

struct run *runs_first(struct runs *r)
{
	return r->heap_len ? &r->run[r->heap[0]] : NULL;
}

/* Runs are our own memory, so they are well formed. */
void runs_next(struct runs *r)
{
	struct run *first = runs_first(r);

	if (entry_decode(&first->at, first->name, &first->e) <= 0) {
		free(first->data);
		first->data = NULL;
		r->heap[0] = r->heap[--r->heap_len];
	}
	heap_sink(r, 0);
}

void runs_clear(struct runs *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->run[i].data);
	free(r->heap);
	r->heap = NULL;
	r->heap_len = r->n = 0;
}
