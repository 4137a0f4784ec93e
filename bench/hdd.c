/* SPDX-License-Identifier: MIT */
/*
 * hdd - the scan on a simulated rotational disk. Needs root: loop devices and mounts.
 *
 *     twice      an image with an ext4 and the data set in it: fresh, and aged
 *     each bar   hddsim serves the image, a loop device on it says that it rotates, ext4 is mounted
 *                read-only: a new mount starts cold, so the machine's caches are left alone;
 *                where half is to be cached, that half is looked at before the clock starts
 *     auto       that it had one reader while the disk had to move its head is seen in the scan's log
 *
 * A bar runs once: the simulation repeats to the percent, and the slow ones take long.
 */
#include "bench/bench.h"

#include <fcntl.h>
#include <sys/stat.h>

static const uint64_t image_bytes = 8ull << 30; /* sparse; seeks depend on the distance */

/* The order in which ext4 lists a directory depends on it, and without an option it is random. */
static const char hash_seed[] = "hash_seed=01234567-89ab-cdef-0123-456789abcdef";

struct disk {
	char fresh[PATH_MAX], aged[PATH_MAX]; /* the images */
	char sim[PATH_MAX], fs[PATH_MAX], tree[PATH_MAX], file[PATH_MAX];
	char loop[64];
	pid_t sim_pid;
	bool mounted;
};

/* Bars on the same image in the same condition: all, or the first and the last. */
struct condition {
	const char *group;
	bool all, aged, half_cached;
};

/* The last is what the others are compared with. */
static const struct bench_bar all_bars[] = {
	{ "auto", "scan only, auto", BAR_SCAN, .threads = 0 },
	{ "one", "scan only, 1 reader", BAR_SCAN, .threads = 1 },
	{ "two", "scan only, 2 readers", BAR_SCAN, .threads = 2 },
	{ "eight", "scan only, 8 readers", BAR_SCAN, .threads = 8 },
	{ "du", "du", BAR_PEER, .peer = &bench_peers[0] },
	{ "floor", "1 thread in directory order", BAR_FLOOR, .threads = 1 },
};

static const struct condition conditions[] = {
	{ HDD_FRESH, .all = true },
	{ HDD_CACHED, .half_cached = true },
	{ HDD_AGED, .aged = true },
};

typedef int build(int dirfd, const char *path, const struct dataset_spec *spec,
                  const volatile sig_atomic_t *stop);

static int make_image(struct bench *b, const struct disk *d, const char *image, build *build_in)
{
	AUTO(base_close) int fd = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r, unmounted;

	if (fd < 0 || ftruncate(fd, (off_t)image_bytes) < 0)
		return -errno;
	r = bench_command("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", hash_seed, image, NULL);
	if (r == 0)
		r = bench_command("mount", "-o", "loop", image, d->fs, NULL);
	if (r < 0)
		return r;
	r = build_in(AT_FDCWD, d->tree, &b->spec, &bench_interrupted);
	unmounted = bench_command("umount", d->fs, NULL);
	return r < 0 ? r : unmounted;
}

/* The name that losetup printed. */
static int attach_loop(struct bench *b, struct disk *d)
{
	char out[PATH_MAX];
	FILE *in;
	int r = bench_command_to(workdir_path(&b->work, "loop", out), "losetup", "--show", "-f",
	                         "-r", "--direct-io=on", d->file, NULL);

	if (r < 0)
		return r;
	in = fopen(out, "re");
	if (in && fgets(d->loop, sizeof(d->loop), in))
		d->loop[strcspn(d->loop, "\n")] = '\0';
	if (in)
		(void)fclose(in);
	return d->loop[0] ? 0 : -EIO;
}

static int say_rotational(const struct disk *d)
{
	char path[128];
	const char *name = strrchr(d->loop, '/');
	AUTO(base_close) int fd = -1;

	(void)snprintf(path, sizeof(path), "/sys/block/%s/queue/rotational",
	               name ? name + 1 : d->loop);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "1\n", 2) < 0 ? -errno : 0;
}

static int attach(struct bench *b, struct disk *d, const char *image)
{
	int r = bench_serve(d->sim, &d->sim_pid, "hddsim", "-f", image, d->sim, NULL);

	if (r == 0)
		r = attach_loop(b, d);
	if (r == 0)
		r = say_rotational(d);
	if (r == 0)
		r = bench_command("mount", "-o", "ro,noload", d->loop, d->fs, NULL);
	d->mounted = r == 0;
	return r;
}

static void detach(struct disk *d)
{
	if (d->mounted)
		(void)bench_command("umount", d->fs, NULL);
	if (d->loop[0])
		(void)bench_command("losetup", "-d", d->loop, NULL);
	bench_stop(d->sim_pid, d->sim);
	d->mounted = false;
	d->loop[0] = '\0';
	d->sim_pid = 0;
}

