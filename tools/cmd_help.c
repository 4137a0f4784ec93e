/* SPDX-License-Identifier: MIT */
/* cmd_help - prints the rows of the tables: commands, their options, the virtual files. */
#include "tools/tool.h"

#include "fs/fs.h"

static int help_files(void)
{
	const char *name, *help;

	for (size_t i = 0; fs_virtual_file(i, &name, &help); i++)
		(void)printf("%s\t%s\n", name, help);
	return EXIT_DONE;
}

static int help_all(void)
{
	(void)puts("usage: disktracker COMMAND [OPTION]...\n");
	for (const struct command *const *c = tool_commands; *c; c++)
		(void)printf("  %-8s %s\n", (*c)->name, (*c)->help);
	(void)puts(
		"\n'disktracker help COMMAND' says more; 'disktracker help files' lists what a mount shows.\n"
		"Exit status: 0 done and complete, 1 done but a part could not be read, 2 wrong usage,\n"
		"3 failed and nothing stored. The manual is disktracker(1).");
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	if (argc < 2)
		return help_all();
	if (strcmp(argv[1], "files") == 0)
		return help_files();
	for (const struct command *const *c = tool_commands; *c; c++) {
		if (strcmp((*c)->name, argv[1]) != 0)
			continue;
		(void)printf("usage: disktracker %s %s\n%s.\n", (*c)->name, (*c)->args, (*c)->help);
		if ((*c)->options)
			(void)printf("\n%s", (*c)->options);
		return EXIT_DONE;
	}
	return tool_fail(EXIT_USAGE, "unknown command", argv[1], "try 'disktracker help'");
}

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND | files]",
	.help = "explain a command, or list the virtual files",
	.run = run,
};
