/* SPDX-License-Identifier: MIT */
/* view - what the commands share that answer from the index as a mount would. */
#ifndef TOOLS_VIEW_H
#define TOOLS_VIEW_H

#include "fs/view/view.h"
#include "tools/tool.h"

struct tool_view {
	struct snap *s;
	struct view view;
};

/** Open the index; explains failures. EXIT_DONE or EXIT_FAILED; tool_view_close() it in either case. */
int tool_view_open(const char *index, struct tool_view *ret);
void tool_view_close(struct tool_view *t);
/**
 * What a word of the command line names: PATH, PATH/.usage/X and so on, from where we are. PATH need not exist.
 * EXIT_DONE, and view_found_done() it; or EXIT_FAILED after saying what there is instead.
 */
int tool_view_find(struct tool_view *t, const char *word, struct view_found *ret);

#endif
