/* SPDX-License-Identifier: MIT */
/*
 * lookup - see lookup.h.
 *
 *     make a run:  fingerprints of its packs -> sorted by hash -> cut into parts by their first bits
 *                  -> each part: differences of hashes as Rice codes, each with its pack -> a row
 *     find:        of each run the part that the hash belongs to -> packs with such a hash
 *
 * Of a hash its first bits (which part) and HASH_BITS more are kept: of sixteen lookups of something new
 * about one names a pack in vain. That is some 14 bits a node in an index with 300 packs, 19 with 6,000.
 */
#include "snapshot/lookup.h"

#include <endian.h>

enum {
	PART_NODES = 256, /* at most, on average: some 600 bytes */
	PART_BITS_MAX = 24,
	HASH_BITS = 12,
	RICE_BITS = 4,
};

/* -- bits ------------------------------------------------------------------------------------ */

struct bits {
	uint8_t *p;
	size_t at, end; /* in bits */
};

static uint64_t low_bits(uint64_t v, unsigned n)
{
	return v & ((UINT64_C(1) << n) - 1);
}

/* At most 57 bits, with room for 8 bytes after the last. */
static void put_bits(struct bits *b, uint64_t v, unsigned n)
{
	uint8_t *p = b->p + b->at / 8;
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	word |= htole64(low_bits(v, n) << b->at % 8);
	memcpy(p, &word, sizeof(word));
	b->at += n;
}

/* The next 57 bits or more; past the end there are zeros. */
static uint64_t next_bits(const struct bits *b)
{
	uint64_t word = 0;

	if (b->at < b->end)
		memcpy(&word, b->p + b->at / 8, MIN(sizeof(word), (b->end - b->at + 7) / 8));
	return le64toh(word) >> b->at % 8;
}

static uint64_t get_bits(struct bits *b, unsigned n)
{
	uint64_t v = low_bits(next_bits(b), n);

	b->at += n;
	return v;
}

static void put_rice(struct bits *b, uint64_t v)
{
	for (uint64_t i = v >> RICE_BITS; i; i--)
		put_bits(b, 1, 1);
	put_bits(b, 0, 1);
	put_bits(b, v, RICE_BITS);
}

static uint64_t get_rice(struct bits *b)
{
	uint64_t high = 0;
	unsigned ones;

	do {
		ones = (unsigned)__builtin_ctzll(~next_bits(b) | UINT64_C(1) << 56);
		b->at += ones;
		high += ones;
	} while (ones == 56);
	b->at++;
	return high << RICE_BITS | get_bits(b, RICE_BITS);
}

