/* SPDX-License-Identifier: MIT */
/*
 * cmd_scan - read trees, store a snapshot of each, say what was found.
 *
 * On a terminal one line shows progress. An interrupt stops the scan and stores nothing.
 */
#include "tools/tool.h"

#include "fs/fs.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct scan_args {
	const char *index;
	struct scan_options options;
	size_t n_exclude;
	enum snap_mode mode;
	bool json, no_store, idle;
	struct progress {
		bool terminal; /* show a line */
		int fd;        /* write blocks of "key value" lines, -1: don't */
	} progress;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

/* -- progress -------------------------------------------------------------------------------- */

static int terminal_width(void)
{
	struct winsize ws;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 20 ? ws.ws_col : 80;
}

/* One block, ended by an empty line, in one write. */
static void write_progress(int fd, const struct scan_progress *p)
{
	char block[5000];
	int n = snprintf(block, sizeof(block),
	                 "entries %" PRIu64 "\ndirs %" PRIu64 "\nbytes %" PRIu64
	                 "\nwall_ns %" PRIu64 "\npath %s\n\n",
	                 p->stats.entries, p->stats.dirs, p->stats.bytes, p->stats.wall_ns,
	                 p->path);

	if (n > 0 && write(fd, block, MIN((size_t)n, sizeof(block))) < 0)
		interrupted = SIGPIPE; /* nobody is waiting for the result any more */
}

static bool show_progress(void *ctx, const struct scan_progress *p)
{
	const struct progress *to = ctx;
	char size[16], line[160];
	double seconds = (double)p->stats.wall_ns / 1e9;
	int n, room;

	if (to->fd >= 0)
		write_progress(to->fd, p);
	if (!to->terminal)
		return interrupted;
	n = snprintf(line, sizeof(line),
	             "%" PRIu64 " entries, %" PRIu64 " directories, %s, %.0f/s ", p->stats.entries,
	             p->stats.dirs, tool_human(p->stats.bytes, size),
	             seconds > 0 ? (double)p->stats.entries / seconds : 0);
	room = terminal_width() - n - 1;
	(void)fprintf(stderr, "\r%s", line);
	if (room > 8) {
		int len = (int)strlen(p->path);
		const char *path = len > room ? p->path + (len - room) : p->path;

		for (const char *c = path; *c; c++) /* a name must not steer the terminal */
			(void)fputc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, stderr);
	}
	(void)fputs("\033[K", stderr);
	return interrupted;
}

static void end_progress(bool terminal)
{
	if (terminal)
		(void)fputs("\r\033[K", stderr);
}

/* -- results --------------------------------------------------------------------------------- */

static void json_field(void *ctx, const char *key, const char *value, bool text)
{
	bool *first = ctx, lossy = false;

	(void)printf("%s\"%s\":", *first ? "{" : ",", key);
	*first = false;
	if (text)
		tool_json_string(stdout, value, &lossy);
	else
		(void)fputs(value, stdout);
	if (!lossy)
		return;
	(void)printf(",\"%s_hex\":\"", key);
	for (; *value; value++)
		(void)printf("%02x", (unsigned char)*value);
	(void)fputs("\"", stdout);
}

static void print_problems(const struct scan_totals *t)
{
	if (!(t->errors | t->vanished | t->changed | t->skipped))
		return;
	(void)printf("  %" PRIu64 " unreadable, %" PRIu64 " vanished, %" PRIu64 " changed, %" PRIu64
	             " skipped\n",
	             t->errors, t->vanished, t->changed, t->skipped);
}

