/* SPDX-License-Identifier: MIT */
/* select - which snapshot a word means: an id, a time, an age, prev, latest. */
#include "snapshot/internal.h"

#include <ctype.h>

static bool is_of(const struct snap_info *i, const char *root)
{
	return !root || strcmp(i->root, root) == 0;
}

int snap_parse_age(const char *text, int64_t *ret)
{
	static const struct {
		char unit;
		int64_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 604800 } };
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	n = strtoull(text, &end, 10);
	for (size_t i = 0; *end && i < ARRAY_SIZE(units); i++) {
		if (*end != units[i].unit || end[1] || n > (unsigned long long)(INT32_MAX))
			continue;
		*ret = (int64_t)n * units[i].seconds;
		return 0;
	}
	return -EINVAL;
}

int snap_parse_time(const char *text, int64_t *ret)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S",
		                             "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M", "%Y-%m-%d" };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tm tm = { 0 };
		const char *end = strptime(text, forms[i], &tm);

		if (!end || *end)
			continue;
		*ret = (int64_t)timegm(&tm);
		return 0;
	}
	return -EINVAL;
}

int snap_select_before(const struct snap_list *l, const char *root, int64_t time, int64_t before,
                       size_t *ret)
{
	for (size_t i = snap_list_before(l, before); i-- > 0;) {
		if (!is_of(l->info[i], root) || l->info[i]->time > time)
			continue;
		*ret = i;
		return 0;
	}
	return -ENOENT;
}

const struct snap_info *snap_select_window(const struct snap_list *l, const struct snap_info *newer,
                                           int64_t seconds)
{
	const struct snap_info *oldest = newer;

	for (size_t i = snap_list_before(l, newer->id); i-- > 0;) {
		if (!is_of(l->info[i], newer->root))
			continue;
		oldest = l->info[i];
		if (oldest->time <= newer->time - seconds)
			break;
	}
	return oldest;
}

static int select_id(const struct snap_list *l, const char *root, const char *spec, size_t *ret)
{
	char *end;
	long long id = strtoll(spec, &end, 10);
	size_t i = snap_list_before(l, id);

	if (*end)
		return -EINVAL;
	if (i == l->n || l->info[i]->id != id || !is_of(l->info[i], root))
		return -ENOENT;
	*ret = i;
	return 0;
}

int snap_select(const struct snap_list *l, const char *root, const char *spec, int64_t now,
                size_t *ret)
{
	int64_t t;
	size_t latest;
	int r;

	if (isdigit((unsigned char)spec[0]) && spec[strspn(spec, "0123456789")] == '\0')
		return select_id(l, root, spec, ret);
	if (strcmp(spec, "latest") == 0)
		return snap_select_before(l, root, INT64_MAX, INT64_MAX, ret);
	if (strcmp(spec, "prev") == 0) {
		r = snap_select_before(l, root, INT64_MAX, INT64_MAX, &latest);
		return r < 0 ? r
		             : snap_select_before(l, l->info[latest]->root, INT64_MAX,
		                                  l->info[latest]->id, ret);
	}
	if (snap_parse_age(spec, &t) == 0)
		return snap_select_before(l, root, now - t, INT64_MAX, ret);
	if (snap_parse_time(spec, &t) < 0)
		return -EINVAL;
	/* A day without a time means its end. */
	if (!strchr(spec, 'T'))
		t += 86399;
	return snap_select_before(l, root, t, INT64_MAX, ret);
}
