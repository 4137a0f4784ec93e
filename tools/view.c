/* SPDX-License-Identifier: MIT */
/* view - from a word of the command line to a directory in the index. */
#include "tools/view.h"

#include "base/path.h"

#include <stdio.h>

enum {
	ROOTS_NAMED = 8
};

int tool_view_open(const char *index, struct tool_view *ret)
{
	int r;

	*ret = (struct tool_view){ 0 };
	if (tool_open_index(index, SNAP_READ, &ret->s) < 0)
		return EXIT_FAILED;
	r = view_init(&ret->view, ret->s, NULL);
	return r < 0 ? tool_index_failed(ret->s, r) : EXIT_DONE;
}

void tool_view_close(struct tool_view *t)
{
	if (t->s)
		view_done(&t->view);
	snap_close(t->s);
}

/* The real directory in it, before what only a mount has. */
static size_t real_len(const char *path)
{
	static const char *const words[] = { "/.usage", "/.growth" };

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
		for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
			size_t len = strlen(words[i]);

			if (strncmp(p, words[i], len) == 0 && strchr("/", p[len]))
				return (size_t)(p - path);
		}
	return strlen(path);
}

/* "/a/./b//../c" is "/a/c": by its letters, since it need not exist. */
static void simplify(char *path)
{
	char *to = path;

	for (const char *p = path; *p;) {
		size_t len;

		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len == 2 && memcmp(p, "..", 2) == 0) {
			while (to > path && *--to != '/')
				;
		} else if (len && !(len == 1 && *p == '.')) {
			*to++ = '/';
			memmove(to, p, len);
			to += len;
		}
		p += len;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

static char *absolute(const char *word)
{
	AUTO(base_free) char *here = *word == '/' ? strdup("") : getcwd(NULL, 0);
	char *path;

	if (!here || asprintf(&path, "%s/%s", here, word) < 0)
		return NULL;
	simplify(path);
	return path;
}

/* The same where its real directory leads through links; NULL if it is no other. */
static char *through_links(const char *path)
{
	AUTO(base_free) char *dir = strndup(path, real_len(path)), *real = NULL;
	char *other;

	real = dir ? realpath(*dir ? dir : "/", NULL) : NULL;
	if (!real || strcmp(real, dir) == 0 ||
	    asprintf(&other, "%s%s", strcmp(real, "/") == 0 ? "" : real, path + strlen(dir)) < 0)
		return NULL;
	return other;
}

static void put_roots(struct text *out, const struct gen *g)
{
	for (size_t i = 0; i < MIN(g->list.n, ROOTS_NAMED); i++) {
		text_puts(out, i ? ", " : "; scanned: ");
		text_escaped_spaces(out, g->list.info[i]->root, strlen(g->list.info[i]->root));
	}
	if (g->list.n > ROOTS_NAMED)
		text_printf(out, " and %zu more", g->list.n - ROOTS_NAMED);
}

/* Why there is no such thing, and what to do about it. */
static void put_reason(struct text *out, struct tool_view *t, const char *path, const char *dir)
{
	struct gen *g = view_now(&t->view);
	const struct snap_info *shown = view_snapshot_now(g, dir);
	struct view_found found;
	char when[32];

	if (view_resolve(&t->view, dir, &found) == 0) {
		view_found_done(&found);
		text_puts(out,
		          strstr(path + strlen(dir), "/at/") || strstr(path, "/.growth/")
		                  ? "there was no such directory"
		                  : "no such virtual file; 'disktracker help files' lists them");
	} else if (shown) {
		text_puts(out, "not in the snapshot of ");
		text_escaped_spaces(out, shown->root, strlen(shown->root));
		text_printf(out, " from %s", tool_utc(shown->time, when));
	} else {
		text_puts(out, "never scanned; 'disktracker scan ");
		text_escaped_spaces(out, dir, strlen(dir));
		text_puts(out, "' does");
		put_roots(out, g);
	}
	gen_put(&t->view, g);
}

static int explain(struct tool_view *t, const char *word, const char *path, int error)
{
	AUTO(base_free) char *dir = strndup(path, MAX(real_len(path), 1));
	struct text reason = { 0 };

	if (error == -EISDIR)
		text_puts(&reason, "a directory of virtual files; 'disktracker help files' lists "
		                   "them");
	else if (error == -ENOENT && dir)
		put_reason(&reason, t, path, dir);
	else
		text_puts(&reason, error == -EUCLEAN ? snap_strerror(error) : strerror(-error));
	text_add(&reason, "", 1);
	(void)tool_fail(0, "no answer for", word, reason.failed ? strerror(ENOMEM) : reason.p);
	text_done(&reason);
	return EXIT_FAILED;
}

int tool_view_find(struct tool_view *t, const char *word, struct view_found *ret)
{
	AUTO(base_free) char *path = absolute(word), *other = NULL;
	int r = path ? view_resolve(&t->view, path, ret) : -ENOMEM;

	/* What was scanned is looked up as it is written before anything else is touched. */
	if (r == -ENOENT || r == -ENOTDIR)
		other = through_links(path);
	if (other)
		r = view_resolve(&t->view, other, ret);
	return r == 0 ? EXIT_DONE : explain(t, word, other ? other : path, r);
}