static void print_summary(const struct snap_info *i)
{
	const struct snap_details *d = i->details;
	const struct scan_totals *t = &i->totals;
	char bytes[16], apparent[16], index[16];

	tool_put_escaped(stdout, i->root);
	(void)printf(": %s on disk%s, %s apparent\n", tool_human(t->bytes, bytes),
	             i->mode == SNAP_QUICK ? " approximately"
	             : i->complete         ? ""
	                                   : " at least",
	             tool_human(t->apparent, apparent));
	(void)printf("  %" PRIu64 " entries: %" PRIu64 " files, %" PRIu64 " directories\n",
	             t->entries, t->files, t->dirs);
	print_problems(t);
	(void)printf("  %.2f s with %" PRIu64 " readers, %" PRIu64
	             " system calls, %.1f MB memory\n",
	             (double)d->stats.wall_ns / 1e9, d->stats.readers,
	             d->stats.openat + d->stats.statx + d->stats.getdents64,
	             (double)d->stats.peak_rss_kb / 1024);
	(void)printf("  storage %s: %s\n  %s\n", d->stats.storage, d->stats.storage_evidence,
	             d->stats.readers_log);
	if (i->id)
		(void)printf("  snapshot %" PRId64 ": %" PRIu64
		             " directories were new to the index, which takes %s\n",
		             i->id, d->nodes_written, tool_human(d->index_bytes, index));
}

static int report(const struct scan_args *a, const struct snap_info *i)
{
	bool first = true;

	if (a->json) {
		snap_info_fields(i, json_field, &first);
		(void)puts("}");
	} else {
		print_summary(i);
	}
	if (fflush(stdout) != 0)
		return tool_fail(EXIT_FAILED, "write to standard output", NULL, strerror(errno));
	return i->complete ? EXIT_DONE : EXIT_INCOMPLETE;
}

/* -- one root -------------------------------------------------------------------------------- */

static int scan_failed(const char *path, int error)
{
	if (error == -ECANCELED)
		return tool_fail(EXIT_FAILED, "scan", path, "interrupted; nothing was stored");
	return tool_fail(EXIT_FAILED, "scan", path, strerror(-error));
}

static int store_failed(const struct snap *s, int error)
{
	return tool_fail(EXIT_FAILED, "nothing was stored; index", snap_path(s),
	                 snap_strerror(error));
}

/* Wait while another scan writes to the index: two timers may meet. */
static int begin(struct snap *s, const char *root, enum snap_mode mode, struct snap_writer **ret)
{
	bool said = false;
	int r;

	while ((r = snap_write_begin(s, root, mode, ret)) == -EBUSY && !interrupted)
		tool_wait(&said, "waiting: another scan is writing to the index", snap_path(s));
	return r;
}

static int scan_only(const struct scan_args *a, const char *path)
{
	struct snap_details details = { 0 };
	struct snap_info info = { .details = &details };
	struct scan_report rep;
	int r = scan_run(path, &a->options, NULL, &rep), status;

	end_progress(a->progress.terminal);
	if (r < 0)
		return scan_failed(path, r);
	info.root = rep.root;
	info.time = rep.start;
	info.totals = rep.totals;
	details.stats = rep.stats;
	info.complete = rep.totals.errors == 0;
	status = report(a, &info);
	scan_report_done(&rep);
	return status;
}

static int add_word(struct text *words, const char *option, const char *value)
{
	text_puts(words, option);
	text_puts(words, value);
	text_add(words, "", 1);
	return words->failed ? -ENOMEM : 0;
}

/* What a later scan needs to come to comparable numbers. */
static int remember_options(const struct scan_args *a, struct snap_writer *w)
{
	struct text words = { 0 };
	int r = 0;

	for (char **glob = a->options.exclude; r == 0 && *glob; glob++)
		r = add_word(&words, "--exclude=", *glob);
	if (r == 0 && a->options.exclude_caches)
		r = add_word(&words, "--exclude-caches", "");
	if (r == 0 && a->options.cross_mounts)
		r = add_word(&words, "--cross-mounts", "");
	if (r == 0)
		r = snap_write_options(w, words.p, words.len);
	text_done(&words);
	return r;
}

