/* SPDX-License-Identifier: MIT */
/*
 * past - what changed: history of a directory, and growth over a window of time.
 *
 * A window counts back from the snapshot that is shown, not from the clock, so a text is a function of
 * path and snapshots alone. It begins with the newest snapshot that is at least as old as the window;
 * while the index is younger than that, with the oldest.
 */
#include "fs/view/internal.h"

#include <inttypes.h>

const struct window windows[WINDOWS] = {
#define WINDOW_ROW(name, seconds, words) { name, seconds },
	EACH_WINDOW(WINDOW_ROW)
#undef WINDOW_ROW
};

int window_find(const char *name)
{
	for (size_t i = 0; i < WINDOWS; i++)
		if (strcmp(windows[i].name, name) == 0)
			return (int)i;
	return -1;
}

const struct snap_info *window_start(const struct snap_list *all, const struct snap_info *i,
                                     size_t w)
{
	return snap_select_window(all, i, windows[w].seconds);
}

/* -- growth ---------------------------------------------------------------------------------- */

static void put_change(const struct usage_dir *d, struct text *out, const struct snap_change *c)
{
	struct text first = { 0 };

	if (c->bytes == 0)
		return;
	text_puts(&first, c->bytes > 0 ? "+" : "");
	text_i64(&first, c->bytes);
	text_add(&first, "", 1);
	if (first.failed)
		out->failed = true;
	else
		table_text_line(d, out, first.p, c->path_len ? c->path : ".",
		                c->path_len ? c->path_len : 1);
	text_done(&first);
}

static int ref_then(const struct usage_dir *d, const struct snap_info *then, const char *below,
                    uint64_t *ret)
{
	int r = snap_path_ref(d->s, then->ref, below, ret);

	if (r != -ENOENT)
		return r;
	*ret = 0;
	return 0;
}

static void put_changes(const struct usage_dir *d, const struct snap_changes *c, struct text *out)
{
	for (size_t i = 0; i < c->n; i++)
		put_change(d, out, &c->c[i]);
}

/* Put the path of the root before those of its changes. */
static int prepend(struct snap_changes *c, const char *prefix)
{
	for (size_t i = 0; *prefix && i < c->n; i++) {
		struct text path = { 0 };

		text_puts(&path, prefix);
		text_puts(&path, c->c[i].path_len ? "/" : "");
		text_add(&path, c->c[i].path, c->c[i].path_len);
		text_add(&path, "", 1);
		if (path.failed) {
			text_done(&path);
			return -ENOMEM;
		}
		free(c->c[i].path);
		c->c[i].path = path.p;
		c->c[i].path_len = path.len - 1;
	}
	return 0;
}

/* Move the changes of one root to those of all. */
static int gather(struct snap_changes *all, struct snap_changes *c, const char *prefix)
{
	struct snap_change *grown;
	int r = prepend(c, prefix);

	if (r == 0 && c->n) {
		grown = realloc(all->c, (all->n + c->n) * sizeof(*grown));
		r = grown ? 0 : -ENOMEM;
		if (grown) {
			memcpy(grown + all->n, c->c, c->n * sizeof(*grown));
			all->c = grown;
			all->n += c->n;
			c->n = 0;
		}
	}
	snap_changes_done(c);
	return r;
}

static int gather_root(const struct usage_dir *d, size_t window, const struct snap_root *root,
                       struct snap_changes *all)
{
	const char *prefix = path_below(d->path, root->path);
	const struct snap_info *now = root->info[root->n - 1], *then;
	struct snap_changes c = { 0 };
	int r;

	if (!prefix || root->outer_since < INT64_MAX) /* the outer one's changes hold it */
		return 0;
	then = window_start(&(struct snap_list){ .info = root->info, .n = root->n }, now, window);
	if (then->ref == now->ref)
		return 0;
	r = snap_diff(d->s, then->ref, now->ref, d->stop, &c);
	return r < 0 ? r : gather(all, &c, prefix);
}

/* A directory on the way to the roots: each root below it with its own window. */
static int growth_of_roots(const struct usage_dir *d, size_t window, struct text *out)
{
	struct snap_changes all = { 0 };
	struct snap_roots roots;
	int r = snap_roots_get(d->all, &roots);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < roots.n; i++)
		r = usage_is_stopped(d) ? -EINTR : gather_root(d, window, &roots.root[i], &all);
	if (r == 0 && all.n) {
		snap_changes_sort(&all);
		put_changes(d, &all, out);
	}
	snap_changes_done(&all);
	snap_roots_done(&roots);
	return r;
}

/*
 * The root's own snapshots are compared, not what is shown: another root mounted below would look as if it
 * had been created here.
 */
int render_growth(const struct usage_dir *d, struct text *out)
{
	size_t window = (size_t)window_find(strchr(d->file->name, '/') + 1);
	const struct snap_info *then;
	struct snap_changes c;
	const char *below;
	uint64_t old, now;
	int r;

	if (!d->snapshot)
		return growth_of_roots(d, window, out);
	then = window_start(d->all, d->snapshot, window);
	below = path_below(d->snapshot->root, d->path);
	if (!below)
		return 0;
	r = ref_then(d, then, below, &old);
	if (r == 0)
		r = ref_then(d, d->snapshot, below, &now);
	if (r == 0)
		r = snap_diff(d->s, old, now, d->stop, &c);
	if (r < 0)
		return r;
	put_changes(d, &c, out);
	snap_changes_done(&c);
	return 0;
}

