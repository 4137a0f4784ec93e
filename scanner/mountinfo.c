/* SPDX-License-Identifier: MIT */
/*
 * mountinfo - reads the whole list once, cuts it into strings in place, and searches it.
 */
#include "scanner/mountinfo.h"

#include <fcntl.h>

void mountinfo_unescape(char *text)
{
	char *out = text;

	for (; *text; out++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
		    text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
			*out = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
			              (text[3] - '0'));
			text += 4;
		} else {
			*out = *text++;
		}
	}
	*out = '\0';
}

/* A whole file of any length, NUL-terminated. 0 or -errno. */
static int read_whole(const char *path, char **ret)
{
	AUTO(base_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO(base_free) char *text = NULL;
	size_t len = 0, cap = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	do {
		if (base_reserve((void *)&text, &cap, len + 4096, 1) < 0)
			return -ENOMEM;
		n = read(fd, text + len, cap - len - 1);
		if (n < 0)
			return -errno;
		len += (size_t)n;
	} while (n > 0);
	text[len] = '\0';
	*ret = TAKE(text);
	return 0;
}

/* 36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue */
static bool mount_parse(char *line, struct mount *ret)
{
	char *field[6];
	const char *word;

	for (size_t i = 0; i < ARRAY_SIZE(field); i++)
		field[i] = strsep(&line, " ");
	while ((word = strsep(&line, " ")) && strcmp(word, "-") != 0)
		;
	ret->type = strsep(&line, " ");
	ret->source = strsep(&line, " ");
	ret->options = strsep(&line, " ");
	if (!ret->options)
		return false;
	ret->id = strtoull(field[0], NULL, 10);
	ret->major = (unsigned)strtoul(field[2], &field[2], 10);
	ret->minor = *field[2] == ':' ? (unsigned)strtoul(field[2] + 1, NULL, 10) : 0;
	ret->point = field[4];
	mountinfo_unescape(ret->point);
	mountinfo_unescape(ret->type);
	mountinfo_unescape(ret->source);
	return true;
}

int mountinfo_load(const char *path, struct mountinfo *ret)
{
	char *rest, *line;
	int r = read_whole(path, &ret->text);

	if (r < 0)
		return r;
	rest = ret->text;
	while ((line = strsep(&rest, "\n"))) {
		r = base_reserve((void *)&ret->mount, &ret->cap, ret->n + 1, sizeof(*ret->mount));
		if (r < 0)
			return r;
		if (mount_parse(line, &ret->mount[ret->n]))
			ret->n++;
	}
	return 0;
}

void mountinfo_done(struct mountinfo *mi)
{
	free(mi->mount);
	free(mi->text);
	*mi = (struct mountinfo){ 0 };
}

bool mountinfo_is_below(const char *path, const char *point)
{
	size_t len = strcmp(point, "/") == 0 ? 0 : strlen(point);

	return strncmp(path, point, len) == 0 && (path[len] == '/' || !path[len]);
}

/* The mount that holds a path: the longest mount point, of equal ones the last, which hides the others. */
const struct mount *mountinfo_of_path(const struct mountinfo *mi, const char *path)
{
	const struct mount *best = NULL;

	for (size_t i = 0; i < mi->n; i++) {
		const struct mount *m = &mi->mount[i];

		if (mountinfo_is_below(path, m->point) &&
		    (!best || strlen(m->point) >= strlen(best->point)))
			best = m;
	}
	return best;
}

const struct mount *mountinfo_of_device(const struct mountinfo *mi, uint64_t id, unsigned major,
                                        unsigned minor)
{
	for (size_t i = 0; i < mi->n && id; i++)
		if (mi->mount[i].id == id)
			return &mi->mount[i];
	for (size_t i = 0; i < mi->n; i++)
		if (mi->mount[i].major == major && mi->mount[i].minor == minor)
			return &mi->mount[i];
	return NULL;
}
