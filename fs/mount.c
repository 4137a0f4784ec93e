/* SPDX-License-Identifier: MIT */
/*
 * mount - one session from the mount point to the end.
 *
 *     fs_mount: check the mount point, go to the background, open the index, make the first generation,
 *               start the threads, mount, serve, and take everything down in the opposite order
 */
#include "fs/internal.h"

#include <dlfcn.h>
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

/* What keeps the mount from starting; the only sentence about it. */
static int cannot(struct fs *fs, const char *what, int r)
{
	char reason[160];

	(void)snprintf(reason, sizeof(reason), "cannot %s: %s", what, strerror(-r));
	fs->o->say(fs->o->say_ctx, fs->o->mountpoint, reason);
	return r;
}

/* The kernel's first request has come, so there is a thread that answers. */
static void tell_ready(struct fs *fs)
{
	int null;

	fs->ready = true;
	if (fs->ready_fd < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		(void)dup2(null, STDIN_FILENO);
		(void)dup2(null, STDOUT_FILENO);
		(void)dup2(null, STDERR_FILENO);
		(void)close(null);
	}
	(void)write(fs->ready_fd, "k", 1);
	(void)close(fs->ready_fd);
	fs->ready_fd = -1;
}

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	/* Truncating while opening would empty the kernel's copy of a file before we can refuse. */
	conn->want &= ~(unsigned)FUSE_CAP_ATOMIC_O_TRUNC;
	conn->want |= conn->capable & FUSE_CAP_CACHE_SYMLINKS;
	tell_ready(userdata);
}

/* In mount options a comma or backslash is preceded by a backslash (mount.fuse3(8)). */
static void put_option_value(struct text *t, const char *s)
{
	for (; *s; s++)
		text_printf(t, *s == ',' || *s == '\\' ? "\\%c" : "%c", *s);
}

static int make_session(struct fs *fs)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_lowlevel_ops ops = fs_ops;
	struct text options = { 0 };

	ops.init = on_init;
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
		return cannot(fs, "start", -ENOMEM);
	}
	fs->session = fuse_session_new(&args, &ops, sizeof(ops), fs);
	text_done(&options);
	fuse_opt_free_args(&args);
	return fs->session ? 0 : -EINVAL; /* libfuse has said which option it does not know */
}

/*
 * A process that leaves the terminal: the parent waits until the child says that it serves, so that the
 * command that follows "disktracker mount" finds the mount ready. Nothing has been opened or started yet:
 * neither a connection to SQLite nor a thread would survive a fork.
 */
static int to_background(struct fs *fs)
{
	int fds[2];
	char byte = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return cannot(fs, "go to the background", -errno);
	pid = fork();
	if (pid < 0)
		return cannot(fs, "go to the background", -errno);
	if (pid > 0) {
		(void)close(fds[1]);
		_exit(read(fds[0], &byte, 1) == 1 && byte == 'k' ? 0 : 3);
	}
	(void)close(fds[0]);
	(void)setsid();
	(void)chdir("/");
	fs->ready_fd = fds[1];
	return 0;
}

/*
 * A thread waits for the signals that end the mount. It first ends the follower, while requests are still
 * answered: the kernel may hold a directory's lock for a LOOKUP that waits for us, and a notification
 * waits for that lock. Then it ends the loop; libfuse's main thread looks up when a signal interrupts it.
 */
