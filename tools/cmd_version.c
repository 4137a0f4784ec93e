/* SPDX-License-Identifier: MIT */
/* cmd_version - which program this is. */
#include "tools/tool.h"

static int run(int argc, char **argv)
{
	struct text out = { 0 };
	int status = tool_parse(&cmd_version, argc, argv, NULL);

	if (status != TOOL_RUN)
		return status;
	text_puts(&out, "disktracker " DISKTRACKER_VERSION "\n");
	return tool_print(EXIT_DONE, &out);
}

const struct command cmd_version = {
	.name = "version",
	.args = "",
	.help = "print the version",
	.run = run,
};
