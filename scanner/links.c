/* SPDX-License-Identifier: MIT */
/*
 * links - counts an inode with several names once in every directory that holds at least one of them.
 *
 * Each directory carries the set of multi-link inodes below it whose names were not all seen. A parent
 * merges its children's sets; an inode met in two of them was counted in both, so its bytes are taken
 * off once. An inode whose names are all below is dropped: it cannot appear elsewhere. The total is
 * then a function of the subtree alone. Merging goes from small sets into the largest.
 *
 * Where the audience of a directory does not see all there is a second set, of the names that it sees.
 */
#include "scanner/internal.h"

static size_t link_hash(uint64_t ino)
{
	uint64_t h = ino * 0x9E3779B97F4A7C15u;

	return (size_t)(h ^ h >> 29);
}

static struct link *find_slot(struct link_set *set, uint64_t ino)
{
	size_t i = link_hash(ino) & set->mask;

	while (set->slot[i].nlink && set->slot[i].ino != ino)
		i = (i + 1) & set->mask;
	return &set->slot[i];
}

static int resize(struct link_set *set, size_t slots)
{
	struct link_set bigger = { .mask = slots - 1, .n = set->n };

	bigger.slot = calloc(slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; set->slot && i <= set->mask; i++)
		if (set->slot[i].nlink)
			*find_slot(&bigger, set->slot[i].ino) = set->slot[i];
	free(set->slot);
	set->slot = bigger.slot;
	set->mask = bigger.mask;
	return 0;
}

/*
 * Add what l says was counted. Sums hold the bytes of l already; if the inode is known they are
 * corrected so that it counts once, with the larger of two readings of a file that changes.
 */
int link_set_add(struct link_set *set, const struct link *l, size_exact *bytes,
                 size_exact *apparent)
{
	struct link *known;
	int r;

	if (!set->slot || set->n * 4 >= (set->mask + 1) * 3) {
		r = resize(set, set->slot ? (set->mask + 1) * 2 : 8);
		if (r < 0)
			return r;
	}
	known = find_slot(set, l->ino);
	if (!known->nlink) {
		*known = *l;
		set->n++;
		return 0;
	}
	*bytes -= MIN(known->bytes, l->bytes);
	*apparent -= MIN(known->size, l->size);
	known->bytes = MAX(known->bytes, l->bytes);
	known->size = MAX(known->size, l->size);
	known->nlink = MAX(known->nlink, l->nlink);
	known->seen += l->seen;
	return 0;
}

int link_set_copy(struct link_set *into, const struct link_set *from, size_exact *bytes,
                  size_exact *apparent)
{
	int r = 0;

	for (size_t i = 0; r == 0 && from->slot && i <= from->mask; i++)
		if (from->slot[i].nlink)
			r = link_set_add(into, &from->slot[i], bytes, apparent);
	return r;
}

static void swap_sets(struct link_set *a, struct link_set *b)
{
	struct link_set t = *a;

	a->slot = b->slot, a->n = b->n, a->mask = b->mask;
	b->slot = t.slot, b->n = t.n, b->mask = t.mask;
}

/* Merge a list of sets into one and free the list. */
int link_set_merge(struct link_set *into, struct link_set *list, size_exact *bytes,
                   size_exact *apparent)
{
	struct link_set *next;
	int r = 0;

	for (; list; list = next) {
		next = list->next;
		if (list->n > into->n)
			swap_sets(into, list);
		if (r == 0)
			r = link_set_copy(into, list, bytes, apparent);
		free(list->slot);
		free(list);
	}
	return r;
}

/* Drop the inodes whose names were all seen; returns the bytes of the rest. */
uint64_t link_set_close(struct link_set *set)
{
	struct link_set kept = { .mask = set->mask };
	size_exact shared = 0;
	size_t open = 0;

	for (size_t i = 0; set->slot && i <= set->mask; i++)
		if (set->slot[i].nlink && set->slot[i].seen < set->slot[i].nlink)
			open++;
	if (open == 0) {
		link_set_done(set);
		return 0;
	}
	while (kept.mask > 7 && open * 4 < (kept.mask + 1) / 2 * 3)
		kept.mask /= 2;
	kept.slot = calloc(kept.mask + 1, sizeof(*kept.slot));
	for (size_t i = 0; i <= set->mask; i++) {
		if (!set->slot[i].nlink || set->slot[i].seen >= set->slot[i].nlink)
			continue;
		shared += set->slot[i].bytes;
		if (kept.slot)
			*find_slot(&kept, set->slot[i].ino) = set->slot[i];
	}
	if (kept.slot) { /* otherwise keep the closed ones too: larger, still right */
		free(set->slot);
		set->slot = kept.slot;
		set->mask = kept.mask;
		set->n = open;
	}
	return size_clamp(shared);
}

/* The set as it was when all of the subtree had been read: those whose names are not all below. */
int scan_kept_link(struct scan_kept *k, const struct scan_meta *m)
{
	const struct link l = link_of(m);
	size_exact none = 0, no_size = 0;

	if (!k->links)
		k->links = calloc(1, sizeof(*k->links));
	return k->links ? link_set_add(k->links, &l, &none, &no_size) : -ENOMEM;
}

void link_set_done(struct link_set *set)
{
	free(set->slot);
	set->slot = NULL;
	set->n = set->mask = 0;
}
