/* SPDX-License-Identifier: MIT */
/*
 * machine - what the numbers were measured on.
 */
#include "bench/bench.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

/* The rest of the first line of a /proc file that begins with key. */
static void read_key(const char *path, const char *key, char *ret, size_t size)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;

	(void)snprintf(ret, size, "unknown");
	while (in && getline(&line, &cap, in) > 0) {
		char *value = strchr(line, ':');

		if (!value || strncmp(line, key, strlen(key)) != 0)
			continue;
		value += 1 + strspn(value + 1, " \t");
		value[strcspn(value, "\n")] = '\0';
		(void)snprintf(ret, size, "%s", value);
		break;
	}
	free(line);
	if (in)
		(void)fclose(in);
}

static const char *filesystem_name(int64_t type)
{
	static const struct {
		int64_t type;
		const char *name;
	} known[] = {
		{ 0xEF53, "ext4" },         { 0x58465342, "xfs" },  { 0x9123683E, "btrfs" },
		{ 0x01021994, "tmpfs" },    { 0x2FC12FC1, "zfs" },  { 0x794C7630, "overlayfs" },
		{ 0x6969, "nfs" },          { 0x65735546, "fuse" }, { 0xF2F52010, "f2fs" },
		{ 0xCA451A4E, "bcachefs" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].type == type)
			return known[i].name;
	return NULL;
}

void machine_get(struct machine *m, const char *tree)
{
	time_t now = time(NULL);
	struct sysinfo info;
	struct utsname u;
	struct statfs fs;
	struct tm tm;

	read_key("/proc/cpuinfo", "model name", m->cpu, sizeof(m->cpu));
	m->cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	if (sysinfo(&info) == 0)
		m->memory_kb = (uint64_t)info.totalram * info.mem_unit / 1024;
	if (uname(&u) == 0)
		(void)snprintf(m->kernel, sizeof(m->kernel), "%.30s %.50s %.30s", u.sysname,
		               u.release, u.machine);
	if (statfs(tree, &fs) == 0) {
		const char *name = filesystem_name((int64_t)(uint32_t)fs.f_type);

		if (name)
			(void)snprintf(m->filesystem, sizeof(m->filesystem), "%s", name);
		else
			(void)snprintf(m->filesystem, sizeof(m->filesystem), "type 0x%x",
			               (unsigned)fs.f_type);
	}
#ifdef __clang__
	(void)snprintf(m->compiler, sizeof(m->compiler), "clang %s", __clang_version__);
#else
	(void)snprintf(m->compiler, sizeof(m->compiler), "gcc %s", __VERSION__);
#endif
	if (gmtime_r(&now, &tm))
		(void)strftime(m->date, sizeof(m->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static double rusage_seconds(int who)
{
	struct rusage u;

	if (getrusage(who, &u) < 0)
		return 0;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void machine_use_get(struct machine_use *u)
{
	uint64_t user = 0, nice = 0, system = 0, idle, wait, irq = 0, softirq = 0, steal = 0;
	FILE *in = fopen("/proc/stat", "re");
	double ticks = (double)sysconf(_SC_CLK_TCK);

	if (in && fscanf(in,
	                 "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
	                 " %" SCNu64 " %" SCNu64,
	                 &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal) < 8)
		steal = 0; /* what was read counts */
	if (in)
		(void)fclose(in);
	u->busy_s = (double)(user + nice + system + irq + softirq + steal) / ticks;
	u->own_s = rusage_seconds(RUSAGE_SELF) + rusage_seconds(RUSAGE_CHILDREN);
	u->wall_ns = clock_ns(CLOCK_MONOTONIC);
}

double machine_foreign(const struct machine_use *then)
{
	double cpus = (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), share;
	struct machine_use now;

	machine_use_get(&now);
	share = (now.busy_s - then->busy_s - (now.own_s - then->own_s)) /
	        (cpus * (double)MAX(now.wall_ns - then->wall_ns, 1) / 1e9);
	return MAX(share, 0);
}
