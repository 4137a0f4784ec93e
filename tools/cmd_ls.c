/* SPDX-License-Identifier: MIT */
/* cmd_ls - lists a directory of the index, with the sizes that a mount shows. */
#include "tools/view.h"

#include <inttypes.h>

struct ls_args {
	const char *index;
	bool details, by_size, human;
};

struct item {
	char *name; /* as shown */
	uint64_t size;
	struct scan_meta meta;
	uint8_t type;
};

struct items {
	struct item *item;
	size_t n, cap;
};

static int add(struct items *l, struct snap *s, const struct snap_node *dir, bool top,
               const struct snap_entry *e)
{
	struct item i = { .size = e->meta.size, .meta = e->meta, .type = e->type };
	struct snap_node n;
	char shown[260];
	int r = base_reserve(&l->item, &l->cap, l->n + 1, sizeof(*l->item));

	if (r == 0 && e->type == SCAN_DIR && e->child) {
		r = snap_child_get(s, dir, e->child, &n);
		if (r < 0)
			return r;
		i.size = n.totals.bytes;
		i.meta = n.meta;
		snap_node_put(s, &n);
	}
	name_to_shown(top, e->name, shown);
	i.name = r == 0 ? strdup(shown) : NULL;
	if (!i.name)
		return -ENOMEM;
	l->item[l->n++] = i;
	return 0;
}

static int collect(const struct view_found *f, struct items *l)
{
	bool top = strcmp(f->path.p, "/") == 0 && f->until.n == f->g->all.n && !f->in_growth;
	struct snap_iter it;
	int r = 0, more = 0;

	snap_iter_init(&it, &f->node);
	while (r == 0 && (more = snap_iter_next(&it)) > 0)
		if (snap_entry_exists(&it.e))
			r = add(l, f->dir.s, &f->node, top, &it.e);
	return r ? r : more;
}

static int order_by_size(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->size != y->size ? x->size < y->size ? 1 : -1 : strcmp(x->name, y->name);
}

static void put_mode(struct text *out, const struct item *i)
{
	static const char types[] = "?-dlpscb", bits[] = "rwxrwxrwx";
	char mode[11] = { types[i->type & 7] };

	for (int b = 0; b < 9; b++)
		mode[1 + b] = i->meta.mode >> (8 - b) & 1 ? bits[b] : '-';
	text_puts(out, mode);
}

static void put_item(struct text *out, const struct ls_args *a, const struct item *i)
{
	char size[16], when[32];

	if (a->details) {
		put_mode(out, i);
		text_printf(out, " %5" PRIu32 " %5" PRIu32 " ", i->meta.uid, i->meta.gid);
		if (a->human)
			text_printf(out, "%10s", tool_human(i->size, size));
		else
			text_printf(out, "%15" PRIu64, i->size);
		text_printf(out, " %s ", tool_utc(i->meta.mtime, when));
	}
	text_escaped_spaces(out, i->name, strlen(i->name));
	text_puts(out, "\n");
}

static int list(const struct ls_args *a, const struct view_found *f, struct text *out)
{
	struct items l = { 0 };
	int r = collect(f, &l);

	if (r == 0 && a->by_size && l.n)
		qsort(l.item, l.n, sizeof(*l.item), order_by_size);
	for (size_t i = 0; i < l.n; i++) {
		if (r == 0)
			put_item(out, a, &l.item[i]);
		free(l.item[i].name);
	}
	free(l.item);
	return r;
}

static int run(int argc, char **argv)
{
	struct ls_args a = { 0 };
	struct view_found found;
	struct text out = { 0 };
	struct tool_view t;
	int r, status = tool_parse(&cmd_ls, argc, argv, &a);

	if (status != TOOL_RUN)
		return status;
	if (a.human && !a.details) { /* as with all commands */
		tool_help(&out, &cmd_ls);
		return tool_print(EXIT_DONE, &out);
	}
	status = tool_view_open(a.index, &t);
	if (status == EXIT_DONE)
		status = tool_view_find(&t, argv[1] ? argv[1] : ".", &found);
	if (status == EXIT_DONE) {
		r = found.file < 0 ? list(&a, &found, &out) : -ENOTDIR;
		if (r == -ENOTDIR)
			status = tool_fail(EXIT_FAILED, "a virtual file", argv[1],
			                   "'disktracker cat' prints it");
		else if (r < 0)
			status = tool_index_failed(t.s, r);
		view_found_done(&found);
	}
	tool_view_close(&t);
	return tool_print(status, &out);
}

static const struct tool_option options[] = {
	{ "-l", NULL, "also mode, owner, group, size and time of modification", tool_set_flag,
	  .at = offsetof(struct ls_args, details) },
	{ "-S", NULL, "the largest first", tool_set_flag, .at = offsetof(struct ls_args, by_size) },
	{ "-h", NULL, "with -l, sizes with units; without it, this help", tool_set_flag,
	  .at = offsetof(struct ls_args, human) },
	TOOL_INDEX(offsetof(struct ls_args, index)),
	{ 0 },
};

const struct command cmd_ls = {
	.name = "ls",
	.args = "[PATH]",
	.help = "list a directory of the index, each with its total, without a mount",
	.options = options,
	.more = "PATH is a scanned directory, or one above or in it, and need not exist any more. It may lead\n"
		"through .usage/at/TIME and /.growth/WINDOW.\n",
	.run = run,
};
