/* SPDX-License-Identifier: MIT */
/* mark - see mark.h. Open addressing by pack id. */
#include "snapshot/mark.h"

static struct mark_pack *find(const struct marks *m, uint64_t id)
{
	size_t i = (size_t)(id * 0x9E3779B97F4A7C15u >> 20) & m->mask;

	while (m->slot[i].id && m->slot[i].id != id)
		i = (i + 1) & m->mask;
	return &m->slot[i];
}

static int grow(struct marks *m)
{
	struct marks bigger = { .n = m->n, .mask = m->slot ? m->mask * 2 + 1 : 255 };

	bigger.slot = calloc(bigger.mask + 1, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; m->slot && i <= m->mask; i++)
		if (m->slot[i].id)
			*find(&bigger, m->slot[i].id) = m->slot[i];
	free(m->slot);
	*m = bigger;
	return 0;
}

int marks_add(struct marks *m, uint64_t ref)
{
	uint64_t id = ref >> REF_SLOT_BITS, bit = ref & (PACK_SLOTS_MAX - 1);
	struct mark_pack *p;
	size_t words;

	if ((!m->slot || (m->n + 1) * 4 > (m->mask + 1) * 3) && grow(m) < 0)
		return -ENOMEM;
	p = find(m, id);
	if (!p->id) {
		p->id = id;
		m->n++;
	}
	words = bit / 64 + 1;
	if (words > p->words) {
		uint64_t *bits = realloc(p->bits, words * sizeof(*bits));

		if (!bits)
			return -ENOMEM;
		memset(bits + p->words, 0, (words - p->words) * sizeof(*bits));
		p->bits = bits;
		p->words = words;
	}
	if (p->bits[bit / 64] >> bit % 64 & 1)
		return 0;
	p->bits[bit / 64] |= UINT64_C(1) << bit % 64;
	return 1;
}

bool marks_has(const struct marks *m, uint64_t ref)
{
	uint64_t bit = ref & (PACK_SLOTS_MAX - 1);
	const struct mark_pack *p;

	if (!m->slot)
		return false;
	p = find(m, ref >> REF_SLOT_BITS);
	return p->id && bit / 64 < p->words && (p->bits[bit / 64] >> bit % 64 & 1);
}

void marks_done(struct marks *m)
{
	for (size_t i = 0; m->slot && i <= m->mask; i++)
		free(m->slot[i].bits);
	free(m->slot);
	*m = (struct marks){ 0 };
}