static unsigned width(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* -- a part ---------------------------------------------------------------------------------- */

struct entry {
	uint64_t hash, pack;
};

struct entries {
	struct entry *e;
	size_t n, cap;
};

struct part {
	struct lookup_run run; /* that it says it is of; without the id */
	uint64_t n;
	struct bits bits;
};

static uint64_t hash_of(const uint8_t *fp)
{
	uint64_t h;

	memcpy(&h, fp, sizeof(h));
	return be64toh(h);
}

static uint64_t part_of(uint64_t hash, uint64_t part_bits)
{
	return part_bits ? hash >> (64 - part_bits) : 0;
}

static uint64_t kept(uint64_t hash, uint64_t part_bits)
{
	return hash << part_bits >> (64 - HASH_BITS);
}

static int encode_part(const struct lookup_run *r, const struct entry *e, size_t n,
                       struct bytes *out)
{
	unsigned pack_bits = width(r->last - r->first);
	/* The unary parts of hashes that grow come to this in all. */
	size_t most = (1u << (HASH_BITS - RICE_BITS)) + n * (1 + RICE_BITS + pack_bits);
	struct bits b;
	uint64_t last = 0;
	uint8_t *p;

	out->len = 0;
	if (bytes_reserve(out, 4 * VARINT_MAX + most / 8 + 9) < 0)
		return -ENOMEM;
	p = varint_put(out->p, r->first);
	p = varint_put(p, r->last);
	p = varint_put(p, r->part_bits);
	p = varint_put(p, n);
	memset(p, 0, most / 8 + 9);
	b = (struct bits){ .p = p };
	for (size_t i = 0; i < n; i++) {
		uint64_t v = kept(e[i].hash, r->part_bits);

		put_rice(&b, v - last);
		put_bits(&b, e[i].pack - r->first, pack_bits);
		last = v;
	}
	out->len = (size_t)(p - out->p) + (b.at + 7) / 8;
	return 0;
}

static int64_t row_id(uint64_t run, uint64_t part)
{
	return (int64_t)(run << PART_BITS_MAX | part);
}

static uint64_t row_sum(const struct snap *s, int64_t id, const void *p, size_t len)
{
	return pack_sum(s->secret, (uint64_t)id, "lookup", 6, p, len);
}

/* From a row of id, sum, data, good until the statement goes on. */
static int read_part(const struct snap *s, sqlite3_stmt *st, struct part *ret)
{
	uint8_t *p = (uint8_t *)(uintptr_t)sqlite3_column_blob(st, 2);
	const uint8_t *q, *end = p + sqlite3_column_bytes(st, 2);
	int64_t id = sqlite3_column_int64(st, 0);
	uint64_t bits = 0;

	*ret = (struct part){ .run.id = (uint64_t)id >> PART_BITS_MAX };
	if (!p || row_sum(s, id, p, (size_t)(end - p)) != (uint64_t)sqlite3_column_int64(st, 1))
		return -EUCLEAN;
	q = varint_get(p, end, &ret->run.first);
	q = varint_get(q, end, &ret->run.last);
	q = varint_get(q, end, &bits);
	q = varint_get(q, end, &ret->n);
	if (!q || bits > PART_BITS_MAX || ret->run.first > ret->run.last)
		return -EUCLEAN;
	ret->run.part_bits = bits;
	ret->bits = (struct bits){ p, (size_t)(q - p) * 8, (size_t)(end - p) * 8 };
	return 0;
}

/* -- finding --------------------------------------------------------------------------------- */

int lookup_open(struct snap *s, struct lookup *ret)
{
	sqlite3_stmt *st;
	uint64_t next = 0; /* where the run that came before this one begins */
	int rc, r = 0;

	*ret = (struct lookup){ 0 };
	rc = sqlite3_prepare_v2(
		s->db, "SELECT id, sum, data FROM lookup WHERE id<? ORDER BY id DESC LIMIT 1", -1,
		&st, NULL);
	if (rc == SQLITE_OK)
		(void)sqlite3_bind_int64(st, 1, INT64_MAX);
	while (r == 0 && snap_errno(rc) == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(st, 0);
		struct part p;

		s->rows_read++;
		r = read_part(s, st, &p);
		if (r == 0 && (ret->n == LOOKUP_RUNS_MAX || (next && p.run.last + 1 != next) ||
		               id != row_id(p.run.id, (UINT64_C(1) << p.run.part_bits) - 1)))
			r = -EUCLEAN;
		if (r == 0)
			ret->run[ret->n++] = p.run;
		next = p.run.first;
		(void)sqlite3_reset(st);
		(void)sqlite3_bind_int64(st, 1, row_id(p.run.id, 0));
	}
	(void)sqlite3_finalize(st);
	ret->covered = ret->n ? ret->run[0].last : 0;
	if (r == 0 && ret->n && next != 1)
		r = -EUCLEAN;
	return r ? r : snap_errno(rc);
}

void lookup_close(struct lookup *l)
{
	(void)sqlite3_finalize(l->get);
	free(l->pack);
	*l = (struct lookup){ 0 };
}

static int find_in_part(struct lookup *l, const struct lookup_run *run, struct part *p,
                        uint64_t hash)
{
	unsigned pack_bits = width(run->last - run->first);
	uint64_t want = kept(hash, run->part_bits), v = 0;
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < p->n && v <= want; i++) {
		uint64_t pack;

		v += get_rice(&p->bits);
		pack = run->first + get_bits(&p->bits, pack_bits);
		if (p->bits.at > p->bits.end || pack > run->last)
			return -EUCLEAN;
		if (v != want)
			continue;
		r = base_reserve(&l->pack, &l->cap, l->n_packs + 1, sizeof(*l->pack));
		if (r == 0)
			l->pack[l->n_packs++] = pack;
	}
	return r;
}

