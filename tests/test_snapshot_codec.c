/* SPDX-License-Identifier: MIT */
/* The stored form of a directory: it comes back as it went in, and its bytes may not change. */
#include "snapshot/internal.h"
#include "tests/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <xxhash.h>

#include <cmocka.h>

enum {
	ENTRIES_MAX = 1200
};

/* A directory made up at random, and what it was encoded to. */
struct sample {
	struct scan_dirinfo dir;
	struct scan_entry entry[ENTRIES_MAX];
	char name[ENTRIES_MAX][256];
	struct node_child child[ENTRIES_MAX];
	struct scan_totals totals, audience;
	size_t n, n_children;
	bool world_listable, single_owner, links_leave, partial;
	uint64_t self;
	struct bytes listing, record;
	struct snap_node node; /* as parsed */
};

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	return tree_draw(&random_state) % below;
}

/* Small numbers, numbers at the edges of varints, the largest. */
static uint64_t draw_number(uint64_t max)
{
	switch (draw(6)) {
	case 0:
		return 0;
	case 1:
		return max;
	case 2:
		return MIN(max, UINT64_C(1) << (draw(9) * 7));
	case 3:
		return MIN(max, draw(8) * 4096);
	default:
		return MIN(max, tree_draw(&random_state) >> draw(64));
	}
}

static int64_t draw_time(void)
{
	static const int64_t edges[] = { INT64_MIN, INT64_MAX, 0, -1, 1, 1700000000, INT32_MAX };

	return draw(4) ? 1700000000 + (int64_t)draw(100000) : edges[draw(ARRAY_SIZE(edges))];
}

