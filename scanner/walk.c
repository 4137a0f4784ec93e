/* SPDX-License-Identifier: MIT */
/*
 * walk - one scan, from the root to the root's totals.
 *
 *     scan_run: find the root, start workers, report progress, add up
 *       worker: take a sub-directory -> open it -> read its entries -> give the listing to the sink
 *               -> push it if it has sub-directories, else finish it
 *       finish: merge links, report the node, add to the parent; if that was the parent's last child,
 *               finish the parent too (a loop, not recursion)
 */
#include "scanner/internal.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/vfs.h>

enum {
	PROGRESS_MS = 200,
	WORKER_STACK = 256 * 1024
};

void walk_fail(struct scan *s, int error)
{
	int none = 0;

	(void)atomic_compare_exchange_strong(&s->failed, &none, error);
}

static bool has_failed(struct scan *s)
{
	return atomic_load_explicit(&s->failed, memory_order_relaxed) != 0;
}

static struct scan_dir *dir_new(struct scan_dir *parent, size_t index)
{
	struct scan_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->parent = parent;
	d->index = index;
	d->fd = -1;
	d->name = "";
	d->sum = (struct scan_totals)TOTALS_NONE;
	atomic_init(&d->pending, 1);
	(void)pthread_mutex_init(&d->lock, NULL);
	if (parent) {
		d->name = scan_dir_kid_name(parent, index);
		d->depth = parent->depth + 1;
		d->trap = mounts_child(parent->trap, d->name);
	}
	return d;
}

static void dir_free(struct scan_dir *d)
{
	link_set_done(&d->own);
	free(d->kids);
	free(d->kid_name);
	free(d->kid_names);
	free(d->kid_ino);
	free(d->visit);
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

/* All that is known of d as totals; the exact sums stop at INT64_MAX only here. */
static void count_self(struct scan_dir *d, struct scan_totals *t)
{
	*t = d->sum;
	t->bytes = size_clamp(d->bytes);
	t->apparent = size_clamp(d->apparent);
}

static void add_totals(struct scan_dir *parent, struct scan_dir *d, const struct scan_totals *t)
{
	parent->bytes += d->bytes;
	parent->apparent += d->apparent;
	totals_add(&parent->sum, t);
}

static void give_links(struct scan *s, struct scan_dir *parent, struct scan_dir *d)
{
	struct link_set *set;

	if (!d->own.slot)
		return;
	set = malloc(sizeof(*set));
	if (!set) {
		walk_fail(s, -ENOMEM);
		return;
	}
	*set = d->own;
	memset(&d->own, 0, sizeof(d->own));
	(void)pthread_mutex_lock(&parent->lock);
	set->next = parent->links;
	parent->links = set;
	(void)pthread_mutex_unlock(&parent->lock);
}

/* d and all below it is known: its node, and its share in the parent. */
static void report_node(struct worker *w, struct scan_dir *d)
{
	struct scan *s = w->scan;
	struct scan_totals totals;
	struct scan_below below = { .totals = &totals, .kids = d->kids, .n_kids = d->n_kids };
	struct scan_token token = { { 0 } };
	int r = link_set_merge(&d->own, d->links, &d->bytes, &d->apparent);

	d->sum.shared = link_set_close(&d->own);
	count_self(d, &totals);
	if (r < 0)
		walk_fail(s, r);
	if (s->sink && d->state && !has_failed(s)) {
		below.links_leave = d->own.n > 0;
		r = s->sink->node(s->sink->ctx, w->id, d->state, &below, &token);
		if (r < 0)
			walk_fail(s, r);
	} else if (s->sink && d->state) {
		s->sink->drop(s->sink->ctx, d->state);
	}
	if (!d->parent) {
		s->totals = totals;
		s->token = token;
		return;
	}
	give_links(s, d->parent, d);
	(void)pthread_mutex_lock(&d->parent->lock);
	d->parent->kids[d->index].token = token;
	add_totals(d->parent, d, &totals);
	(void)pthread_mutex_unlock(&d->parent->lock);
}

/* One thing that d waited for has happened. The last one reports d and goes on with its parent. */
static void finish(struct worker *w, struct scan_dir *d)
{
	while (d && atomic_fetch_sub(&d->pending, 1) == 1) {
		struct scan_dir *parent = d->parent;

		report_node(w, d);
		ahead_done(w, d);
		dir_free(d);
		if (!parent)
			queue_finish_scan(w->scan);
		d = parent;
	}
}

void walk_release(struct worker *w, struct scan_dir *d)
{
	finish(w, d);
}

/* The child has no node: its parent says why. */
static void leave_out(struct worker *w, struct scan_dir *d, int problem, int error)
{
	struct scan_dir *parent = d->parent;

	(void)pthread_mutex_lock(&parent->lock);
	parent->kids[d->index].problem = (uint8_t)problem;
	parent->kids[d->index].error = error;
	totals_add_problem(&parent->sum, (unsigned)problem);
	(void)pthread_mutex_unlock(&parent->lock);
	dir_free(d);
	finish(w, parent);
}

static void show_path(struct worker *w, const struct scan_dir *d)
{
	struct scan *s = w->scan;

	if (!atomic_load_explicit(&s->want_path, memory_order_relaxed))
		return;
	(void)pthread_mutex_lock(&s->path_lock);
	(void)path_of(d, s->root_path, s->path, sizeof(s->path));
	(void)pthread_mutex_unlock(&s->path_lock);
	atomic_store_explicit(&s->want_path, false, memory_order_relaxed);
}

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
	struct scan_entry e;
	int r = 0;

	d->bytes = (size_exact)d->meta.blocks * 512;
	d->sum.newest = d->meta.mtime;
	totals_add_problem(&d->sum, d->problem);
	if (sink)
		r = sink->listing(sink->ctx, w->id, &info, &w->listing, &d->state);
	while (scan_listing_next(&w->listing, &e))
		;
	COUNT(w->count.entries, d->sum.entries + 1);
	COUNT(w->count.dirs, 1);
	COUNT(w->count.bytes, size_clamp(d->bytes));
	return r;
}

