/* SPDX-License-Identifier: MIT */
/*
 * spawn - starts a process, waits for it with a time limit, and takes what it cost.
 *
 *     clock, fork, exec     in a process group of its own, with closed input
 *     wait                  poll of a pidfd, so that a signal or the time limit ends the wait
 *     clock, wait4          wall and CPU time, peak memory
 *     kill the group        what the process left running must not disturb the next one
 *
 * It is a fork, not a vfork: after a vfork the peak memory of the new program would begin at ours
 * (setmax_mm_hiwater_rss in the kernel's exec). After a fork it begins at what fork copied: the
 * few pages that we have written to.
 */
#include "bench/bench.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	RESULT_FD = 3,
	EXEC_FAILED = 127,
	COMMAND_ARGS = 24,
	TRIES = 500,
	PAUSE_NS = 20000000
};

static void redirect(const char *path, int to)
{
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
	              : open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0 || dup2(fd, to) < 0)
		_exit(EXEC_FAILED);
}

_Noreturn static void become(const struct spawn *s, int result_fd, pid_t parent)
{
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXEC_FAILED); /* it died before the line above */
	(void)signal(SIGPIPE, SIG_DFL);
	redirect(NULL, STDIN_FILENO);
	redirect(s->out, STDOUT_FILENO);
	redirect(s->err, STDERR_FILENO);
	if (result_fd >= 0 && result_fd != RESULT_FD)
		(void)dup2(result_fd, RESULT_FD);
	else if (result_fd >= 0)
		(void)fcntl(result_fd, F_SETFD, 0);
	(void)setenv("LC_ALL", "C", 1);
	if (s->home) {
		(void)setenv("HOME", s->home, 1);
		(void)unsetenv("XDG_CONFIG_HOME");
		(void)unsetenv("XDG_CACHE_HOME");
		(void)unsetenv("DUC_DATABASE");
	}
	execv(s->argv[0], s->argv);
	_exit(EXEC_FAILED);
}

static int fork_and_exec(const struct spawn *s, int result_fd, pid_t *ret)
{
	pid_t parent = getpid();

	*ret = fork();
	if (*ret < 0)
		return -errno;
	if (*ret == 0)
		become(s, result_fd, parent);
	(void)setpgid(*ret, *ret); /* whoever is first; a later kill must hit the group */
	return 0;
}

static bool is_over(const struct spawn *s)
{
	return bench_interrupted && !s->always;
}

/* True at the end of the process, false when time is up or a signal came. */
static bool wait_for_end(pid_t pid, const struct spawn *s)
{
	AUTO(base_close) int fd = pidfd_open(pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)s->timeout_s * 1000000000u;

	/*
	 * Slices, because a signal between the look at the flag and the poll would be missed. They are
	 * longer than most runs and cost nothing.
	 */
	while (!is_over(s) && (s->timeout_s == 0 || clock_ns(CLOCK_MONOTONIC) < end))
		if (poll(&p, 1, 250) > 0)
			return true;
	return false;
}

