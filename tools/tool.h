/* SPDX-License-Identifier: MIT */
/*
 * tool - what the commands share: the table row, exit statuses, messages, JSON and number output.
 *
 * A command is tools/cmd_<name>.c with one struct command, and one row in main.c.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include "snapshot/snapshot.h"

#include <stdio.h>

enum {
	EXIT_DONE = 0,
	EXIT_INCOMPLETE = 1, /* done, but a part could not be read */
	EXIT_USAGE = 2,
	EXIT_FAILED = 3, /* nothing stored, nothing mounted */
};

struct command {
	const char *name;
	const char *args;    /* synopsis */
	const char *help;    /* one line */
	const char *options; /* option lines for "help NAME", or NULL */
	int (*run)(int argc, char **argv);
};

extern const struct command cmd_scan, cmd_mount, cmd_umount, cmd_list, cmd_diff, cmd_prune,
	cmd_check, cmd_version, cmd_help;

/** All commands, in the order of help; ends with NULL. */
extern const struct command *const tool_commands[];

/** "disktracker: what 'path': reason" on stderr; control bytes in path are escaped. Returns status. */
int tool_fail(int status, const char *what, const char *path, const char *reason);
/** Print the command's synopsis to stderr and return EXIT_USAGE. */
int tool_usage(const struct command *c);

/** Between two tries of what another process is in the way of: say why once, and pause. */
void tool_wait(bool *said, const char *why, const char *path);

/** Open the index named by --index, or the default one; explains failures on stderr. 0 or -1. */
int tool_open_index(const char *named, unsigned flags, struct snap **ret);

/** A positive number from the command line. 0, or -1 after saying what option takes. */
int tool_number(const char *option, const char *arg, uint64_t *ret);
/** Absolute path without trailing slash; through links if it exists. NULL for NULL. Free it. */
char *tool_absolute(const char *path);

/** A JSON string with quotes; bytes that are not UTF-8 become U+FFFD and *lossy is set. */
void tool_json_string(FILE *out, const char *s, bool *lossy);
/** "1.4 GiB"; buf of 16. */
const char *tool_human(uint64_t bytes, char buf[16]);
/** UTC as 2026-05-01T00:00:00Z; buf of 32. */
const char *tool_utc(int64_t t, char buf[32]);
/** For terminals and tables: bytes < 0x21, 0x7f, backslash and invalid UTF-8 as \ooo. */
void tool_put_escaped(FILE *out, const char *s);

#endif
