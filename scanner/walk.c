/* SPDX-License-Identifier: MIT */
/*
 * walk - one scan, from the root to the root's totals.
 *
 *     scan_run: find the root, start workers, report progress, add up
 *       worker: take a sub-directory -> is it kept? -> ask the source, or open it and read its entries -> give the listing to the sink
 *               -> push it if it has sub-directories, else finish it
 */
#include "scanner/fstype.h"
#include "scanner/internal.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

static struct scan_dirinfo dir_info(const struct scan_dir *d)
{
	return (struct scan_dirinfo){
		.name = d->name,
		.name_len = strlen(d->name),
		.parent = d->parent ? d->parent->state : NULL,
		.index = d->index,
		.meta = d->meta,
		.problem = d->problem,
		.error = d->error,
	};
}

static int give_listing(struct worker *w, struct scan_dir *d)
{
	const struct scan_sink *sink = w->scan->sink;
	const struct scan_dirinfo info = dir_info(d);
	int r = 0;

	if (sink)
		r = sink->listing(sink->ctx, w->id, &info, &w->reading.made, &d->state);
	COUNT(w->count.entries, d->sum.entries + 1);
	COUNT(w->count.dirs, 1);
	COUNT(w->count.bytes, size_clamp(d->bytes));
	return r;
}

static int compare_inodes(const void *a, const void *b, void *ctx)
{
	const struct scan_dir *d = ctx;
	uint64_t x = d->child_ino[*(const uint32_t *)a], y = d->child_ino[*(const uint32_t *)b];

	return (x > y) - (x < y);
}

/* Inodes lie on disk by number, more or less: children are visited in that order. */
static int order_by_inode(struct scan_dir *d)
{
	d->visit = malloc(d->n_children * sizeof(*d->visit));
	if (!d->visit)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->n_children; i++)
		d->visit[i] = i;
	qsort_r(d->visit, d->n_children, sizeof(*d->visit), compare_inodes, d);
	return 0;
}

/* Keep the descriptor for the children if the budget allows, and let others take them. */
static int publish(struct worker *w, struct scan_dir *d, int fd)
{
	struct scan *s = w->scan;
	int r;

	if (s->readers.by_inode) {
		r = order_by_inode(d);
		if (r < 0)
			return r;
	}
	atomic_store(&d->unopened, d->n_children);
	atomic_store(&d->pending, d->n_children + 1);
	if (!d->parent) {
		d->fd = s->root_fd;
	} else if (fd < 0) {
		atomic_fetch_add(&s->unheld, 1);
	} else if (atomic_fetch_add(&s->held, 1) < s->held_max) {
		d->fd = fd;
		d->held = true;
	} else {
		atomic_fetch_sub(&s->held, 1);
		atomic_fetch_add(&s->unheld, 1);
		open_keep_cursor(w, d, fd);
	}
	r = queue_push(w, d);
	if (r < 0 && d->held) {
		open_close(w, d->fd);
		atomic_fetch_sub(&s->held, 1);
	}
	return r;
}

/* By system calls, or as it was: 0, 1 if it is gone, -errno. */
static int list_opened(struct worker *w, struct scan_dir *d, int fd)
{
	const struct source_dir dir = { .name = d->name, .at = d };
	const struct scan_dirinfo info = dir_info(d);
	const struct scan_sink *sink = w->scan->sink;
	struct scan_reading *l = &w->reading;
	int r = 0;

	reading_begin(l, w, d, fd);
	if (sink && sink->reuse && fd >= 0)
		r = sink->reuse(sink->ctx, w->id, &info, l);
	if (r == 0) {
		r = source_walk.list(NULL, w->id, &dir, &d->meta, l);
		if (r == SOURCE_CHANGED)
			return 1;
	}
	return r < 0 ? r : reading_finish(l);
}

/* The source lists d: 1, entries that it doubts may need a descriptor; 0: it declines. */
static int ask_source(struct worker *w, struct scan_dir *d)
{
	const struct scan *s = w->scan;
	const struct scan_dir *parent = d->parent;
	struct source_dir dir = { .name = d->name, .ino = s->root->ino, .at = d };
	int r;

	if (!s->source || d->foreign || (d->trap && d->trap->fstype))
		return 0;
	if (parent)
		dir.ino = parent->child_ino ? parent->child_ino[d->index] : 0;
	reading_begin(&w->reading, w, d, -1);
	r = s->source_ops->list(s->source_ctx, w->id, &dir, &d->meta, &w->reading);
	if (r != SOURCE_OK) {
		w->count.declined++;
		return r == -EAGAIN || r > 0 ? 0 : r;
	}
	w->count.listed++;
	if (parent) {
		d->dev = s->root_dev;
		d->ino = dir.ino;
		d->mnt_id = s->root_mnt;
	}
	return 1;
}