static int run_peer(const struct bench *b, const struct disk *d, const struct bench_bar *bar,
                    struct spawned *done)
{
	struct peer_found found = { 0 };
	struct peer_args a;
	struct spawn s = { .argv = a.argv, .home = b->work.path };

	peer_find(bar->peer, &b->work, &found);
	if (!found.path[0])
		return -ENOENT;
	peer_args(&a, &found, bar->peer->args, d->tree, &b->work);
	return bench_spawn(&s, done);
}

/* More than one reader is right only as long as nothing has to be fetched from the disk. */
static void take_decision(struct bench *b, const struct condition *c, const char *text, size_t len)
{
	struct hdd_decision *d = &b->decision[b->n_decisions];
	char *end;

	if (b->n_decisions == HDD_DECISIONS_MAX)
		return;
	b->n_decisions++;
	d->group = c->group;
	(void)snprintf(d->text, sizeof(d->text), "%.*s", (int)len, text);
	d->right = strtoul(d->text, &end, 10) == 1 || (end != d->text && strstr(end, "cached"));
	if (!d->right)
		bench_wrong(b, "%s: more than one reader, and not for what is cached: %s", c->group,
		            d->text);
}

/* The log is "1 readers at 0 ms: why; 2 readers at 80 ms: why". When it is full, the last one is cut. */
static void take_decisions(struct bench *b, const struct condition *c, const char *log)
{
	bool full = strlen(log) == READERS_LOG_BYTES - 1;

	if (!*log)
		bench_wrong(b, "%s: the scan doesn't say how many readers it had", c->group);
	for (const char *p = log; *p;) {
		size_t len = strcspn(p, ";");

		if (p[len] || !full)
			take_decision(b, c, p, len);
		p += len + strspn(p + len, "; ");
	}
}

static int run_own(struct bench *b, const struct disk *d, const struct condition *c,
                   const struct bench_bar *bar, struct spawned *done)
{
	struct child_result result;
	char label[TEXT_BYTES];
	struct bench_bar named = *bar;
	int r = child_run(bar, d->tree, NULL, done, &result);

	if (r < 0)
		return r;
	(void)snprintf(label, sizeof(label), "%s: %s", c->group, bar->label);
	named.label = label;
	plan_check(b, &named, &result.counts);
	if (bar->kind == BAR_SCAN && bar->threads == 0) {
		take_decisions(b, c, result.readers_log);
		if (!b->storage[0]) /* what stands above the tables is about the first one */
			plan_take_storage(b, &result);
	}
	return 0;
}

static int run_bar(struct bench *b, const struct disk *d, const struct condition *c,
                   const struct bench_bar *bar, struct spawned *done)
{
	int r = 0;

	if (c->half_cached) {
		bench_progress("simulated disk: reading the first half");
		r = dataset_look(AT_FDCWD, d->tree, &b->spec, b->spec.tops / 2, &bench_interrupted);
	}
	bench_progress("simulated disk: %s: %s", c->group, bar->label);
	if (r < 0)
		return r;
	return bar->kind == BAR_PEER ? run_peer(b, d, bar, done) : run_own(b, d, c, bar, done);
}

static int measure_condition(struct bench *b, struct disk *d, const struct condition *c)
{
	const size_t last = ARRAY_SIZE(all_bars) - 1;
	struct spawned done;
	int r = 0;

	for (size_t i = 0; i < last + 1 && r == 0; i += c->all ? 1 : last) {
		r = attach(b, d, c->aged ? d->aged : d->fresh);
		if (r == 0)
			r = run_bar(b, d, c, &all_bars[i], &done);
		detach(d);
		if (r == 0)
			bench_measure(b, c->group, all_bars[i].label, done.sample.wall_ms / 1000,
			              "s");
	}
	return r;
}

int hdd_run(struct bench *b)
{
	struct disk d = { 0 };
	int r;

	if (geteuid() != 0)
		return -EPERM;
	b->spec =
		b->options.entries ? dataset_spec_entries(b->options.entries) : dataset_spec_full();
	(void)workdir_path(&b->work, "fresh.img", d.fresh);
	(void)workdir_path(&b->work, "aged.img", d.aged);
	(void)workdir_path(&b->work, "sim", d.sim);
	(void)workdir_path(&b->work, "fs", d.fs);
	(void)workdir_path(&b->work, "fs/data", d.tree);
	(void)workdir_path(&b->work, "sim/disk", d.file);
	(void)snprintf(b->machine.filesystem, sizeof(b->machine.filesystem),
	               "ext4 on a simulated disk");
	bench_progress("making a fresh and an aged disk image");
	r = mkdir(d.fs, 0700) < 0 ? -errno : make_image(b, &d, d.fresh, dataset_build);
	if (r == 0)
		r = make_image(b, &d, d.aged, dataset_build_aged);
	for (size_t i = 0; i < ARRAY_SIZE(conditions) && r == 0; i++)
		r = measure_condition(b, &d, &conditions[i]);
	bench_progress("%s", "");
	return r;
}
