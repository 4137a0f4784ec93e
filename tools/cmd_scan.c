/* SPDX-License-Identifier: MIT */
/*
 * cmd_scan - read trees, store a snapshot of each, say what was found.
 *
 * On a terminal one line shows progress. An interrupt stops the scan and stores nothing.
 */
#include "tools/tool.h"

#include "fs/fs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct scan_args {
	const char *index;
	struct scan_options options;
	size_t n_exclude;
	struct text
		kept; /* the options that a later scan needs for comparable numbers: words, NUL after each */
	int mode; /* enum snap_mode */
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
	struct text block = { 0 };

	text_printf(&block,
	            "entries %" PRIu64 "\ndirs %" PRIu64 "\nbytes %" PRIu64 "\nwall_ns %" PRIu64
	            "\npath %s\n\n",
	            p->stats.entries, p->stats.dirs, p->stats.bytes, p->stats.wall_ns, p->path);
	if (!block.failed && write(fd, block.p, block.len) < 0)
		interrupted = SIGPIPE; /* nobody is waiting for the result any more */
	text_done(&block);
}

/* The end of the path, as far as there is room; a name must not steer the terminal. */
static void put_path_end(struct text *line, const char *path, size_t room)
{
	struct text escaped = { 0 };
	size_t from;

	text_escaped_spaces(&escaped, path, strlen(path));
	from = escaped.len > room ? escaped.len - room : 0;
	while (from < escaped.len && (escaped.p[from] & 0xc0) == 0x80) /* within a character */
		from++;
	if (escaped.p)
		text_add(line, escaped.p + from, escaped.len - from);
	text_done(&escaped);
}

static void show_line(const struct scan_progress *p)
{
	double seconds = (double)p->stats.wall_ns / 1e9;
	size_t width = (size_t)terminal_width();
	struct text line = { 0 };
	char size[16];

	text_printf(&line, "\r%" PRIu64 " entries, %" PRIu64 " directories, %s, %.0f/s ",
	            p->stats.entries, p->stats.dirs, tool_human(p->stats.bytes, size),
	            seconds > 0 ? (double)p->stats.entries / seconds : 0);
	if (line.len + 8 < width)
		put_path_end(&line, p->path, width - line.len);
	text_puts(&line, "\033[K");
	if (!line.failed)
		(void)fwrite(line.p, 1, line.len, stderr);
	text_done(&line);
}

static bool show_progress(void *ctx, const struct scan_progress *p)
{
	const struct progress *to = ctx;

	if (to->fd >= 0)
		write_progress(to->fd, p);
	if (to->terminal)
		show_line(p);
	return interrupted;
}

static void end_progress(bool terminal)
{
	if (terminal)
		(void)fputs("\r\033[K", stderr);
}

/* -- results --------------------------------------------------------------------------------- */

static void put_json_field(void *ctx, const char *key, const char *value, bool text)
{
	struct text *out = ctx;

	text_puts(out, out->len ? "," : "{");
	if (text)
		text_json_field(out, key, value, strlen(value));
	else
		text_printf(out, "\"%s\":%s", key, value);
}

static void put_problems(struct text *out, const struct scan_totals *t)
{
	if (!(t->errors | t->vanished | t->changed | t->skipped))
		return;
	text_printf(out,
	            "  %" PRIu64 " unreadable, %" PRIu64 " vanished, %" PRIu64 " changed, %" PRIu64
	            " skipped\n",
	            t->errors, t->vanished, t->changed, t->skipped);
}

static void put_summary(struct text *out, const struct snap_info *i)
{
	const struct snap_details *d = i->details;
	const struct scan_totals *t = &i->totals;
	char bytes[16], apparent[16], index[16];

	text_escaped(out, i->root, strlen(i->root));
	text_printf(out, ": %s on disk%s, %s apparent\n", tool_human(t->bytes, bytes),
	            i->mode == SNAP_QUICK ? " approximately"
	            : i->complete         ? ""
	                                  : " at least",
	            tool_human(t->apparent, apparent));
	text_printf(out, "  %" PRIu64 " entries: %" PRIu64 " files, %" PRIu64 " directories\n",
	            t->entries, t->files, t->dirs);
	put_problems(out, t);
	text_printf(out,
	            "  %.2f s with %" PRIu64 " readers, %" PRIu64 " system calls, %.1f MB memory\n",
	            (double)d->stats.wall_ns / 1e9, d->stats.readers,
	            d->stats.openat + d->stats.statx + d->stats.getdents64,
	            (double)d->stats.peak_rss_kb / 1024);
	text_printf(out, "  storage %s: ", d->stats.storage);
	text_escaped_spaces(out, d->stats.storage_evidence, strlen(d->stats.storage_evidence));
	text_puts(out, "\n");
	if (d->stats.readers_changes > 1)
		text_printf(out,
		            "  the number of readers was decided %" PRIu64
		            " times; readers_log of --json says why\n",
		            d->stats.readers_changes);
	if (i->id)
		text_printf(out,
		            "  snapshot %" PRId64 ": %" PRIu64
		            " directories were new to the index, which takes %s\n",
		            i->id, d->nodes_written, tool_human(d->index_bytes, index));
}