/* d is listed, or an error says why not: hand it on. */
static void read_further(struct worker *w, struct scan_dir *d, int fd, int r)
{
	struct scan *s = w->scan;

	if (r == 1) {
		open_close(w, fd);
		dir_leave_out(w, d, SCAN_VANISHED, ENOENT);
		return;
	}
	if (r == 0)
		r = give_listing(w, d);
	if (r < 0)
		state_fail(s, r);
	if (d->n_children && !state_has_failed(s)) {
		r = publish(w, d, fd);
		if (r == 0)
			return;
		state_fail(s, r);
		fd = -1; /* the scan is over: publish() has seen to it */
	}
	d->n_children = 0;
	atomic_store(&d->pending, 1);
	if (fd >= 0 && fd != s->root_fd)
		open_keep_cursor(w, d, fd);
	dir_finish(w, d);
}

/* The root is open in any case. */
static void read_root(struct worker *w, struct scan_dir *d)
{
	int fd = w->scan->root_fd, r = ask_source(w, d);

	if (r == 1) {
		w->reading.fd = fd;
		w->count.doubted += w->reading.doubts;
		r = reading_finish(&w->reading);
	} else if (r == 0) {
		r = list_opened(w, d, fd);
	}
	read_further(w, d, fd, r);
}

static void read_directory(struct worker *w, struct scan_dir *d)
{
	struct scan *s = w->scan;
	int listed = ask_source(w, d), fd = -1, problem, r = listed;

	if (listed == 1 && !w->reading.doubts) {
		open_drop_parent(w, d->parent);
		if (d->ino && seen_before(s, d->dev, d->ino))
			dir_leave_out(w, d, SCAN_CHANGED, 0);
		else
			read_further(w, d, -1, reading_finish(&w->reading));
		return;
	}
	problem = open_child(w, d, &fd);
	if (problem != SCAN_OK) {
		dir_leave_out(w, d, problem, 0);
		return;
	}
	d->foreign |= s->have_mnt_id ? d->mnt_id != s->root_mnt : d->dev != s->root_dev;
	if (listed == 1 && fd >= 0) {
		w->reading.fd = fd;
		w->count.doubted++;
		r = reading_finish(&w->reading);
	} else if (listed >= 0) {
		r = list_opened(w, d, fd);
	}
	read_further(w, d, fd, r);
}

/* Is d as it was, so that its node of before is its node now? 1, 0, -errno. */
static int keep(struct worker *w, struct scan_dir *d)
{
	const struct scan *s = w->scan;
	const struct scan_dirinfo info = dir_info(d);
	struct scan_kept k = { .totals = TOTALS_NONE };
	int r;

	if (!s->keeps)
		return 0;
	d->changes = changes_child(&s->changes, d->parent->changes, d->name);
	if (d->changes.below || d->changes.from < d->changes.to || d->foreign || d->trap)
		return 0;
	r = s->sink->keep(s->sink->ctx, w->id, &info, &k);
	if (r == 1) {
		d->sum = k.totals;
		d->bytes = k.totals.bytes;
		d->apparent = k.totals.apparent;
		d->token = k.token;
		d->meta = k.meta;
		if (k.links)
			d->own = *k.links;
		w->count.kept++;
	} else if (k.links) {
		link_set_done(k.links);
	}
	free(k.links);
	return r;
}

