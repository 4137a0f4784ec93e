/* SPDX-License-Identifier: MIT */
/*
 * dir - one directory in flight: from the moment it is taken until its node is reported.
 *
 *     finish: merge links, report the node, add to the parent; if that was the parent's last child,
 *             finish the parent too (a loop, not recursion)
 *
 * A view is what the audience sees (audience.c). There is one from the first child on that hides something:
 * until then it was all, so the sums begin as a copy, and the sets of links are copied in the end.
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
		d->name = scan_dir_child_name(parent, index);
		d->depth = parent->depth + 1;
		d->trap = mounts_child(parent->trap, d->name);
		d->foreign = parent->foreign;
	}
	return d;
}

void dir_free(struct scan_dir *d)
{
	link_set_done(&d->own);
	if (d->view)
		link_set_done(&d->view->own);
	free(d->view);
	free(d->children);
	free(d->child_name);
	free(d->child_names);
	free(d->child_ino);
	free(d->visit);
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Sums as totals; the exact ones stop at INT64_MAX only here. */
static struct scan_totals clamp_totals(const struct scan_totals *sum, size_exact bytes,
                                       size_exact apparent)
{
	struct scan_totals t = *sum;

	t.bytes = size_clamp(bytes);
	t.apparent = size_clamp(apparent);
	return t;
}

/* The set of a finished child goes into the list of its parent, whose lock is held. 0 or -ENOMEM. */
static int give_links(struct link_set **list, struct link_set *own, bool hidden)
{
	struct link_set *set;

	if (!own->slot)
		return 0;
	set = malloc(sizeof(*set));
	if (!set)
		return -ENOMEM;
	*set = *own;
	memset(own, 0, sizeof(*own));
	set->hidden = hidden;
	set->next = *list;
	*list = set;
	return 0;
}

/* All below is known: sets of links make sums exact. First the view's, since the others are used up. */
static int close_links(struct scan_dir *d)
{
	struct dir_view *v = d->view;
	int r = 0, failed;

	if (v) {
		r = link_set_copy(&v->own, &d->own, &(size_exact){ 0 }, &(size_exact){ 0 });
		for (const struct link_set *set = d->links; r == 0 && set; set = set->next)
			if (!set->hidden)
				r = link_set_copy(&v->own, set, &v->bytes, &v->apparent);
		failed = link_set_merge(&v->own, v->links, &v->bytes, &v->apparent);
		r = MIN(r, failed);
		v->links = NULL;
		v->sum.shared = link_set_close(&v->own);
	}
	failed = link_set_merge(&d->own, d->links, &d->bytes, &d->apparent);
	d->links = NULL;
	d->sum.shared = link_set_close(&d->own);
	return MIN(r, failed);
}

/* What d is without all that is in it, as everybody sees who may list the directory that it is in. */
static struct scan_totals totals_alone(const struct scan_dir *d)
{
	return (struct scan_totals){ .bytes = d->meta.blocks * 512, .newest = d->meta.mtime };
}

/* Does the parent's audience see less of d than there is? Of an empty directory it cannot. */
static bool hides(const struct scan_dir *d, bool covered, const struct scan_totals *totals)
{
	const struct scan_totals alone = totals_alone(d);

	return covered ? d->view != NULL : memcmp(&alone, totals, sizeof(alone)) != 0;
}

/* Its share in what the parent's audience sees; the parent is locked, and has not got the child's totals. */
static int add_to_view(struct scan_dir *parent, struct scan_dir *d, bool covered, bool hidden,
                       const struct scan_totals *totals, const struct scan_totals *audience)
{
	const struct scan_totals alone = totals_alone(d);
	struct dir_view *v = parent->view;

	if (!v) {
		v = parent->view = calloc(1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		v->bytes = parent->bytes;
		v->apparent = parent->apparent;
		v->sum = parent->sum;
	}
	if (!hidden) {
		v->bytes += d->bytes;
		v->apparent += d->apparent;
		totals_add(&v->sum, totals);
	} else if (covered) {
		v->bytes += d->view->bytes;
		v->apparent += d->view->apparent;
		totals_add(&v->sum, audience);
		return give_links(&v->links, &d->view->own, false);
	} else {
		v->bytes += alone.bytes;
		totals_add(&v->sum, &alone);
	}
	return 0;
}

static int add_to_parent(const struct scan *s, struct scan_dir *d, const struct scan_totals *totals,
                         const struct scan_totals *audience, const struct scan_token *token)
{
	struct scan_dir *parent = d->parent;
	bool covered = !s->sink || scan_audience_covers(&d->meta, &parent->meta);
	bool hidden = hides(d, covered, totals);
	int r = 0, failed;

	(void)pthread_mutex_lock(&parent->lock);
	if (hidden || parent->view)
		r = add_to_view(parent, d, covered, hidden, totals, audience);
	failed = give_links(&parent->links, &d->own, hidden);
	parent->children[d->index].token = *token;
	parent->bytes += d->bytes;
	parent->apparent += d->apparent;
	totals_add(&parent->sum, totals);
	(void)pthread_mutex_unlock(&parent->lock);
	return MIN(r, failed);
}

/* d and all below it is known: its node, and its share in the parent. */
static void report_node(struct worker *w, struct scan_dir *d)
{
	struct scan *s = w->scan;
	struct scan_totals totals, audience;
	struct scan_below below = { .totals = &totals,
		                    .children = d->children,
		                    .n_children = d->n_children };
	struct scan_token token = d->token;
	int r = close_links(d);

	totals = clamp_totals(&d->sum, d->bytes, d->apparent);
	if (d->view) {
		audience = clamp_totals(&d->view->sum, d->view->bytes, d->view->apparent);
		below.audience = &audience;
	}
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
	r = add_to_parent(s, d, &totals, below.audience, &token);
	if (r < 0)
		state_fail(s, r);
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
	parent->children[d->index].problem = (uint8_t)problem;
	parent->children[d->index].error = error;
	totals_add_problem(&parent->sum, (unsigned)problem);
	if (parent->view)
		totals_add_problem(&parent->view->sum, (unsigned)problem);
	(void)pthread_mutex_unlock(&parent->lock);
	dir_free(d);
	dir_finish(w, parent);
}
