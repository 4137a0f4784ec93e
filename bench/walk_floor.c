/* SPDX-License-Identifier: MIT */
/*
 * walk_floor - see walk_floor.h.
 *
 *     take a sub-directory of my newest listing   take_own        LIFO: few descriptors stay open
 *       or one of another worker's oldest         steal_from      by its path: see below
 *       or sleep, and leave when all sleep        wait_for_work
 *     openat, statx of the descriptor             visit
 *     getdents64, statx of each name              read_entries
 *     keep the names of sub-directories           push_listing
 *
 * Every worker has its own descriptor table: threads that share one pay two atomic operations per
 * call (fget in the kernel). A thief can't use the victim's descriptors then, and opens what it
 * took by the path from the root. Thefts are rare, some 40 in 5,000 directories, and cost nothing.
 *
 * The sum counts each name, hard links too, and crosses mounts: this is a yardstick, not a du.
 */
#include "bench/walk_floor.h"

#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
	DENTS_BYTES = 32 * 1024,
};

/* A directory whose sub-directories wait to be read. */
struct listing {
	int fd;     /* in its owner's table */
	bool deep;  /* too long a path to be kept: for its owner only */
	char *next; /* owner's lock: the first name not taken; each ends with a zero byte */
	char *end;  /* of the names */
	size_t path_len;
	char path[]; /* from the root, with a slash at its end; the names follow */
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	_Atomic unsigned idle;   /* sleeping workers; written under lock, pushers read it without */
	_Atomic uint64_t pushes; /* listings ever pushed; a change means that a new look may help */
	unsigned n_workers;
	struct worker *workers;
	int root_fd; /* valid in every table: each is a copy of the first */
};

struct worker {
	pthread_mutex_t lock;
	struct listing **stack; /* lock: oldest first */
	size_t depth, cap;      /* lock */
	struct pool *pool;
	pthread_t thread;
	uint64_t entries, dirs, bytes, errors;
	int flags;   /* for openat; loses O_NOATIME at the first directory of someone else */
	char *names; /* sub-directories of the directory being read */
	size_t names_len, names_cap;
	bool deep; /* as in struct listing, of the directory being read */
	size_t path_len;
	char path[PATH_MAX];
	char dents[DENTS_BYTES] __attribute__((aligned(8)));
} PRIVATE_CACHE_LINE;

/* One directory to read. */
struct job {
	int at;
	const char *name;       /* its path from there */
	struct listing *parent; /* set if this was the last name of the worker's own listing */
};