static int scan_and_store(const struct scan_args *a, struct snap *s, const char *path,
                          const char *root)
{
	struct snap_writer *w;
	struct snap_info info;
	struct scan_report rep;
	int status, r = begin(s, root, a->mode, &w);

	if (r < 0)
		return store_failed(s, r);
	r = remember_options(a, w);
	if (r == 0)
		r = scan_run(root, &a->options, snap_write_sink(w), &rep);
	end_progress(a->progress.terminal);
	if (r < 0) {
		int stored = snap_write_error(w);

		snap_write_abort(w);
		return stored < 0 ? store_failed(s, stored) : scan_failed(path, r);
	}
	r = snap_write_commit(w, &rep, &info);
	scan_report_done(&rep);
	if (r < 0)
		return store_failed(s, r);
	status = report(a, &info);
	snap_info_done(&info);
	return status;
}

/* A root must exist and be a directory before an index is created for it. */
static int check_root(const char *path, char **ret)
{
	int fd, r = scan_root_path(path, ret);

	if (r < 0)
		return r;
	fd = open(*ret, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : 0;
	base_close(fd);
	return r;
}

static int scan_roots(const struct scan_args *a, char **paths)
{
	AUTO(snap_close) struct snap *s = NULL;
	int worst = EXIT_DONE;

	for (; *paths && !interrupted; paths++) {
		AUTO(base_free) char *root = NULL;
		int status, r = check_root(*paths, &root);

		if (r < 0)
			status = scan_failed(*paths, r);
		else if (a->no_store)
			status = scan_only(a, root);
		else if (!s && tool_open_index(a->index, SNAP_WRITE, &s) < 0)
			return EXIT_FAILED;
		else
			status = scan_and_store(a, s, *paths, root);
		worst = MAX(worst, status);
	}
	if (*paths)
		worst = scan_failed(*paths, -ECANCELED);
	return worst;
}

/* -- arguments ------------------------------------------------------------------------------- */

enum {
	O_INDEX = 256,
	O_THREADS,
	O_COLD,
	O_QUICK,
	O_ORDER,
	O_IDLE,
	O_PROGRESS,
	O_EXCLUDE,
	O_CACHES,
	O_CROSS,
	O_JSON,
	O_NO_STORE
};

static const struct option long_options[] = {
	{ "index", required_argument, NULL, O_INDEX },
	{ "threads", required_argument, NULL, O_THREADS },
	{ "cold", no_argument, NULL, O_COLD },
	{ "order", required_argument, NULL, O_ORDER },
	{ "quick", no_argument, NULL, O_QUICK },
	{ "idle", no_argument, NULL, O_IDLE },
	{ "progress-fd", required_argument, NULL, O_PROGRESS },
	{ "exclude", required_argument, NULL, O_EXCLUDE },
	{ "exclude-caches", no_argument, NULL, O_CACHES },
	{ "cross-mounts", no_argument, NULL, O_CROSS },
	{ "json", no_argument, NULL, O_JSON },
	{ "no-store", no_argument, NULL, O_NO_STORE },
	{ NULL, 0, NULL, 0 },
};

static int parse_threads(const char *arg, unsigned *ret)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || n == 0 || n > SCAN_THREADS_MAX)
		return tool_fail(-1, "--threads takes a number from 1 to 256, not", arg, NULL);
	*ret = (unsigned)n;
	return 0;
}

static int parse_fd(const char *arg, int *ret)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || n > INT32_MAX || fcntl((int)n, F_GETFD) < 0)
		return tool_fail(-1, "--progress-fd takes an open descriptor, not", arg, NULL);
	*ret = (int)n;
	return 0;
}

static int parse_order(const char *arg, enum scan_order *ret)
{
	if (strcmp(arg, "inode") == 0)
		*ret = SCAN_ORDER_INODE;
	else if (strcmp(arg, "directory") == 0)
		*ret = SCAN_ORDER_DIRECTORY;
	else if (strcmp(arg, "auto") != 0)
		return tool_fail(-1, "--order takes auto, inode or directory, not", arg, NULL);
	return 0;
}

