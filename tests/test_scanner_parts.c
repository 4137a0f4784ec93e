/* SPDX-License-Identifier: MIT */
/* The parts of the scanner alone: mount points, hard links, paths, directories seen, numbers. */
#include "base/varint.h"
#include "scanner/internal.h"
#include "tests/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* -- mounts ---------------------------------------------------------------------------------- */

static const char recorded[] =
	"22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
	"23 22 0:21 / /proc rw,nosuid - proc proc rw\n"
	"24 22 0:22 / /srv rw shared:5 master:2 propagate_from:9 - tmpfs tmpfs rw,size=1k\n"
	"25 24 0:23 / /srv/a rw - ext4 /dev/sda1 rw\n"
	"26 25 0:24 / /srv/a/b/c rw - nfs4 host:/x rw\n"
	"27 24 0:25 / /srv/with\\040space\\011tab\\012line\\134back rw - fuse.sshfs me@host: rw\n"
	"28 24 0:26 / /srvother rw - ext4 /dev/sdb rw\n"
	"29 25 0:27 / /srv/a rw - xfs /dev/sdc rw\n"
	"30 24 0:28 / /srv/empty rw - tmpfs  rw\n"
	"31 24 0:29 net:[4026532] /srv/ns rw - nsfs nsfs rw\n"
	"a line of nonsense\n"
	"\n"
	"32 24 0:30 / /srv/cut";

static void load(const char *text, const char *root, struct mount_trap *ret)
{
	struct tree t;
	char path[160];
	int fd;

	tree_new(&t);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", t.path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
	*ret = (struct mount_trap){ 0 };
	assert_int_equal(mounts_load(path, root, ret), 0);
	tree_remove(&t);
}

static void mount_points_below_the_root_are_known_by_name(void **state)
{
	const struct mount_trap *a, *deep;
	struct mount_trap t;

	(void)state;
	load(recorded, "/srv", &t);
	assert_null(t.fstype); /* the root itself is no trap */
	a = mounts_child(&t, "a");
	assert_non_null(a);
	assert_string_equal(a->fstype, "xfs"); /* the later mount hides the earlier one */
	assert_non_null(mounts_child(a, "b"));
	assert_null(mounts_child(a, "b")->fstype); /* only on the way */
	deep = mounts_child(mounts_child(a, "b"), "c");
	assert_string_equal(deep->fstype, "nfs4");
	assert_null(mounts_child(deep, "c"));
	assert_string_equal(mounts_child(&t, "with space\ttab\nline\\back")->fstype, "fuse.sshfs");
	assert_string_equal(mounts_child(&t, "empty")->fstype, "tmpfs");
	assert_string_equal(mounts_child(&t, "ns")->fstype, "nsfs");
	assert_null(mounts_child(&t, "cut"));
	assert_null(mounts_child(&t, "other"));
	assert_null(mounts_child(&t, "proc"));
	assert_null(mounts_child(NULL, "a"));
	mounts_done(&t);
}

static void mount_points_below_slash_are_all_mount_points(void **state)
{
	struct mount_trap t;

	(void)state;
	load(recorded, "/", &t);
	assert_string_equal(mounts_child(&t, "proc")->fstype, "proc");
	assert_string_equal(mounts_child(&t, "srv")->fstype, "tmpfs");
	assert_string_equal(mounts_child(&t, "srvother")->fstype, "ext4");
	assert_null(t.fstype);
	assert_false(mounts_may_cross(mounts_child(&t, "proc")));
	assert_true(mounts_may_cross(mounts_child(&t, "srv")));
	assert_false(mounts_may_cross(mounts_child(mounts_child(&t, "srv"), "ns")));
	mounts_done(&t);
}

static void without_a_list_of_mounts_there_is_an_error(void **state)
{
	struct mount_trap t = { 0 };

	(void)state;
	assert_int_equal(mounts_load("/nonexistent/mountinfo", "/", &t), -ENOENT);
	mounts_done(&t);
}

/* -- links ----------------------------------------------------------------------------------- */

enum {
	INODES = 40,
	NAMES = 300,
	DIRS = 12
};

/* A tree of directories; names[i] is a name of inode[i] in directory dir[i]. */
struct model {
	unsigned parent[DIRS]; /* of directory d; parent[0] is unused; parent[d] < d */
	unsigned dir[NAMES], inode[NAMES];
	uint32_t nlink[INODES], outside[INODES];
	uint64_t bytes[INODES];
};

