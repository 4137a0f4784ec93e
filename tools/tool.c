/* SPDX-License-Identifier: MIT */
/* tool - messages and output shared by the commands. */
#include "tools/tool.h"

#include "fs/fs.h"

#include <inttypes.h>

int tool_fail(int status, const char *what, const char *path, const char *reason)
{
	(void)fprintf(stderr, "disktracker: %s", what);
	if (path) {
		(void)fputs(" '", stderr);
		tool_put_escaped(stderr, path);
		(void)fputc('\'', stderr);
	}
	if (reason)
		(void)fprintf(stderr, ": %s", reason);
	(void)fputc('\n', stderr);
	return status;
}

int tool_usage(const struct command *c)
{
	(void)fprintf(stderr, "usage: disktracker %s %s\nTry 'disktracker help %s'.\n", c->name,
	              c->args, c->name);
	return EXIT_USAGE;
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

int tool_open_index(const char *named, unsigned flags, struct snap **ret)
{
	AUTO(base_free) char *path = NULL;
	int r = 0;

	if (named)
		path = strdup(named);
	else
		r = snap_default_path(&path);
	if (r < 0 || !path)
		return tool_fail(-1, "no place for an index: set HOME or name one with --index",
		                 NULL, NULL);
	r = open_when_free(path, flags, ret);
	if (r == -ENOENT && !(flags & SNAP_WRITE))
		return tool_fail(-1, "index", path,
		                 "does not exist; 'disktracker scan PATH' makes one");
	if (r < 0)
		return tool_fail(-1, "index", path, snap_strerror(r));
	return 0;
}

int tool_number(const char *option, const char *arg, uint64_t *ret)
{
	char *end;
	unsigned long long n = strtoull(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || n == 0 || n > INT32_MAX) {
		(void)fprintf(stderr, "disktracker: %s takes a positive number, not '", option);
		tool_put_escaped(stderr, arg);
		(void)fputs("'\n", stderr);
		return -1;
	}
	*ret = n;
	return 0;
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

void tool_json_string(FILE *out, const char *s, bool *lossy)
{
	struct text t = { 0 };

	text_json_string(&t, s, strlen(s), lossy);
	if (t.p)
		(void)fwrite(t.p, 1, t.len, out);
	text_done(&t);
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

void tool_put_escaped(FILE *out, const char *s)
{
	struct text t = { 0 };

	text_escaped(&t, s, strlen(s));
	if (t.p)
		(void)fwrite(t.p, 1, t.len, out);
	text_done(&t);
}
