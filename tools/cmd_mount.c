/* SPDX-License-Identifier: MIT */
/* cmd_mount - show the index as files. Reads its options, cleans up a dead mount, serves. */
#include "tools/tool.h"

#include "fs/fs.h"

#include <ctype.h>
#include <stdio.h>

struct mount_args {
	struct fs_options o;
	char *index, *root, *mountpoint, *fuse_options;
};

static void say(void *ctx, const char *what, const char *reason)
{
	(void)ctx;
	(void)tool_fail(0, "mount", what, reason);
}

static int set_size(const struct tool_option *o, void *field, char *value)
{
	static const char units[] = "KMG";
	size_t len = strlen(value);
	const char *unit = len ? strchr(units, toupper((unsigned char)value[len - 1])) : NULL;
	char *digits = strndup(value, unit ? len - 1 : len);
	uint64_t n;
	bool ok = digits && tool_number(digits, 1 << 30, &n);

	free(digits);
	if (!ok)
		return tool_takes(o, "a size such as 64M", value);
	*(size_t *)field = (size_t)n << (unit ? 10 * (unit - units + 1) : 0);
	return 0;
}

/* Handed on to libfuse and the kernel as it is. */
static int pass_on(const struct tool_option *o, void *field, char *value)
{
	char **list = field, *joined;

	if (asprintf(&joined, "%s%s%s%s%s", *list ? *list : "", *list ? "," : "", o->name,
	             value ? "=" : "", value ? value : "") < 0)
		return tool_fail(-1, "mount", NULL, strerror(ENOMEM));
	free(*list);
	*list = joined;
	return 0;
}

static int ignore(const struct tool_option *o, void *field, char *value)
{
	(void)o;
	(void)field;
	(void)value;
	return 0;
}

static int refuse(const struct tool_option *o, void *field, char *value)
{
	(void)field;
	(void)value;
	return tool_fail(-1, "cannot accept the option", o->name,
	                 "other users would learn names that they may not list");
}

/* The root need not exist any more; then it is taken as written, if that is absolute. */
static int resolve_root(struct mount_args *a)
{
	if (!a->o.root)
		return 0;
	a->root = tool_absolute(a->o.root);
	if (!a->root || a->root[0] != '/')
		return tool_fail(-1, "root", a->o.root, strerror(a->root ? ENOENT : ENOMEM));
	a->o.root = a->root;
	return 0;
}

/* Absolute paths: the process leaves the current directory. */
static int resolve(struct mount_args *a)
{
	AUTO(base_free) char *named = NULL;

	if (fs_clean_dead(a->o.mountpoint) < 0)
		return tool_fail(-1, "mount", a->o.mountpoint,
		                 "a dead mount is in the way and cannot be removed");
	a->mountpoint = realpath(a->o.mountpoint, NULL);
	if (!a->mountpoint)
		return tool_fail(-1, "mount", a->o.mountpoint, strerror(errno));
	a->o.mountpoint = a->mountpoint;
	named = tool_index_path(a->o.index);
	if (!named)
		return -1;
	a->index = realpath(named, NULL);
	if (!a->index && a->o.index)
		return tool_fail(-1, "index", named,
		                 errno == ENOENT
		                         ? "does not exist; 'disktracker scan PATH' makes one"
		                         : strerror(errno));
	if (!a->index) /* the default index may come later */
		a->index = TAKE(named);
	a->o.index = a->index;
	a->o.fuse_options = a->fuse_options;
	return resolve_root(a);
}

static int run(int argc, char **argv)
{
	struct mount_args a = { .o = { .say = say } };
	int status = tool_parse(&cmd_mount, argc, argv, &a);

	if (status == TOOL_RUN) {
		a.o.mountpoint = argv[1];
		status = resolve(&a) < 0 || fs_mount(&a.o) < 0 ? EXIT_FAILED : EXIT_DONE;
	}
	free(a.index);
	free(a.root);
	free(a.mountpoint);
	free(a.fuse_options);
	return status;
}

#define ARG(member) offsetof(struct mount_args, member)

static const struct tool_option words[] = {
	/* clang-format off */
	{ "show_usage", NULL, "list .usage in every directory, not only at the top", tool_set_flag, .at = ARG(o.show_usage) },
	{ "xattr", NULL, "answer user.disktracker.* and ceph.dir.* (slows ls -l down)", tool_set_flag, .at = ARG(o.xattr) },
	{ "every", "TIME", "scan the roots again this often, at idle priority: 10m, 1h, 1d", tool_set_age, .at = ARG(o.every) },
	{ "ro", NULL, "refuse even .telemetry/rescan", pass_on, .at = ARG(fuse_options) },
	{ "cache", "SIZE", "memory for directories, such as 64M (default 8M)", set_size, .at = ARG(o.cache_bytes) },
	{ "root", "PATH", "as --root", tool_set_string, .at = ARG(o.root) },
	{ "default_permissions", NULL, "this and the following are for FUSE: the kernel checks permissions", pass_on, .at = ARG(fuse_options) },
	{ "auto_unmount", NULL, "unmount when the process ends, however it does", pass_on, .at = ARG(fuse_options) },
	{ "noexec", NULL, "run no programs", pass_on, .at = ARG(fuse_options) },
	{ "max_read", "N", "the largest read request, in bytes", pass_on, .at = ARG(fuse_options) },
	{ "context", "CONTEXT", "the SELinux context of everything", pass_on, .at = ARG(fuse_options) },
	{ "debug", NULL, "print each request", pass_on, .at = ARG(fuse_options) },
	{ "allow_other", .set = refuse },
	{ "allow_root", .set = refuse },
	/* What fstab and mount(8) say to themselves, and what the mount is anyhow. */
	{ "rw", .set = ignore },       { "auto", .set = ignore },    { "noauto", .set = ignore },
	{ "nofail", .set = ignore },   { "defaults", .set = ignore }, { "user", .set = ignore },
	{ "users", .set = ignore },    { "nouser", .set = ignore },  { "owner", .set = ignore },
	{ "group", .set = ignore },    { "nosuid", .set = ignore },  { "nodev", .set = ignore },
	{ "noatime", .set = ignore },  { "_netdev", .set = ignore }, { "dev", .set = ignore },
	{ "suid", .set = ignore },     { "exec", .set = ignore },    { "nodiratime", .set = ignore },
	{ "relatime", .set = ignore }, { "x-*", .set = ignore },     { "X-*", .set = ignore },
	{ "comment", "TEXT", .set = ignore },
	{ 0 },
	/* clang-format on */
};

static const struct tool_option options[] = {
	TOOL_INDEX(offsetof(struct mount_args, o.index)),
	{ "--root", "PATH", "show this directory as the top", tool_set_string, .at = ARG(o.root) },
	{ "-f", NULL, "stay in the foreground", tool_set_flag, .at = ARG(o.foreground) },
	{ "-o", "OPTIONS", "mount options, separated by commas:", .words = words },
	{ 0 },
};

const struct command cmd_mount = {
	.name = "mount",
	.args = "MOUNTPOINT",
	.help = "show the newest snapshots as files",
	.options = options,
	.run = run,
};