static double timeval_ms(struct timeval t)
{
	return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

static int wait_and_measure(pid_t pid, uint64_t start, const struct spawn *s, struct spawned *ret)
{
	struct rusage usage;
	bool ended = wait_for_end(pid, s);

	ret->timed_out = !ended && !is_over(s);
	if (!ended)
		(void)kill(-pid, SIGKILL);
	while (wait4(pid, &ret->status, 0, &usage) < 0)
		if (errno != EINTR)
			return -errno;
	ret->sample.wall_ms = (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e6;
	ret->sample.user_ms = timeval_ms(usage.ru_utime);
	ret->sample.sys_ms = timeval_ms(usage.ru_stime);
	ret->sample.rss_kb = (double)usage.ru_maxrss;
	(void)kill(-pid, SIGKILL);
	return is_over(s) ? -EINTR : 0;
}

int bench_spawn(const struct spawn *s, struct spawned *ret)
{
	int fd[2] = { -1, -1 };
	uint64_t start;
	pid_t pid;
	int r;

	*ret = (struct spawned){ 0 };
	if (is_over(s))
		return -EINTR;
	if (s->result) {
		memset(s->result, 0, s->result_bytes);
		if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
			return -errno;
	}
	start = clock_ns(CLOCK_MONOTONIC);
	r = fork_and_exec(s, fd[1], &pid);
	if (r == 0)
		r = wait_and_measure(pid, start, s, ret);
	/* Less than a pipe holds, so the process never waited for us. */
	if (s->result && r == 0 && read(fd[0], s->result, s->result_bytes) < 0 && errno != EAGAIN)
		r = -errno;
	base_close(fd[0]);
	base_close(fd[1]);
	return r;
}

const char *spawned_problem(const struct spawned *p, const struct spawn *s,
                            char buf[static TEXT_BYTES])
{
	if (p->timed_out)
		(void)snprintf(buf, TEXT_BYTES, "ended after %u s", s->timeout_s);
	else if (WIFSIGNALED(p->status))
		(void)snprintf(buf, TEXT_BYTES, "died of signal %d", WTERMSIG(p->status));
	else if (WEXITSTATUS(p->status) != 0)
		(void)snprintf(buf, TEXT_BYTES, "exit status %d", WEXITSTATUS(p->status));
	else
		return NULL;
	return buf;
}

/* argv of a program and what follows until NULL. */
struct command {
	char path[PATH_MAX];
	char *argv[COMMAND_ARGS];
};

static int gather(struct command *c, const char *program, va_list args)
{
	int r = bench_find_own(program, c->path);
	size_t n = 1;

	if (r < 0)
		(void)fprintf(stderr, "bench_tool: there is no program '%s'\n", program);
	c->argv[0] = c->path;
	while (n + 1 < COMMAND_ARGS && (c->argv[n] = va_arg(args, char *)))
		n++;
	c->argv[n] = NULL;
	return r;
}

int bench_command_to(const char *out, const char *program, ...)
{
	struct command c;
	struct spawn s = { .argv = c.argv, .out = out, .timeout_s = 600, .always = true };
	char problem[TEXT_BYTES];
	struct spawned done;
	va_list args;
	int r;

	va_start(args, program);
	r = gather(&c, program, args);
	va_end(args);
	if (r == 0)
		r = bench_spawn(&s, &done);
	if (r < 0 || !spawned_problem(&done, &s, problem))
		return r;
	(void)fprintf(stderr, "bench_tool: %s: %s\n", program, problem);
	return -EIO;
}

/* -- programs that serve a mount ------------------------------------------------------------- */

static bool is_mounted(const char *path)
{
	char parent[PATH_MAX + 4];
	struct stat here, above;

	(void)snprintf(parent, sizeof(parent), "%s/..", path);
	return lstat(path, &here) == 0 && lstat(parent, &above) == 0 && here.st_dev != above.st_dev;
}

int bench_serve(const char *path, pid_t *ret, const char *program, ...)
{
	const struct timespec pause = { 0, PAUSE_NS };
	struct command c;
	const struct spawn s = { .argv = c.argv };
	va_list args;
	int r, status;

	va_start(args, program);
	r = gather(&c, program, args);
	va_end(args);
	if (r == 0 && mkdir(path, 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0)
		r = fork_and_exec(&s, -1, ret);
	for (int i = 0; i < TRIES && r == 0; i++) {
		if (is_mounted(path))
			return 0;
		if (waitpid(*ret, &status, WNOHANG) != 0) {
			*ret = 0;
			return -EIO;
		}
		(void)nanosleep(&pause, NULL);
	}
	return r < 0 ? r : -ETIMEDOUT;
}

void bench_stop(pid_t pid, const char *path)
{
	const struct timespec pause = { 0, PAUSE_NS };
	bool ended = pid <= 0;
	int status;

	if (!ended)
		(void)kill(-pid, SIGTERM);
	for (int i = 0; i < TRIES && !ended; i++) {
		ended = waitpid(pid, &status, WNOHANG) != 0;
		if (!ended)
			(void)nanosleep(&pause, NULL);
	}
	if (!ended) {
		(void)kill(-pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
	}
	if (is_mounted(path))
		(void)bench_command("fusermount3", "-u", "-z", path, NULL);
}
