/* SPDX-License-Identifier: MIT */
/*
 * rescan - scans the roots again, on request or every so often, in a process of its own.
 *
 *     a thread waits for the time or for rescan_now() -> runs "disktracker scan --idle" for each root,
 *     one after the other -> follow.c notices the snapshot like anybody else's
 *
 * The child is this very program; it reports progress through a pipe and ends when the pipe breaks, so
 * it does not outlive the mount.
 */
#include "fs/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

struct rescan {
	struct fs *fs;
	pthread_t thread;
	bool joined;          /* only for rescan_stop() */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t cond;
	bool asked, stopping, running;
	char *root;       /* being scanned */
	char block[8192]; /* what the child said last */
	int last_status;  /* exit status of the last scan, -1: none yet */
	int64_t last_end;
};

static bool is_stopping(struct rescan *r)
{
	bool stop;

	(void)pthread_mutex_lock(&r->lock);
	stop = r->stopping;
	(void)pthread_mutex_unlock(&r->lock);
	return stop;
}

/* An index may have been made by somebody else: of its words only those that cannot do harm are taken. */
static bool is_scan_option(const char *word)
{
	return strncmp(word, "--exclude=", 10) == 0 || strcmp(word, "--exclude-caches") == 0 ||
	       strcmp(word, "--cross-mounts") == 0;
}

/* The words of the command; the root is scanned with the options of its last snapshot. */
static char **make_argv(const struct rescan *r, const struct snap_info *i)
{
	const struct snap_details *d = i->details;
	const char *const first[] = { "disktracker",     "scan",    "--idle",
		                      "--progress-fd=3", "--index", r->fs->o->index };
	const char **argv = calloc(ARRAY_SIZE(first) + d->options_len + 3, sizeof(*argv));
	size_t n = ARRAY_SIZE(first);

	if (!argv)
		return NULL;
	memcpy(argv, first, sizeof(first));
	for (size_t at = 0; at < d->options_len; at += strlen(d->options + at) + 1)
		if (is_scan_option(d->options + at))
			argv[n++] = d->options + at;
	argv[n++] = "--";
	argv[n++] = i->root;
	return (char **)(uintptr_t)argv; /* posix_spawn(3) takes them as char *, and changes none */
}

static int start_child(struct rescan *r, const struct snap_info *i, int out, pid_t *pid)
{
	AUTO(base_free) char **argv = make_argv(r, i);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int e;

	if (!argv)
		return -ENOMEM;
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	(void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, out, 3);
	/* Signals that the mount leaves to one thread are meant for the scan's own hands. */
	(void)sigemptyset(&none);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	e = posix_spawn(pid, "/proc/self/exe", &actions, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -e;
}

/* Keep what was said last. */
static void keep_block(struct rescan *r, const char *p, size_t len)
{
	size_t end = len, start;

	while (end > 1 && !(p[end - 1] == '\n' && p[end - 2] == '\n'))
		end--;
	start = end > 2 ? end - 2 : 0;
	while (start > 1 && !(p[start - 1] == '\n' && p[start - 2] == '\n'))
		start--;
	if (start == 1)
		start = 0;
	p += start;
	len = end - start;
	(void)pthread_mutex_lock(&r->lock);
	len = MIN(len, sizeof(r->block) - 1);
	memcpy(r->block, p, len);
	r->block[len] = '\0';
	(void)pthread_mutex_unlock(&r->lock);
}

static void read_progress(struct rescan *r, int fd)
{
	char buf[8192];
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!is_stopping(r)) {
		ssize_t n;

		if (poll(&p, 1, 200) <= 0)
			continue;
		n = read(fd, buf,
		         sizeof(buf)); /* a block is one write, and they come five times a second */
		if (n <= 0)
			return;
		keep_block(r, buf, (size_t)n);
	}
}

