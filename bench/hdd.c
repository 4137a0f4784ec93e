/* SPDX-License-Identifier: MIT */
/*
 * hdd - the scan on a simulated rotational disk. Needs root: loop devices and mounts.
 *
 *     once       an image with a fresh ext4 and the data set in it
 *     each bar   hddsim serves the image, a loop device on it says that it rotates, ext4 is mounted
 *                read-only: a new mount starts cold, so the machine's caches are left alone
 *
 * A bar runs once: the simulation repeats to the percent, and the slow ones take long.
 */
#include "bench/bench.h"

#include <fcntl.h>
#include <sys/stat.h>

static const uint64_t image_bytes = 8ull << 30; /* sparse; seeks depend on the distance */

struct disk {
	char image[PATH_MAX], sim[PATH_MAX], fs[PATH_MAX], tree[PATH_MAX], file[PATH_MAX];
	char loop[64];
	pid_t sim_pid;
	bool mounted;
};

static int make_image(struct bench *b, struct disk *d)
{
	AUTO(base_close) int fd = open(d->image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r, unmounted;

	bench_progress("making a disk image");
	if (fd < 0 || ftruncate(fd, (off_t)image_bytes) < 0 || mkdir(d->fs, 0700) < 0)
		return -errno;
	r = bench_command("mkfs.ext4", "-q", "-F", "-b", "4096", d->image, NULL);
	if (r == 0)
		r = bench_command("mount", "-o", "loop", d->image, d->fs, NULL);
	if (r < 0)
		return r;
	r = dataset_build(AT_FDCWD, d->tree, &b->spec, &bench_interrupted);
	unmounted = bench_command("umount", d->fs, NULL);
	return r < 0 ? r : unmounted;
}

/* The name that losetup printed. */
static int attach_loop(struct bench *b, struct disk *d)
{
	char program[PATH_MAX], out[PATH_MAX];
	char *argv[] = { program,
		         (char[]){ "--show" },
		         (char[]){ "-f" },
		         (char[]){ "-r" },
		         (char[]){ "--direct-io=on" },
		         d->file,
		         NULL };
	struct spawn s = { .argv = argv, .out = workdir_path(&b->work, "loop", out) };
	struct spawned done;
	FILE *in;
	int r = bench_find_program("losetup", program);

	if (r == 0)
		r = bench_spawn(&s, &done);
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

static int attach(struct bench *b, struct disk *d)
{
	char program[PATH_MAX];
	char *argv[] = { program, (char[]){ "-f" }, d->image, d->sim, NULL };
	int r = bench_find_own("hddsim", program);

	if (r < 0)
		(void)fprintf(stderr, "bench_tool: there is no program 'hddsim' beside this one\n");
	if (r == 0)
		r = bench_serve(argv, d->sim, &d->sim_pid);
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

static int measure_bar(struct bench *b, struct disk *d, const struct bench_bar *bar)
{
	struct child_result result = { 0 };
	struct spawned done;
	int r = attach(b, d);

	bench_progress("simulated disk: %s", bar->label);
	if (r == 0 && bar->kind == BAR_PEER)
		r = run_peer(b, d, bar, &done);
	else if (r == 0)
		r = child_run(bar, d->tree, NULL, &done, &result);
	detach(d);
	if (r < 0)
		return r;
	if (bar->kind == BAR_SCAN && bar->threads == 0) {
		memcpy(b->storage, result.storage, sizeof(b->storage));
		memcpy(b->evidence, result.evidence, sizeof(b->evidence));
		b->auto_readers = result.counts.readers;
	}
	bench_measure(b, "scan", bar->label, done.sample.wall_ms / 1000, "s");
	return 0;
}

int hdd_run(struct bench *b)
{
	/* The last one is what the others are compared with. */
	const struct bench_bar bars[] = {
		{ "auto", "scan only, auto", BAR_SCAN, .threads = 0 },
		{ "one", "scan only, 1 reader", BAR_SCAN, .threads = 1 },
		{ "two", "scan only, 2 readers", BAR_SCAN, .threads = 2 },
		{ "eight", "scan only, 8 readers", BAR_SCAN, .threads = 8 },
		{ "du", "du", BAR_PEER, .peer = &bench_peers[0] },
		{ "floor", "1 thread in directory order", BAR_FLOOR, .threads = 1 },
	};
	struct disk d = { 0 };
	int r;

	if (geteuid() != 0)
		return -EPERM;
	b->spec =
		b->options.entries ? dataset_spec_entries(b->options.entries) : dataset_spec_full();
	(void)workdir_path(&b->work, "disk.img", d.image);
	(void)workdir_path(&b->work, "sim", d.sim);
	(void)workdir_path(&b->work, "fs", d.fs);
	(void)workdir_path(&b->work, "fs/data", d.tree);
	(void)workdir_path(&b->work, "sim/disk", d.file);
	(void)snprintf(b->machine.filesystem, sizeof(b->machine.filesystem),
	               "ext4 on a simulated disk");
	r = make_image(b, &d);
	for (size_t i = 0; i < ARRAY_SIZE(bars) && r == 0; i++)
		r = measure_bar(b, &d, &bars[i]);
	bench_progress("%s", "");
	return r;
}