static int report(const struct scan_args *a, const struct snap_info *i)
{
	struct text out = { 0 };

	if (a->json) {
		snap_info_fields(i, put_json_field, &out);
		text_puts(&out, "}\n");
	} else {
		put_summary(&out, i);
	}
	return tool_print(i->complete ? EXIT_DONE : EXIT_INCOMPLETE, &out);
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

static int scan_and_store(const struct scan_args *a, struct snap *s, const char *path,
                          const char *root)
{
	struct snap_writer *w;
	struct snap_info info;
	struct scan_report rep;
	struct scan_options o = a->options;
	int status, r = begin(s, root, a->mode, &w);

	if (r < 0)
		return store_failed(s, r);
	r = snap_write_options(w, a->kept.p, a->kept.len);
	o.mark = snap_write_mark(w);
	if (r == 0)
		r = scan_run(root, &o, snap_write_sink(w), &rep);
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

static int set_threads(const struct tool_option *o, void *field, char *value)
{
	uint64_t n;

	if (!tool_number(value, SCAN_THREADS_MAX, &n) || n == 0)
		return tool_takes(o, "a number from 1 to 256", value);
	*(unsigned *)field = (unsigned)n;
	return 0;
}

static int set_fd(const struct tool_option *o, void *field, char *value)
{
	uint64_t n;

	if (!tool_number(value, INT32_MAX, &n) || fcntl((int)n, F_GETFD) < 0)
		return tool_takes(o, "an open descriptor", value);
	*(int *)field = (int)n;
	return 0;
}

static int set_order(const struct tool_option *o, void *field, char *value)
{
	enum scan_order *order = field;

	if (strcmp(value, "auto") == 0)
		*order = SCAN_ORDER_AUTO;
	else if (strcmp(value, "inode") == 0)
		*order = SCAN_ORDER_INODE;
	else if (strcmp(value, "directory") == 0)
		*order = SCAN_ORDER_DIRECTORY;
	else
		return tool_takes(o, "auto, inode or directory", value);
	return 0;
}

static int keep(struct scan_args *a, const struct tool_option *o, const char *value)
{
	text_printf(&a->kept, "%s%s%s", o->name, value ? "=" : "", value ? value : "");
	text_add(&a->kept, "", 1);
	return a->kept.failed ? tool_fail(-1, "scan", NULL, strerror(ENOMEM)) : 0;
}

static int set_exclude(const struct tool_option *o, void *field, char *value)
{
	struct scan_args *a = field;

	if (strchr(value, '/') || !*value)
		return tool_takes(o, "a pattern for names, without a slash", value);
	a->options.exclude[a->n_exclude++] = value;
	return keep(a, o, value);
}

static int set_caches(const struct tool_option *o, void *field, char *value)
{
	struct scan_args *a = field;

	a->options.exclude_caches = true;
	return keep(a, o, value);
}

static int set_cross(const struct tool_option *o, void *field, char *value)
{
	struct scan_args *a = field;

	a->options.cross_mounts = true;
	return keep(a, o, value);
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
	int status;

	if (!exclude)
		return tool_fail(EXIT_FAILED, "scan", NULL, strerror(ENOMEM));
	a.options = (struct scan_options){ .exclude = exclude,
		                           .progress = show_progress,
		                           .progress_ctx = &a.progress };
	status = tool_parse(&cmd_scan, argc, argv, &a);
	if (status == TOOL_RUN) {
		catch_signals();
		if (a.idle)
			be_idle();
		status = scan_roots(&a, argv + 1);
	}
	text_done(&a.kept);
	return status;
}

#define FIELD(member) offsetof(struct scan_args, member)

static const struct tool_option options[] = {
	TOOL_INDEX(offsetof(struct scan_args, index)),
	{ "--threads", "N",
	  "readers, 1 to 256 (default: chosen by the storage, and changed while scanning)",
	  set_threads, .at = FIELD(options.threads) },
	{ "--order", "auto|inode|directory",
	  "the order of reading; auto is by inode on rotational disks", set_order,
	  .at = FIELD(options.order) },
	{ "--cold", NULL, "do not compare with the previous snapshot", tool_set_value,
	  .at = FIELD(mode), .value = SNAP_COLD },
	{ "--quick", NULL,
	  "read only directories whose time of modification changed; what grew in\n"
	  "place is missed, so the snapshot is marked approximate",
	  tool_set_value, .at = FIELD(mode), .value = SNAP_QUICK },
	{ "--exclude", "GLOB", "leave out entries with such a name; may be repeated",
	  .set = set_exclude },
	{ "--exclude-caches", NULL, "leave out the contents of directories with a CACHEDIR.TAG",
	  .set = set_caches },
	{ "--cross-mounts", NULL, "also read other file systems mounted below PATH",
	  .set = set_cross },
	{ "--idle", NULL, "at the lowest CPU and I/O priority", tool_set_flag, .at = FIELD(idle) },
	{ "--progress-fd", "FD", "write blocks of \"key value\" lines to FD while scanning", set_fd,
	  .at = FIELD(progress.fd) },
	{ "--json", NULL, "one JSON object per PATH on standard output", tool_set_flag,
	  .at = FIELD(json) },
	{ "--no-store", NULL, "only count", tool_set_flag, .at = FIELD(no_store) },
	{ 0 },
};

const struct command cmd_scan = {
	.name = "scan",
	.args = "PATH...",
	.help = "read trees and store a snapshot of each",
	.options = options,
	.run = run,
};
