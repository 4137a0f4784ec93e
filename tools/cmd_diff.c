/* SPDX-License-Identifier: MIT */
/* cmd_diff - which directories explain the change between two snapshots. */
#include "tools/tool.h"

#include <inttypes.h>

enum {
	DIFF_CACHE = 512 << 10
};

struct diff_args {
	const char *index, *a, *b, *path;
	uint64_t top; /* 0: all */
	bool json;
};

struct sides {
	const struct snap_info *a, *b;
	const char *below; /* path within the root */
};

static void put_line(struct text *out, const struct snap_change *c)
{
	text_printf(out, "%+" PRId64 "\t", c->bytes);
	if (c->path_len)
		text_escaped(out, c->path, c->path_len);
	else
		text_puts(out, ".");
	text_puts(out, "\n");
}

static void put_json(struct text *out, const struct snap_change *c)
{
	static const char *const kinds[] = { "changed", "created", "deleted" };

	text_printf(out,
	            "{\"bytes\":%" PRId64 ",\"apparent\":%" PRId64 ",\"files\":%" PRId64
	            ",\"entries\":%" PRId64 ",\"kind\":\"%s\",",
	            c->bytes, c->apparent, c->files, c->entries, kinds[c->kind]);
	text_json_field(out, "path", c->path_len ? c->path : ".", c->path_len ? c->path_len : 1);
	text_puts(out, "}\n");
}

/* Plain output is about bytes; what changed without them (a name, a count) is in the JSON. */
static void put_changes(struct text *out, const struct diff_args *a, const struct snap_changes *c)
{
	uint64_t shown = 0;

	for (size_t i = 0; i < c->n && (!a->top || shown < a->top); i++) {
		if (!a->json && c->c[i].bytes == 0)
			continue;
		(a->json ? put_json : put_line)(out, &c->c[i]);
		shown++;
	}
}

