/* SPDX-License-Identifier: MIT */
/*
 * place - where the index lies: judged by what was opened, never by a path that can change meanwhile.
 *
 *     walk down to the directory, making what is missing -> hold it open, judge it
 *     -> SQLite opens each file below the held descriptor; each is judged as it is opened
 *
 * As root, a directory or a file that somebody else owns or may write is refused, a sticky directory too: who may
 * make a name there can put a log beside the index before SQLite does. Links that lead to the directory are
 * followed, since what they lead to is judged; an index that is a link itself is refused. Any other user owns
 * what happens to the index.
 *
 * SQLite takes names only, and follows links in them. A VFS of our own leaves them as they are, so that
 * "/proc/self/fd/N/index.db" is a file of the held directory wherever that is moved. Descriptors that only look
 * are O_PATH: closing any other one of the index would give up all of SQLite's locks on it (fcntl(2)).
 */
#include "snapshot/internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#define HELD "/proc/self/fd/"

static const char *const suffixes[] = { "", "-wal", "-shm" };

static bool is_foreign(const struct stat *st)
{
	return geteuid() == 0 && (st->st_uid != 0 || st->st_mode & 022);
}

/* -- what SQLite asks of the kernel ----------------------------------------------------------- */

/*
 * Why the last lock was not to be had if no other process was the reason: SQLite calls nearly all reasons busy.
 * SQLite's table of calls has no place for a context.
 */
static _Thread_local int lock_error;

bool place_lock_failed(void)
{
	return lock_error;
}

int place_lock_error(void)
{
	int r = lock_error;

	lock_error = 0;
	return r == 0 ? 0 : r == EIO ? -EIO : -ENOLCK;
}

static int open_judged(const char *path, int flags, int mode)
{
	struct stat st;
	int fd;

	if (strncmp(path, HELD, strlen(HELD)) != 0 || strrchr(path, '/') < path + strlen(HELD))
		return open(path, flags, mode); /* not an index, or the directory itself */
	fd = open(path, flags | O_NOFOLLOW, mode);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !is_foreign(&st))
		return fd;
	if (fd >= 0) {
		base_close(fd);
		errno = EPERM;
	}
	return -1;
}

static int fcntl_watched(int fd, int cmd, ...)
{
	va_list args;
	int r;

	va_start(args, cmd);
	if (cmd == F_SETLK) {
		r = fcntl(fd, cmd, va_arg(args, struct flock *));
		/* EBADF: a reader, which may not lock for writing */
		lock_error = r == 0 || errno == EAGAIN || errno == EACCES || errno == EINTR ||
		                             errno == EBADF
		                     ? 0
		                     : errno;
	} else if (cmd == F_GETLK) {
		r = fcntl(fd, cmd, va_arg(args, struct flock *));
	} else {
		r = fcntl(fd, cmd, va_arg(args, int));
	}
	va_end(args);
	return r;
}

