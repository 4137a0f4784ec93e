/* SPDX-License-Identifier: MIT */
/*
 * view - which snapshots are shown.
 *
 * A generation is the newest snapshot of every root at one moment, joined into one tree: directories
 * that lead to the roots are made up, and of a root inside another root's tree the newer snapshot shows,
 * with the sums above adjusted. A root that the outer scan did not enter (a file system mounted there) is
 * put in its place, and not summed. Generations never change; requests pin one.
 */
#include "fs/view/internal.h"

/* -- making a generation --------------------------------------------------------------------- */

static void gen_free(struct view *v, struct gen *g)
{
	for (size_t i = 0; i < g->n_virtuals; i++)
		snap_virtual_drop(v->s, g->virtuals[i]);
	free(g->virtuals);
	free(g->then);
	free(g->root_key);
	free(g->hidden);
	snap_roots_done(&g->roots);
	snap_list_done(&g->list); /* which points into all */
	snap_list_done(&g->all);
	(void)pthread_mutex_destroy(&g->lock);
	free(g);
}

void gen_put(struct view *v, struct gen *g)
{
	if (g && atomic_fetch_sub(&g->users, 1) == 1)
		gen_free(v, g);
}

static bool is_readable(struct view *v, const struct snap_info *i)
{
	struct snap_node n;
	int r = snap_node_get(v->s, i->ref, &n);

	if (r == 0)
		snap_node_put(v->s, &n);
	return r != -EUCLEAN && r != -ESTALE;
}

/*
 * A damaged snapshot must not hide the others: of each root the newest that can be read is shown, and
 * "disktracker check" says what is wrong. A root without any is left out, unless there is no other.
 */
static int choose_newest(struct view *v, struct gen *g)
{
	g->list.info = calloc(g->roots.n + 1, sizeof(struct snap_info *));
	if (!g->list.info)
		return -ENOMEM;
	for (size_t i = 0; i < g->roots.n; i++) {
		const struct snap_root *root = &g->roots.root[i];
		size_t n = root->n;

		while (n && !is_readable(v, root->info[n - 1]))
			n--;
		if (!n && g->roots.n == 1)
			n = root->n;
		if (n)
			g->list.info[g->list.n++] = root->info[n - 1];
	}
	return 0;
}

/* Takes over the list. */
static int gen_make(struct view *v, struct snap_list *all, struct gen **ret)
{
	struct gen *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	atomic_init(&g->users, 1);
	(void)pthread_mutex_init(&g->lock, NULL);
	g->all = *all;
	*all = (struct snap_list){ 0 };
	r = snap_roots_get(&g->all, &g->roots);
	if (r == 0)
		r = choose_newest(v, g);
	g->root_key = calloc(g->list.n + 1, sizeof(*g->root_key));
	g->hidden = calloc(g->list.n + 1, sizeof(*g->hidden));
	if (r == 0)
		r = g->root_key && g->hidden ? join_newest(v, g) : -ENOMEM;
	if (r < 0)
		gen_free(v, g);
	else
		*ret = g;
	return r;
}

static bool is_same(const struct gen *g, const struct snap_list *l)
{
	if (!g || g->all.n != l->n)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (g->all.info[i] != l->info[i])
			return false;
	return true;
}

int view_load(struct view *v, struct gen **ret)
{
	struct gen *now = atomic_load(&v->now);
	struct snap_list all = { 0 };
	int r = now ? snap_list_refresh(v->s, &now->all, &all) : snap_list_get(v->s, &all);

	*ret = NULL;
	if (r == 0 && !is_same(now, &all))
		r = gen_make(v, &all, ret);
	snap_list_done(&all);
	return r;
}

void view_publish(struct view *v, struct gen *g)
{
	struct gen **slot;

	(void)pthread_mutex_lock(&v->lock);
	g->number = v->n_gens++;
	slot = &v->ring[g->number % GENS_KEPT];
	gen_put(v, *slot);
	*slot = g;
	atomic_store(&v->now, g);
	(void)pthread_mutex_unlock(&v->lock);
}

int view_init(struct view *v, struct snap *s, const char *root)
{
	struct gen *g = NULL;
	int r;

	v->s = s;
	v->root = root;
	(void)pthread_mutex_init(&v->lock, NULL);
	r = view_load(v, &g);
	if (r == 0)
		view_publish(v, g);
	return r;
}

void view_done(struct view *v)
{
	for (size_t i = 0; i < GENS_KEPT; i++)
		gen_put(v, v->ring[i]);
	(void)pthread_mutex_destroy(&v->lock);
}

struct gen *view_now(struct view *v)
{
	struct gen *g;

	(void)pthread_mutex_lock(&v->lock);
	g = atomic_load(&v->now);
	atomic_fetch_add(&g->users, 1);
	(void)pthread_mutex_unlock(&v->lock);
	return g;
}

/* The newest generation kept whose number ends in these bits. */
struct gen *view_gen(struct view *v, uint32_t number, uint32_t mask)
{
	struct gen *g = NULL;

	(void)pthread_mutex_lock(&v->lock);
	for (uint32_t i = 0; i < GENS_KEPT && i < v->n_gens; i++) {
		struct gen *at = v->ring[(v->n_gens - 1 - i) % GENS_KEPT];

		if ((at->number & mask) == number) {
			g = at;
			atomic_fetch_add(&g->users, 1);
			break;
		}
	}
	(void)pthread_mutex_unlock(&v->lock);
	return g;
}