static void draw_meta(struct scan_meta *m)
{
	static const uint32_t ids[] = { 0, 1000, 65534, UINT32_MAX };

	*m = (struct scan_meta){ .size = draw_number(INT64_MAX),
		                 .mtime = draw_time(),
		                 .uid = ids[draw(4)],
		                 .gid = ids[draw(4)],
		                 .mode = (uint16_t)(draw(3) ? 0644 : draw(010000)),
		                 .multi = draw(5) == 0,
		                 .acl = draw(7) == 0 };
	m->blocks = draw(2) ? (m->size / 4096 + (m->size % 4096 != 0)) * 8
	                    : draw_number(INT64_MAX / 512);
	if (m->multi)
		m->ino = draw_number(UINT64_MAX), m->nlink = (uint32_t)draw_number(UINT32_MAX);
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void draw_names(struct sample *s)
{
	for (size_t i = 0; i < s->n; i++) {
		size_t len = draw(10) == 0 ? 255 : 1 + draw(30);
		char tail[24];

		for (size_t c = 0; c < len; c++)
			s->name[i][c] = (char)(draw(4) ? 'a' + (int)draw(2) : 1 + (int)draw(255));
		for (size_t c = 0; c < len; c++)
			s->name[i][c] = s->name[i][c] == '/' ? '_' : s->name[i][c];
		s->name[i][len] = '\0';
		(void)snprintf(tail, sizeof(tail), "%05zu", i); /* no two alike */
		memcpy(s->name[i] + (len > 5 ? len - 5 : 0), tail, 6);
	}
	qsort(s->name, s->n, sizeof(s->name[0]), compare_text);
}

static void draw_child(struct sample *s, uint64_t problem_of)
{
	struct node_child *k = &s->child[s->n_children++];

	if (problem_of == 0)
		*k = (struct node_child){ .problem = (uint8_t)(SCAN_VANISHED + draw(6)),
			                  .error = (int)draw(200) };
	else
		*k = (struct node_child){ .ref = 1 + draw(draw(2) ? s->self : UINT64_C(1) << 60) };
}

static void draw_sample(struct sample *s, size_t n)
{
	memset(s, 0, offsetof(struct sample, listing));
	s->listing.len = s->record.len = 0;
	s->n = n;
	s->self = 1 + draw(UINT64_C(1) << 50);
	draw_meta(&s->dir.meta);
	s->dir.meta.multi = false;
	s->dir.meta.ino = s->dir.meta.size = s->dir.meta.nlink = 0;
	if (draw(5) == 0)
		s->dir.problem = SCAN_ERROR, s->dir.error = 1 + (int)draw(150);
	draw_names(s);
	for (size_t i = 0; i < n; i++) {
		struct scan_entry *e = &s->entry[i];

		*e = (struct scan_entry){ .name = s->name[i],
			                  .name_len = (uint16_t)strlen(s->name[i]),
			                  .type = (uint8_t)draw(8) };
		if (draw(12) == 0)
			e->problem = (uint8_t)(1 + draw(7)), e->error = (int)draw(150);
		else if (e->type == SCAN_DIR)
			draw_child(s, draw(6));
		else
			draw_meta(&e->meta);
	}
	for (size_t i = 0; i < sizeof(s->totals) / 8; i++)
		((uint64_t *)(void *)&s->totals)[i] = draw_number(INT64_MAX);
	s->totals.newest = draw_time();
	if (draw(2))
		s->totals.errors = s->totals.vanished = s->totals.changed = s->totals.skipped = 0;
	s->world_listable = draw(2);
	s->single_owner = draw(2);
	s->links_leave = draw(2);
	s->audience = s->totals;
	for (size_t i = 0; draw(2) && i < sizeof(s->totals) / 8; i++)
		((uint64_t *)(void *)&s->audience)[i] = draw_number(INT64_MAX);
	s->partial = memcmp(&s->audience, &s->totals, sizeof(s->totals)) != 0;
}

static void encode_sample(struct sample *s)
{
	struct listing_encoder enc;
	struct snap_node n = { .totals = s->totals,
		               .audience = s->audience,
		               .partial = s->partial,
		               .links_leave = s->links_leave,
		               .world_listable = s->world_listable,
		               .single_owner = s->single_owner,
		               .n_entries = s->n,
		               .n_children = s->n_children };

	assert_int_equal(listing_begin(&enc, &s->listing, &s->dir, 4711), 0);
	for (size_t i = 0; i < s->n; i++)
		assert_int_equal(listing_add(&enc, &s->entry[i]), 0);
	n.names = enc.names;
	assert_int_equal(record_add(&s->record, s->self, &n, s->child), 0);
	memset(&s->node, 0, sizeof(s->node));
	s->node.ref = s->self;
	assert_int_equal(record_parse(s->record.p, s->record.p + s->record.len, &s->node), 0);
	assert_int_equal(s->node.names, s->n_children ? enc.names : 0);
	assert_int_equal(record_listing(s->listing.p, s->listing.p + s->listing.len, &s->node), 0);
}

static void sample_done(struct sample *s)
{
	free(s->listing.p);
	free(s->record.p);
	free(s);
}

static void assert_meta(const struct scan_meta *a, const struct scan_meta *b)
{
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->blocks, b->blocks);
	assert_int_equal(a->ino, b->ino);
	assert_int_equal(a->mtime, b->mtime);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->multi, b->multi);
	assert_int_equal(a->acl, b->acl);
	assert_int_equal(a->nlink, b->nlink);
	assert_memory_equal(a, b, sizeof(*a)); /* nothing between the fields */
}

/* got is what entry i of the sample should be; child counts the sub-directories with a node before it. */
static void assert_entry(const struct sample *s, size_t i, const struct snap_entry *got)
{
	const struct scan_entry *e = &s->entry[i];
	const struct node_child *k;
	size_t child = 0;

	assert_int_equal(got->ordinal, i);
	assert_int_equal(got->name_len, e->name_len);
	assert_memory_equal(got->name, e->name, e->name_len + 1u);
	assert_int_equal(got->type, e->type);
	assert_meta(&got->meta, &e->meta);
	if (e->problem || e->type != SCAN_DIR) {
		assert_int_equal(got->problem, e->problem);
		assert_int_equal(got->error, e->error);
		assert_int_equal(got->child, 0);
		return;
	}
	for (size_t j = 0; j < i; j++)
		child += s->entry[j].type == SCAN_DIR && !s->entry[j].problem;
	k = &s->child[child];
	assert_int_equal(got->child, k->ref);
	assert_int_equal(got->problem, k->problem);
	assert_int_equal(got->error, k->error);
}