static int name_as_it_is(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
	(void)vfs;
	return snprintf(out, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* SQLite tries again for ten seconds; a lock that fails for such a reason does so each time. */
static int sleep_if_of_use(sqlite3_vfs *vfs, int us)
{
	return lock_error ? 0 : sqlite3_vfs_find(NULL)->xSleep(vfs, us);
}

static sqlite3_vfs held_vfs; /* written once, before it is registered */

static void register_vfs(void)
{
	sqlite3_vfs *unix_vfs = sqlite3_vfs_find(NULL);

	if (!unix_vfs)
		return;
	held_vfs = *unix_vfs;
	held_vfs.zName = PLACE_VFS;
	held_vfs.pNext = NULL;
	held_vfs.xFullPathname = name_as_it_is;
	held_vfs.xSleep = sleep_if_of_use;
	(void)unix_vfs->xSetSystemCall(unix_vfs, "open", (sqlite3_syscall_ptr)open_judged);
	(void)unix_vfs->xSetSystemCall(unix_vfs, "fcntl", (sqlite3_syscall_ptr)fcntl_watched);
	(void)sqlite3_vfs_register(&held_vfs, 0);
}

/* -- the directory ---------------------------------------------------------------------------- */

static int make_directory(int at, const char *name)
{
	bool made = mkdirat(at, name, 0700) == 0;
	char held[40];
	int fd;

	if (!made && errno != EEXIST)
		return -errno;
	fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)snprintf(held, sizeof(held), HELD "%d", fd);
	if (made) /* an umask could only take away the owner's own rights, and a setgid bit may be inherited */
		(void)chmod(held, 0700);
	return fd;
}

/* Takes path apart. Returns a descriptor of the directory that the last name is in; *name is that name. */
static int walk_down(char *path, bool create, const char **name)
{
	int fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *p = path + strspn(path, "/"), *slash;

	if (fd < 0)
		return -errno;
	for (; (slash = strchr(p, '/')); p = slash + 1 + strspn(slash + 1, "/")) {
		int next;

		*slash = '\0';
		next = openat(fd, p, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			next = errno == ENOENT && create ? make_directory(fd, p) : -errno;
		base_close(fd);
		if (next < 0)
			return next;
		fd = next;
	}
	*name = p;
	return fd;
}

static int create_file(const struct place *p)
{
	int fd = openat(p->dir, p->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	(void)fchmod(fd, 0600);
	base_close(fd);
	return 0;
}

int place_stat(const struct place *p, const char *suffix, struct stat *ret)
{
	char name[NAME_MAX + 1];

	if (snprintf(name, sizeof(name), "%s%s", p->name, suffix) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	return fstatat(p->dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* The reason in words before SQLite opens them, which has only one for all. It reads the log and its index, too. */
static int judge_files(const struct place *p)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		int r = place_stat(p, suffixes[i], &st);

		if (r == -ENOENT && i > 0)
			continue;
		if (r < 0)
			return r;
		if (!S_ISREG(st.st_mode))
			return S_ISDIR(st.st_mode)   ? -EISDIR
			       : S_ISLNK(st.st_mode) ? -ELOOP
			                             : -EMEDIUMTYPE;
		if (is_foreign(&st))
			return -EPERM;
	}
	return 0;
}

int place_open(const char *path, bool write, struct place *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	/* The log belongs beside the file itself. Root, who is not to be led astray, refuses a link. */
	AUTO(base_free) char *real = geteuid() == 0 ? NULL : realpath(path, NULL);
	AUTO(base_free) char *parts = strdup(real ? real : path);
	const char *name = "";
	struct stat st;
	int r;

	*ret = (struct place){ .dir = -1 };
	(void)pthread_once(&once, register_vfs);
	if (!parts)
		return -ENOMEM;
	r = ret->dir = walk_down(parts, write, &name);
	if (r < 0)
		return r;
	if (!*name)
		return -EISDIR;
	ret->name = strdup(name);
	if (!ret->name || asprintf(&ret->file, HELD "%d/%s", ret->dir, name) < 0)
		return -ENOMEM;
	if (fstat(ret->dir, &st) < 0)
		return -errno;
	if (is_foreign(&st))
		return -ENOTUNIQ;
	r = write ? create_file(ret) : 0;
	if (r == 0)
		r = judge_files(ret);
	if (r == 0 && faccessat(ret->dir, name, write ? R_OK | W_OK : R_OK, 0) < 0)
		r = -errno;
	return r;
}

void place_done(struct place *p)
{
	base_close(p->dir);
	free(p->name);
	free(p->file);
	*p = (struct place){ .dir = -1 };
}

/* The log's size stays 0, and locks are not lost: nobody locks the log (sqlite.org/wal.html). */
void place_reserve(const struct place *p, uint64_t bytes)
{
	AUTO(base_free) char *name = NULL;
	int fd;

	if (asprintf(&name, "%s-wal", p->name) < 0)
		return;
	fd = openat(p->dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
	base_close(fd);
}

int place_why(const struct place *p, int r)
{
	struct stat st;

	if (faccessat(p->dir, p->name, R_OK | W_OK, 0) < 0)
		return r;
	for (size_t i = 1; i < ARRAY_SIZE(suffixes); i++) {
		AUTO(base_free) char *name = NULL;
		int fd;

		if (place_stat(p, suffixes[i], &st) == 0)
			continue;
		if (asprintf(&name, "%s%s", p->name, suffixes[i]) < 0)
			return -ENOMEM;
		fd = openat(p->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -errno;
		base_close(fd);
	}
	return r;
}