static int compare_inodes(const void *a, const void *b, void *ctx)
{
	const struct scan_dir *d = ctx;
	uint64_t x = d->kid_ino[*(const uint32_t *)a], y = d->kid_ino[*(const uint32_t *)b];

	return (x > y) - (x < y);
}

/* Inodes lie on disk by number, more or less: children are visited in that order. */
static int order_by_inode(struct scan_dir *d)
{
	d->visit = malloc(d->n_kids * sizeof(*d->visit));
	if (!d->visit)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->n_kids; i++)
		d->visit[i] = i;
	qsort_r(d->visit, d->n_kids, sizeof(*d->visit), compare_inodes, d);
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
	atomic_store(&d->unopened, d->n_kids);
	atomic_store(&d->pending, d->n_kids + 1);
	if (!d->parent) {
		d->fd = s->root_fd;
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

static void read_directory(struct worker *w, struct scan_dir *d, int fd)
{
	const struct scan_dirinfo info = dir_info(d);
	struct scan *s = w->scan;
	int r = entries_read(w, d, fd, &info);

	if (r == 1) {
		open_close(w, fd);
		leave_out(w, d, SCAN_VANISHED, ENOENT);
		return;
	}
	if (r == 0)
		r = give_listing(w, d);
	if (r < 0)
		walk_fail(s, r);
	if (d->n_kids && !has_failed(s)) {
		r = publish(w, d, fd);
		if (r == 0)
			return;
		walk_fail(s, r);
		fd = -1; /* the scan is over: publish() has seen to it */
	}
	d->n_kids = 0;
	atomic_store(&d->pending, 1);
	if (fd >= 0 && fd != s->root_fd)
		open_keep_cursor(w, d, fd);
	finish(w, d);
}

/* Take child index of parent: open it, read it, or say why not. */
static void visit(struct worker *w, struct scan_dir *parent, size_t index)
{
	struct scan_dir *d = dir_new(parent, index);
	int fd = -1, problem;

	if (!d || has_failed(w->scan)) { /* drain quickly: nothing is opened any more */
		if (!d)
			walk_fail(w->scan, -ENOMEM);
		else
			dir_free(d);
		open_drop_parent(w, parent);
		finish(w, parent);
		return;
	}
	show_path(w, d);
	problem = open_child(w, d, &fd);
	if (problem != SCAN_OK)
		leave_out(w, d, problem, 0);
	else
		read_directory(w, d, fd);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct scan_dir *parent;
	struct rusage ru;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	size_t index;

	/*
	 * A descriptor table that is shared costs an atomic on every call with a descriptor. One reader
	 * without a sink shares with nobody; several hand each other directories, and a sink has its own
	 * descriptors, with locks that belong to the table (fcntl(2)).
	 */
	if (w->scan->n_workers == 1 && !w->scan->sink)
		(void)unshare(CLONE_FILES);
	if (w->id == 0)
		read_directory(w, w->scan->root, w->scan->root_fd);
	while (queue_take(w, &parent, &index)) {
		visit(w, parent, index);
		readers_look(w);
	}
	open_close(w, w->cursor_fd);
	w->life_ns = clock_ns(CLOCK_MONOTONIC) - start;
	if (getrusage(RUSAGE_THREAD, &ru) == 0) {
		w->user_ns = (uint64_t)ru.ru_utime.tv_sec * 1000000000u +
		             (uint64_t)ru.ru_utime.tv_usec * 1000u;
		w->sys_ns = (uint64_t)ru.ru_stime.tv_sec * 1000000000u +
		            (uint64_t)ru.ru_stime.tv_usec * 1000u;
	}
	return NULL;
}

/* Threads for the workers below the limit that have none yet. Fewer do, too. With idle_lock held. */
void readers_start(struct scan *s)
{
	unsigned want = MIN(atomic_load(&s->readers.limit), s->n_workers);
	pthread_attr_t attr;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, WORKER_STACK);
	for (; s->n_started < want; s->n_started++) {
		struct worker *w = &s->workers[s->n_started];

		if (pthread_create(&w->thread, &attr, worker_main, w) != 0)
			break;
	}
	(void)pthread_attr_destroy(&attr);
}

