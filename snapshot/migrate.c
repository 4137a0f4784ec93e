/* SPDX-License-Identifier: MIT */
/*
 * migrate - brings an index of an older format up to date, in one transaction.
 *
 *     1 -> 2: heads and listings of a pack are stored apart; nodes, refs and fingerprints stay
 *
 * Format 1 had, in its columns fps and data, for each slot one record: what record_totals() reads, the
 * length of the kids, the kids, the listing.
 */
#include "snapshot/internal.h"

#include <zstd.h>

struct migration {
	struct snap *s;
	sqlite3_stmt *list, *insert;
	struct packer pack;
	struct node_kid *kids;
	size_t kids_cap;
	ZSTD_DCtx *zstd;
};

static int parse_record(const uint8_t *p, const uint8_t *end, struct snap_node *ret)
{
	uint64_t kids_len = 0;

	p = varint_get(record_totals(p, end, ret), end, &kids_len);
	if (!p || kids_len > (size_t)(end - p) || ret->n_kids > kids_len ||
	    ret->n_kids > ret->n_entries)
		return -EUCLEAN;
	ret->kids = p;
	ret->kids_end = p + kids_len;
	return record_listing(ret->kids_end, end, ret);
}

static int hash_names(struct snap_node *n, uint64_t seed)
{
	struct snap_iter it;
	int r;

	n->names = seed;
	snap_iter_init(&it, n);
	while ((r = snap_iter_next(&it)) > 0)
		if (it.e.placed)
			n->names = names_hash(n->names, it.e.name, it.e.name_len);
	return r;
}

static int move_record(struct migration *m, uint64_t ref, const uint8_t *p, const uint8_t *end,
                       const uint8_t *fp)
{
	struct snap_node n = { .ref = ref };
	struct node_key key;
	int r;

	if (p == end)
		return packer_skip(&m->pack);
	key = node_key_at(fp);
	r = parse_record(p, end, &n);
	if (r == 0)
		r = record_kids(&n, &m->kids, &m->kids_cap);
	if (r == 0)
		r = hash_names(&n, m->s->seed);
	return r == 0 ? packer_add(&m->pack, &n, m->kids, n.listing, (size_t)(end - n.listing),
	                           &key)
	              : r;
}

static int move_records(struct migration *m, uint64_t id, const uint8_t *p, const uint8_t *end,
                        const uint8_t *fps, size_t fps_len)
{
	const uint8_t *lens, *at;
	uint64_t n = 0, len = 0;
	int r = 0;

	lens = varint_get(p, end, &n);
	if (!lens || n > PACK_SLOTS_MAX || fps_len != n * FP_STORED)
		return -EUCLEAN;
	at = lens;
	for (uint64_t i = 0; i < n; i++)
		at = varint_get(at, end, &len);
	for (uint64_t i = 0; r == 0 && at && i < n; i++, fps += FP_STORED) {
		lens = varint_get(lens, end, &len);
		if (len > (size_t)(end - at))
			return -EUCLEAN;
		r = move_record(m, id << REF_SLOT_BITS | i, at, at + len, fps);
		at += len;
	}
	return r ? r : at == end ? 0 : -EUCLEAN;
}

static int move_pack(struct migration *m, const struct pack_row *old, struct pack_row *ret)
{
	AUTO(base_free) uint8_t *raw = NULL;
	int r;

	packer_reset(&m->pack);
	if (!pack_lists_are_whole(m->s, old))
		return -EUCLEAN;
	r = pack_unpack(m->zstd, old->list_codec, old->list, old->list_len, (size_t)old->size,
	                &raw);
	if (r == 0)
		r = move_records(m, old->id, raw, raw + old->size, old->fps, old->fps_len);
	return r == 0 ? packer_finish(&m->pack, m->s->secret, old->id, ret) : r;
}

/* A damaged pack becomes a row without contents: it stays damaged, and 'check' names what it was part of. */
static int move_row(struct migration *m)
{
	struct pack_row old, row;
	int r = pack_row_read(m->list, true, &old);

	if (r == 0)
		r = move_pack(m, &old, &row);
	if (r == -EUCLEAN)
		row = (struct pack_row){ .id = old.id };
	else if (r < 0)
		return r;
	return pack_row_write(m->insert, &row);
}

/* Its data had the codec, sum and place that a list has now, beside the fingerprints. */
#define OLD_COLUMNS "id, codec, size, sum, data, codec, sum, fps, data"

static int move_all(struct migration *m)
{
	sqlite3 *db = m->s->db;
	int rc = sqlite3_prepare_v2(db, "SELECT " OLD_COLUMNS " FROM pack_old", -1, &m->list, NULL),
	    r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(db, "INSERT " PACK_VALUES, -1, &m->insert, NULL);
	while (r == 0 && snap_errno(rc) == 0 && (rc = sqlite3_step(m->list)) == SQLITE_ROW)
		r = move_row(m);
	(void)sqlite3_finalize(m->list);
	(void)sqlite3_finalize(m->insert);
	return r ? r : snap_errno(rc);
}

static int separate_heads(struct snap *s)
{
	struct migration m = { .s = s, .zstd = ZSTD_createDCtx() };
	int r = m.zstd ? store_exec(s->db, "ALTER TABLE pack RENAME TO pack_old;"
	                                   "CREATE TABLE " PACK_TABLE ";")
	               : -ENOMEM;

	if (r == 0)
		r = move_all(&m);
	if (r == 0)
		r = store_exec(s->db, "DROP TABLE pack_old; PRAGMA user_version=2;");
	packer_done(&m.pack);
	free(m.kids);
	(void)ZSTD_freeDCtx(m.zstd);
	return r;
}

int store_migrate(struct snap *s)
{
	int64_t version = 0;
	int r = store_exec(s->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	r = store_int(s->db, "PRAGMA user_version", &version); /* somebody may have been faster */
	if (r == 0 && version == 1)
		r = separate_heads(s);
	else if (r == 0 && version != SNAP_FORMAT)
		r = -EPROTONOSUPPORT;
	if (r == 0)
		r = store_exec(s->db, "COMMIT");
	if (r < 0) {
		if (!sqlite3_get_autocommit(s->db))
			(void)store_exec(s->db, "ROLLBACK");
		return r;
	}
	(void)store_exec(s->db, "PRAGMA incremental_vacuum");
	store_fold_log(s);
	return 0;
}
