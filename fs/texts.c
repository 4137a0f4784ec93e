/* SPDX-License-Identifier: MIT */
/*
 * texts - finished texts of virtual files, the least recently used dropped beyond a limit.
 *
 * The key is the node id, which names path, file and generation: a text never changes. One text larger
 * than the limit is kept until the next one comes, since a reader asks for it piece by piece.
 */
#include "fs/internal.h"

enum {
	BUCKETS = 4096
};

struct texts {
	pthread_mutex_t lock; /* guards all */
	struct text_copy *bucket[BUCKETS];
	struct text_copy *newest, *oldest;
	size_t bytes, limit;
};

struct texts *texts_new(size_t limit)
{
	struct texts *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	(void)pthread_mutex_init(&t->lock, NULL);
	t->limit = limit;
	return t;
}

/* The bits of a node id that tell texts apart are spread over all of it. */
static struct text_copy **bucket_of(struct texts *t, uint64_t key)
{
	return &t->bucket[key * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static struct text_copy *find(struct texts *t, uint64_t key)
{
	struct text_copy *c = *bucket_of(t, key);

	while (c && c->key != key)
		c = c->next;
	return c;
}

static void unlink_copy(struct texts *t, struct text_copy *c)
{
	*(c->newer ? &c->newer->older : &t->newest) = c->older;
	*(c->older ? &c->older->newer : &t->oldest) = c->newer;
}

static void link_newest(struct texts *t, struct text_copy *c)
{
	c->newer = NULL;
	c->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = c;
	t->newest = c;
}

static void free_copy(struct text_copy *c)
{
	free(c->p);
	free(c);
}

void texts_free(struct texts *t)
{
	struct text_copy *older;

	if (!t)
		return;
	for (struct text_copy *c = t->newest; c; c = older) {
		older = c->older;
		free_copy(c);
	}
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

struct text_copy *texts_get(struct texts *t, uint64_t key)
{
	struct text_copy *c;

	(void)pthread_mutex_lock(&t->lock);
	c = find(t, key);
	if (c) {
		c->users++;
		unlink_copy(t, c);
		link_newest(t, c);
	}
	(void)pthread_mutex_unlock(&t->lock);
	return c;
}

static void add(struct texts *t, struct text_copy *c)
{
	struct text_copy **bucket = bucket_of(t, c->key);

	c->next = *bucket;
	*bucket = c;
	link_newest(t, c);
	t->bytes += c->len + sizeof(*c);
}

static void drop(struct texts *t, struct text_copy *c)
{
	struct text_copy **at = bucket_of(t, c->key);

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	unlink_copy(t, c);
	t->bytes -= c->len + sizeof(*c);
	free_copy(c);
}

static void shrink(struct texts *t)
{
	struct text_copy *newer;

	for (struct text_copy *c = t->oldest; c && c != t->newest && t->bytes > t->limit;
	     c = newer) {
		newer = c->newer;
		if (!c->users)
			drop(t, c);
	}
}

struct text_copy *texts_put(struct texts *t, uint64_t key, struct text *text)
{
	struct text_copy *c = calloc(1, sizeof(*c)), *other;
	char *fit;

	if (!c)
		return NULL;
	fit = realloc(text->p, MAX(text->len, 1));
	*c = (struct text_copy){
		.key = key, .p = fit ? fit : text->p, .len = text->len, .users = 1
	};
	*text = (struct text){ 0 };
	(void)pthread_mutex_lock(&t->lock);
	other = find(t, key); /* somebody else was as fast: both made the same */
	if (other) {
		other->users++;
	} else {
		add(t, c);
		shrink(t);
	}
	(void)pthread_mutex_unlock(&t->lock);
	if (!other)
		return c;
	free_copy(c);
	return other;
}

void texts_release(struct texts *t, struct text_copy *c)
{
	(void)pthread_mutex_lock(&t->lock);
	c->users--;
	shrink(t);
	(void)pthread_mutex_unlock(&t->lock);
}

size_t texts_bytes(struct texts *t)
{
	size_t n;

	(void)pthread_mutex_lock(&t->lock);
	n = t->bytes;
	(void)pthread_mutex_unlock(&t->lock);
	return n;
}
