/* SPDX-License-Identifier: MIT */
/* scans - see scans.h. */
#include "tests/scans.h"

#include "scanner/entry_codec.h"

#include <err.h>
#include <stdio.h>
#include <sys/wait.h>

struct state { /* of a directory in flight */
	struct record_dir *dir;
	struct state *parent;
	char **child_name; /* sub-directories in listing order */
	size_t n_children, cap;
};

static void breaks(struct record *r, const char *promise)
{
	(void)pthread_mutex_lock(&r->lock);
	if (!r->broken)
		r->broken = promise;
	(void)pthread_mutex_unlock(&r->lock);
}

static void note_problem(struct record *r, const char *dir, const char *name, size_t len,
                         unsigned problem)
{
	char *longer;

	(void)pthread_mutex_lock(&r->lock);
	if (asprintf(&longer, "%s%s/%.*s: %s\n", r->names ? r->names : "", dir, (int)len, name,
	             scan_problem_name(problem)) < 0)
		err(99, "no memory");
	free(r->names);
	r->names = longer;
	(void)pthread_mutex_unlock(&r->lock);
}

static struct record_dir *add_dir(struct record *r, char *path)
{
	struct record_dir *d = calloc(1, sizeof(*d));

	(void)pthread_mutex_lock(&r->lock);
	if (!d || !path ||
	    base_reserve(&r->dir, &r->cap, r->n + 1, sizeof(struct record_dir *)) < 0)
		err(99, "no memory");
	d->path = path;
	r->dir[r->n++] = d;
	(void)pthread_mutex_unlock(&r->lock);
	return d;
}

static char *join(const char *dir, const char *name, size_t len)
{
	char *path;

	if (strcmp(dir, ".") == 0)
		return strndup(name, len);
	if (asprintf(&path, "%s/%.*s", dir, (int)len, name) < 0)
		return NULL;
	return path;
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int c = memcmp(a, b, MIN(a_len, b_len));

	return c ? c : (a_len > b_len) - (a_len < b_len);
}

static void add_child(struct state *st, const struct scan_entry *e)
{
	if (base_reserve(&st->child_name, &st->cap, st->n_children + 1, sizeof(char *)) < 0)
		err(99, "no memory");
	st->child_name[st->n_children++] = strndup(e->name, e->name_len);
}

static void take_entries(struct record *r, struct state *st, const struct scan_listing *l)
{
	const uint8_t *end = l->bytes->p + l->bytes->len;
	struct scan_dirinfo self;
	struct entry_cursor c = { .p = listing_head_decode(l->bytes->p, end, &self),
		                  .end = end,
		                  .n = l->n };
	struct scan_entry e;
	char name[256];
	char last[256];
	size_t last_len = 0;

	while (entry_decode(&c, name, &e) > 0) {
		if (st->dir->n_entries++ && compare_names(last, last_len, e.name, e.name_len) >= 0)
			breaks(r, "entries come in bytewise order, none twice");
		memcpy(last, e.name, e.name_len);
		last_len = e.name_len;
		if (e.problem)
			note_problem(r, st->dir->path, e.name, e.name_len, e.problem);
		else if (e.type == SCAN_DIR)
			add_child(st, &e);
	}
}

static void check_parent(struct record *r, const struct scan_dirinfo *dir,
                         const struct state *parent)
{
	if (!parent) {
		if (dir->name_len)
			breaks(r, "only the root has no parent");
		return;
	}
	if (parent->dir->finished)
		breaks(r, "a directory is not finished before its children are listed");
	if (dir->index >= parent->n_children ||
	    compare_names(parent->child_name[dir->index], strlen(parent->child_name[dir->index]),
	                  dir->name, dir->name_len) != 0)
		breaks(r, "index is the place among the parent's sub-directories");
}

static int on_listing(void *ctx, unsigned worker, const struct scan_dirinfo *dir,
                      const struct scan_listing *l, void **ret)
{
	struct record *r = ctx;
	struct state *st = calloc(1, sizeof(*st)), *parent = dir->parent;

	(void)worker;
	if (!st)
		return -ENOMEM;
	check_parent(r, dir, parent);
	st->parent = parent;
	st->dir = add_dir(r,
	                  parent ? join(parent->dir->path, dir->name, dir->name_len) : strdup("."));
	st->dir->meta = dir->meta;
	st->dir->problem = dir->problem;
	st->dir->error = dir->error;
	take_entries(r, st, l);
	st->dir->n_children = st->n_children;
	*ret = st;
	return 0;
}

static void free_state(void *ctx, void *state)
{
	struct state *st = state;

	(void)ctx;
	for (size_t i = 0; i < st->n_children; i++)
		free(st->child_name[i]);
	free(st->child_name);
	free(st);
}

static void check_child(struct record *r, const struct state *st, const struct scan_child *child,
                        size_t i)
{
	const struct record_dir *d = (const struct record_dir *)(uintptr_t)child->token.word[0];
	char *path;

	if (child->problem) {
		note_problem(r, st->dir->path, st->child_name[i], strlen(st->child_name[i]),
		             child->problem);
		return;
	}
	path = join(st->dir->path, st->child_name[i], strlen(st->child_name[i]));
	if (!d || !d->finished)
		breaks(r, "children are finished before their parent");
	else if (strcmp(d->path, path) != 0)
		breaks(r, "a child's token is the one that its node() gave");
	free(path);
}

static int on_node(void *ctx, unsigned worker, void *state, const struct scan_below *below,
                   struct scan_token *ret)
{
	struct record *r = ctx;
	struct state *st = state;

