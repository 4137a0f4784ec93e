/* SPDX-License-Identifier: MIT */
/* cmd_diff - which directories explain the change between two snapshots. */
#include "tools/tool.h"

#include <getopt.h>
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

static void put_path(const struct snap_change *c)
{
	if (c->path_len == 0)
		(void)putchar('.');
	else
		tool_put_escaped(stdout, c->path);
}

static void print_line(const struct snap_change *c)
{
	(void)printf("%+" PRId64 "\t", c->bytes);
	put_path(c);
	(void)putchar('\n');
}

static void print_json(const struct snap_change *c)
{
	static const char *const kinds[] = { "changed", "created", "deleted" };
	bool lossy = false;

	(void)printf("{\"bytes\":%" PRId64 ",\"apparent\":%" PRId64 ",\"files\":%" PRId64
	             ",\"entries\":%" PRId64 ",\"kind\":\"%s\",\"path\":",
	             c->bytes, c->apparent, c->files, c->entries, kinds[c->kind]);
	tool_json_string(stdout, c->path_len ? c->path : ".", &lossy);
	if (lossy) {
		(void)fputs(",\"path_hex\":\"", stdout);
		for (const char *p = c->path; *p; p++)
			(void)printf("%02x", (unsigned char)*p);
		(void)putchar('"');
	}
	(void)puts("}");
}

/* Plain output is about bytes; what changed without them (a name, a count) is in the JSON. */
static void print_changes(const struct diff_args *a, const struct snap_changes *c)
{
	uint64_t shown = 0;

	for (size_t i = 0; i < c->n && (!a->top || shown < a->top); i++) {
		if (!a->json && c->c[i].bytes == 0)
			continue;
		a->json ? print_json(&c->c[i]) : print_line(&c->c[i]);
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
	status = find_side(l, root, a->a, &ret->a);
	if (status == EXIT_DONE)
		status = find_side(l, root, a->b, &ret->b);
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
	struct snap_changes c = { 0 };
	uint64_t ref_a, ref_b;
	int r = side_ref(s, d->a, d->below, &ref_a);

	if (r == 0)
		r = side_ref(s, d->b, d->below, &ref_b);
	if (r == 0 && !ref_a && !ref_b)
		return tool_fail(EXIT_FAILED, "neither snapshot holds", a->path, NULL);
	if (r == 0)
		r = snap_diff(s, ref_a, ref_b, NULL, &c);
	if (r < 0)
		return tool_fail(EXIT_FAILED, "index", snap_path(s), snap_strerror(r));
	print_changes(a, &c);
	snap_changes_done(&c);
	if (fflush(stdout) != 0)
		return EXIT_FAILED;
	return d->a->complete && d->b->complete ? EXIT_DONE : EXIT_INCOMPLETE;
}

static int parse(struct diff_args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "index", required_argument, NULL, 'i' },
		{ "json", no_argument, NULL, 'j' },
		{ "top", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'i')
			a->index = optarg;
		else if (option == 'j')
			a->json = true;
		else if (option != 't')
			return tool_usage(&cmd_diff);
		else if (tool_number("--top", optarg, &a->top) < 0)
			return EXIT_USAGE;
	}
	if (argc - optind < 2 || argc - optind > 3)
		return tool_usage(&cmd_diff);
	a->a = argv[optind];
	a->b = argv[optind + 1];
	a->path = argv[optind + 2];
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	AUTO(snap_close) struct snap *s = NULL;
	AUTO(base_free) char *path = NULL;
	struct diff_args a = { 0 };
	struct snap_list l = { 0 };
	struct sides d = { 0 };
	int status = parse(&a, argc, argv), r;

	if (status != EXIT_DONE)
		return status;
	if (tool_open_index(a.index, SNAP_READ, &s) < 0)
		return EXIT_FAILED;
	/* Both trees are walked along once: memory that is used again is faster than new. */
	snap_cache_limit(s, DIFF_CACHE);
	path = tool_absolute(a.path);
	r = snap_list_get(s, &l);
	if (r < 0)
		return tool_fail(EXIT_FAILED, "index", snap_path(s), snap_strerror(r));
	status = find_sides(&a, &l, path, &d);
	if (status == EXIT_DONE)
		status = diff(&a, s, &d);
	snap_list_done(&l);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.args = "[--index FILE] [--json] [--top N] A B [PATH]",
	.help = "show which directories explain the change between two snapshots",
	.options =
		"  A, B              a snapshot: id, UTC time (2026-05-01, 2026-05-01T12:00:00Z), age (7d),\n"
		"                    prev, latest\n"
		"  PATH              only below this directory\n"
		"  --index FILE      the index (default: $DISKTRACKER_INDEX, or the user's own)\n"
		"  --top N           only the first N lines\n"
		"  --json            one JSON object per directory\n",
	.run = run,
};
