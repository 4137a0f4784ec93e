/* SPDX-License-Identifier: MIT */
/*
 * pack - rows of the pack table, and the making of them.
 *
 *     nodes -> heads and listings, each in one buffer -> compressed apart -> a row
 *
 * Heads (totals, refs of the sub-directories) are an eighth to a quarter of what there is and
 * answer most questions, so they can be read without the listings.
 */
#include "snapshot/internal.h"

#include <zstd.h>

enum {
	ZSTD_LEVEL = 1
};

static const uint8_t *column_blob(sqlite3_stmt *st, int column, size_t *len)
{
	const void *p = sqlite3_column_blob(st, column);

	*len = (size_t)sqlite3_column_bytes(st, column);
	return p;
}

/* No memory looks like NULL; what is wrong with a row is damage. */
static int no_blob(sqlite3_stmt *st)
{
	return sqlite3_errcode(sqlite3_db_handle(st)) == SQLITE_NOMEM ? -ENOMEM : -EUCLEAN;
}

int pack_row_read(sqlite3_stmt *st, bool lists, struct pack_row *ret)
{
	*ret = (struct pack_row){
		.id = (uint64_t)sqlite3_column_int64(st, 0),
		.codec = sqlite3_column_int(st, 1),
		.size = sqlite3_column_int64(st, 2),
		.sum = (uint64_t)sqlite3_column_int64(st, 3),
	};
	ret->head = column_blob(st, 4, &ret->head_len);
	if (!ret->head || ret->size < 0 || ret->size > PACK_RAW_MAX)
		return no_blob(st);
	if (!lists)
		return 0;
	ret->list_codec = sqlite3_column_int(st, 5);
	ret->list_sum = (uint64_t)sqlite3_column_int64(st, 6);
	ret->fps = column_blob(st, 7, &ret->fps_len);
	ret->list = column_blob(st, 8, &ret->list_len);
	return ret->fps && ret->list ? 0 : no_blob(st);
}

int pack_row_find(struct snap *s, uint64_t id, bool lists, struct pack_row *ret)
{
	sqlite3_stmt *st = lists ? s->get_pack : s->get_head;
	int rc;

	(void)sqlite3_bind_int64(st, 1, (int64_t)id);
	rc = sqlite3_step(st);
	return rc == SQLITE_ROW    ? pack_row_read(st, lists, ret)
	       : rc == SQLITE_DONE ? -ESTALE
	                           : snap_errno(rc);
}

void pack_row_done(struct snap *s, bool lists)
{
	(void)sqlite3_reset(lists ? s->get_pack : s->get_head);
}

int pack_row_write(sqlite3_stmt *st, const struct pack_row *row)
{
	int rc;

	(void)sqlite3_bind_int64(st, 1, (int64_t)row->id);
	(void)sqlite3_bind_int(st, 2, row->codec);
	(void)sqlite3_bind_int64(st, 3, row->size);
	(void)sqlite3_bind_int64(st, 4, (int64_t)row->sum);
	(void)sqlite3_bind_blob64(st, 5, row->head, row->head_len, SQLITE_STATIC);
	(void)sqlite3_bind_int(st, 6, row->list_codec);
	(void)sqlite3_bind_int64(st, 7, (int64_t)row->list_sum);
	(void)sqlite3_bind_blob64(st, 8, row->fps, row->fps_len, SQLITE_STATIC);
	(void)sqlite3_bind_blob64(st, 9, row->list, row->list_len, SQLITE_STATIC);
	rc = sqlite3_step(st);
	(void)sqlite3_reset(st);
	(void)sqlite3_clear_bindings(st);
	return snap_errno(rc);
}

bool pack_heads_are_whole(const struct snap *s, const struct pack_row *row)
{
	return pack_sum(s->secret, row->id, NULL, 0, row->head, row->head_len) == row->sum;
}

bool pack_lists_are_whole(const struct snap *s, const struct pack_row *row)
{
	return pack_sum(s->secret, row->id, row->fps, row->fps_len, row->list, row->list_len) ==
	       row->list_sum;
}

int pack_unpack(struct ZSTD_DCtx_s *zstd, int codec, const uint8_t *data, size_t len, size_t size,
                uint8_t **ret)
{
	*ret = malloc(MAX(size, 1));
	if (!*ret)
		return -ENOMEM;
	if (codec == CODEC_RAW && len == size)
		memcpy(*ret, data, size);
	else if (codec != CODEC_ZSTD || ZSTD_decompressDCtx(zstd, *ret, size, data, len) != size)
		return -EUCLEAN;
	return 0;
}