/* Take child index of parent: keep, read it, or say why not. */
static void visit(struct worker *w, struct scan_dir *parent, size_t index)
{
	struct scan_dir *d = dir_new(parent, index);
	int kept = d && !state_has_failed(w->scan) ? keep(w, d) : 0;

	if (kept < 0)
		state_fail(w->scan, kept);
	if (!d || state_has_failed(w->scan)) { /* drain quickly: nothing is opened any more */
		if (!d)
			state_fail(w->scan, -ENOMEM);
		else
			dir_free(d);
		open_drop_parent(w, parent);
		dir_finish(w, parent);
		return;
	}
	progress_path(w, d);
	if (kept == 0) {
		read_directory(w, d);
		return;
	}
	open_drop_parent(w, parent);
	dir_finish(w, d);
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct scan_dir *parent;
	struct rusage before, ru;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	size_t index;

	/*
	 * A descriptor table that is shared costs an atomic on every call with a descriptor. One reader
	 * without a sink shares with nobody; several hand each other directories, and a sink has its own
	 * descriptors, with locks that belong to the table (fcntl(2)).
	 */
	if (w->scan->n_workers == 1 && !w->scan->sink && !w->scan->alone)
		(void)unshare(CLONE_FILES);
	(void)getrusage(RUSAGE_THREAD, &before); /* of the caller, if it reads by itself */
	w->seen_inblock = before.ru_inblock;
	w->seen_switches = before.ru_nvcsw;
	if (w->id == 0)
		read_root(w, w->scan->root);
	while (queue_take(w, &parent, &index)) {
		visit(w, parent, index);
		readers_look(w);
		if (w->scan->alone)
			progress_look(w->scan);
	}
	open_close(w, w->cursor_fd);
	w->life_ns = clock_ns(CLOCK_MONOTONIC) - start;
	(void)getrusage(RUSAGE_THREAD, &ru);
	w->user_ns = timeval_ns(&ru.ru_utime) - timeval_ns(&before.ru_utime);
	w->sys_ns = timeval_ns(&ru.ru_stime) - timeval_ns(&before.ru_stime);
	return NULL;
}

static int open_root(struct scan *s, struct worker *w)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
	struct scan_dir *d = s->root;
	struct statx st;
	int r;

	s->root_fd = open(s->root_path, flags | O_NOATIME);
	COUNT(w->count.openat, 1);
	if (s->root_fd < 0 && errno == EPERM) {
		s->root_fd = open(s->root_path, flags);
		COUNT(w->count.openat, 1);
	}
	if (s->root_fd < 0)
		return -errno;
	r = open_statx_meta(w, s->root_fd, "", AT_EMPTY_PATH, &st);
	if (r < 0)
		return r;
	s->root_dev = d->dev = statx_dev(&st);
	s->root_mnt = st.stx_mnt_id;
	s->have_mnt_id = st.stx_mask & STATX_MNT_ID;
	s->stat_first = fstype_of_fd_has(s->root_fd, FS_LOOK);
	d->ino = st.stx_ino;
	meta_from_statx(&st, s->root_dev, &d->meta);
	d->trap = s->traps.child ? &s->traps : NULL;
	(void)seen_before(s, d->dev, d->ino);
	return 0;
}

/* Which source lists, and which directories it says may differ. */
static int open_source(struct scan *s)
{
	const struct scan_options *o = s->options;
	const struct source_root root = { .path = s->root_path,
		                          .fd = s->root_fd,
		                          .dev = s->root_dev,
		                          .ino = s->root->ino,
		                          .mnt_id = s->root_mnt };
	const struct scan_mark none = { .source = "" };
	const struct scan_mark *then = o->mark ? o->mark : &none;
	int r;

	s->source_ops = o->source_ops ? o->source_ops : source_find(o->source ? o->source : "walk");
	if (!s->source_ops)
		return -EINVAL;
	if (s->source_ops == &source_walk)
		return 0;
	r = s->source_ops->open(&root, o->source_ctx, &s->source_ctx, s->source_why);
	if (r <= 0)
		return r;
	s->source = true;
	if (!s->source_ops->changes)
		return 0;
	if (strcmp(then->source, s->source_ops->name) != 0)
		then = &none;
	r = s->source_ops->changes(s->source_ctx, then, &s->mark, &s->changes);
	if (r < 0)
		return r;
	(void)snprintf(s->mark.source, sizeof(s->mark.source), "%s", s->source_ops->name);
	s->keeps = r == 1 && *then->source && s->sink && s->sink->keep;
	changes_sort(&s->changes);
	s->root->changes = changes_all(&s->changes);
	return 0;
}

/* Half of the descriptors belong to the caller; each worker needs three for itself. */
static void choose_limits(struct scan *s)
{
	struct rlimit lim = { .rlim_cur = 1024 };
	size_t budget;

	(void)getrlimit(RLIMIT_NOFILE, &lim);
	budget = lim.rlim_cur == RLIM_INFINITY ? 1 << 20 : MIN((size_t)lim.rlim_cur / 2, 1 << 20);
	s->n_workers = MIN(readers_max(s->options), SCAN_THREADS_MAX);
	s->n_workers = (unsigned)MAX(1, MIN(s->n_workers, budget / 4));
	s->held_max = budget > 3 * s->n_workers ? budget - 3 * s->n_workers : 1;
}

static int init_workers(struct scan *s)
{
	s->workers = aligned_alloc(64, s->n_workers * sizeof(*s->workers));
	if (!s->workers)
		return -ENOMEM;
	memset(s->workers, 0, s->n_workers * sizeof(*s->workers));
	for (unsigned i = 0; i < s->n_workers; i++) {
		s->workers[i].scan = s;
		s->workers[i].id = i;
		s->workers[i].cursor_fd = -1;
		s->workers[i].look_after = 1;
		(void)pthread_mutex_init(&s->workers[i].lock, NULL);
	}
	return 0;
}

