/* SPDX-License-Identifier: MIT */
/*
 * changes - which directories a source says may differ, by path.
 *
 * Sorted with the slash before all else, what is at or below a directory lies together, itself first. So a
 * directory in flight needs no more than where its part begins and ends.
 */
#include "scanner/internal.h"

int source_changed(struct source_changes *c, const char *path, enum source_extent extent)
{
	int r = base_reserve(&c->change, &c->cap, c->n + 1, sizeof(*c->change));
	char *copy = r == 0 ? strdup(path) : NULL;

	if (!copy)
		return -ENOMEM;
	c->change[c->n++] = (struct change){ copy, extent == SOURCE_BELOW };
	return 0;
}

static unsigned rank(char c)
{
	return c == '/' ? 1 : c ? (unsigned char)c + 1u : 0;
}

static int by_path(const void *a, const void *b)
{
	const char *x = ((const struct change *)a)->path, *y = ((const struct change *)b)->path;

	while (*x && *x == *y)
		x++, y++;
	return (int)rank(*x) - (int)rank(*y);
}

void changes_sort(struct source_changes *c)
{
	if (c->n)
		qsort(c->change, c->n, sizeof(*c->change), by_path);
}

void changes_done(struct source_changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->change[i].path);
	free(c->change);
	*c = (struct source_changes){ 0 };
}

/* Those that are the directory itself come first. */
static bool says_below(const struct source_changes *c, const struct change_range *r)
{
	for (size_t i = r->from; i < r->to && strlen(c->change[i].path) <= r->off; i++)
		if (c->change[i].below)
			return true;
	return false;
}

struct change_range changes_all(const struct source_changes *c)
{
	struct change_range r = { .to = c->n };

	r.below = says_below(c, &r);
	return r;
}

/* < 0: the path is before name and all below it, > 0: after. */
static int compare_component(const char *path, const char *name)
{
	while (*name && *path == *name)
		path++, name++;
	if (!*name)
		return *path && *path != '/';
	return rank(*path) < rank(*name) ? -1 : 1;
}

/* The first in the range that compares with name as at least so. */
static size_t bound(const struct source_changes *c, const struct change_range *r, const char *name,
                    int least)
{
	size_t low = r->from, high = r->to;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const char *path = c->change[mid].path;

		/* The directory itself is before all that is below it. */
		if (strlen(path) < r->off || compare_component(path + r->off, name) < least)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct change_range changes_child(const struct source_changes *c, struct change_range parent,
                                  const char *name)
{
	struct change_range r = { .off = parent.off + strlen(name) + 1 };

	r.from = bound(c, &parent, name, 0);
	r.to = bound(c, &parent, name, 1);
	r.below = parent.below || says_below(c, &r);
	return r;
}
