/* SPDX-License-Identifier: MIT */
/* tool - messages, output and the index: what the commands share. */
#include "tools/tool.h"

#include <stdio.h>

static int write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int tool_fail(int status, const char *what, const char *path, const char *reason)
{
	struct text t = { 0 };

	text_printf(&t, "disktracker: %s", what);
	if (path) {
		text_puts(&t, " '");
		text_escaped_spaces(&t, path, strlen(path));
		text_puts(&t, "'");
	}
	text_printf(&t, "%s%s\n", reason ? ": " : "", reason ? reason : "");
	if (t.failed) /* say at least what needs no memory */
		(void)dprintf(STDERR_FILENO, "disktracker: %s: %s\n", what,
		              reason ? reason : strerror(ENOMEM));
	else
		(void)write_all(STDERR_FILENO, t.p, t.len);
	text_done(&t);
	return status;
}

int tool_index_failed(const struct snap *s, int error)
{
	return tool_fail(EXIT_FAILED, "index", snap_path(s), snap_strerror(error));
}

int tool_print(int status, struct text *t)
{
	int r = t->failed ? -ENOMEM : write_all(STDOUT_FILENO, t->p, t->len);

	text_done(t);
	if (r == 0 || r == -EPIPE)
		return status;
	return tool_fail(EXIT_UNREPORTED, "the report could not be written", NULL, strerror(-r));
}

void tool_wait(bool *said, const char *why, const char *path)
{
	const struct timespec pause = { 0, 200000000 };

	if (!*said)
		(void)tool_fail(0, why, path, NULL);
	*said = true;
	(void)nanosleep(&pause, NULL);
}

/* An older format can't be converted while somebody writes, or converts it: that ends. */
static int open_when_free(const char *path, unsigned flags, struct snap **ret)
{
	bool said = false;
	int r;

	while ((r = snap_open(path, flags, ret)) == -EBUSY)
		tool_wait(&said, "waiting: another process is writing to the index", path);
	return r;
}

char *tool_index_path(const char *named)
{
	char *path = NULL;

	if (named)
		path = strdup(named);
	else if (snap_default_path(&path) < 0)
		path = NULL;
	if (!path)
		(void)tool_fail(0, "no place for an index: set HOME, or name one with --index",
		                NULL, NULL);
	return path;
}

int tool_open_index(const char *named, unsigned flags, struct snap **ret)
{
	AUTO(base_free) char *path = tool_index_path(named);
	int r = path ? open_when_free(path, flags, ret) : 0;

	if (!path)
		return -1;
	if (r == -ENOENT && !(flags & SNAP_WRITE))
		return tool_fail(-1, "index", path,
		                 "does not exist; 'disktracker scan PATH' makes one");
	return r < 0 ? tool_fail(-1, "index", path, snap_strerror(r)) : 0;
}

char *tool_absolute(const char *path)
{
	char *p = path ? realpath(path, NULL) : NULL;

	if (p || !path)
		return p;
	p = strdup(path);
	for (size_t len = p ? strlen(p) : 0; len > 1 && p[len - 1] == '/'; len--)
		p[len - 1] = '\0';
	return p;
}

const char *tool_human(uint64_t bytes, char buf[16])
{
	text_human(bytes, buf);
	return buf;
}

const char *tool_utc(int64_t t, char buf[32])
{
	text_utc(t, buf);
	return buf;
}
