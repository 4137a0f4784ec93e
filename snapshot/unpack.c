/* SPDX-License-Identifier: MIT */
/*
 * unpack - from a row of the pack table to a pack in memory: sums verified, blobs decompressed, slots found.
 */
#include "snapshot/internal.h"

void pack_lists_done(struct pack_lists *l)
{
	free(l->list);
	free(l->at);
	free(l->fps);
	*l = (struct pack_lists){ 0 };
}

void pack_free(struct snap_pack *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->index && i < p->n; i++)
		node_index_free(p->index[i]);
	free(p->index);
	free(p->head);
	free(p->at);
	pack_lists_done(&p->lists);
	free(p);
}

enum part {
	HEADS,
	LISTS,
	PARTS
};

/*
 * A pack begins with both lengths of each slot: sum those of one part into at[n + 1]. Returns where the
 * heads begin, or NULL.
 */
static const uint8_t *sum_lengths(const uint8_t *p, const uint8_t *end, size_t n, enum part part,
                                  uint32_t *at)
{
	uint64_t sum = 0, len[PARTS];

	for (size_t i = 0; i < n; i++) {
		at[i] = (uint32_t)sum;
		for (size_t k = 0; k < PARTS; k++)
			p = varint_get(p, end, &len[k]);
		/* An emptied slot has neither. */
		if (!p || !len[HEADS] != !len[LISTS] || len[part] > PACK_RAW_MAX ||
		    (sum += len[part]) > PACK_RAW_MAX)
			return NULL;
	}
	at[n] = (uint32_t)sum;
	return p;
}

static int find_heads(struct snap_pack *p, size_t size)
{
	const uint8_t *at = p->head, *end = p->head + size;
	uint64_t n = 0;

	at = varint_get(at, end, &n);
	if (!at || n > PACK_SLOTS_MAX)
		return -EUCLEAN;
	p->n = (size_t)n;
	p->at = calloc(p->n + 1, sizeof(*p->at));
	if (!p->at)
		return -ENOMEM;
	at = sum_lengths(at, end, p->n, HEADS, p->at);
	if (!at || p->at[p->n] != (size_t)(end - at))
		return -EUCLEAN;
	for (size_t i = 0; i <= p->n; i++)
		p->at[i] += (uint32_t)(at - p->head);
	return 0;
}

static int head_fill(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct pack_row *row,
                     struct snap_pack *p)
{
	size_t size = (size_t)row->size;
	int r;

	p->id = row->id;
	p->sum = row->sum;
	if (!pack_heads_are_whole(s, row))
		return -EUCLEAN;
	r = pack_unpack(zstd, row->codec, row->head, row->head_len, size, &p->head);
	if (r == 0)
		r = find_heads(p, size);
	p->bytes = sizeof(*p) + size + p->n * sizeof(*p->at);
	return r;
}

/*
 * The rest of a pack whose heads are there; of a row without its list, the fingerprints. *ret is to be freed,
 * also after an error.
 */
static int lists_fill(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct pack_row *row,
                      const struct snap_pack *p, struct pack_lists *ret)
{
	const uint8_t *heads = p->head + p->at[0], *at;
	uint64_t n;

	if (row->fps_len != p->n * FP_STORED || (row->list && !pack_lists_are_whole(s, row)))
		return -EUCLEAN;
	ret->fps = malloc(MAX(row->fps_len, 1));
	if (!ret->fps)
		return -ENOMEM;
	memcpy(ret->fps, row->fps, row->fps_len);
	if (!row->list)
		return 0;
	ret->at = calloc(p->n + 1, sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	at = varint_get(p->head, heads, &n);
	if (!sum_lengths(at, heads, p->n, LISTS, ret->at))
		return -EUCLEAN;
	return pack_unpack(zstd, row->list_codec, row->list, row->list_len, ret->at[p->n],
	                   &ret->list);
}

size_t pack_lists_attach(struct snap_pack *p, struct pack_lists *l)
{
	size_t before = p->bytes;

	if (!p->lists.fps && l->fps) {
		p->lists.fps = TAKE(l->fps);
		p->bytes += p->n * FP_STORED;
	}
	if (!p->lists.list && l->list) {
		p->lists.at = TAKE(l->at);
		p->lists.list = TAKE(l->list);
		p->bytes += p->n * sizeof(*p->lists.at) + p->lists.at[p->n];
	}
	return p->bytes - before;
}

static int heads_new(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct pack_row *row,
                     struct snap_pack **ret)
{
	struct snap_pack *p = calloc(1, sizeof(*p));
	int r = p ? head_fill(s, zstd, row, p) : -ENOMEM;

	if (r < 0)
		pack_free(p);
	else
		*ret = p;
	return r;
}

int pack_row_unpack(const struct snap *s, struct ZSTD_DCtx_s *zstd, const struct pack_row *row,
                    const struct snap_pack *p, struct snap_pack **made, struct pack_lists *lists)
{
	int r = p ? 0 : heads_new(s, zstd, row, made);

	if (r == 0 && row->fps)
		r = lists_fill(s, zstd, row, p ? p : *made, lists);
	return r;
}
