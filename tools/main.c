/* SPDX-License-Identifier: MIT */
/* main - finds the command in the table and runs it. */
#include "tools/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

const struct command *const tool_commands[] = {
	/* clang-format off */
	&cmd_scan,
	&cmd_mount,
	&cmd_umount,
	&cmd_cat,
	&cmd_ls,
	&cmd_list,
	&cmd_diff,
	&cmd_prune,
	&cmd_check,
	&cmd_version,
	&cmd_help,
	NULL,
	/* clang-format on */
};

/*
 * Descriptors 0 to 2 must exist, or a file that is opened later would be written to as stderr. They are not for
 * writing, so that a report to a closed standard output fails.
 */
static void reserve_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= 2);
	base_close(fd);
}

static const char *alias(const char *arg)
{
	if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		return "help";
	if (strcmp(arg, "--version") == 0 || strcmp(arg, "-V") == 0)
		return "version";
	return arg;
}

/* As mount.fuse3(8) calls us for a line in /etc/fstab, where SOURCE is an index, or "none" for the default one. */
static int mount_source(int argc, char **argv)
{
	AUTO(base_free) char *index = NULL;

	if (strcmp(argv[1], "none") == 0)
		return cmd_mount.run(argc - 1, argv + 1);
	if (asprintf(&index, "--index=%s", argv[1]) < 0)
		return tool_fail(EXIT_FAILED, "mount", argv[2], strerror(ENOMEM));
	argv[1] = index;
	return cmd_mount.run(argc, argv);
}

int main(int argc, char **argv)
{
	const struct command *c;

	reserve_standard_fds();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error like a full disk */
	if (argc < 2) {
		(void)cmd_help.run(argc, argv);
		return EXIT_USAGE;
	}
	if (argc > 2 && (argv[1][0] == '/' || strcmp(argv[1], "none") == 0))
		return mount_source(argc, argv);
	c = tool_find(alias(argv[1]));
	return c ? c->run(argc - 1, argv + 1) : EXIT_USAGE;
}
