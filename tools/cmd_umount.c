/* SPDX-License-Identifier: MIT */
/* cmd_umount - end a mount, alive or dead. */
#include "tools/tool.h"

#include "fs/fs.h"

static int run(int argc, char **argv)
{
	AUTO(base_free) char *path = NULL;
	int r;

	if (argc != 2 || argv[1][0] == '-')
		return tool_usage(&cmd_umount);
	r = fs_clean_dead(argv[1]);
	if (r < 0)
		return tool_fail(EXIT_FAILED, "umount", argv[1], strerror(-r));
	if (r > 0)
		return EXIT_DONE;
	path = realpath(argv[1], NULL);
	if (!path)
		return tool_fail(EXIT_FAILED, "umount", argv[1], strerror(errno));
	if (!fs_is_mounted(path))
		return tool_fail(EXIT_FAILED, "umount", argv[1], "no disktracker is mounted there");
	r = fs_umount(path);
	if (r == -EBUSY)
		return tool_fail(EXIT_FAILED, "umount", argv[1], "somebody is using it");
	if (r < 0)
		return tool_fail(EXIT_FAILED, "umount", argv[1], strerror(-r));
	return EXIT_DONE;
}

const struct command cmd_umount = {
	.name = "umount",
	.args = "MOUNTPOINT",
	.help = "end a mount",
	.run = run,
};