static void add_stats(const struct scan *s, struct scan_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < s->n_workers; i++) {
		const struct scan_counters *c = &s->workers[i].count;

		ret->openat += atomic_load_explicit(&c->openat, memory_order_relaxed);
		ret->statx += atomic_load_explicit(&c->statx, memory_order_relaxed);
		ret->getdents64 += atomic_load_explicit(&c->getdents64, memory_order_relaxed);
		ret->close += atomic_load_explicit(&c->close, memory_order_relaxed);
		ret->entries += atomic_load_explicit(&c->entries, memory_order_relaxed);
		ret->bytes =
			size_sum(ret->bytes, atomic_load_explicit(&c->bytes, memory_order_relaxed));
		ret->dirs += atomic_load_explicit(&c->dirs, memory_order_relaxed);
		ret->steals += atomic_load_explicit(&c->steals, memory_order_relaxed);
	}
}

static void report_progress(struct scan *s, uint64_t start)
{
	struct scan_progress p;

	if (!s->options->progress)
		return;
	add_stats(s, &p.stats);
	p.stats.wall_ns = clock_ns(CLOCK_MONOTONIC) - start;
	(void)pthread_mutex_lock(&s->path_lock);
	memcpy(p.path, s->path, sizeof(p.path));
	(void)pthread_mutex_unlock(&s->path_lock);
	atomic_store(&s->want_path, true);
	if (s->options->progress(s->options->progress_ctx, &p))
		walk_fail(s, -ECANCELED);
}

