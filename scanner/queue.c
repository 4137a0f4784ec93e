/* SPDX-License-Identifier: MIT */
/*
 * queue - hands directories to workers: depth first for the owner, oldest first for thieves.
 *
 * A stack holds directories that were read and whose sub-directories nobody has taken yet. What is
 * taken is a number, the index of a sub-directory, so a directory with a million sub-directories costs
 * one slot.
 *
 *     worker A   [ root | srv | www ]        A takes www's next child; no lock, only an atomic add
 *                  ^ B takes root's next child, under A's lock
 *
 * The owner locks only to push and pop, once per directory that has sub-directories. A directory on a
 * stack counts as pending, so a thief that holds the lock never meets one that was freed.
 *
 * When fewer are to read (readers.c), the others park: they take nothing, their stacks are left to thieves,
 * and whoever runs out of work pops for them what is empty.
 */
#include "scanner/internal.h"

/* Claim the next child of d, if one is left. */
static bool claim(struct scan_dir *d, size_t *index)
{
	if (atomic_load_explicit(&d->next, memory_order_relaxed) >= d->n_children)
		return false;
	*index = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed);
	return *index < d->n_children;
}

static bool is_empty(const struct scan_dir *d)
{
	return atomic_load_explicit(&d->next, memory_order_relaxed) >= d->n_children;
}

/* Children are counted in the order they are visited and known by their place in the listing. */
static size_t place_of(const struct scan_dir *d, size_t nth)
{
	return d->visit ? d->visit[nth] : nth;
}

static void pop(struct worker *w)
{
	struct scan_dir *d = w->stack[w->n_stack - 1];

	(void)pthread_mutex_lock(&w->lock);
	w->n_stack--;
	if (w->first > w->n_stack)
		w->first = w->n_stack;
	(void)pthread_mutex_unlock(&w->lock);
	dir_finish(w, d);
}

static bool take_own(struct worker *w, struct scan_dir **parent, size_t *index)
{
	while (w->n_stack) {
		struct scan_dir *d = w->stack[w->n_stack - 1];
		size_t nth = 0;
		bool got = claim(d, &nth);

		/* Leave at once when nothing is left, so that a deep chain does not pile up here. */
		if (got) {
			*parent = d;
			*index = place_of(d, nth);
		}
		if (!got || nth + 1 == d->n_children)
			pop(w);
		if (got)
			return true;
	}
	return false;
}

/* A parked worker does not pop what thieves have emptied, so they do. */
static void tidy(struct worker *w, struct worker *victim)
{
	(void)pthread_mutex_lock(&victim->lock);
	while (victim->first < victim->n_stack && victim->parked &&
	       is_empty(victim->stack[victim->first]))
		victim->first++;
	while (victim->parked && victim->n_stack && victim->first >= victim->n_stack) {
		struct scan_dir *d = victim->stack[--victim->n_stack];

		victim->first = victim->n_stack;
		(void)pthread_mutex_unlock(&victim->lock);
		dir_finish(w, d);
		(void)pthread_mutex_lock(&victim->lock);
	}
	(void)pthread_mutex_unlock(&victim->lock);
}

/* Whoever stops looking for work does this first, without a lock: the last one then ends the scan. */
static void tidy_all(struct worker *w)
{
	for (unsigned i = 0; i < w->scan->n_workers; i++)
		tidy(w, &w->scan->workers[i]);
}

static bool steal_from(struct worker *victim, struct scan_dir **parent, size_t *index)
{
	bool got = false;
	size_t nth = 0;

	(void)pthread_mutex_lock(&victim->lock);
	while (victim->first < victim->n_stack) {
		*parent = victim->stack[victim->first];
		got = claim(*parent, &nth);
		if (got)
			break;
		victim->first++;
	}
	if (got)
		*index = place_of(*parent, nth);
	(void)pthread_mutex_unlock(&victim->lock);
	return got;
}

static bool steal(struct worker *w, struct scan_dir **parent, size_t *index)
{
	struct scan *s = w->scan;

	for (unsigned i = 1; i < s->n_workers; i++) {
		if (steal_from(&s->workers[(w->id + i) % s->n_workers], parent, index)) {
			COUNT(w->count.steals, 1);
			return true;
		}
	}
	return false;
}

/* Put d on the worker's own stack; its pending count already includes the stack. */
int queue_push(struct worker *w, struct scan_dir *d)
{
	struct scan *s = w->scan;
	int r;

	(void)pthread_mutex_lock(&w->lock);
	r = base_reserve(&w->stack, &w->cap_stack, w->n_stack + 1, sizeof(*w->stack));
	if (r == 0)
		w->stack[w->n_stack++] = d;
	(void)pthread_mutex_unlock(&w->lock);
	if (r == 0 && atomic_load(&s->idle) > 0) {
		(void)pthread_mutex_lock(&s->idle_lock);
		(void)pthread_cond_broadcast(&s->idle_cond);
		(void)pthread_mutex_unlock(&s->idle_lock);
	}
	return r;
}

static void set_parked(struct worker *w, bool parked)
{
	(void)pthread_mutex_lock(&w->lock);
	w->parked = parked;
	(void)pthread_mutex_unlock(&w->lock);
}

/*
 * The next directory to read: child *index of *parent. Waits while others may still find work, and while
 * the worker is one too many;
 * false when the scan is over. A worker announces itself idle before its last look around, and a
 * pusher looks for idle workers after its push, so no wake-up is lost.
 */
bool queue_take(struct worker *w, struct scan_dir **parent, size_t *index)
{
	struct scan *s = w->scan;
	uint64_t since;
	bool got = false;

	if (readers_may_read(w) && (take_own(w, parent, index) || steal(w, parent, index)))
		return true;
	since = clock_ns(CLOCK_MONOTONIC);
	if (!readers_may_read(w))
		set_parked(w, true);
	tidy_all(w);
	(void)pthread_mutex_lock(&s->idle_lock);
	atomic_fetch_add(&s->idle, 1);
	while (!atomic_load(&s->done)) {
		if (readers_may_read(w)) {
			set_parked(w, false);
			got = w->n_stack > 0 || steal(w, parent, index);
			if (got)
				break;
		}
		(void)pthread_cond_wait(&s->idle_cond, &s->idle_lock);
	}
	atomic_fetch_sub(&s->idle, 1);
	(void)pthread_mutex_unlock(&s->idle_lock);
	w->idle_ns += clock_ns(CLOCK_MONOTONIC) - since;
	if (got && w->n_stack > 0) /* it was parked with work of its own */
		return queue_take(w, parent, index);
	return got;
}