_Noreturn static void die(const char *what)
{
	(void)fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Makes the next name of a listing the worker's path. push_listing() made sure that it fits. */
static void take_name(struct worker *w, struct listing *l)
{
	size_t len = strlen(l->next);

	memcpy(w->path, l->path, l->path_len);
	memcpy(w->path + l->path_len, l->next, len + 1);
	w->path_len = l->path_len + len;
	w->deep = l->deep;
	l->next += len + 1;
}

static bool take_own(struct worker *w, struct job *job)
{
	struct listing *l = NULL;
	bool found;

	pthread_mutex_lock(&w->lock);
	for (; w->depth > 0; w->depth--) {
		l = w->stack[w->depth - 1];
		if (l->next < l->end)
			break;
		close(l->fd); /* thieves took the last ones */
		free(l);
	}
	found = w->depth > 0;
	if (found) {
		take_name(w, l);
		*job = (struct job){ l->fd, w->path + l->path_len, NULL };
		/* Off the stack before its last child is read: a chain keeps one descriptor. */
		if (l->next == l->end) {
			job->parent = l;
			w->depth--;
		}
	}
	pthread_mutex_unlock(&w->lock);
	return found;
}

static bool steal_from(struct worker *victim, struct worker *w, struct job *job)
{
	bool found = false;

	pthread_mutex_lock(&victim->lock);
	for (size_t i = 0; i < victim->depth && !found; i++) {
		struct listing *l = victim->stack[i];

		found = !l->deep && l->next < l->end;
		if (found)
			take_name(w, l);
	}
	pthread_mutex_unlock(&victim->lock);
	*job = (struct job){ w->pool->root_fd, w->path, NULL };
	return found;
}

/*
 * Only a worker that is awake has names, so all asleep means done. No wake-up is lost: who pushes
 * counts the push, then looks for sleepers; who falls asleep counts itself, then looks for pushes.
 */
static bool wait_for_work(struct worker *w, struct job *job)
{
	struct pool *p = w->pool;
	unsigned self = (unsigned)(w - p->workers);
	bool done = false;

	while (!done) {
		uint64_t seen = p->pushes;

		for (unsigned i = 1; i < p->n_workers; i++)
			if (steal_from(&p->workers[(self + i) % p->n_workers], w, job))
				return true;
		pthread_mutex_lock(&p->lock);
		if (++p->idle == p->n_workers)
			pthread_cond_broadcast(&p->wake);
		while (p->idle < p->n_workers && p->pushes == seen)
			pthread_cond_wait(&p->wake, &p->lock);
		done = p->idle == p->n_workers;
		if (!done)
			p->idle--;
		pthread_mutex_unlock(&p->lock);
	}
	return false;
}

/* Offers the names just read to this worker and to thieves. */
static void push_listing(struct worker *w, int fd)
{
	bool deep = w->deep || w->path_len + 1 + NAME_MAX >= sizeof(w->path);
	size_t path_len = deep || w->path_len == 0 ? 0 : w->path_len + 1;
	struct listing *l = malloc(sizeof(*l) + path_len + w->names_len);
	struct pool *p = w->pool;

	if (!l)
		die("malloc");
	*l = (struct listing){ .fd = fd, .deep = deep, .path_len = path_len };
	if (path_len > 0) {
		memcpy(l->path, w->path, path_len - 1);
		l->path[path_len - 1] = '/';
	}
	l->next = memcpy(l->path + path_len, w->names, w->names_len);
	l->end = l->next + w->names_len;

	pthread_mutex_lock(&w->lock);
	if (base_reserve(&w->stack, &w->cap, w->depth + 1, sizeof(struct listing *)) < 0)
		die("malloc");
	w->stack[w->depth++] = l;
	pthread_mutex_unlock(&w->lock);
	p->pushes++;
	if (p->idle == 0)
		return;
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

static void stat_one(struct worker *w, int fd, const char *name, int flags)
{
	struct statx st;

	flags |= AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
	if (statx(fd, name, flags, STATX_BASIC_STATS, &st) < 0) {
		w->errors++;
		return;
	}
	w->entries++;
	w->dirs += S_ISDIR(st.stx_mode);
	w->bytes += st.stx_blocks * 512;
}

static bool is_directory(int fd, const struct dirent64 *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void keep_name(struct worker *w, const char *name)
{
	size_t len = strlen(name) + 1;

	if (base_reserve(&w->names, &w->names_cap, w->names_len + len, 1) < 0)
		die("malloc");
	memcpy(w->names + w->names_len, name, len);
	w->names_len += len;
}

static void read_entries(struct worker *w, int fd)
{
	const struct dirent64 *d;
	ssize_t len;

	w->names_len = 0;
	while ((len = getdents64(fd, w->dents, sizeof(w->dents))) > 0)
		for (char *p = w->dents; p < w->dents + len; p += d->d_reclen) {
			d = (const struct dirent64 *)(const void *)p;
			if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
				continue;
			if (is_directory(fd, d))
				keep_name(w, d->d_name); /* stat'ed when open: no name to look up */
			else
				stat_one(w, fd, d->d_name, 0);
		}
	w->errors += len < 0;
}

static void visit(struct worker *w, const struct job *job)
{
	int fd = openat(job->at, job->name, w->flags);

	if (fd < 0 && errno == EPERM && (w->flags & O_NOATIME)) {
		w->flags &= ~O_NOATIME;
		fd = openat(job->at, job->name, w->flags);
	}
	if (fd < 0) {
		w->errors++;
		stat_one(w, job->at, job->name, 0);
	}
	if (job->parent)
		close(job->parent->fd);
	free(job->parent);
	if (fd < 0)
		return;
	stat_one(w, fd, "", AT_EMPTY_PATH);
	read_entries(w, fd);
	if (w->names_len > 0)
		push_listing(w, fd);
	else
		close(fd);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct job job;

	while (take_own(w, &job) || wait_for_work(w, &job))
		visit(w, &job);
	return NULL;
}

static void *work_alone(void *arg)
{
	(void)unshare(CLONE_FILES); /* if this fails, all is right but a little slower */
	return work(arg);
}

static void run(struct pool *p, const char *path)
{
	struct worker *first = &p->workers[0];

	for (unsigned i = 0; i < p->n_workers; i++) {
		struct worker *w = &p->workers[i];

		pthread_mutex_init(&w->lock, NULL);
		w->pool = p;
		w->flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC;
	}
	for (unsigned i = 1; i < p->n_workers; i++) {
		errno = pthread_create(&p->workers[i].thread, NULL, work_alone, &p->workers[i]);
		if (errno)
			die("pthread_create");
	}
	visit(first, &(struct job){ AT_FDCWD, path, NULL });
	work(first);
	for (struct worker *w = first + 1; w < first + p->n_workers; w++) {
		pthread_join(w->thread, NULL);
		first->entries += w->entries;
		first->dirs += w->dirs;
		first->bytes += w->bytes;
		first->errors += w->errors;
	}
}

void walk_floor(const char *path, unsigned threads, struct walk_floor_sums *ret)
{
	struct pool pool = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.wake = PTHREAD_COND_INITIALIZER,
		.n_workers = threads,
	};
	struct rlimit limit;
	struct worker *w;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	pool.root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	pool.workers = aligned_alloc(64, pool.n_workers * sizeof(struct worker));
	if (pool.root_fd < 0 || !pool.workers)
		die(path);
	memset(pool.workers, 0, pool.n_workers * sizeof(struct worker));
	run(&pool, path);
	w = &pool.workers[0];
	*ret = (struct walk_floor_sums){ w->entries, w->dirs, w->bytes, w->errors };
	for (unsigned i = 0; i < threads; i++) {
		free(pool.workers[i].stack);
		free(pool.workers[i].names);
	}
	free(pool.workers);
	close(pool.root_fd);
}