static bool has_ended(pid_t pid, int *status, int tries)
{
	const struct timespec pause = { 0, 10000000 };

	for (; waitpid(pid, status, WNOHANG) == 0; tries--) {
		if (tries <= 0)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return true;
}

/*
 * The mount ends within a second, so a scan that is stopped, or hangs in a dead file system, is killed;
 * the index stands that. One that even then does not go is left to init.
 */
static void end_child(pid_t pid, int *status)
{
	(void)kill(pid, SIGTERM);
	if (has_ended(pid, status, 20))
		return;
	(void)kill(pid, SIGKILL);
	(void)has_ended(pid, status, 20);
}

/* Run a scan to its end; *status is as of waitpid(2). */
static int run_child(struct rescan *r, const struct snap_info *i, int *status)
{
	int fds[2], e;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	e = start_child(r, i, fds[1], &pid);
	base_close(fds[1]);
	if (e == 0) {
		read_progress(r, fds[0]);
		if (is_stopping(r))
			end_child(pid, status);
		else
			(void)waitpid(pid, status, 0);
	}
	base_close(fds[0]);
	return e;
}

/* A scan without the options of the last one would not be comparable: rather none. */
static void scan_root(struct rescan *r, int64_t last)
{
	struct snap_info i;
	int status = 0, e = snap_info_get(r->fs->s, last, &i);

	if (e == 0) {
		e = run_child(r, &i, &status);
		snap_info_done(&i);
	}
	if (e < 0)
		fs_say(r->fs, "cannot scan again for the", e);
	(void)pthread_mutex_lock(&r->lock);
	if (e < 0)
		r->last_status = EXIT_FAILURE;
	else
		r->last_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	r->last_end = (int64_t)time(NULL);
	(void)pthread_mutex_unlock(&r->lock);
}

static void set_root(struct rescan *r, const char *root)
{
	(void)pthread_mutex_lock(&r->lock);
	free(r->root);
	r->root = root ? strdup(root) : NULL;
	r->running = root != NULL;
	r->block[0] = '\0';
	(void)pthread_mutex_unlock(&r->lock);
}

/* With --root only the root that holds it. */
static bool is_shown(const struct fs *fs, const char *root)
{
	return !fs->o->root || path_below(root, fs->o->root) || path_below(fs->o->root, root);
}

static void scan_all(struct rescan *r)
{
	struct gen *g = view_now(&r->fs->view);

	for (size_t i = 0; i < g->list.n && !is_stopping(r); i++) {
		if (!is_shown(r->fs, g->list.info[i]->root))
			continue;
		set_root(r, g->list.info[i]->root);
		scan_root(r, g->list.info[i]->id);
	}
	set_root(r, NULL);
	gen_put(&r->fs->view, g);
}

/* Until asked, or until the time has come. False: stop. */
static bool wait_for_turn(struct rescan *r)
{
	struct timespec until;
	int e = 0;
	bool go;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += r->fs->o->every;
	(void)pthread_mutex_lock(&r->lock);
	while (!r->asked && !r->stopping && e != ETIMEDOUT)
		e = r->fs->o->every ? pthread_cond_timedwait(&r->cond, &r->lock, &until)
		                    : pthread_cond_wait(&r->cond, &r->lock);
	r->asked = false;
	go = !r->stopping;
	(void)pthread_mutex_unlock(&r->lock);
	return go;
}

static void *rescan_main(void *arg)
{
	struct rescan *r = arg;

	while (wait_for_turn(r))
		scan_all(r);
	return NULL;
}

int rescan_start(struct fs *fs)
{
	struct rescan *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;
	int e;

	if (!r)
		return -ENOMEM;
	r->fs = fs;
	r->last_status = -1;
	(void)pthread_mutex_init(&r->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&r->cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	e = pthread_create(&r->thread, NULL, rescan_main, r);
	if (e != 0) {
		free(r);
		return -e;
	}
	fs->rescan = r;
	return 0;
}

/* Ends the thread. Requests may still be answered: what they ask for stays until rescan_free(). */
void rescan_stop(struct fs *fs)
{
	struct rescan *r = fs->rescan;

	if (!r || r->joined)
		return;
	(void)pthread_mutex_lock(&r->lock);
	r->stopping = true;
	(void)pthread_cond_broadcast(&r->cond);
	(void)pthread_mutex_unlock(&r->lock);
	(void)pthread_join(r->thread, NULL);
	r->joined = true;
}

/* After rescan_stop(), when no request is answered any more. */
void rescan_free(struct fs *fs)
{
	struct rescan *r = fs->rescan;

	if (!r)
		return;
	(void)pthread_cond_destroy(&r->cond);
	(void)pthread_mutex_destroy(&r->lock);
	free(r->root);
	free(r);
	fs->rescan = NULL;
}

/* Requests while a scan runs make one more after it. */
void rescan_now(struct fs *fs)
{
	struct rescan *r = fs->rescan;

	if (!r)
		return;
	(void)pthread_mutex_lock(&r->lock);
	r->asked = true;
	(void)pthread_cond_signal(&r->cond);
	(void)pthread_mutex_unlock(&r->lock);
}

void rescan_progress(struct fs *fs, struct text *out)
{
	struct rescan *r = fs->rescan;

	if (!r)
		return;
	(void)pthread_mutex_lock(&r->lock);
	text_printf(out, "running %d\nevery %" PRId64 "\nlast_status %d\nlast_end %" PRId64 "\n",
	            r->running, fs->o->every, r->last_status, r->last_end);
	if (r->root) {
		text_puts(out, "root ");
		text_escaped_spaces(out, r->root, strlen(r->root));
		text_puts(out, "\n");
	}
	for (const char *p = r->block; *p;) { /* the path may hold anything but NUL */
		size_t len = strcspn(p, "\n");

		if (len)
			text_escaped_spaces(out, p, len);
		text_puts(out, len ? "\n" : "");
		p += len + (p[len] == '\n');
	}
	(void)pthread_mutex_unlock(&r->lock);
}