static void draw_model(struct model *m, uint64_t *random)
{
	memset(m, 0, sizeof(*m));
	for (unsigned d = 1; d < DIRS; d++)
		m->parent[d] = (unsigned)(tree_draw(random) % d);
	for (unsigned i = 0; i < INODES; i++) {
		m->outside[i] = (uint32_t)(tree_draw(random) % 3);
		m->nlink[i] = m->outside[i];
		m->bytes[i] = tree_draw(random) % 1000;
	}
	for (unsigned n = 0; n < NAMES; n++) {
		m->dir[n] = (unsigned)(tree_draw(random) % DIRS);
		m->inode[n] = (unsigned)(tree_draw(random) % INODES);
		m->nlink[m->inode[n]]++;
	}
}

static bool is_below(const struct model *m, unsigned dir, unsigned top)
{
	while (dir > top)
		dir = m->parent[dir];
	return dir == top;
}

static void expect(const struct model *m, unsigned top, uint64_t *bytes, uint64_t *shared)
{
	*bytes = *shared = 0;
	for (unsigned i = 0; i < INODES; i++) {
		uint32_t names = 0;

		for (unsigned n = 0; n < NAMES; n++)
			names += m->inode[n] == i && is_below(m, m->dir[n], top);
		*bytes += names ? m->bytes[i] : 0;
		*shared += names && names < m->nlink[i] ? m->bytes[i] : 0;
	}
}

static struct link model_link(const struct model *m, unsigned inode)
{
	/* Two devices with the same inode numbers. */
	return (struct link){ inode + 1, m->bytes[inode], m->bytes[inode] * 3, m->nlink[inode], 1 };
}

static void check_model(const struct model *m)
{
	size_exact bytes[DIRS] = { 0 }, apparent[DIRS] = { 0 };
	struct link_set *finished[DIRS] = { NULL }, *set;

	for (unsigned d = DIRS; d-- > 0;) {
		uint64_t want, want_shared;
		struct link_set own = { 0 };

		for (unsigned n = 0; n < NAMES; n++) {
			struct link l = model_link(m, m->inode[n]);

			if (m->dir[n] != d || m->nlink[m->inode[n]] < 2)
				continue;
			bytes[d] += l.bytes;
			apparent[d] += l.size;
			assert_int_equal(link_set_add(&own, &l, &bytes[d], &apparent[d]), 0);
		}
		for (unsigned n = 0; n < NAMES; n++) /* single names are not put in sets */
			if (m->dir[n] == d && m->nlink[m->inode[n]] < 2)
				bytes[d] += m->bytes[m->inode[n]],
					apparent[d] += m->bytes[m->inode[n]] * 3;
		assert_int_equal(link_set_merge(&own, finished[d], &bytes[d], &apparent[d]), 0);
		expect(m, d, &want, &want_shared);
		assert_int_equal(link_set_close(&own), want_shared);
		assert_int_equal(size_clamp(bytes[d]), want);
		assert_int_equal(size_clamp(apparent[d]), want * 3);
		if (d == 0) {
			link_set_done(&own);
			return;
		}
		bytes[m->parent[d]] += bytes[d];
		apparent[m->parent[d]] += apparent[d];
		set = malloc(sizeof(*set));
		assert_non_null(set);
		*set = own;
		set->next = finished[m->parent[d]];
		finished[m->parent[d]] = set;
	}
}

static void link_sets_agree_with_counting_by_hand(void **state)
{
	uint64_t random = 42;

	(void)state;
	for (int i = 0; i < 500; i++) {
		struct model m;

		draw_model(&m, &random);
		check_model(&m);
	}
}

static void of_two_readings_of_one_file_the_larger_counts(void **state)
{
	const struct link small = { 2, 100, 90, 3, 1 }, large = { 2, 300, 250, 3, 1 };

	(void)state;
	for (int order = 0; order < 2; order++) {
		size_exact bytes = 400, apparent = 340;
		struct link_set set = { 0 };

		assert_int_equal(link_set_add(&set, order ? &large : &small, &bytes, &apparent), 0);
		assert_int_equal(link_set_add(&set, order ? &small : &large, &bytes, &apparent), 0);
		assert_int_equal(size_clamp(bytes), 300);
		assert_int_equal(size_clamp(apparent), 250);
		assert_int_equal(link_set_close(&set), 300); /* two names of three */
		link_set_done(&set);
	}
}

