/* SPDX-License-Identifier: MIT */
/* mountpoint - what is mounted at a path, may it be mounted on, and how a mount there ends. */
#include "fs/internal.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>

extern char **environ;

static int run_fusermount(const char *option, const char *path)
{
	const char *const words[] = { "fusermount3", option, "--", path, NULL };
	char *argv[ARRAY_SIZE(words)];
	int status;
	pid_t pid;
	int r;

	memcpy(argv, words,
	       sizeof(words)); /* posix_spawn(3) takes them as char *, and changes none */
	r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (r != 0)
		return -r;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

/* Type of what is mounted exactly at path, the topmost if several; "" if nothing. See proc(5), mounts. */
static void mounted_type(const char *path, char type[64])
{
	FILE *f = fopen("/proc/self/mounts", "re");
	char *line = NULL;
	size_t cap = 0;

	type[0] = '\0';
	if (!f)
		return;
	while (getline(&line, &cap, f) > 0) {
		char *save, *point, *name;
		struct text escaped = { 0 };

		(void)strtok_r(line, " ", &save);
		point = strtok_r(NULL, " ", &save);
		name = strtok_r(NULL, " ", &save);
		for (const char *c = path; *c; c++)
			text_printf(&escaped, strchr(" \t\n\\", *c) ? "\\%03o" : "%c",
			            (unsigned char)*c);
		text_add(&escaped, "", 1);
		if (point && name && !escaped.failed && strcmp(point, escaped.p) == 0)
			(void)snprintf(type, 64, "%s", name);
		text_done(&escaped);
	}
	free(line);
	(void)fclose(f);
}

bool fs_is_mounted(const char *path)
{
	char type[64];

	mounted_type(path, type);
	return strcmp(type, "fuse.disktracker") == 0;
}

int fs_umount(const char *path)
{
	if (geteuid() != 0)
		return run_fusermount("-u", path);
	return umount2(path, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

/* realpath(3) cannot look at a dead mount point itself, only at the way to it. */
static char *resolve_dead(const char *path)
{
	AUTO(base_free) char *copy = strdup(path), *parent = NULL;
	size_t len = copy ? strlen(copy) : 0;
	char *slash, *full;
	int n;

	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	slash = copy ? strrchr(copy, '/') : NULL;
	if (slash)
		*slash = '\0';
	parent = copy ? realpath(!slash ? "." : *copy ? copy : "/", NULL) : NULL;
	if (!parent)
		return NULL;
	n = asprintf(&full, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent,
	             slash ? slash + 1 : copy);
	return n < 0 ? NULL : full;
}

int fs_clean_dead(const char *path)
{
	AUTO(base_free) char *full = NULL;
	struct statfs st;
	int r;

	/* Attributes may still be in the kernel's cache; statfs(2) always asks the process. */
	if (statfs(path, &st) == 0 || errno != ENOTCONN)
		return 0;
	full = resolve_dead(path);
	if (!full || !fs_is_mounted(full))
		return 0;
	path = full;
	if (geteuid() != 0)
		r = run_fusermount("-uz", path);
	else
		r = umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
	return r < 0 ? r : 1;
}

static bool is_empty_dir(DIR *d)
{
	const struct dirent *e;

	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			return false;
	return true;
}

int mountpoint_check(const struct fs_options *o)
{
	const char *path = o->mountpoint;
	char type[64];
	bool empty;
	DIR *d;

	mounted_type(path, type);
	if (strncmp(type, "fuse", 4) == 0) {
		o->say(o->say_ctx, path,
		       strcmp(type, "fuse.disktracker") == 0
		               ? "a disktracker is mounted there already; 'disktracker umount' ends it"
		               : "something else is mounted there");
		return -EBUSY;
	}
	d = opendir(path);
	if (!d) {
		int r = -errno;

		o->say(o->say_ctx, path, strerror(-r));
		return r;
	}
	empty = is_empty_dir(d);
	(void)closedir(d);
	if (!empty) {
		o->say(o->say_ctx, path, "the mount point is not empty");
		return -ENOTEMPTY;
	}
	return 0;
}