/* Until the workers are done, tell the caller how far they are. */
static void wait_for_end(struct scan *s, uint64_t start)
{
	atomic_store(&s->want_path, true);
	(void)pthread_mutex_lock(&s->idle_lock);
	while (!atomic_load(&s->done)) {
		struct timespec until;

		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PROGRESS_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_cond_timedwait(&s->done_cond, &s->idle_lock, &until) != ETIMEDOUT)
			continue;
		(void)pthread_mutex_unlock(&s->idle_lock);
		report_progress(s, start);
		(void)pthread_mutex_lock(&s->idle_lock);
	}
	(void)pthread_mutex_unlock(&s->idle_lock);
}

static void collect_stats(struct scan *s, uint64_t start, struct scan_stats *ret)
{
	struct rusage ru;

	add_stats(s, ret);
	for (unsigned i = 0; i < s->n_workers; i++) {
		const struct worker *w = &s->workers[i];

		if (w->life_ns > w->idle_ns + w->user_ns + w->sys_ns)
			ret->blocked_ns += w->life_ns - w->idle_ns - w->user_ns - w->sys_ns;
		ret->user_ns += w->user_ns;
		ret->sys_ns += w->sys_ns;
		for (size_t e = 0; e < SCAN_ERRNO_SLOTS; e++)
			ret->by_errno[e] += w->count.by_errno[e];
	}
	readers_report(s, ret);
	ret->wall_ns = clock_ns(CLOCK_MONOTONIC) - start;
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		ret->peak_rss_kb = (uint64_t)ru.ru_maxrss;
}

/* File systems where looking at a directory may start a mount or wait for a server. */
static bool is_remote(int fd)
{
	static const uint32_t magic[] = {
		0x6969 /* NFS */,      0x517B /* SMB */,      0xFF534D42 /* CIFS */,
		0xFE534D42 /* SMB2 */, 0x5346414F /* AFS */,  0x6B414653 /* kAFS */,
		0x0187 /* autofs */,   0x00C36400 /* Ceph */, 0x01021997 /* 9p */,
		0x65735546 /* FUSE */,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(magic); i++)
		if ((uint32_t)fs.f_type == magic[i])
			return true;
	return false;
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
	s->stat_first = is_remote(s->root_fd);
	d->ino = st.stx_ino;
	meta_from_statx(&st, s->root_dev, &d->meta);
	d->trap = s->traps.child ? &s->traps : NULL;
	(void)seen_before(s, d->dev, d->ino);
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
		entries_done(&s->workers[i].listing);
		free(s->workers[i].stack);
		free(s->workers[i].buf);
		(void)pthread_mutex_destroy(&s->workers[i].lock);
	}
	free(s->workers);
	mounts_done(&s->traps);
	seen_done(s);
	base_close(s->root_fd);
	free(s->root_path);
	(void)pthread_cond_destroy(&s->idle_cond);
	(void)pthread_cond_destroy(&s->done_cond);
	(void)pthread_mutex_destroy(&s->idle_lock);
	(void)pthread_mutex_destroy(&s->path_lock);
}

static int run_workers(struct scan *s, uint64_t start)
{
	unsigned begun; /* a worker may start more from here on */

	(void)pthread_mutex_lock(&s->idle_lock);
	readers_start(s);
	begun = s->n_started;
	(void)pthread_mutex_unlock(&s->idle_lock);
	if (begun == 0) {
		dir_free(s->root);
		return -EAGAIN;
	}
	wait_for_end(s, start);
	for (unsigned i = 0; i < s->n_started; i++)
		(void)pthread_join(s->workers[i].thread, NULL);
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
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct scan s = { .start_ns = start };
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
	if (r == 0 && fstatvfs(s.root_fd, &report.statvfs) < 0)
		r = -errno;
	if (r < 0) {
		dir_free(s.root);
		goto done;
	}
	r = run_workers(&s, start);
	if (r < 0)
		goto done;
	report.root = TAKE(s.root_path);
	report.totals = s.totals;
	report.token = s.token;
	collect_stats(&s, start, &report.stats);
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