static void an_empty_link_set_shares_nothing(void **state)
{
	struct link_set set = { 0 };
	size_exact bytes = 5, apparent = 5;

	(void)state;
	assert_int_equal(link_set_merge(&set, NULL, &bytes, &apparent), 0);
	assert_int_equal(link_set_close(&set), 0);
	assert_int_equal(size_clamp(bytes), 5);
	link_set_done(&set);
}

/* -- seen, path, numbers --------------------------------------------------------------------- */

static void a_directory_is_seen_once(void **state)
{
	struct scan s = { 0 };

	(void)state;
	assert_int_equal(seen_init(&s), 0);
	for (uint64_t i = 0; i < 100000; i++)
		assert_false(seen_before(&s, i % 7, i / 7));
	for (uint64_t i = 0; i < 100000; i++)
		assert_true(seen_before(&s, i % 7, i / 7));
	assert_false(seen_before(&s, 8, 0));
	seen_done(&s);
}

static void a_path_too_long_loses_its_beginning(void **state)
{
	struct scan_dir top = { .name = "" }, a = { .parent = &top, .name = "first" };
	struct scan_dir b = { .parent = &a, .name = "second" };
	char buf[64];

	(void)state;
	assert_int_equal(path_of(&b, "/srv", buf, sizeof(buf)), 17);
	assert_string_equal(buf, "/srv/first/second");
	(void)path_of(&b, "/", buf, sizeof(buf));
	assert_string_equal(buf, "/first/second");
	(void)path_of(&top, "/", buf, sizeof(buf));
	assert_string_equal(buf, "/");
	(void)path_of(&top, "/srv", buf, sizeof(buf));
	assert_string_equal(buf, "/srv");
	(void)path_of(&b, "/srv", buf, 16);
	assert_string_equal(buf, ".../second");
	(void)path_of(&b, "/quite/a/long/root", buf, 20);
	assert_string_equal(buf, ".../first/second");
	for (size_t size = 5; size < sizeof(buf); size++) {
		size_t len;

		memset(buf, 'x', sizeof(buf));
		len = path_of(&b, "/srv", buf, size);
		assert_true(len < size);
		assert_int_equal(strlen(buf), len);
	}
}

static void varints_survive_the_way_there_and_back(void **state)
{
	uint64_t random = 7, v;
	uint8_t buf[VARINT_MAX + 1];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t n = tree_draw(&random) >> (tree_draw(&random) % 64);
		uint8_t *end;

		if (i < 4)
			n = (const uint64_t[]){ 0, 127, 128, UINT64_MAX }[i];
		end = varint_put(buf, n);
		assert_ptr_equal(varint_get(buf, end, &v), end);
		assert_int_equal(v, n);
		assert_null(varint_get(buf, end - 1, &v)); /* cut off */
		assert_int_equal(unzigzag(zigzag((int64_t)n)), (int64_t)n);
	}
	memset(buf, 0xff, sizeof(buf));
	assert_null(varint_get(buf, buf + sizeof(buf), &v));
	assert_null(varint_get(NULL, buf, &v));
	assert_int_equal(zigzag(-1), 1);
	assert_int_equal(zigzag(INT64_MIN), UINT64_MAX);
}

static void sums_stop_at_what_a_signed_number_holds(void **state)
{
	(void)state;
	assert_int_equal(size_sum(1, 2), 3);
	assert_int_equal(size_sum(INT64_MAX, 0), INT64_MAX);
	assert_int_equal(size_sum(INT64_MAX, 1), INT64_MAX);
	assert_int_equal(size_sum(UINT64_MAX, UINT64_MAX), INT64_MAX);
	assert_int_equal(size_clamp((size_exact)INT64_MAX * 5), INT64_MAX);
}

static void every_problem_has_a_name(void **state)
{
	(void)state;
	for (unsigned p = SCAN_OK; p <= SCAN_AUTOMOUNT; p++)
		assert_string_not_equal(scan_problem_name(p), "unknown");
	assert_string_equal(scan_problem_name(255), "unknown");
}

/* What a stream of samples makes of the number of readers; *first is set to the directory of the first decision. */
struct stream {
	struct readers_control c;
	uint64_t dirs, first;
};

static void feed(struct stream *s, bool cold, uint64_t dirs, unsigned every)
{
	for (uint64_t at = 0; at < dirs; at += every) {
		s->dirs += every;
		if (readers_decide(&s->c, cold, every) && !s->first)
			s->first = s->dirs;
	}
}

