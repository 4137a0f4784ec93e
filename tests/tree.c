/* SPDX-License-Identifier: MIT */
/* tree - see tree.h. Everything is done relative to descriptors, so neither depth nor names matter. */
#include "tests/tree.h"
#include "base/base.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum {
	RANDOM_DIRS_MAX = 512,
	RANDOM_FILES_MAX = 4096
};

/* The folder of this process: made when first needed. */
static char base_path[64];
static int base_fd = -1;

/* Unlink what fd lists. A sub-directory that is not empty is opened and returned. -1: nothing is left. */
static int unlink_entries(int fd)
{
	char buf[32 * 1024];
	ssize_t n;

	while ((n = getdents64(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e =
				(const struct dirent64 *)(const void *)(buf + at);
			int below;

			at += e->d_reclen;
			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			if (unlinkat(fd, e->d_name, e->d_type == DT_DIR ? AT_REMOVEDIR : 0) == 0)
				continue;
			if (e->d_type != DT_DIR)
				err(99, "cannot remove a test's file");
			(void)fchmodat(fd, e->d_name, 0700, 0);
			below = openat(fd, e->d_name,
			               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (below < 0)
				err(99, "cannot remove a test's directory");
			return below;
		}
	}
	return -1;
}

/* Empty the directory at fd, which is closed: down into what is not empty, up when nothing is left. */
static void remove_below(int fd)
{
	for (size_t depth = 0;;) {
		int next = unlink_entries(fd);

		if (next >= 0) {
			depth++;
		} else if (depth == 0) {
			break;
		} else {
			next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (next < 0)
				err(99, "cannot climb out of a test's directory");
			depth--;
		}
		base_close(fd);
		fd = next;
	}
	base_close(fd);
}

/* Waits until no process of the test holds the other end of the pipe. */
static void clean_up_later(int wait_fd)
{
	char none;

	(void)setsid();
	for (int fd = 0; fd < 3; fd++)
		(void)dup2(open("/dev/null", O_RDWR), fd);
	while (read(wait_fd, &none, 1) < 0 && errno == EINTR)
		;
	(void)umount2(base_path, MNT_DETACH); /* see tree_private_mounts() */
	remove_below(open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	(void)rmdir(base_path);
	_exit(0);
}

void tree_prefer_memory(void)
{
	struct statfs fs;

	if (statfs("/dev/shm", &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
	    access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 0);
}

static void make_base(void)
{
	const char *tmp = getenv("TMPDIR");
	int ends[2];
	pid_t pid;

	(void)snprintf(base_path, sizeof(base_path), "%s/disktracker-test-XXXXXX",
	               tmp && *tmp == '/' && strlen(tmp) < 32 ? tmp : "/tmp");
	if (!mkdtemp(base_path))
		err(99, "cannot make a directory for tests");
	base_fd = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		err(99, "cannot prepare the directory for tests");
	pid = fork();
	if (pid < 0)
		err(99, "fork");
	if (pid == 0) {
		base_close(ends[1]);
		clean_up_later(ends[0]);
	}
	base_close(ends[0]); /* the other one stays open to the end */
}

/* In a chroot, "/" need not be a mount point; then the folder becomes one. */
static bool make_private(void)
{
	if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0)
		return true;
	return errno == EINVAL && mount(base_path, base_path, "none", MS_BIND, NULL) == 0 &&
	       mount("none", base_path, "none", MS_PRIVATE, NULL) == 0;
}

bool tree_private_mounts(void)
{
	if (base_fd < 0)
		make_base();
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || !make_private())
		return false;
	base_close(base_fd); /* what it led to does not see the new mounts */
	base_fd = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base_fd < 0)
		err(99, "cannot open the directory for tests");
	return true;
}

void tree_new(struct tree *ret)
{
	static unsigned number;
	char name[16], real[PATH_MAX];

	if (base_fd < 0)
		make_base();
	(void)snprintf(name, sizeof(name), "%u", number++);
	if (mkdirat(base_fd, name, 0755) < 0)
		err(99, "cannot make a tree");
	(void)snprintf(ret->path, sizeof(ret->path), "%s/%s", base_path, name);
	if (realpath(ret->path, real) && strlen(real) < sizeof(ret->path))
		(void)strcpy(ret->path, real);
	ret->fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd < 0)
		err(99, "cannot open a tree");
}

void tree_remove(struct tree *t)
{
	if (t->fd < 0 || !t->path[0])
		return;
	remove_below(t->fd);
	t->fd = -1;
	(void)rmdir(t->path);
	t->path[0] = '\0';
}

static void fill_file(int fd, uint64_t size)
{
	static const char zeros[4096];

	for (uint64_t n; size; size -= n) {
		ssize_t r = write(fd, zeros, MIN(size, sizeof(zeros)));

		if (r <= 0)
			err(99, "cannot write a test's file");
		n = (uint64_t)r;
	}
}

