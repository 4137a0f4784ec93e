/* SPDX-License-Identifier: MIT */
/*
 * mount - one session from the mount point to the end.
 *
 *     fs_mount: open the index, make the first generation, check and mount, go to the background,
 *               serve, and take everything down in the opposite order
 */
#include "fs/internal.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>

enum {
	THREADS = 6,
	IDLE_THREADS = 2,
	TEXT_CACHE = 4 << 20
};

/* -- the session ----------------------------------------------------------------------------- */

/* In mount options a comma or backslash is preceded by a backslash (mount.fuse3(8)). */
static void put_option_value(struct text *t, const char *s)
{
	for (; *s; s++)
		text_printf(t, *s == ',' || *s == '\\' ? "\\%c" : "%c", *s);
}

static int make_session(struct fs *fs)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct text options = { 0 };

	text_puts(&options, "nosuid,nodev,noatime,subtype=disktracker,fsname=");
	put_option_value(&options, fs->o->index);
	if (fs->o->fuse_options && *fs->o->fuse_options) {
		text_puts(&options, ",");
		text_puts(&options, fs->o->fuse_options);
	}
	text_add(&options, "", 1);
	if (options.failed || fuse_opt_add_arg(&args, "disktracker") < 0 ||
	    fuse_opt_add_arg(&args, "-o") < 0 || fuse_opt_add_arg(&args, options.p) < 0) {
		text_done(&options);
		fuse_opt_free_args(&args);
		return -ENOMEM;
	}
	fs->session = fuse_session_new(&args, &fs_ops, sizeof(fs_ops), fs);
	text_done(&options);
	fuse_opt_free_args(&args);
	return fs->session ? 0 : -EINVAL;
}

/*
 * A process that leaves the terminal: the parent waits until the child says that it serves, so that the
 * command that follows "disktracker mount" finds the mount ready.
 */
static int to_background(int *ready_fd)
{
	int fds[2];
	char byte = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		(void)close(fds[1]);
		_exit(read(fds[0], &byte, 1) == 1 && byte == 'k' ? 0 : 3);
	}
	(void)close(fds[0]);
	(void)setsid();
	(void)chdir("/");
	*ready_fd = fds[1];
	return 0;
}

static void say_ready(int fd)
{
	int null;

	if (fd < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		(void)dup2(null, STDIN_FILENO);
		(void)dup2(null, STDOUT_FILENO);
		(void)dup2(null, STDERR_FILENO);
		(void)close(null);
	}
	(void)write(fd, "k", 1);
	(void)close(fd);
}

/*
 * A thread waits for the signals that end the mount. It first ends the follower, while requests are still
 * answered: the kernel may hold a directory's lock for a LOOKUP that waits for us, and a notification
 * waits for that lock. Then it ends the loop; libfuse's main thread looks up when a signal interrupts it.
 */
struct ender {
	struct fs *fs;
	pthread_t self, main;
	_Atomic bool ended; /* the loop is over */
};

static void on_wake(int sig)
{
	(void)sig;
}

static void signals_that_end(sigset_t *set)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGTERM);
	(void)sigaddset(set, SIGINT);
	(void)sigaddset(set, SIGHUP);
}