struct signal_thread {
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

static void *signal_main(void *arg)
{
	const struct timespec pause = { 0, 20000000 };
	struct signal_thread *t = arg;
	sigset_t set;
	int sig;

	signals_that_end(&set);
	while (sigwait(&set, &sig) != 0)
		;
	if (!atomic_load(&t->ended)) {
		rescan_stop(t->fs);
		follow_stop(t->fs);
		fuse_session_exit(t->fs->session);
	}
	while (!atomic_load(&t->ended)) {
		(void)pthread_kill(t->main, SIGUSR1);
		(void)nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Before the first thread, so that all leave the signals to this one; a signal that comes early waits for it. */
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
static int signal_thread_start(struct signal_thread *t)
{
	t->main = pthread_self();
	return -pthread_create(&t->self, NULL, signal_main, t);
}

static void signal_thread_stop(struct signal_thread *t)
{
	atomic_store(&t->ended, true);
	(void)pthread_kill(t->self, SIGTERM);
	(void)pthread_join(t->self, NULL);
}

/*
 * libfuse ends its threads with pthread_cancel(3), for which glibc loads libgcc_s and aborts when it cannot:
 * better now than with a mount to take down.
 */
static int load_what_cancel_needs(void)
{
#ifdef __GLIBC__
	return dlopen("libgcc_s.so.1", RTLD_NOW) ? 0 : -ENOMEM;
#else
	return 0;
#endif
}

/* Until unmounted or told to stop by a signal. */
static int serve(struct fs *fs)
{
	struct fuse_loop_config *cfg = fuse_loop_cfg_create();
	int r = cfg ? load_what_cancel_needs() : -ENOMEM;

	if (r < 0) {
		(void)cannot(fs, "start", r);
	} else if (fuse_session_mount(fs->session, fs->o->mountpoint) < 0) {
		fs->o->say(fs->o->say_ctx, fs->o->mountpoint, "cannot be mounted");
		r = -EACCES;
	} else {
		fuse_loop_cfg_set_clone_fd(cfg, 0);
		fuse_loop_cfg_set_max_threads(cfg, THREADS);
		fuse_loop_cfg_set_idle_threads(cfg, IDLE_THREADS);
		r = fuse_session_loop_mt(fs->session, cfg);
		if (r < 0 && !fs->ready)
			(void)cannot(fs, "start a thread", -EAGAIN);
	}
	if (cfg)
		fuse_loop_cfg_destroy(cfg);
	return MIN(r, 0); /* a signal's number is a good end */
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
	ino_init(&fs->ino, fs->s);
	ino_roots(&fs->ino, fs->view.now);
	return rows_init(&fs->rows, ino_key_path(&fs->ino, fs->o->root ? fs->o->root : "/"),
	                 fs->view.now->top_ref);
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

static int start_threads(struct fs *fs)
{
	int r = jobs_start(fs);

	if (r == 0)
		r = follow_start(fs);
	if (r == 0)
		r = rescan_start(fs);
	return r;
}

static void stop_threads(struct fs *fs)
{
	rescan_stop(fs);
	follow_stop(fs);
	jobs_free(fs->jobs);
	rescan_free(fs);
}

/*
 * The mount comes last: whoever sees it is answered, and whatever fails before leaves none. All threads are
 * there by then but those of libfuse's loop; if it cannot make its first one, the mount goes at once.
 */
static int run(struct fs *fs)
{
	struct signal_thread signals = { .fs = fs };
	int r;

	hold_signals();
	r = open_index(fs);
	if (r < 0)
		return r;
	r = start_threads(fs);
	if (r == 0)
		r = signal_thread_start(&signals);
	if (r < 0) {
		(void)cannot(fs, "start a thread", r);
	} else {
		snap_release(fs->s);
		r = serve(fs);
		signal_thread_stop(&signals);
	}
	stop_threads(fs);
	fuse_session_unmount(fs->session);
	return r;
}

int fs_mount(const struct fs_options *o)
{
	struct fs fs = { .ready_fd = -1 };
	int r = fs_init(&fs, o);

	if (r < 0)
		(void)cannot(&fs, "start", r);
	else
		r = mountpoint_check(o);
	if (r == 0)
		r = make_session(&fs);
	if (r == 0 && !o->foreground)
		r = to_background(&fs);
	if (r == 0)
		r = run(&fs);
	if (fs.session)
		fuse_session_destroy(fs.session);
	if (fs.s) {
		close_view(&fs);
		snap_close(fs.s);
	}
	fs_done(&fs);
	return r;
}
