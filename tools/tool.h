/* SPDX-License-Identifier: MIT */
/*
 * tool - what the commands share: rows of commands and options, exit statuses, messages, output.
 *
 * A command is tools/cmd_<name>.c with one struct command, and one row in main.c. Its options are rows too, which the
 * parser, the help, the completion and the test of the manual read.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include "base/text.h"
#include "snapshot/snapshot.h"

enum {
	EXIT_DONE = 0,
	EXIT_INCOMPLETE = 1, /* done, but a part could not be read */
	EXIT_USAGE = 2,
	EXIT_FAILED = 3,     /* nothing stored, nothing mounted */
	EXIT_UNREPORTED = 4, /* done, but the report could not be written */
	TOOL_RUN = -1,       /* tool_parse(): no reason to end yet */
};

struct tool_option;

/** Take value (NULL if the option takes none) into field. 0, or -1 after saying what is wrong. */
typedef int tool_set_fn(const struct tool_option *o, void *field, char *value);

struct tool_option {
	const char *
		name; /* "--index", "-f"; in a list as of -o a bare word, where "x-*" stands for all such words */
	const char *arg;  /* what it takes, such as "FILE" or "this|that"; NULL: nothing */
	const char *help; /* one line or several; NULL: not shown */
	tool_set_fn *set;
	size_t at;                       /* where field is in the command's arguments */
	int value;                       /* for tool_set_value() */
	const struct tool_option *words; /* instead of set: a comma-separated list of these */
};

#define TOOL_INDEX(offset)                                                                       \
	{                                                                                        \
		"--index", "FILE", "the index (default: $DISKTRACKER_INDEX, or the user's own)", \
			tool_set_string, .at = (offset)                                          \
	}

struct command {
	const char *name;
	const char *args;                  /* what follows the options: "A B [PATH]", "PATH..." */
	const char *help;                  /* one line */
	const struct tool_option *options; /* ends with an empty row; NULL: none */
	const char *more;                  /* the end of the help, or NULL */
	int (*run)(int argc, char **argv);
};

extern const struct command cmd_scan, cmd_mount, cmd_umount, cmd_cat, cmd_ls, cmd_list, cmd_diff,
	cmd_prune, cmd_check, cmd_version, cmd_help;

/** All commands, in the order of help; ends with NULL. */
extern const struct command *const tool_commands[];

/**
 * Read the options into args and leave the other words in argv[1] and following, ended by NULL. TOOL_RUN, or the
 * status to exit with: the help was asked for and printed, or the usage is wrong, and a sentence said why.
 */
int tool_parse(const struct command *c, int argc, char **argv, void *args);
/** Append the help of a command. */
void tool_help(struct text *out, const struct command *c);
/** A command's row, or NULL after saying that there is none, and which one may be meant. */
const struct command *tool_find(const char *name);

tool_set_fn tool_set_flag;   /* bool */
tool_set_fn tool_set_value;  /* an enum or int: the row's value */
tool_set_fn tool_set_string; /* const char * */
tool_set_fn tool_set_number; /* uint64_t, positive */
tool_set_fn tool_set_age;    /* int64_t, seconds, positive */
/** A number up to max. False if it is none. */
bool tool_number(const char *s, uint64_t max, uint64_t *ret);
/** "--top takes WHAT, not 'value'". Returns -1. */
int tool_takes(const struct tool_option *o, const char *what, const char *value);

/** "disktracker: what 'path': reason" on stderr; path is escaped. Returns status. */
int tool_fail(int status, const char *what, const char *path, const char *reason);
/** What snapshot functions that return error say about the index. Returns EXIT_FAILED. */
int tool_index_failed(const struct snap *s, int error);
/**
 * Write the whole text to standard output, and free it: the only way out for what commands print. Returns status, or
 * EXIT_UNREPORTED after saying why if memory ran out while it was made, or it can't be written. A pipe whose reader
 * has gone is no error.
 */
int tool_print(int status, struct text *t);

/** Between two tries of what another process is in the way of: say why once, and pause. */
void tool_wait(bool *said, const char *why, const char *path);

/** The index named by --index, or the default one; NULL after explaining. Free it. */
char *tool_index_path(const char *named);
/** Open it; explains failures on stderr. 0 or -1. */
int tool_open_index(const char *named, unsigned flags, struct snap **ret);

/** Absolute path without trailing slash; through links if it exists. NULL for NULL. Free it. */
char *tool_absolute(const char *path);
/** "1.4 GiB"; buf of 16. */
const char *tool_human(uint64_t bytes, char buf[16]);
/** UTC as 2026-05-01T00:00:00Z; buf of 32. */
const char *tool_utc(int64_t t, char buf[32]);

#endif