static void assert_head(const struct sample *s)
{
	const struct snap_node *n = &s->node;

	assert_memory_equal(&n->totals, &s->totals, sizeof(s->totals));
	assert_memory_equal(&n->audience, &s->audience, sizeof(s->audience));
	assert_int_equal(n->partial, s->partial);
	assert_int_equal(n->links_leave, s->links_leave);
	assert_int_equal(n->world_listable, s->world_listable);
	assert_int_equal(n->single_owner, s->single_owner);
	assert_int_equal(n->n_entries, s->n);
	assert_int_equal(n->n_children, s->n_children);
	assert_int_equal(n->problem, s->dir.problem);
	assert_int_equal(n->error, s->dir.error);
	assert_meta(&n->meta, &s->dir.meta);
}

static void assert_iterates(struct sample *s)
{
	struct snap_iter it;

	snap_iter_init(&it, &s->node);
	for (size_t i = 0; i < s->n; i++) {
		assert_int_equal(snap_iter_next(&it), 1);
		assert_entry(s, i, &it.e);
	}
	assert_int_equal(snap_iter_next(&it), 0);
	assert_int_equal(snap_iter_next(&it), 0);
}

static void assert_finds(struct sample *s, size_t step)
{
	struct snap_entry e;
	uint64_t where;

	for (size_t i = 0; i < s->n; i += step) {
		char missing[258];
		int found;

		assert_int_equal(
			snap_node_find(&s->node, s->name[i], strlen(s->name[i]), &e, &where), 1);
		assert_int_equal(where, i);
		assert_entry(s, i, &e);
		/* The least name after this one. */
		(void)snprintf(missing, sizeof(missing), "%s\x01", s->name[i]);
		found = snap_node_find(&s->node, missing, strlen(missing), &e, &where);
		if (found == 0)
			assert_int_equal(where, i + 1);
		else
			assert_string_equal(s->name[i + 1], missing);
	}
	assert_int_equal(
		snap_node_find(&s->node, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, &e, &where), 0);
	assert_true(where <= s->n);
	assert_int_equal(snap_node_find(&s->node, "", 0, &e, &where), 0);
	assert_int_equal(where, 0);
}

static void assert_seeks(struct sample *s, size_t step)
{
	struct snap_iter it;

	snap_iter_init(&it, &s->node);
	for (size_t i = 0; i <= s->n + 2; i += step) {
		size_t to = draw(3) ? i : draw(s->n + 1);

		assert_int_equal(snap_iter_seek(&it, to), 0);
		assert_int_equal(snap_iter_next(&it), to < s->n);
		if (to < s->n)
			assert_entry(s, to, &it.e);
	}
}

static void listings_come_back_as_they_went_in(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 63, 64, 65, 127, 128, 129, 1000 };
	struct sample *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	random_state = 1;
	for (size_t i = 0; i < 100; i++) {
		size_t n = i < ARRAY_SIZE(sizes) ? sizes[i] : draw(200);
		struct node_index *x;

		draw_sample(s, n);
		encode_sample(s);
		assert_head(s);
		assert_iterates(s);
		assert_finds(s, 1 + n / 300);
		assert_seeks(s, 1 + n / 300);
		x = node_index_new(&s->node); /* the same with restart points */
		assert_non_null(x);
		s->node.index = x;
		assert_finds(s, 1);
		assert_seeks(s, 1);
		node_index_free(x);
	}
	sample_done(s);
}

static void equal_listings_have_equal_bytes(void **state)
{
	struct sample *s = calloc(2, sizeof(*s));

	(void)state;
	assert_non_null(s);
	for (uint64_t seed = 1; seed < 50; seed++) {
		for (int i = 0; i < 2; i++) {
			random_state = seed;
			draw_sample(&s[i], 130);
			encode_sample(&s[i]);
		}
		assert_int_equal(s[0].listing.len, s[1].listing.len);
		assert_memory_equal(s[0].listing.p, s[1].listing.p, s[0].listing.len);
		/* Any field of any entry shows. */
		s[1].entry[seed * 2].meta.mtime ^= 1;
		if (s[1].entry[seed * 2].type == SCAN_DIR || s[1].entry[seed * 2].problem)
			continue;
		s[1].listing.len = s[1].record.len = 0;
		encode_sample(&s[1]);
		assert_false(s[0].listing.len == s[1].listing.len &&
		             memcmp(s[0].listing.p, s[1].listing.p, s[0].listing.len) == 0);
	}
	free(s[1].listing.p);
	free(s[1].record.p);
	sample_done(s);
}

