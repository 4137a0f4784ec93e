/* SPDX-License-Identifier: MIT */
/*
 * access - who may see what: the one door that every text passes, on its way to a mount or to a terminal.
 *
 * A rule is a row. It is asked with the directory, the file and whoever wants to read it.
 */
#include "fs/view/internal.h"

struct access_rule {
	const char *name;
	bool (*may)(const struct usage_dir *d, const struct usage_file *f,
	            const struct viewer *who);
};

/* Who may open the index, or use the mount, sees all of it. */
static bool may_all(const struct usage_dir *d, const struct usage_file *f, const struct viewer *who)
{
	(void)d;
	(void)f;
	(void)who;
	return true;
}

static const struct access_rule rules[] = {
	{ "private", may_all },
};

const struct access_rule *access_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (strcmp(rules[i].name, name) == 0)
			return &rules[i];
	return NULL;
}

int access_ask(const struct usage_dir *d, uint8_t file, const struct viewer *who)
{
	const struct access_rule *rule = who->rule ? who->rule : &rules[0];

	return rule->may(d, &usage_files[file & ~USAGE_TWIN], who) ? 0 : -EACCES;
}