/* The root that PATH lies in: the longest that is a prefix. Without PATH there must be only one. */
static const char *find_root(const struct snap_list *l, const char *path)
{
	const char *best = NULL;

	for (size_t i = 0; i < l->n; i++) {
		const char *root = l->info[i]->root;
		size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

		if (path &&
		    (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0')))
			continue;
		if (!path && best && strcmp(best, root) != 0)
			return NULL;
		if (!best || strlen(root) > strlen(best))
			best = root;
	}
	return best;
}

static int find_side(const struct snap_list *l, const char *root, const char *spec,
                     const struct snap_info **ret)
{
	size_t i;
	int r = snap_select(l, root, spec, (int64_t)time(NULL), &i);

	if (r == -EINVAL)
		return tool_fail(EXIT_USAGE,
		                 "not a snapshot (an id, a UTC time, an age, prev, latest)", spec,
		                 NULL);
	if (r < 0)
		return tool_fail(EXIT_FAILED, "no snapshot matches", spec,
		                 "'disktracker list' shows what there is");
	*ret = l->info[i];
	return EXIT_DONE;
}

/* A window before newer: what it really is, since an index may be younger, or its snapshots far apart. */
static const struct snap_info *find_window(const struct snap_list *l, const struct snap_info *newer,
                                           const char *spec, int64_t age)
{
	const struct snap_info *from = snap_select_window(l, newer, age);
	struct text said = { 0 };
	char when[32];

	text_printf(&said,
	            "snapshot %" PRId64 " of %s, %" PRId64 " seconds before snapshot %" PRId64 "%s",
	            from->id, tool_utc(from->time, when), newer->time - from->time, newer->id,
	            newer->time - from->time < age ? ", since none is older" : "");
	text_add(&said, "", 1);
	(void)tool_fail(EXIT_DONE, "window", spec, said.failed ? NULL : said.p);
	text_done(&said);
	return from;
}

/* Ages count back from the other side, or both from the latest. */
static int find_both(const struct diff_args *a, const struct snap_list *l, const char *root,
                     struct sides *ret)
{
	int64_t age_a, age_b;
	bool is_age = snap_parse_age(a->b, &age_b) == 0;
	int status = find_side(l, root, is_age ? "latest" : a->b, &ret->b);
	const struct snap_info *newer = ret->b;

	if (status == EXIT_DONE && is_age)
		ret->b = find_window(l, newer, a->b, age_b);
	if (status == EXIT_DONE && snap_parse_age(a->a, &age_a) == 0)
		ret->a = find_window(l, newer, a->a, age_a);
	else if (status == EXIT_DONE)
		status = find_side(l, root, a->a, &ret->a);
	return status;
}

static bool is_id(const char *spec)
{
	return *spec && spec[strspn(spec, "0123456789")] == '\0';
}

static int find_sides(const struct diff_args *a, const struct snap_list *l, char *path,
                      struct sides *ret)
{
	const char *root = find_root(l, path);
	int status;

	if (l->n == 0)
		return tool_fail(EXIT_FAILED, "the index has no snapshot yet", NULL, NULL);
	if (path && !root)
		return tool_fail(EXIT_FAILED, "no snapshot holds", path, NULL);
	if (!root && !(is_id(a->a) && is_id(a->b)))
		return tool_fail(EXIT_USAGE, "the index has several roots: name a PATH", NULL,
		                 NULL);
	status = find_both(a, l, root, ret);
	if (status != EXIT_DONE)
		return status;
	if (strcmp(ret->a->root, ret->b->root) != 0)
		return tool_fail(EXIT_USAGE, "the snapshots are of different roots", NULL, NULL);
	ret->below = path ? path + (strcmp(root, "/") == 0 ? 0 : strlen(root)) : "";
	return EXIT_DONE;
}

static int side_ref(struct snap *s, const struct snap_info *i, const char *below, uint64_t *ret)
{
	int r = snap_path_ref(s, i->ref, below, ret);

	if (r == -ENOENT) {
		*ret = 0;
		return 0;
	}
	return r;
}

static int diff(const struct diff_args *a, struct snap *s, const struct sides *d)
{
	bool complete = d->a->complete && d->b->complete;
	struct snap_changes c = { 0 };
	struct text out = { 0 };
	uint64_t ref_a, ref_b;
	int r = side_ref(s, d->a, d->below, &ref_a);

	if (r == 0)
		r = side_ref(s, d->b, d->below, &ref_b);
	if (r == 0 && !ref_a && !ref_b)
		return tool_fail(EXIT_FAILED, "neither snapshot holds", a->path, NULL);
	if (r == 0)
		r = snap_diff(s, ref_a, ref_b, NULL, &c);
	if (r < 0)
		return tool_index_failed(s, r);
	put_changes(&out, a, &c);
	snap_changes_done(&c);
	return tool_print(complete ? EXIT_DONE : EXIT_INCOMPLETE, &out);
}

static bool is_snapshot(const char *word)
{
	int64_t t;

	return is_id(word) || snap_parse_age(word, &t) == 0 || snap_parse_time(word, &t) == 0 ||
	       strcmp(word, "prev") == 0 || strcmp(word, "latest") == 0;
}

static int run(int argc, char **argv)
{
	AUTO(snap_close) struct snap *s = NULL;
	AUTO(base_free) char *path = NULL;
	struct diff_args a = { 0 };
	struct snap_list l = { 0 };
	struct sides d = { 0 };
	int r, status = tool_parse(&cmd_diff, argc, argv, &a);

	if (status != TOOL_RUN)
		return status;
	a.a = argv[1];
	a.b = "latest";
	a.path = argv[2];
	if (argv[2] && (argv[3] || is_snapshot(argv[2]))) {
		a.b = argv[2];
		a.path = argv[3];
	}
	if (tool_open_index(a.index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	/* Both trees are walked along once: memory that is used again is faster than new. */
	snap_cache_limit(s, DIFF_CACHE);
	path = tool_absolute(a.path);
	r = snap_list_get(s, &l);
	if (r < 0)
		return tool_index_failed(s, r);
	status = find_sides(&a, &l, path, &d);
	if (status == EXIT_DONE)
		status = diff(&a, s, &d);
	snap_list_done(&l);
	return status;
}

static const struct tool_option options[] = {
	TOOL_INDEX(offsetof(struct diff_args, index)),
	{ "--top", "N", "only the first N lines", tool_set_number,
	  .at = offsetof(struct diff_args, top) },
	{ "--json", NULL, "one JSON object per directory", tool_set_flag,
	  .at = offsetof(struct diff_args, json) },
	{ 0 },
};

const struct command cmd_diff = {
	.name = "diff",
	.args = "A [B] [PATH]",
	.help = "show which directories explain the change between two snapshots",
	.options = options,
	.more = "A and B are snapshots: an id, a UTC time (2026-05-01, 2026-05-01T12:00:00Z), prev, latest, or for A\n"
		"an age (7d): the newest at least that much older than B, else the oldest. B is latest unless it is\n"
		"given. With PATH, only what is below this directory.\n",
	.run = run,
};