static int find_in_run(struct snap *s, struct lookup *l, const struct lookup_run *run,
                       uint64_t hash)
{
	struct part p;
	int rc, r;

	(void)sqlite3_bind_int64(l->get, 1, row_id(run->id, part_of(hash, run->part_bits)));
	rc = sqlite3_step(l->get);
	s->rows_read++;
	r = rc == SQLITE_ROW    ? read_part(s, l->get, &p)
	    : rc == SQLITE_DONE ? -EUCLEAN
	                        : snap_errno(rc);
	if (r == 0 && memcmp(&p.run, run, sizeof(p.run)) != 0)
		r = -EUCLEAN;
	if (r == 0)
		r = find_in_part(l, run, &p, hash);
	(void)sqlite3_reset(l->get);
	return r;
}

int lookup_find(struct snap *s, struct lookup *l, const struct snap_fingerprint *fp)
{
	uint64_t hash = hash_of(fp->b);
	int r = 0;

	l->n_packs = 0;
	if (l->n && !l->get)
		r = snap_errno(sqlite3_prepare_v2(
			s->db, "SELECT id, sum, data FROM lookup WHERE id=?", -1, &l->get, NULL));
	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = find_in_run(s, l, &l->run[i], hash);
	return r;
}

/* -- making ---------------------------------------------------------------------------------- */

static int add_fps(struct entries *to, uint64_t pack, const uint8_t *fps, size_t n)
{
	static const uint8_t empty[FP_STORED];
	int r = base_reserve(&to->e, &to->cap, to->n + n, sizeof(*to->e));

	for (size_t i = 0; r == 0 && i < n; i++, fps += FP_STORED)
		if (memcmp(fps, empty, sizeof(empty)) != 0)
			to->e[to->n++] = (struct entry){ hash_of(fps), pack };
	return r;
}

static int order_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1)
	                          : (x->pack > y->pack) - (x->pack < y->pack);
}

/* What the packs of a run hold, in order. Of a row, what comes after the fingerprints is not read. */
static int collect(struct snap *s, const struct lookup_run *run, struct entries *ret)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(s->db, "SELECT id, fps FROM pack WHERE id BETWEEN ? AND ?", -1,
	                            &st, NULL),
	    r = 0;

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, (int64_t)run->first);
		(void)sqlite3_bind_int64(st, 2, (int64_t)run->last);
	}
	while (r == 0 && snap_errno(rc) == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = add_fps(ret, (uint64_t)sqlite3_column_int64(st, 0), sqlite3_column_blob(st, 1),
		            (size_t)sqlite3_column_bytes(st, 1) / FP_STORED);
	(void)sqlite3_finalize(st);
	if (ret->n)
		qsort(ret->e, ret->n, sizeof(*ret->e), order_entries);
	return r ? r : snap_errno(rc);
}

/* Hand the parts of a run, as they are to be stored, to a function one by one. */
static int
each_part(struct snap *s, const struct lookup_run *run, const struct entries *all, sqlite3_stmt *st,
          int (*fn)(struct snap *s, sqlite3_stmt *st, int64_t id, const struct bytes *data))
{
	struct bytes data = { 0 };
	size_t from = 0, to;
	int r = 0;

	for (uint64_t part = 0; r == 0 && part < UINT64_C(1) << run->part_bits; part++, from = to) {
		for (to = from; to < all->n && part_of(all->e[to].hash, run->part_bits) == part;)
			to++;
		r = encode_part(run, all->e + from, to - from, &data);
		if (r == 0)
			r = fn(s, st, row_id(run->id, part), &data);
	}
	free(data.p);
	return r;
}

static int write_part(struct snap *s, sqlite3_stmt *st, int64_t id, const struct bytes *data)
{
	int rc;

	(void)sqlite3_bind_int64(st, 1, id);
	(void)sqlite3_bind_int64(st, 2, (int64_t)row_sum(s, id, data->p, data->len));
	(void)sqlite3_bind_blob64(st, 3, data->p, data->len, SQLITE_STATIC);
	rc = sqlite3_step(st);
	(void)sqlite3_reset(st);
	return snap_errno(rc);
}

