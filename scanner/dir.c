/* SPDX-License-Identifier: MIT */
/*
 * dir - one directory in flight: from the moment it is taken until its node is reported.
 *
 *     finish: merge links, report the node, add to the parent; if that was the parent's last child,
 *             finish the parent too (a loop, not recursion)
 */
#include "scanner/internal.h"

struct scan_dir *dir_new(struct scan_dir *parent, size_t index)
{
	struct scan_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->parent = parent;
	d->index = index;
	d->fd = -1;
	d->name = "";
	d->sum = (struct scan_totals)TOTALS_NONE;
	atomic_init(&d->pending, 1);
	(void)pthread_mutex_init(&d->lock, NULL);
	if (parent) {
		d->name = scan_dir_kid_name(parent, index);
		d->depth = parent->depth + 1;
		d->trap = mounts_child(parent->trap, d->name);
		d->foreign = parent->foreign;
	}
	return d;
}

void dir_free(struct scan_dir *d)
{
	link_set_done(&d->own);
	free(d->kids);
	free(d->kid_name);
	free(d->kid_names);
	free(d->kid_ino);
	free(d->visit);
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

/* All that is known of d as totals; the exact sums stop at INT64_MAX only here. */
static void count_self(struct scan_dir *d, struct scan_totals *t)
{
	*t = d->sum;
	t->bytes = size_clamp(d->bytes);
	t->apparent = size_clamp(d->apparent);
}

static void add_totals(struct scan_dir *parent, struct scan_dir *d, const struct scan_totals *t)
{
	parent->bytes += d->bytes;
	parent->apparent += d->apparent;
	totals_add(&parent->sum, t);
}

static void give_links(struct scan *s, struct scan_dir *parent, struct scan_dir *d)
{
	struct link_set *set;

	if (!d->own.slot)
		return;
	set = malloc(sizeof(*set));
	if (!set) {
		state_fail(s, -ENOMEM);
		return;
	}
	*set = d->own;
	memset(&d->own, 0, sizeof(d->own));
	(void)pthread_mutex_lock(&parent->lock);
	set->next = parent->links;
	parent->links = set;
	(void)pthread_mutex_unlock(&parent->lock);
}

/* d and all below it is known: its node, and its share in the parent. */
static void report_node(struct worker *w, struct scan_dir *d)
{
	struct scan *s = w->scan;
	struct scan_totals totals;
	struct scan_below below = { .totals = &totals, .kids = d->kids, .n_kids = d->n_kids };
	struct scan_token token = d->token;
	int r = link_set_merge(&d->own, d->links, &d->bytes, &d->apparent);

	d->sum.shared = link_set_close(&d->own);
	count_self(d, &totals);
	if (r < 0)
		state_fail(s, r);
	if (s->sink && d->state && !state_has_failed(s)) {
		below.links_leave = d->own.n > 0;
		r = s->sink->node(s->sink->ctx, w->id, d->state, &below, &token);
		if (r < 0)
			state_fail(s, r);
	} else if (s->sink && d->state) {
		s->sink->drop(s->sink->ctx, d->state);
	}
	if (!d->parent) {
		s->totals = totals;
		s->token = token;
		return;
	}
	give_links(s, d->parent, d);
	(void)pthread_mutex_lock(&d->parent->lock);
	d->parent->kids[d->index].token = token;
	add_totals(d->parent, d, &totals);
	(void)pthread_mutex_unlock(&d->parent->lock);
}

/* One thing that d waited for has happened. The last one reports d and goes on with its parent. */
void dir_finish(struct worker *w, struct scan_dir *d)
{
	while (d && atomic_fetch_sub(&d->pending, 1) == 1) {
		struct scan_dir *parent = d->parent;

		report_node(w, d);
		ahead_done(w, d);
		dir_free(d);
		if (!parent)
			state_finish(w->scan);
		d = parent;
	}
}

/* The child has no node: its parent says why. */
void dir_leave_out(struct worker *w, struct scan_dir *d, int problem, int error)
{
	struct scan_dir *parent = d->parent;

	(void)pthread_mutex_lock(&parent->lock);
	parent->kids[d->index].problem = (uint8_t)problem;
	parent->kids[d->index].error = error;
	totals_add_problem(&parent->sum, (unsigned)problem);
	(void)pthread_mutex_unlock(&parent->lock);
	dir_free(d);
	dir_finish(w, parent);
}
