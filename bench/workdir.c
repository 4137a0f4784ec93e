/* SPDX-License-Identifier: MIT */
/*
 * workdir - the private folder, signals that must not leave it behind, and finding programs.
 */
#include "bench/bench.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>

volatile sig_atomic_t bench_interrupted;

static void on_signal(int sig)
{
	bench_interrupted = sig;
}

void bench_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal };

	(void)sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		(void)sigaction(signals[i], &sa, NULL);
	sa.sa_handler = SIG_IGN; /* a reader of our output that left shows as a failed write */
	(void)sigaction(SIGPIPE, &sa, NULL);
}

void bench_progress(const char *format, ...)
{
	va_list args;

	if (!isatty(STDERR_FILENO))
		return;
	(void)fputs("\r\033[K", stderr);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
}

int workdir_make(struct workdir *w, const char *dir)
{
	const char *tmp = getenv("TMPDIR");
	int n;

	if (!dir)
		dir = tmp && *tmp ? tmp : "/tmp";
	n = snprintf(w->path, sizeof(w->path), "%s/disktracker-bench-XXXXXX", dir);
	if (n < 0 || n >= PATH_MAX - NAME_MAX) {
		w->path[0] = '\0';
		return -ENAMETOOLONG;
	}
	if (!mkdtemp(w->path)) {
		n = -errno;
		w->path[0] = '\0';
		return n;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path); /* the folder itself then stays, and workdir_remove() says so */
	return 0;
}

void workdir_remove(struct workdir *w)
{
	struct stat st;

	if (!w->path[0])
		return;
	if (w->keep) {
		(void)fprintf(stderr, "bench_tool: kept '%s'\n", w->path);
		return;
	}
	bench_progress("removing the private folder");
	(void)nftw(w->path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	bench_progress("%s", "");
	if (lstat(w->path, &st) == 0)
		(void)fprintf(stderr, "bench_tool: could not remove all of '%s'\n", w->path);
	w->path[0] = '\0';
}

char *workdir_path(const struct workdir *w, const char *name, char *buf)
{
	/* workdir_make() left room for a name. */
	(void)snprintf(buf, PATH_MAX, "%.*s/%s", PATH_MAX - NAME_MAX, w->path, name);
	return buf;
}

int bench_drop_caches(void)
{
	AUTO(base_close) int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	sync();
	return write(fd, "3\n", 2) < 0 ? -errno : 0;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int bench_find_own(const char *name, char ret[static PATH_MAX])
{
	/* Installed: in the same folder. In a build folder: in that of its module. */
	static const char *const folders[] = { "", "../tools/", "../bench/" };
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len < 0)
		return -errno;
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return -ENOENT;
	slash[1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		int n = snprintf(ret, PATH_MAX, "%s%s%s", self, folders[i], name);

		if (n < PATH_MAX && is_program(ret))
			return 0;
	}
	return bench_find_program(name, ret);
}

int bench_find_program(const char *name, char ret[static PATH_MAX])
{
	/* Administrators' programs are not in everybody's $PATH. */
	static const char system_path[] = "/usr/local/sbin:/usr/sbin:/sbin";
	const char *path = getenv("PATH");
	char all[2 * PATH_MAX];

	(void)snprintf(all, sizeof(all), "%s:%s", path ? path : "/usr/local/bin:/usr/bin:/bin",
	               system_path);
	for (char *rest = all, *dir; (dir = strsep(&rest, ":"));) {
		int n = snprintf(ret, PATH_MAX, "%s/%s", *dir ? dir : ".", name);

		if (n < PATH_MAX && is_program(ret))
			return 0;
	}
	return -ENOENT;
}