	(void)worker;
	if (below->n_children != st->n_children)
		breaks(r, "node() gets a child for each sub-directory listed");
	for (size_t i = 0; i < MIN(below->n_children, st->n_children); i++)
		check_child(r, st, &below->children[i], i);
	if (st->dir->finished)
		breaks(r, "a directory is finished once");
	st->dir->totals = *below->totals;
	st->dir->audience = below->audience ? *below->audience : *below->totals;
	st->dir->finished = true;
	ret->word[0] = (uintptr_t)st->dir;
	free_state(ctx, st);
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp((*(struct record_dir *const *)a)->path,
	              (*(struct record_dir *const *)b)->path);
}

static void sort_record(struct record *r)
{
	if (r->n)
		qsort(r->dir, r->n, sizeof(struct record_dir *), by_path);
}

int scans_run(const char *path, const struct scan_options *o, struct record *ret,
              struct scan_report *report)
{
	struct scan_sink sink = {
		.ctx = ret, .listing = on_listing, .node = on_node, .drop = free_state
	};
	int r;

	*ret = (struct record){ .lock = PTHREAD_MUTEX_INITIALIZER };
	*report = (struct scan_report){ 0 };
	r = scan_run(path, o, &sink, report);
	sort_record(ret);
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		if (!ret->dir[i]->finished)
			breaks(ret, "every directory is finished");
	return r;
}

int scans_run_threads(const char *path, unsigned threads, struct record *ret,
                      struct scan_report *report)
{
	const struct scan_options o = { .threads = threads };

	return scans_run(path, &o, ret, report);
}

char *scans_output(char *const argv[], size_t *len)
{
	char *out = NULL;
	size_t cap = 0;
	int ends[2], status;
	ssize_t n = 1;
	pid_t pid;

	*len = 0;
	if (pipe(ends) < 0 || (pid = fork()) < 0)
		err(99, "cannot start %s", argv[0]);
	if (pid == 0) {
		(void)dup2(ends[1], STDOUT_FILENO);
		base_close(ends[0]);
		base_close(ends[1]);
		(void)execvp(argv[0], argv);
		_exit(127);
	}
	base_close(ends[1]);
	while (n > 0) {
		if (base_reserve(&out, &cap, *len + 65536, 1) < 0)
			err(99, "no memory");
		n = read(ends[0], out + *len, 65535);
		*len += n > 0 ? (size_t)n : 0;
	}
	base_close(ends[0]);
	out[*len] = '\0';
	if (waitpid(pid, &status, 0) == pid && status == 0)
		return out;
	free(out);
	return NULL;
}

void scans_ask_oracle(const char *path, struct record *ret)
{
	const char *oracle = getenv("ORACLE");
	char *const argv[] = { (char *)"python3",
		               (char *)(uintptr_t)(oracle ? oracle : "tests/oracle.py"),
		               (char *)(uintptr_t)path, NULL };
	size_t len, used;
	char *out = scans_output(argv, &len);

	*ret = (struct record){ .lock = PTHREAD_MUTEX_INITIALIZER };
	if (!out)
		errx(99, "the oracle failed; is python3 installed?");
	for (const char *p = out; p < out + len; p += used) {
		struct scan_totals t = { 0 };
		int at = 0;

		/* The path may begin with a space, so nothing after the numbers is skipped. */
		if (sscanf(p, "%lu %lu %lu %lu %lu %lu%n", &t.bytes, &t.apparent, &t.files, &t.dirs,
		           &t.entries, &t.shared, &at) < 6)
			errx(99, "the oracle speaks in riddles");
		add_dir(ret, strdup(p + at + 1))->totals = t;
		used = (size_t)at + strlen(p + at) + 1;
	}
	free(out);
	sort_record(ret);
}

void record_done(struct record *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->dir[i]->path);
		free(r->dir[i]);
	}
	free(r->dir);
	free(r->names);
	*r = (struct record){ 0 };
}

const struct record_dir *record_find(const struct record *r, const char *path)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->dir[i]->path, path) == 0)
			return r->dir[i];
	return NULL;
}

const char *record_compare(const struct record *a, const struct record *b)
{
	static char said[1024];

	if (a->n != b->n)
		return "not the same number of directories";
	for (size_t i = 0; i < a->n; i++) {
		const struct scan_totals *x = &a->dir[i]->totals, *y = &b->dir[i]->totals;

		if (strcmp(a->dir[i]->path, b->dir[i]->path) != 0)
			return "not the same directories";
		if (x->bytes == y->bytes && x->apparent == y->apparent && x->files == y->files &&
		    x->dirs == y->dirs && x->entries == y->entries && x->shared == y->shared)
			continue;
		(void)snprintf(
			said, sizeof(said),
			"%.400s: bytes %lu %lu, apparent %lu %lu, files %lu %lu, dirs %lu %lu,"
			" entries %lu %lu, shared %lu %lu",
			a->dir[i]->path, x->bytes, y->bytes, x->apparent, y->apparent, x->files,
			y->files, x->dirs, y->dirs, x->entries, y->entries, x->shared, y->shared);
		return said;
	}
	return NULL;
}

bool record_has_problem(const struct record *r, const char *path, unsigned problem)
{
	AUTO(base_free) char *line = NULL;

	if (!r->names || asprintf(&line, "%s: %s\n", path, scan_problem_name(problem)) < 0)
		return false;
	return strstr(r->names, line) != NULL;
}