static int add_row(int dirfd, const struct tree_row *row)
{
	AUTO(base_close) int fd = -1;

	switch (row->kind) {
	case TREE_DIR:
		return mkdirat(dirfd, row->path, 0755);
	case TREE_SYMLINK:
		return symlinkat(row->target, dirfd, row->path);
	case TREE_FIFO:
		return mknodat(dirfd, row->path, S_IFIFO | 0644, 0);
	case TREE_SOCKET:
		return mknodat(dirfd, row->path, S_IFSOCK | 0644, 0);
	case TREE_LINK:
		return linkat(dirfd, row->target, dirfd, row->path, 0);
	default:
		break;
	}
	fd = openat(dirfd, row->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -1;
	if (row->kind == TREE_SPARSE)
		return ftruncate(fd, (off_t)row->size);
	fill_file(fd, row->size);
	return 0;
}

void tree_build(const struct tree *t, const struct tree_row *rows)
{
	for (; rows->path; rows++)
		if (add_row(t->fd, rows) < 0)
			err(99, "cannot add '%s' to a tree", rows->path);
}

void tree_write(const struct tree *t, const char *path, size_t size)
{
	const struct tree_row row = { path, TREE_FILE, size, NULL };

	if (add_row(t->fd, &row) < 0)
		err(99, "cannot write '%s' in a tree", path);
}

/* xorshift64* */
uint64_t tree_draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1Du;
}

/* -- random trees ---------------------------------------------------------------------------- */

struct growing {
	const struct tree *t;
	uint64_t random;
	int dirs[RANDOM_DIRS_MAX]; /* open directories */
	size_t n_dirs;
	struct {
		int dir;
		char name[256];
	} files[RANDOM_FILES_MAX];
	size_t n_files;
};

/* Mostly plain names; some of each kind that has broken a program somewhere. */
static void draw_name(struct growing *g, char name[256])
{
	static const char *const odd[] = {
		"a\nb", "\t",   "back\\slash", "\x1b[31m",     "\xff\xfe", " ",
		"-rf",  "*",    "caf\xc3\xa9", "\xed\xa0\x80", "...",      ".usage",
		"\x01", "\x7f", "%s%n",        "\"'"
	};
	uint64_t kind = tree_draw(&g->random) % 16, number = tree_draw(&g->random) % 100000;
	size_t len;

	if (kind < 10) {
		(void)snprintf(name, 256, "f%zu", (size_t)number);
	} else if (kind < 13) {
		(void)snprintf(name, 256, "%s%zu", odd[number % ARRAY_SIZE(odd)],
		               (size_t)(number % 50));
	} else if (kind == 13) { /* as long as a name can be */
		memset(name, 'x', 255);
		(void)snprintf(name + 249, 7, "%06zu", (size_t)number);
	} else {
		len = 1 + tree_draw(&g->random) % 24;
		for (size_t i = 0; i < len; i++) {
			unsigned char c = (unsigned char)tree_draw(&g->random);

			name[i] = (char)(c == 0 || c == '/' || c == '.' ? 'z' : c);
		}
		name[len] = '\0';
	}
}

static void grow_directory(struct growing *g, int dir, const char *name)
{
	int fd;

	if (g->n_dirs == RANDOM_DIRS_MAX || mkdirat(dir, name, 0755) < 0)
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		err(99, "cannot open a test's directory");
	g->dirs[g->n_dirs++] = fd;
}

static void grow_file(struct growing *g, int dir, const char *name, uint64_t kind)
{
	struct tree_row row = { name, TREE_FILE, tree_draw(&g->random) % 20000, "no/where" };

	if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	if (kind == 0)
		row.kind = TREE_SPARSE, row.size = tree_draw(&g->random) % (UINT64_C(1) << 40);
	else if (kind < 4)
		row.kind = (enum tree_kind)(TREE_FILE + (int)kind + 1); /* symlink, FIFO, socket */
	if (add_row(dir, &row) < 0)
		err(99, "cannot grow a tree");
	if (g->n_files == RANDOM_FILES_MAX)
		return;
	g->files[g->n_files].dir = dir;
	(void)strcpy(g->files[g->n_files++].name, name);
}

static void grow_link(struct growing *g, int dir, const char *name)
{
	size_t i;

	if (g->n_files == 0)
		return;
	i = tree_draw(&g->random) % g->n_files;
	if (linkat(g->files[i].dir, g->files[i].name, dir, name, 0) < 0 && errno != EEXIST)
		err(99, "cannot link in a tree");
}

void tree_random(const struct tree *t, uint64_t seed, size_t n)
{
	struct growing *g = calloc(1, sizeof(*g));

	if (!g)
		err(99, "no memory");
	g->t = t;
	g->random = seed * 0x9E3779B97F4A7C15u + 1;
	g->dirs[g->n_dirs++] = dup(t->fd);
	for (size_t i = 0; i < n; i++) {
		uint64_t kind = tree_draw(&g->random) % 20;
		int dir = g->dirs[tree_draw(&g->random) % g->n_dirs];
		char name[256];

		draw_name(g, name);
		if (kind < 4)
			grow_directory(g, dir, name);
		else if (kind < 8)
			grow_link(g, dir, name);
		else
			grow_file(g, dir, name, kind - 8);
	}
	for (size_t i = 0; i < g->n_dirs; i++)
		base_close(g->dirs[i]);
	free(g);
}

void tree_chain(const struct tree *t, size_t depth)
{
	int fd = dup(t->fd);

	for (size_t i = 0; i < depth; i++) {
		int next;

		if (mkdirat(fd, "d", 0755) < 0)
			err(99, "cannot make a deep directory");
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		base_close(fd);
		if (next < 0)
			err(99, "cannot open a deep directory");
		fd = next;
	}
	base_close(openat(fd, "end", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	base_close(fd);
}