static void *ender_main(void *arg)
{
	const struct timespec pause = { 0, 20000000 };
	struct ender *e = arg;
	sigset_t set;
	int sig;

	signals_that_end(&set);
	while (sigwait(&set, &sig) != 0)
		;
	if (!atomic_load(&e->ended)) {
		rescan_stop(e->fs);
		follow_stop(e->fs);
		fuse_session_exit(e->fs->session);
	}
	while (!atomic_load(&e->ended)) {
		(void)pthread_kill(e->main, SIGUSR1);
		(void)nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Before the first thread, so that all leave the signals to the ender; one that comes early waits for it. */
static void hold_signals(void)
{
	struct sigaction sa = { .sa_handler = on_wake };
	sigset_t set;

	(void)sigemptyset(&sa.sa_mask);
	(void)sigaction(SIGUSR1, &sa, NULL);
	signals_that_end(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* After everything that it ends has been started. */
static int ender_start(struct ender *e)
{
	e->main = pthread_self();
	return -pthread_create(&e->self, NULL, ender_main, e);
}

static void ender_stop(struct ender *e)
{
	atomic_store(&e->ended, true);
	(void)pthread_kill(e->self, SIGTERM);
	(void)pthread_join(e->self, NULL);
}

/* Until unmounted or told to stop by a signal. */
static int serve(struct fs *fs)
{
	struct fuse_loop_config *cfg = fuse_loop_cfg_create();
	int r;

	if (!cfg)
		return -ENOMEM;
	fuse_loop_cfg_set_clone_fd(cfg, 0);
	fuse_loop_cfg_set_max_threads(cfg, THREADS);
	fuse_loop_cfg_set_idle_threads(cfg, IDLE_THREADS);
	r = fuse_session_loop_mt(fs->session, cfg);
	fuse_loop_cfg_destroy(cfg);
	return r > 0 ? 0 : r; /* a signal's number is a good end */
}

static int fs_init(struct fs *fs, const struct fs_options *o)
{
	pthread_rwlockattr_t rw;
	pthread_condattr_t attr;

	/* Few and large pieces of memory live here: one arena, and packs in pages of their own. */
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_MMAP_THRESHOLD, 32 * 1024);
	(void)mallopt(M_TRIM_THRESHOLD, 256 * 1024);
	fs->o = o;
	fs->start = (int64_t)time(NULL);
	/* The follower waits for all requests that began before: new ones must not keep it out. */
	(void)pthread_rwlockattr_init(&rw);
	(void)pthread_rwlockattr_setkind_np(&rw, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	(void)pthread_rwlock_init(&fs->requests, &rw);
	(void)pthread_rwlockattr_destroy(&rw);
	(void)pthread_mutex_init(&fs->live_lock, NULL);
	(void)pthread_mutex_init(&fs->stop_lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&fs->stop_cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	fs->texts = texts_new(TEXT_CACHE);
	return fs->texts ? 0 : -ENOMEM;
}

static void fs_done(struct fs *fs)
{
	texts_free(fs->texts);
	live_done(fs);
	(void)pthread_rwlock_destroy(&fs->requests);
	(void)pthread_mutex_destroy(&fs->live_lock);
	(void)pthread_mutex_destroy(&fs->stop_lock);
	(void)pthread_cond_destroy(&fs->stop_cond);
}

static int open_view(struct fs *fs)
{
	int r = view_init(&fs->view, fs->s, fs->o->root);

	if (r < 0)
		return r;
	fs->top_ino = ino_of_path(fs->s, fs->o->root ? fs->o->root : "/");
	ino_roots(fs->s, fs->view.now);
	return rows_init(&fs->rows, fs->top_ino, fs->view.now->top_ref);
}

static void close_view(struct fs *fs)
{
	rows_done(&fs->rows);
	view_done(&fs->view);
}

static int open_index(struct fs *fs)
{
	int r = snap_open(fs->o->index, SNAP_READ, &fs->s);

	if (r < 0) {
		fs->o->say(fs->o->say_ctx, fs->o->index,
		           r == -ENOENT
		                   ? "the index does not exist; 'disktracker scan PATH' makes one"
		                   : snap_strerror(r));
		return r;
	}
	if (fs->o->cache_bytes)
		snap_cache_limit(fs->s, fs->o->cache_bytes);
	r = open_view(fs);
	if (r == -ENOENT)
		fs->o->say(fs->o->say_ctx, fs->o->root,
		           "not in the index; 'disktracker scan' it first");
	else if (r < 0)
		fs->o->say(fs->o->say_ctx, fs->o->index, snap_strerror(r));
	return r;
}

/* Everything with threads of its own starts after the fork and ends before the session does. */
static int run(struct fs *fs, int ready_fd)
{
	struct ender ender = { .fs = fs };
	int r;

	hold_signals();
	r = open_index(fs);
	if (r < 0) {
		snap_close(fs->s);
		fs->s = NULL;
		return r;
	}
	fs->jobs = jobs_new(fs);
	r = fs->jobs ? follow_start(fs) : -ENOMEM;
	if (r == 0)
		r = rescan_start(fs);
	if (r == 0)
		r = ender_start(&ender);
	if (r == 0) {
		snap_release(fs->s);
		say_ready(ready_fd);
		r = serve(fs);
		ender_stop(&ender);
	}
	rescan_stop(fs);
	follow_stop(fs);
	jobs_free(fs->jobs);
	rescan_free(fs);
	return r;
}

/* Before anything is mounted: would the index open? The connection itself must not cross a fork. */
static int try_index(struct fs *fs)
{
	int r = open_index(fs);

	if (r == 0)
		close_view(fs);
	snap_close(fs->s);
	fs->s = NULL;
	fs->view = (struct view){ 0 };
	fs->rows = (struct rows){ 0 };
	return r;
}

static int mount_and_run(struct fs *fs)
{
	int ready_fd = -1, r = 0;

	if (fuse_session_mount(fs->session, fs->o->mountpoint) < 0) {
		fs->o->say(fs->o->say_ctx, fs->o->mountpoint, "cannot be mounted");
		return -EACCES;
	}
	if (!fs->o->foreground)
		r = to_background(&ready_fd);
	if (r == 0)
		r = run(fs, ready_fd);
	fuse_session_unmount(fs->session);
	return r;
}

int fs_mount(const struct fs_options *o)
{
	struct fs fs = { 0 };
	int r = fs_init(&fs, o);

	if (r == 0)
		r = mountpoint_check(o);
	if (r == 0)
		r = try_index(&fs);
	if (r == 0)
		r = make_session(&fs);
	if (r == 0)
		r = mount_and_run(&fs);
	if (fs.session)
		fuse_session_destroy(fs.session);
	if (fs.s) {
		close_view(&fs);
		snap_close(fs.s);
	}
	fs_done(&fs);
	return r;
}