static uint8_t *exact_copy(const uint8_t *p, size_t len)
{
	uint8_t *exact = malloc(MAX(len, 1)); /* so that the sanitizer sees a step too far */

	assert_non_null(exact);
	memcpy(exact, p, len);
	return exact;
}

/* Everything that a reader does with a node, on bytes that may be anything: a head, then a listing. */
static void use_bytes(const uint8_t *p, size_t head_len, size_t len)
{
	uint8_t *head = exact_copy(p, head_len), *listing = exact_copy(p + head_len, len);
	struct snap_node n = { .ref = 5000 };
	struct snap_entry e;
	struct snap_iter it;
	struct node_index *x;
	uint64_t where, seen = 0;

	if (record_parse(head, head + head_len, &n) == 0 &&
	    record_listing(listing, listing + len, &n) == 0) {
		snap_iter_init(&it, &n);
		while (snap_iter_next(&it) > 0) {
			assert_true(it.e.name_len <= 255);
			assert_true(++seen <= len);
		}
		(void)snap_node_find(&n, "aaa", 3, &e, &where);
		x = node_index_new(&n);
		if (x) {
			n.index = x;
			(void)snap_node_find(&n, "b", 1, &e, &where);
			snap_iter_init(&it, &n);
			(void)snap_iter_seek(&it, n.n_entries / 2);
			(void)snap_iter_next(&it);
		}
		node_index_free(x);
	}
	free(head);
	free(listing);
}

static void garbage_is_refused_and_never_hurts(void **state)
{
	uint8_t buf[300];

	(void)state;
	random_state = 77;
	for (int i = 0; i < 200000; i++) {
		size_t len = draw(sizeof(buf)), small = draw(2);

		for (size_t b = 0; b < len; b++)
			buf[b] = (uint8_t)(small ? draw(12) : draw(256));
		if (len) {
			size_t head = draw(len);

			use_bytes(buf, head, len - head);
		}
	}
}

static void records_that_were_cut_or_bent_never_hurt(void **state)
{
	struct sample *s = calloc(1, sizeof(*s));
	struct bytes all = { 0 };

	(void)state;
	assert_non_null(s);
	random_state = 5;
	for (int i = 0; i < 300; i++) {
		draw_sample(s, draw(150));
		encode_sample(s);
		all.len = 0;
		assert_int_equal(bytes_add(&all, s->record.p, s->record.len), 0);
		assert_int_equal(bytes_add(&all, s->listing.p, s->listing.len), 0);
		for (int j = 0; j < 100; j++) {
			size_t head = s->record.len, at = draw(all.len);
			uint8_t before = all.p[at];

			use_bytes(all.p, MIN(at, head), at < head ? 0 : at - head);
			all.p[at] ^= (uint8_t)(1 << draw(8));
			use_bytes(all.p, head, all.len - head);
			if (draw(4))
				all.p[at] = before;
		}
	}
	free(all.p);
	sample_done(s);
}

