/* SPDX-License-Identifier: MIT */
/* main - finds the command in the table and runs it. */
#include "tools/tool.h"

#include <fcntl.h>
#include <signal.h>

const struct command *const tool_commands[] = {
	/* clang-format off */
	&cmd_scan,
	&cmd_mount,
	&cmd_umount,
	&cmd_list,
	&cmd_diff,
	&cmd_prune,
	&cmd_check,
	&cmd_version,
	&cmd_help,
	NULL,
	/* clang-format on */
};

/* Descriptors 0 to 2 must exist, or a file that is opened later would be written to as stderr. */
static void reserve_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
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

int main(int argc, char **argv)
{
	reserve_standard_fds();
	(void)signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		(void)cmd_help.run(1, argv);
		return EXIT_USAGE;
	}
	for (const struct command *const *c = tool_commands; *c; c++)
		if (strcmp((*c)->name, alias(argv[1])) == 0)
			return (*c)->run(argc - 1, argv + 1);
	return tool_fail(EXIT_USAGE, "unknown command", argv[1], "try 'disktracker help'");
}