/* End a slot whose head and listing began at these places. */
static int end_slot(struct packer *p, size_t head_at, size_t list_at, const void *fp)
{
	uint8_t len[2 * VARINT_MAX], *end = len;
	int r;

	end = varint_put(end, p->heads.len - head_at);
	end = varint_put(end, p->lists.len - list_at);
	r = bytes_add(&p->lens, len, (size_t)(end - len));
	if (r == 0)
		r = bytes_add(&p->fps, fp, FP_STORED);
	if (r == 0)
		p->n++;
	return r;
}

int packer_add(struct packer *p, const struct snap_node *n, const struct node_child *children,
               const uint8_t *listing, size_t len, const struct node_key *key)
{
	size_t head_at = p->heads.len, list_at = p->lists.len;
	uint8_t fp[FP_STORED];
	int r = record_add(&p->heads, n->ref, n, children);

	memcpy(fp, key->fp.b, sizeof(key->fp.b));
	memcpy(fp + sizeof(key->fp.b), &key->check, sizeof(key->check));
	if (r == 0)
		r = bytes_add(&p->lists, listing, len);
	return r == 0 ? end_slot(p, head_at, list_at, fp) : r;
}

int packer_skip(struct packer *p)
{
	static const uint8_t none[FP_STORED];

	return end_slot(p, p->heads.len, p->lists.len, none);
}

int packer_copy(struct packer *p, const struct snap_pack *from, size_t slot)
{
	const struct pack_lists *l = &from->lists;
	size_t head_at = p->heads.len, list_at = p->lists.len;
	int r;

	r = bytes_add(&p->heads, from->head + from->at[slot], from->at[slot + 1] - from->at[slot]);
	if (r == 0)
		r = bytes_add(&p->lists, l->list + l->at[slot], l->at[slot + 1] - l->at[slot]);
	return r == 0 ? end_slot(p, head_at, list_at, l->fps + slot * FP_STORED) : r;
}

bool packer_is_full(const struct packer *p)
{
	return p->n == PACK_SLOTS_MAX || p->heads.len + p->lists.len >= PACK_TARGET;
}

/* Into *out if that is shorter; what is to be stored is *ret. */
static int compress(struct packer *p, const struct bytes *raw, struct bytes *out,
                    const uint8_t **ret, size_t *len, int *codec)
{
	size_t n;

	*ret = raw->p;
	*len = raw->len;
	*codec = CODEC_RAW;
	if (!p->zstd)
		p->zstd = ZSTD_createCCtx();
	out->len = 0;
	if (!p->zstd || bytes_reserve(out, ZSTD_compressBound(raw->len)) < 0)
		return -ENOMEM;
	n = ZSTD_compressCCtx(p->zstd, out->p, out->cap, raw->p, raw->len, ZSTD_LEVEL);
	if (ZSTD_isError(n) || n >= raw->len)
		return 0;
	*ret = out->p;
	*len = n;
	*codec = CODEC_ZSTD;
	return 0;
}

/* The first part: number of slots, both lengths of each, the heads. */
static int assemble(struct packer *p)
{
	uint8_t n[VARINT_MAX];
	int r;

	p->raw.len = 0;
	r = bytes_add(&p->raw, n, (size_t)(varint_put(n, p->n) - n));
	if (r == 0)
		r = bytes_add(&p->raw, p->lens.p, p->lens.len);
	return r == 0 ? bytes_add(&p->raw, p->heads.p, p->heads.len) : r;
}

int packer_finish(struct packer *p, const uint8_t *secret, uint64_t id, struct pack_row *ret)
{
	struct pack_row row = { .id = id };
	int r = p->heads.len <= PACK_RAW_MAX / 2 && p->lists.len <= PACK_RAW_MAX ? assemble(p)
	                                                                         : -EFBIG;

	if (r == 0)
		r = compress(p, &p->raw, &p->packed_head, &row.head, &row.head_len, &row.codec);
	if (r == 0)
		r = compress(p, &p->lists, &p->packed_list, &row.list, &row.list_len,
		             &row.list_codec);
	if (r < 0)
		return r;
	row.size = (int64_t)p->raw.len;
	row.fps = p->fps.p;
	row.fps_len = p->fps.len;
	row.sum = pack_sum(secret, id, NULL, 0, row.head, row.head_len);
	row.list_sum = pack_sum(secret, id, row.fps, row.fps_len, row.list, row.list_len);
	*ret = row;
	return 0;
}

void packer_reset(struct packer *p)
{
	p->heads.len = p->lists.len = p->lens.len = p->fps.len = 0;
	p->n = 0;
}

void packer_done(struct packer *p)
{
	(void)ZSTD_freeCCtx(p->zstd);
	free(p->heads.p);
	free(p->lists.p);
	free(p->lens.p);
	free(p->fps.p);
	free(p->raw.p);
	free(p->packed_head.p);
	free(p->packed_list.p);
	*p = (struct packer){ 0 };
}