/* 25 s of a tree that is partly cached: once 68 decisions and more. */
static void what_is_partly_cached_does_not_flip(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (unsigned share = 8; share <= 512; share *= 2) { /* one sample of so many waits */
		struct stream s = { 0 };

		readers_control_init(&s.c, 2, 8, false, false);
		for (unsigned i = 0; i < 1000000 / 16; i++)
			feed(&s, tree_draw(&random) % share == 0, 16, 16);
		assert_in_range(s.c.decisions, 1, 32);
	}
	for (unsigned run = 16; run <= 65536; run *= 2) { /* in blocks */
		struct stream s = { 0 };

		readers_control_init(&s.c, 2, 8, false, false);
		while (s.dirs < 1000000) {
			feed(&s, false, run, 16);
			feed(&s, true, 64, 16);
		}
		assert_in_range(s.c.decisions, 1, 32);
	}
}

static void cold_after_cached_is_noticed_and_cached_after_cold(void **state)
{
	struct stream s = { 0 };

	(void)state;
	readers_control_init(&s.c, 2, 8, false, false);
	feed(&s, false, 200000, 16);
	assert_int_equal(s.c.decisions, 0);
	feed(&s, true, 16, 16); /* the first wait of all */
	assert_int_equal(s.c.limit, 8);
	for (unsigned turn = 0; turn < 4; turn++) {
		feed(&s, true, 200000, 16);
		assert_int_equal(s.c.limit, 8);
		feed(&s, false, 512 + 16 * 2, 16); /* nothing made it wait longer */
		assert_int_equal(s.c.limit, 2);
		feed(&s, false, 200000, 16);
		feed(&s, true, 2 * 16, 16);
		assert_int_equal(s.c.limit, 8);
	}
	for (unsigned i = 0; i < 2000; i++) /* made to doubt as much as it can */
		feed(&s, i % 2, s.c.hold + 64, 16);
	feed(&s, false, 512 * 64 + 32, 16);
	assert_int_equal(s.c.limit, 2);
	feed(&s, true, 512 * 64 / 4, 16);
	assert_int_equal(s.c.limit, 8);
}

static void on_a_disk_that_moves_its_head_the_first_wait_decides(void **state)
{
	struct stream s = { 0 };

	(void)state;
	readers_control_init(&s.c, 4, 1, true, true);
	feed(&s, true, 5000, 1);
	assert_int_equal(s.c.decisions, 0);
	feed(&s, false, 176, 1);
	assert_int_equal(s.c.limit, 1);
	feed(&s, false, 1, 1);
	assert_int_equal(s.c.limit, 4);
	feed(&s, true, 1, 1);
	assert_int_equal(s.c.limit, 1);
	for (unsigned i = 0; i < 1000; i++) { /* next to each other */
		feed(&s, false, 200, 1);
		feed(&s, true, 1, 1);
	}
	assert_in_range(s.c.decisions, 2, 4);
}

static void where_both_need_as_many_nothing_is_decided(void **state)
{
	struct stream s = { 0 };

	(void)state;
	readers_control_init(&s.c, 2, 2, false, false);
	for (unsigned i = 0; i < 1000; i++)
		feed(&s, i % 3 == 0, 600, 16);
	assert_int_equal(s.c.decisions, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mount_points_below_the_root_are_known_by_name),
		cmocka_unit_test(mount_points_below_slash_are_all_mount_points),
		cmocka_unit_test(without_a_list_of_mounts_there_is_an_error),
		cmocka_unit_test(link_sets_agree_with_counting_by_hand),
		cmocka_unit_test(of_two_readings_of_one_file_the_larger_counts),
		cmocka_unit_test(an_empty_link_set_shares_nothing),
		cmocka_unit_test(a_directory_is_seen_once),
		cmocka_unit_test(a_path_too_long_loses_its_beginning),
		cmocka_unit_test(varints_survive_the_way_there_and_back),
		cmocka_unit_test(sums_stop_at_what_a_signed_number_holds),
		cmocka_unit_test(every_problem_has_a_name),
		cmocka_unit_test(what_is_partly_cached_does_not_flip),
		cmocka_unit_test(cold_after_cached_is_noticed_and_cached_after_cold),
		cmocka_unit_test(on_a_disk_that_moves_its_head_the_first_wait_decides),
		cmocka_unit_test(where_both_need_as_many_nothing_is_decided),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