static int compare_part(struct snap *s, sqlite3_stmt *st, int64_t id, const struct bytes *data)
{
	struct part p;
	int rc, r;

	(void)sqlite3_bind_int64(st, 1, id);
	rc = sqlite3_step(st);
	r = rc == SQLITE_ROW ? read_part(s, st, &p) : rc == SQLITE_DONE ? -EUCLEAN : snap_errno(rc);
	if (r == 0 && ((size_t)sqlite3_column_bytes(st, 2) != data->len ||
	               memcmp(sqlite3_column_blob(st, 2), data->p, data->len) != 0))
		r = -EUCLEAN;
	(void)sqlite3_reset(st);
	return r;
}

static int write_run(struct snap *s, struct lookup_run run)
{
	struct entries all = { 0 };
	sqlite3_stmt *st = NULL;
	int r;

	if (run.last < LOOKUP_FIRST)
		return 0;
	r = collect(s, &run, &all);

	if (r == 0)
		r = snap_errno(sqlite3_prepare_v2(s->db, "INSERT INTO lookup VALUES (?, ?, ?)", -1,
		                                  &st, NULL));
	while ((uint64_t)PART_NODES << run.part_bits < all.n)
		run.part_bits++;
	if (r == 0)
		r = each_part(s, &run, &all, st, write_part);
	(void)sqlite3_finalize(st);
	free(all.e);
	return r;
}

static int delete_run(struct snap *s, const struct lookup_run *run)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(s->db, "DELETE FROM lookup WHERE id BETWEEN ? AND ?", -1, &st,
	                            NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int64(st, 1, row_id(run->id, 0));
		(void)sqlite3_bind_int64(st, 2, row_id(run->id + 1, 0) - 1);
		rc = sqlite3_step(st);
	}
	(void)sqlite3_finalize(st);
	return snap_errno(rc);
}

static int take_up(struct snap *s, const struct lookup *l, uint64_t last)
{
	struct lookup_run run = { .id = l->n ? l->run[0].id + 1 : 1,
		                  .first = l->covered + 1,
		                  .last = last };
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct lookup_run *old = &l->run[i];

		if (old->last - old->first + 1 > 2 * (run.last - run.first + 1))
			break;
		r = delete_run(s, old);
		run.first = old->first;
	}
	return r == 0 ? write_run(s, run) : r;
}

int lookup_extend(struct snap *s, uint64_t first, uint64_t next)
{
	struct lookup l;
	int r;

	/* Mostly there is nothing to do, and that costs nothing: not even to look. */
	if (first / LOOKUP_TAIL == next / LOOKUP_TAIL)
		return 0;
	r = lookup_open(s, &l);
	if (r == 0 && l.covered + 1 < next)
		r = take_up(s, &l, next - 1);
	lookup_close(&l);
	return r == -EUCLEAN ? lookup_rebuild(s) : r;
}

int lookup_rebuild(struct snap *s)
{
	int64_t last = 0;
	int r = store_int(s->db, "SELECT ifnull(max(id), 0) FROM pack", &last);

	if (r == 0)
		r = store_exec(s->db, "DELETE FROM lookup");
	return r == 0 && last > 0 ? write_run(s, (struct lookup_run){ .id = 1,
	                                                              .first = 1,
	                                                              .last = (uint64_t)last })
	                          : r;
}

int lookup_check(struct snap *s)
{
	sqlite3_stmt *st = NULL;
	struct lookup l;
	int64_t rows = 0, known = 0;
	int r = lookup_open(s, &l);

	if (r == 0)
		r = store_int(s->db, "SELECT count(*) FROM lookup", &rows);
	if (r == 0)
		r = snap_errno(sqlite3_prepare_v2(
			s->db, "SELECT id, sum, data FROM lookup WHERE id=?", -1, &st, NULL));
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		struct entries all = { 0 };

		r = collect(s, &l.run[i], &all);
		if (r == 0)
			r = each_part(s, &l.run[i], &all, st, compare_part);
		known += INT64_C(1) << l.run[i].part_bits;
		free(all.e);
	}
	(void)sqlite3_finalize(st);
	lookup_close(&l);
	return r == 0 && rows != known ? -EUCLEAN : r;
}