static int parse_exclude(struct scan_args *a, char *arg)
{
	if (strchr(arg, '/') || !*arg)
		return tool_fail(-1, "--exclude takes a pattern for names, without a slash, not",
		                 arg, NULL);
	a->options.exclude[a->n_exclude++] = arg;
	return 0;
}

static int parse_option(struct scan_args *a, int option)
{
	switch (option) {
	case O_INDEX:
		a->index = optarg;
		return 0;
	case O_THREADS:
		return parse_threads(optarg, &a->options.threads);
	case O_COLD:
		a->mode = SNAP_COLD;
		return 0;
	case O_ORDER:
		return parse_order(optarg, &a->options.order);
	case O_QUICK:
		a->mode = SNAP_QUICK;
		return 0;
	case O_IDLE:
		a->idle = true;
		return 0;
	case O_PROGRESS:
		return parse_fd(optarg, &a->progress.fd);
	case O_EXCLUDE:
		return parse_exclude(a, optarg);
	case O_CACHES:
		a->options.exclude_caches = true;
		return 0;
	case O_CROSS:
		a->options.cross_mounts = true;
		return 0;
	case O_JSON:
		a->json = true;
		return 0;
	case O_NO_STORE:
		a->no_store = true;
		return 0;
	default:
		return -1;
	}
}

/* The lowest CPU priority, and disk time only when nobody else wants it (ioprio_set(2): idle is class 3). */
static void be_idle(void)
{
	(void)setpriority(PRIO_PROCESS, 0, 19);
	(void)syscall(SYS_ioprio_set, 1, 0, 3 << 13);
}

static void catch_signals(void)
{
	/* Once is a request; the second time ends a scan that hangs on a dead file system. */
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	(void)sigemptyset(&sa.sa_mask);
	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGHUP, &sa, NULL);
}

static int run(int argc, char **argv)
{
	AUTO(base_free) char **exclude = calloc((size_t)argc + 1, sizeof(*exclude));
	struct scan_args a = { .mode = SNAP_WARM,
		               .progress = { .terminal = isatty(STDERR_FILENO), .fd = -1 } };
	int option;

	if (!exclude)
		return tool_fail(EXIT_FAILED, "scan", NULL, strerror(ENOMEM));
	a.options = (struct scan_options){ .exclude = exclude,
		                           .progress = show_progress,
		                           .progress_ctx = &a.progress };
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		if (parse_option(&a, option) < 0)
			return tool_usage(&cmd_scan);
	if (optind == argc)
		return tool_usage(&cmd_scan);
	catch_signals();
	if (a.idle)
		be_idle();
	return scan_roots(&a, argv + optind);
}

const struct command cmd_scan = {
	.name = "scan",
	.args = "[--index FILE] [--threads N] [--order ORDER] [--cold | --quick]\n"
		"                        [--exclude GLOB]... [--exclude-caches] [--cross-mounts] [--idle]\n"
		"                        [--json] [--no-store] PATH...",
	.help = "read trees and store a snapshot of each",
	.options =
		"  --index FILE      the index (default: $DISKTRACKER_INDEX, or the user's own)\n"
		"  --threads N       readers, 1 to 256 (default: chosen by the storage, and changed while scanning)\n"
		"  --order ORDER     inode, directory, or auto: by inode on rotational disks\n"
		"  --cold            do not compare with the previous snapshot\n"
		"  --quick           read only directories whose time of modification changed; what grew in\n"
		"                    place is missed, so the snapshot is marked approximate\n"
		"  --exclude GLOB    leave out entries with such a name; may be repeated\n"
		"  --exclude-caches  leave out the contents of directories with a CACHEDIR.TAG\n"
		"  --cross-mounts    also read other file systems mounted below PATH\n"
		"  --idle            at the lowest CPU and I/O priority\n"
		"  --progress-fd FD  write blocks of \"key value\" lines to FD while scanning\n"
		"  --json            one JSON object per PATH on standard output\n"
		"  --no-store        only count\n",
	.run = run,
};