static int scan_init(struct scan *s, const char *path, const struct scan_options *o,
                     const struct scan_sink *sink)
{
	pthread_condattr_t attr;
	int r = scan_root_path(path, &s->root_path);

	s->options = o;
	s->sink = sink;
	s->root_fd = -1;
	(void)pthread_mutex_init(&s->idle_lock, NULL);
	(void)pthread_mutex_init(&s->readers.lock, NULL);
	(void)pthread_mutex_init(&s->path_lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->idle_cond, NULL);
	(void)pthread_cond_init(&s->done_cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	(void)seen_init(s);
	if (r < 0)
		return r;
	choose_limits(s);
	r = init_workers(s);
	if (r == 0)
		r = mounts_load("/proc/self/mountinfo", s->root_path, &s->traps);
	if (r == -ENOENT)
		r = 0; /* no /proc: boundaries are then seen by mount id, after opening */
	return r;
}

static void scan_done(struct scan *s)
{
	for (unsigned i = 0; s->workers && i < s->n_workers; i++) {
		reading_done(&s->workers[i].reading);
		free(s->workers[i].stack);
		free(s->workers[i].buf);
		(void)pthread_mutex_destroy(&s->workers[i].lock);
	}
	free(s->workers);
	if (s->source)
		s->source_ops->close(s->source_ctx);
	changes_done(&s->changes);
	mounts_done(&s->traps);
	seen_done(s);
	base_close(s->root_fd);
	free(s->root_path);
	(void)pthread_cond_destroy(&s->idle_cond);
	(void)pthread_cond_destroy(&s->done_cond);
	(void)pthread_mutex_destroy(&s->idle_lock);
	(void)pthread_mutex_destroy(&s->readers.lock);
	(void)pthread_mutex_destroy(&s->path_lock);
}

/* A user who may make no thread (RLIMIT_NPROC) can still read. */
static int run_workers(struct scan *s)
{
	if (!readers_start(s)) { /* else the workers read it already */
		s->alone = true;
		s->n_started = 1; /* nobody else starts any */
		(void)worker_main(&s->workers[0]);
	} else {
		progress_wait(s);
		for (unsigned i = 0; i < s->n_started; i++)
			(void)pthread_join(s->workers[i].thread, NULL);
	}
	return atomic_load(&s->failed);
}

int scan_root_path(const char *path, char **ret)
{
	char *p = realpath(path, NULL);

	if (!p)
		return -errno;
	*ret = p;
	return 0;
}

int scan_run(const char *path, const struct scan_options *options, const struct scan_sink *sink,
             struct scan_report *ret)
{
	struct scan s = { .start_ns = clock_ns(CLOCK_MONOTONIC), .worker_main = worker_main };
	struct scan_report report = { .start = (int64_t)time(NULL) };
	int r = scan_init(&s, path, options, sink);

	if (r < 0)
		goto done;
	s.root = dir_new(NULL, 0);
	if (!s.root) {
		r = -ENOMEM;
		goto done;
	}
	r = open_root(&s, &s.workers[0]);
	if (r == 0)
		r = readers_init(&s);
	if (r == 0)
		r = open_source(&s);
	if (r == 0 && fstatvfs(s.root_fd, &report.statvfs) < 0)
		r = -errno;
	if (r < 0) {
		dir_free(s.root);
		goto done;
	}
	r = run_workers(&s);
	if (r < 0)
		goto done;
	report.root = TAKE(s.root_path);
	report.totals = s.totals;
	report.token = s.token;
	report.mark = s.mark;
	progress_stats(&s, &report.stats);
	*ret = report;
done:
	scan_done(&s);
	return r;
}

void scan_report_done(struct scan_report *r)
{
	free(r->root);
	r->root = NULL;
}

const char *scan_problem_name(unsigned problem)
{
	static const char *const names[] = {
		[SCAN_OK] = "ok",
		[SCAN_ERROR] = "unreadable",
		[SCAN_VANISHED] = "vanished",
		[SCAN_CHANGED] = "changed",
		[SCAN_MOUNT] = "mount",
		[SCAN_EXCLUDED] = "excluded",
		[SCAN_CACHE] = "cache",
		[SCAN_AUTOMOUNT] = "automount",
	};

	return problem < ARRAY_SIZE(names) ? names[problem] : "unknown";
}