static void a_word_holds_a_ref_or_a_problem(void **state)
{
	static const struct node_child children[] = {
		{ .ref = 1 },
		{ .ref = (UINT64_C(1) << 62) + 12345 },
		{ .problem = SCAN_VANISHED },
		{ .problem = SCAN_ERROR, .error = EACCES },
		{ .problem = SCAN_AUTOMOUNT, .error = 65535 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
		struct node_child k = child_from_word(child_word(&children[i]));

		assert_int_equal(k.ref, children[i].ref);
		assert_int_equal(k.problem, children[i].problem);
		assert_int_equal(k.error, children[i].error);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(child_word(&children[i]), child_word(&children[j]));
	}
}

/* -- golden: these bytes are in people's indexes ----------------------------------------------- */

#define GOLDEN_LISTING                                             \
	"ed23e8076480c49fd50c0800"             /* the directory */ \
	"0466696c6511882782c49fd50ca403e80764" /* file */          \
	"4132298827088bc49fd50c959aef3aac02"   /* file2 */         \
	"04676f6e65810105"                     /* gone */          \
	"046c696e6b0303000aff030000"           /* link */          \
	"037375620231"                         /* sub */           \
	"3202"                                 /* sub2 */
#define GOLDEN_FINGERPRINT  "52c5473c0adf6f3410d1efbdc2068cc9"
#define GOLDEN_PARTIAL      "a294fabd0108052d078ebed6449359d4"
#define GOLDEN_PARTIAL_LEAF "3e80a001934e03010582c49fd50c01010000802081088040020600"
#define GOLDEN_RECORD       "0e80a001934e03010582c49fd50c010100008020060288776655443322110605"
#define GOLDEN_LEAF         "0e80a001934e03010582c49fd50c0101000080200600"
#define GOLDEN_HEAD             \
	"02" /* slots */ "0907" \
	"0000" /* lengths */ "000000000000000000"
#define GOLDEN_NAMES    UINT64_C(0xb045557f674e3789)
#define GOLDEN_PACK_SUM UINT64_C(0x3aad618c143dc334)

static void golden_entry(struct listing_encoder *enc, const char *name, uint8_t type,
                         struct scan_meta m)
{
	struct scan_entry e = {
		.name = name, .name_len = (uint16_t)strlen(name), .type = type, .meta = m
	};

	assert_int_equal(listing_add(enc, &e), 0);
}

static void golden_listing(struct bytes *out)
{
	const struct scan_dirinfo dir = { .meta = { .blocks = 8,
		                                    .mtime = 1700000000,
		                                    .uid = 1000,
		                                    .gid = 100,
		                                    .mode = 0755,
		                                    .acl = true } };
	struct scan_entry gone = { .name = "gone",
		                   .name_len = 4,
		                   .type = SCAN_FILE,
		                   .problem = SCAN_ERROR,
		                   .error = EIO };
	struct listing_encoder enc;

	assert_int_equal(listing_begin(&enc, out, &dir, 4711), 0);
	golden_entry(&enc, "file", SCAN_FILE,
	             (struct scan_meta){ .size = 5000,
	                                 .blocks = 16,
	                                 .mtime = 1700000001,
	                                 .uid = 1000,
	                                 .gid = 100,
	                                 .mode = 0644 });
	golden_entry(&enc, "file2", SCAN_FILE,
	             (struct scan_meta){ .size = 5000,
	                                 .blocks = 8,
	                                 .mtime = -5,
	                                 .uid = 1000,
	                                 .gid = 100,
	                                 .mode = 0644,
	                                 .multi = true,
	                                 .nlink = 300,
	                                 .ino = 123456789 });
	assert_int_equal(listing_add(&enc, &gone), 0);
	golden_entry(&enc, "link", SCAN_SYMLINK,
	             (struct scan_meta){ .size = 3, .mtime = 0, .uid = 0, .gid = 0, .mode = 0777 });
	golden_entry(&enc, "sub", SCAN_DIR, (struct scan_meta){ 0 });
	golden_entry(&enc, "sub2", SCAN_DIR, (struct scan_meta){ 0 });
	assert_int_equal(enc.names, GOLDEN_NAMES);
}

static void assert_hex(const void *p, size_t len, const char *want)
{
	AUTO(base_free) char *hex = malloc(len * 2 + 1);

	assert_non_null(hex);
	for (size_t i = 0; i < len; i++)
		(void)snprintf(hex + i * 2, 3, "%02x", ((const uint8_t *)p)[i]);
	assert_string_equal(hex, want);
}

static void fixed_secret(uint8_t secret[SECRET_SIZE])
{
	for (size_t i = 0; i < SECRET_SIZE; i++)
		secret[i] = (uint8_t)(i * 37 + 11);
}

static void the_bytes_of_a_listing_do_not_change(void **state)
{
	struct bytes b = { 0 };

	(void)state;
	golden_listing(&b);
	assert_hex(b.p, b.len, GOLDEN_LISTING);
	free(b.p);
}

static void the_fingerprint_of_a_node_does_not_change(void **state)
{
	const struct node_child children[] = { { .ref = 4097 }, { .problem = SCAN_VANISHED } };
	struct snap_fingerprint child_fps[2] = { { { 1, 2, 3, 4, 5, 6, 7, 8 } }, { { 0 } } };
	struct snap_node n = { .totals = { .bytes = 9, .shared = 512 }, .n_children = 2 };
	struct snap_fingerprint fp, fp2;
	struct bytes listing = { 0 }, scratch = { 0 };
	uint8_t secret[SECRET_SIZE];
	uint64_t sum;

	(void)state;
	fixed_secret(secret);
	golden_listing(&listing);
	n.listing = listing.p;
	n.end = listing.p + listing.len;
	assert_int_equal(fingerprint_node(secret, &scratch, &n, children, child_fps, &fp), 0);
	assert_hex(fp.b, sizeof(fp.b), GOLDEN_FINGERPRINT);
	/* What does not follow from the listings is part of it. */
	for (int i = 0; i < 4; i++) {
		struct snap_node other = n;

		other.totals.shared += i == 0;
		other.totals.changed += i == 1;
		other.links_leave = i == 2;
		other.partial = i == 3;
		assert_int_equal(
			fingerprint_node(secret, &scratch, &other, children, child_fps, &fp2), 0);
		assert_memory_not_equal(fp.b, fp2.b, sizeof(fp.b));
	}
	n.partial = true;
	n.audience = n.totals;
	n.audience.bytes--;
	assert_int_equal(fingerprint_node(secret, &scratch, &n, children, child_fps, &fp), 0);
	assert_hex(fp.b, sizeof(fp.b), GOLDEN_PARTIAL);
	n.audience.newest--;
	assert_int_equal(fingerprint_node(secret, &scratch, &n, children, child_fps, &fp2), 0);
	assert_memory_not_equal(fp.b, fp2.b, sizeof(fp.b));
	sum = pack_sum(secret, 7, "fps", 3, "data", 4);
	assert_int_equal(sum, GOLDEN_PACK_SUM);
	assert_int_not_equal(sum, pack_sum(secret, 8, "fps", 3, "data", 4));
	assert_int_not_equal(sum, pack_sum(secret, 7, "fpsd", 4, "ata", 3));
	free(listing.p);
	free(scratch.p);
}

static void the_bytes_of_a_record_do_not_change(void **state)
{
	const struct node_child children[] = { { .ref = 4097 }, { .problem = SCAN_VANISHED } };
	struct snap_node n = { .totals = { .bytes = 4096 * 5,
		                           .apparent = 10003,
		                           .files = 3,
		                           .dirs = 1,
		                           .entries = 5,
		                           .shared = 4096,
		                           .errors = 1,
		                           .vanished = 1,
		                           .newest = 1700000001 },
		               .n_entries = 6,
		               .n_children = 2,
		               .names = UINT64_C(0x1122334455667788),
		               .single_owner = true };
	struct bytes record = { 0 };

	(void)state;
	assert_int_equal(record_add(&record, 4099, &n, children), 0);
	assert_hex(record.p, record.len, GOLDEN_RECORD);
	/* Without sub-directories there is no hash of their names. */
	n.n_children = 0;
	record.len = 0;
	assert_int_equal(record_add(&record, 4099, &n, NULL), 0);
	assert_hex(record.p, record.len, GOLDEN_LEAF);
	/* What an audience can add up follows where it is less. */
	n.links_leave = n.partial = true;
	n.audience = n.totals;
	n.audience.bytes -= 4096;
	n.audience.newest -= 1;
	record.len = 0;
	assert_int_equal(record_add(&record, 4099, &n, NULL), 0);
	assert_hex(record.p, record.len, GOLDEN_PARTIAL_LEAF);
	free(record.p);
}

static void the_bytes_of_a_pack_do_not_change(void **state)
{
	struct snap_node n = { .ref = 9 << 12, .n_entries = 0 };
	const struct node_key key = { .fp = { { 1, 2, 3 } }, .check = 0x04030201 };
	struct packer p = { 0 };
	struct pack_row row;
	uint8_t secret[SECRET_SIZE];

	(void)state;
	fixed_secret(secret);
	assert_int_equal(packer_add(&p, &n, NULL, (const uint8_t *)"listing", 7, &key), 0);
	assert_int_equal(packer_skip(&p), 0);
	assert_int_equal(packer_finish(&p, secret, 9, &row), 0);
	assert_int_equal(row.id, 9);
	assert_int_equal(row.codec, CODEC_RAW);
	assert_int_equal(row.size, row.head_len);
	assert_hex(row.head, row.head_len, GOLDEN_HEAD);
	assert_hex(row.fps, row.fps_len,
	           "01020300000000000000000000000000"
	           "01020304"
	           "0000000000000000000000000000000000000000");
	assert_int_equal(row.list_codec, CODEC_RAW);
	assert_int_equal(row.list_len, 7);
	assert_memory_equal(row.list, "listing", 7);
	assert_int_equal(row.sum, pack_sum(secret, 9, NULL, 0, row.head, row.head_len));
	assert_int_equal(row.list_sum, pack_sum(secret, 9, row.fps, row.fps_len, row.list, 7));
	packer_done(&p);
}

/* A large listing is hashed where it lies, a small one in a copy beside the rest. */
static void the_fingerprint_of_a_large_listing_is_that_of_its_bytes(void **state)
{
	enum {
		LARGE = 300000
	};
	struct snap_node n = { .totals = { .shared = 7 } };
	uint64_t tail[4] = { 7, 0, 0, 0 }, random = 99;
	uint8_t secret[SECRET_SIZE], *all = malloc(LARGE + sizeof(tail));
	struct bytes scratch = { 0 };
	struct snap_fingerprint fp;
	XXH128_canonical_t expected;

	(void)state;
	assert_non_null(all);
	fixed_secret(secret);
	for (size_t i = 0; i < LARGE; i++)
		all[i] = (uint8_t)tree_draw(&random);
	for (size_t len = LARGE; len > 0; len /= 3) {
		uint8_t keep[sizeof(tail)];

		n.listing = all;
		n.end = all + len;
		assert_int_equal(fingerprint_node(secret, &scratch, &n, NULL, NULL, &fp), 0);
		tail[3] = len;
		memcpy(keep, all + len, sizeof(keep));
		memcpy(all + len, tail, sizeof(tail));
		XXH128_canonicalFromHash(
			&expected,
			XXH3_128bits_withSecret(all, len + sizeof(tail), secret, sizeof(secret)));
		memcpy(all + len, keep, sizeof(keep));
		assert_memory_equal(fp.b, expected.digest, sizeof(fp.b));
	}
	free(scratch.p);
	free(all);
}

static void known_fingerprints_are_found_again(void **state)
{
	struct known *k = known_new();
	uint32_t check = 0;

	(void)state;
	assert_non_null(k);
	for (int round = 0; round < 2; round++) {
		random_state = 9;
		for (uint64_t i = 1; i <= 20000; i++) {
			struct node_key key = { .check = (uint32_t)i };
			uint64_t half[2] = { tree_draw(&random_state), tree_draw(&random_state) };

			memcpy(key.fp.b, half, sizeof(key.fp.b));
			known_lock(k, &key.fp);
			assert_int_equal(known_find(k, &key.fp, &check), round ? i : 0);
			if (round)
				assert_int_equal(check, i);
			else
				assert_int_equal(known_add(k, &key, i), 0);
			known_unlock(k, &key.fp);
		}
	}
	known_free(k);
	known_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listings_come_back_as_they_went_in),
		cmocka_unit_test(equal_listings_have_equal_bytes),
		cmocka_unit_test(garbage_is_refused_and_never_hurts),
		cmocka_unit_test(records_that_were_cut_or_bent_never_hurt),
		cmocka_unit_test(a_word_holds_a_ref_or_a_problem),
		cmocka_unit_test(the_bytes_of_a_listing_do_not_change),
		cmocka_unit_test(the_fingerprint_of_a_node_does_not_change),
		cmocka_unit_test(the_bytes_of_a_record_do_not_change),
		cmocka_unit_test(the_bytes_of_a_pack_do_not_change),
		cmocka_unit_test(the_fingerprint_of_a_large_listing_is_that_of_its_bytes),
		cmocka_unit_test(known_fingerprints_are_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
