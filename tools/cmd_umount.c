/* SPDX-License-Identifier: MIT */
/* cmd_umount - end a mount, alive or dead. */
#include "tools/tool.h"

#include "fs/fs.h"

static int failed(const char *path, const char *why)
{
	return tool_fail(EXIT_FAILED, "umount", path, why);
}

static int run(int argc, char **argv)
{
	AUTO(base_free) char *path = NULL;
	int r, status = tool_parse(&cmd_umount, argc, argv, NULL);

	if (status != TOOL_RUN)
		return status;
	r = fs_clean_dead(argv[1]);
	if (r != 0)
		return r < 0 ? failed(argv[1], strerror(-r)) : EXIT_DONE;
	path = realpath(argv[1], NULL);
	if (!path)
		return failed(argv[1], strerror(errno));
	if (!fs_is_mounted(path))
		return failed(argv[1], "no disktracker is mounted there");
	r = fs_umount(path);
	return r < 0 ? failed(argv[1], r == -EBUSY ? "it is in use" : strerror(-r)) : EXIT_DONE;
}

const struct command cmd_umount = {
	.name = "umount",
	.args = "MOUNTPOINT",
	.help = "end a mount",
	.run = run,
};
