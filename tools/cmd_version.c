/* SPDX-License-Identifier: MIT */
/* cmd_version - which program this is. */
#include "tools/tool.h"

static int run(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return tool_usage(&cmd_version);
	(void)puts("disktracker " DISKTRACKER_VERSION);
	return EXIT_DONE;
}

const struct command cmd_version = {
	.name = "version",
	.args = "",
	.help = "print the version",
	.run = run,
};
