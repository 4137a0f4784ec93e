/* SPDX-License-Identifier: MIT */
/* cmd_help - prints the rows of the tables: commands, their options, the virtual files. */
#include "tools/tool.h"

#include "fs/fs.h"

static void help_all(struct text *out)
{
	text_puts(out, "usage: disktracker COMMAND [OPTION]...\n\n");
	for (const struct command *const *c = tool_commands; *c; c++)
		text_printf(out, "  %-8s %s\n", (*c)->name, (*c)->help);
	text_puts(
		out,
		"\n'disktracker COMMAND --help' says more; 'disktracker help files' lists what a mount shows.\n"
		"Exit status: 0 done and complete, 1 done but a part could not be read, 2 wrong usage,\n"
		"3 failed and nothing stored, 4 done but the report could not be written.\n"
		"The manual is disktracker(1).\n");
}

static void help_files(struct text *out)
{
	const char *name, *help;

	for (size_t i = 0; fs_virtual_file(i, &name, &help); i++)
		text_printf(out, "%s\t%s\n", name, help);
}

/* COMMAND TAB OPTION TAB VALUE, for completion and for the test of the manual; without an option, its words */
static void help_words(struct text *out)
{
	for (const struct command *const *c = tool_commands; *c; c++) {
		text_printf(out, "%s\t\t%s\n", (*c)->name, (*c)->args);
		for (const struct tool_option *o = (*c)->options; o && o->name; o++) {
			text_printf(out, "%s\t%s\t%s\n", (*c)->name, o->name, o->arg ? o->arg : "");
			for (const struct tool_option *w = o->words; w && w->name; w++)
				if (w->help)
					text_printf(out, "%s\t%s %s%s\t%s\n", (*c)->name, o->name,
					            w->name, w->arg ? "=" : "",
					            w->arg ? w->arg : "");
		}
	}
}

static int run(int argc, char **argv)
{
	const struct command *c;
	struct text out = { 0 };
	int status = tool_parse(&cmd_help, argc, argv, NULL);

	if (status != TOOL_RUN)
		return status;
	if (argc < 2 || !argv[1])
		help_all(&out);
	else if (strcmp(argv[1], "files") == 0)
		help_files(&out);
	else if (strcmp(argv[1], "words") == 0)
		help_words(&out);
	else if ((c = tool_find(argv[1])))
		tool_help(&out, c);
	else
		return EXIT_USAGE;
	return tool_print(EXIT_DONE, &out);
}

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.help = "explain a command",
	.more = "'files' instead of a COMMAND lists the virtual files of a mount; 'words' lists all options, for programs.\n",
	.run = run,
};