/* How much of a window there is, in seconds: the root's, or the least of the roots below. */
static int64_t span_of(const struct usage_dir *d, const struct snap_roots *roots, size_t window)
{
	int64_t least = INT64_MAX;

	if (d->snapshot)
		return d->snapshot->time - window_start(d->all, d->snapshot, window)->time;
	for (size_t i = 0; i < roots->n; i++) {
		const struct snap_root *root = &roots->root[i];
		const struct snap_list own = { .info = root->info, .n = root->n };
		const struct snap_info *now = root->info[root->n - 1];

		if (path_below(d->path, root->path) && root->outer_since == INT64_MAX)
			least = MIN(least, now->time - window_start(&own, now, window)->time);
	}
	return least < INT64_MAX ? least : 0;
}

int render_span(const struct usage_dir *d, struct text *out)
{
	struct snap_roots roots = { 0 };
	int r = d->snapshot ? 0 : snap_roots_get(d->all, &roots);

	for (size_t i = 0; r == 0 && i < WINDOWS; i++) {
		text_puts(out, windows[i].name);
		text_puts(out, " ");
		text_i64(out, span_of(d, &roots, i));
		text_puts(out, "\n");
	}
	snap_roots_done(&roots);
	return r;
}

/* -- history --------------------------------------------------------------------------------- */

static void history_line(struct text *out, const struct snap_info *i, uint64_t bytes,
                         uint64_t files)
{
	text_i64(out, i->time);
	text_puts(out, "\t");
	text_u64(out, bytes);
	text_puts(out, "\t");
	text_u64(out, files);
	text_puts(out, "\t");
	text_i64(out, i->id);
	text_puts(out, "\n");
}

static int sums_of(const struct usage_dir *d, uint64_t ref, uint64_t *bytes, uint64_t *files)
{
	struct snap_node n;
	int r = 0;

	*bytes = *files = 0;
	if (ref)
		r = snap_head_get(d->s, ref, &n);
	if (ref && r == 0) {
		*bytes = n.totals.bytes;
		*files = n.totals.files;
		snap_node_put(d->s, &n);
	}
	return r;
}

/* Of one root. A snapshot without the directory, after one with it, is a line of zeros. */
static int history_of_trail(const struct usage_dir *d, struct snap_trail *trail, struct text *out)
{
	uint64_t last_root = 0, last = 0, ref, bytes, files;

	for (size_t i = 0; i < d->all->n; i++) {
		const struct snap_info *info = d->all->info[i];
		int r = 0;

		if (strcmp(info->root, d->snapshot->root) != 0 || info->id > d->snapshot->id ||
		    info->ref == last_root)
			continue;
		if (usage_is_stopped(d))
			return -EINTR;
		last_root = info->ref;
		r = snap_trail_follow(d->s, trail, info->ref, &ref);
		if (r == -ENOENT) {
			ref = 0;
			r = 0;
		}
		if (r == 0 && ref != last) {
			r = sums_of(d, ref, &bytes, &files);
			history_line(out, info, bytes, files);
			last = ref;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int history_of_path(const struct usage_dir *d, const char *below, struct text *out)
{
	struct snap_trail trail;
	int r = snap_trail_init(&trail, below);

	if (r == 0)
		r = history_of_trail(d, &trail, out);
	snap_trail_done(&trail);
	return r;
}

/* What the roots below a directory came to, as the snapshots go by. */
struct passing {
	const struct snap_info *
		*shown; /* of each root the newest so far; NULL: none yet, or not below */
	struct snap_roots roots;
};

/* The sum of those that no other root holds by now. */
static void passing_line(const struct passing *p, const struct snap_info *now, struct text *out)
{
	uint64_t bytes = 0, files = 0;

	for (size_t i = 0; i < p->roots.n; i++) {
		if (!p->shown[i] || p->roots.root[i].outer_since <= now->id)
			continue;
		bytes = size_sum(bytes, p->shown[i]->totals.bytes);
		files += p->shown[i]->totals.files;
	}
	history_line(out, now, bytes, files);
}

/*
 * On the way to the roots: the sum of those below, whenever one of them changed. One pass: a snapshot costs
 * no more than there are roots.
 */
static int history_of_roots(const struct usage_dir *d, struct text *out)
{
	struct passing p = { 0 };
	int r = snap_roots_get(d->all, &p.roots);

	if (r == 0)
		p.shown = calloc(p.roots.n + 1, sizeof(*p.shown));
	if (r == 0 && !p.shown)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < d->all->n; i++) {
		const struct snap_info *now = d->all->info[i], *before;
		const struct snap_root *root = snap_root_find(&p.roots, now->root);
		size_t at = (size_t)(root - p.roots.root);

		if (usage_is_stopped(d))
			r = -EINTR;
		if (!path_below(d->path, now->root))
			continue;
		before = p.shown[at];
		p.shown[at] = now;
		if (r == 0 && root->outer_since > now->id && (!before || before->ref != now->ref))
			passing_line(&p, now, out);
	}
	free(p.shown);
	snap_roots_done(&p.roots);
	return r;
}

int render_history(const struct usage_dir *d, struct text *out)
{
	const char *below = d->snapshot ? path_below(d->snapshot->root, d->path) : NULL;

	return below ? history_of_path(d, below, out) : history_of_roots(d, out);
}
