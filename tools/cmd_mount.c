/* SPDX-License-Identifier: MIT */
/* cmd_mount - show the index as files. Reads its options, cleans up a dead mount, serves. */
#include "tools/tool.h"

#include "fs/fs.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>

struct mount_args {
	struct fs_options o;
	char *index, *root, *mountpoint, *fuse_options;
};

static void say(void *ctx, const char *what, const char *reason)
{
	(void)ctx;
	(void)tool_fail(0, "mount", what, reason);
}

static int parse_size(const char *arg, size_t *ret)
{
	char *end;
	unsigned long long n = strtoull(arg, &end, 10);
	const char *units = "KMG",
		   *unit = isalpha((unsigned char)*end) ? strchr(units, *end & ~0x20) : NULL;

	if (*arg < '0' || *arg > '9' || (*end && (!unit || end[1])) || n > 1 << 30)
		return tool_fail(-1, "the option cache takes a size such as 64M, not", arg, NULL);
	*ret = (size_t)n << (unit ? 10 * (unit - units + 1) : 0);
	return 0;
}

static int parse_every(const char *arg, int64_t *ret)
{
	if (snap_parse_age(arg, ret) < 0 || *ret == 0)
		return tool_fail(-1, "the option every takes a time such as 10m, not", arg, NULL);
	return 0;
}

static bool is_listed(const char *word, const char *const *list)
{
	for (; *list; list++) {
		size_t len = strlen(*list);

		if ((*list)[len - 1] == '*' ? strncmp(word, *list, len - 1) == 0
		                            : strcmp(word, *list) == 0)
			return true;
	}
	return false;
}

/* Handed on to libfuse and the kernel as they are. */
static int pass_on(struct mount_args *a, const char *word)
{
	char *joined;

	if (asprintf(&joined, "%s%s%s", a->fuse_options ? a->fuse_options : "",
	             a->fuse_options ? "," : "", word) < 0)
		return tool_fail(-1, "mount", NULL, strerror(ENOMEM));
	free(a->fuse_options);
	a->fuse_options = joined;
	return 0;
}

static int parse_word(struct mount_args *a, const char *word)
{
	static const char *const passed[] = { "ro",           "default_permissions",
		                              "auto_unmount", "noexec",
		                              "max_read=*",   "context=*",
		                              "debug",        NULL };
	/* What fstab and mount(8) say to themselves, and what the mount is anyhow. */
	static const char *const ignored[] = { "rw",       "auto",       "noauto",   "nofail",
		                               "defaults", "user",       "users",    "nouser",
		                               "nosuid",   "nodev",      "noatime",  "_netdev",
		                               "x-*",      "comment=*",  "dev",      "suid",
		                               "exec",     "nodiratime", "relatime", NULL };

	if (strcmp(word, "show_usage") == 0)
		a->o.show_usage = true;
	else if (strcmp(word, "xattr") == 0)
		a->o.xattr = true;
	else if (strncmp(word, "every=", 6) == 0)
		return parse_every(word + 6, &a->o.every);
	else if (strncmp(word, "cache=", 6) == 0)
		return parse_size(word + 6, &a->o.cache_bytes);
	else if (strcmp(word, "allow_other") == 0 || strcmp(word, "allow_root") == 0)
		return tool_fail(-1, "the option is refused", word,
		                 "other users would learn names that they may not list");
	else if (is_listed(word, passed))
		return pass_on(a, word);
	else if (!*word || !is_listed(word, ignored))
		return *word ? tool_fail(-1, "unknown mount option", word, NULL) : 0;
	return 0;
}

static int parse_words(struct mount_args *a, char *list)
{
	char *save, *word = strtok_r(list, ",", &save);

	for (; word; word = strtok_r(NULL, ",", &save))
		if (parse_word(a, word) < 0)
			return -1;
	return 0;
}

static int parse(struct mount_args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "index", required_argument, NULL, 'i' },
		{ "root", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "fo:", options, NULL)) != -1) {
		if (option == 'i')
			a->o.index = optarg;
		else if (option == 'r')
			a->o.root = optarg;
		else if (option == 'f')
			a->o.foreground = true;
		else if (option != 'o')
			return tool_usage(&cmd_mount);
		else if (parse_words(a, optarg) < 0)
			return EXIT_USAGE;
	}
	if (argc - optind != 1)
		return tool_usage(&cmd_mount);
	a->o.mountpoint = argv[optind];
	return EXIT_DONE;
}

/* The root need not exist any more; then it is taken as written, if that is absolute. */
static int resolve_root(struct mount_args *a)
{
	size_t len;

	if (!a->o.root)
		return 0;
	a->root = realpath(a->o.root, NULL);
	if (!a->root && a->o.root[0] == '/')
		a->root = strdup(a->o.root);
	if (!a->root)
		return tool_fail(-1, "root", a->o.root, strerror(ENOENT));
	for (len = strlen(a->root); len > 1 && a->root[len - 1] == '/'; len--)
		a->root[len - 1] = '\0';
	a->o.root = a->root;
	return 0;
}

/* Absolute paths: the process leaves the current directory. */
static int resolve(struct mount_args *a)
{
	int r = 0;

	if (fs_clean_dead(a->o.mountpoint) < 0)
		return tool_fail(-1, "mount", a->o.mountpoint,
		                 "a dead mount is in the way and cannot be removed");
	a->mountpoint = realpath(a->o.mountpoint, NULL);
	if (!a->mountpoint)
		return tool_fail(-1, "mount", a->o.mountpoint, strerror(errno));
	a->o.mountpoint = a->mountpoint;
	if (!a->o.index)
		r = snap_default_path(&a->index);
	if (r < 0)
		return tool_fail(-1, "no place for an index: set HOME or name one with --index",
		                 NULL, NULL);
	if (!a->index)
		a->index = realpath(a->o.index, NULL);
	if (!a->index)
		return tool_fail(-1, "index", a->o.index,
		                 errno == ENOENT
		                         ? "does not exist; 'disktracker scan PATH' makes one"
		                         : strerror(errno));
	a->o.index = a->index;
	a->o.fuse_options = a->fuse_options;
	return resolve_root(a);
}

static int run(int argc, char **argv)
{
	struct mount_args a = { .o = { .say = say } };
	int status = parse(&a, argc, argv);

	if (status == EXIT_DONE && resolve(&a) < 0)
		status = EXIT_FAILED;
	if (status == EXIT_DONE && fs_mount(&a.o) < 0)
		status = EXIT_FAILED;
	free(a.index);
	free(a.root);
	free(a.mountpoint);
	free(a.fuse_options);
	return status;
}

const struct command cmd_mount = {
	.name = "mount",
	.args = "[--index FILE] [--root PATH] [-f] [-o OPTIONS] MOUNTPOINT",
	.help = "show the newest snapshots as files",
	.options =
		"  --index FILE      the index (default: $DISKTRACKER_INDEX, or the user's own)\n"
		"  --root PATH       show this directory as the top\n"
		"  -f                stay in the foreground\n"
		"  -o show_usage     list .usage in every directory, not only at the top\n"
		"  -o xattr          answer user.disktracker.* and ceph.dir.* (slows ls -l down)\n"
		"  -o every=TIME     scan the roots again this often, at idle priority: 10m, 1h, 1d\n"
		"  -o ro             refuse even .telemetry/rescan\n"
		"  -o cache=SIZE     memory for directories, such as 64M (default 8M)\n",
	.run = run,
};
