/* SPDX-License-Identifier: MIT */
/*
 * dirprobe - what a shell cannot do to a directory.
 *
 *     dirprobe make DIR N    N empty files f0, f1, ...
 *     dirprobe list DIR N    readdir gives each of them once, and so it does after rewinddir; from random
 *                            places, seekdir goes on with the very entries that came after telldir; d_ino is
 *                            what lstat says (of every 997th)
 *     dirprobe small DIR N   the same with a buffer for few entries: getdents64 with 600 bytes
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PROBES = 60,
	AFTER = 5
};

static int make(const char *dir, long n)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY);
	char name[32];

	if (at < 0)
		return 1;
	for (long i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "f%ld", i);
		if (mknodat(at, name, S_IFREG | 0644, 0) < 0)
			return 1;
	}
	return close(at);
}

/* Number of a name, -1 for "." and "..", -2 for anything else. */
static long number_of(const char *name, long n)
{
	char *end;
	long i;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -1;
	if (name[0] != 'f')
		return -2;
	i = strtol(name + 1, &end, 10);
	return *end || end == name + 1 || i < 0 || i >= n ? -2 : i;
}

static bool count_one(const char *name, long n, unsigned char *seen)
{
	long i = number_of(name, n);

	if (i == -2 || (i >= 0 && seen[i]++)) {
		(void)printf("'%s' %s\n", name, i < 0 ? "does not belong here" : "came twice");
		return false;
	}
	return true;
}

static bool all_seen(const unsigned char *seen, long n)
{
	long missing = 0;

	for (long i = 0; i < n; i++)
		missing += !seen[i];
	if (missing)
		(void)printf("%ld names are missing\n", missing);
	return !missing;
}

struct place {
	long position;
	char name[AFTER][32];
};

static bool is_inode_right(int fd, const struct dirent *e)
{
	struct stat st;

	if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == e->d_ino)
		return true;
	(void)printf("'%s': d_ino %ju, st_ino %ju\n", e->d_name, (uintmax_t)e->d_ino,
	             (uintmax_t)st.st_ino);
	return false;
}

/* Once through the directory; remembers places on the way. */
static bool walk(DIR *d, long n, struct place *places, unsigned char *seen)
{
	const struct dirent *e;
	long at = 0, step = n / PROBES + 1;
	bool fine = true;

	memset(seen, 0, (size_t)n);
	for (long here = telldir(d); (e = readdir(d)); here = telldir(d), at++) {
		struct place *p = &places[at / step];

		fine = fine && count_one(e->d_name, n, seen);
		if (at % step == 0)
			p->position = here;
		if (at % step < AFTER)
			(void)snprintf(p->name[at % step], 32, "%.31s", e->d_name);
		if (at % 997 == 0)
			fine = fine && is_inode_right(dirfd(d), e);
	}
	return fine && all_seen(seen, n);
}

static bool probe(DIR *d, const struct place *p)
{
	seekdir(d, p->position);
	for (int i = 0; i < AFTER && p->name[i][0]; i++) {
		const struct dirent *e = readdir(d);

		if (!e || strcmp(e->d_name, p->name[i]) != 0) {
			(void)printf("after seekdir: '%s' instead of '%s'\n",
			             e ? e->d_name : "(end)", p->name[i]);
			return false;
		}
	}
	return true;
}

static int list(const char *dir, long n)
{
	struct place *places = calloc(PROBES + 2, sizeof(*places));
	unsigned char *seen = calloc((size_t)n + 1, 1);
	DIR *d = opendir(dir);
	bool fine;

	if (!d || !places || !seen)
		return 1;
	fine = walk(d, n, places, seen);
	for (int i = 0; fine && i < 3 * PROBES; i++)
		fine = probe(d, &places[(i < PROBES ? PROBES - 1 - i : rand() % PROBES) %
		                        ((n + 2) / (n / PROBES + 1) + 1)]);
	rewinddir(d);
	fine = fine && walk(d, n, places, seen);
	free(places);
	free(seen);
	return closedir(d) != 0 || !fine;
}

struct raw_entry { /* getdents64(2) */
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static int small(const char *dir, long n)
{
	unsigned char *seen = calloc((size_t)n + 1, 1);
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	_Alignas(8) char buf[600];
	bool fine = seen && fd >= 0;
	long got = 0;

	while (fine && (got = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0)
		for (long at = 0; fine && at < got;) {
			const struct raw_entry *e = (const void *)(buf + at);

			fine = count_one(e->name, n, seen);
			at += e->len;
		}
	fine = fine && got == 0 && all_seen(seen, n);
	free(seen);
	return close(fd) != 0 || !fine;
}

int main(int argc, char **argv)
{
	long n = argc == 4 ? atol(argv[3]) : -1;

	if (n < 0)
		return 2;
	if (strcmp(argv[1], "make") == 0)
		return make(argv[2], n);
	return strcmp(argv[1], "list") == 0 ? list(argv[2], n) : small(argv[2], n);
}
