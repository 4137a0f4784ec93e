/* SPDX-License-Identifier: MIT */
/* options - reads the command line by the rows of a command, and prints them as its help. */
#include "tools/tool.h"

#include <ctype.h>
#include <stdio.h>

/* -- sentences ------------------------------------------------------------------------------- */

/* How many letters must be put in, left out or replaced to make b of a. Names are short: beyond that, "far". */
static size_t distance(const char *a, const char *b)
{
	size_t row[32], len = strlen(b), left, above;

	if (len >= ARRAY_SIZE(row))
		return SIZE_MAX;
	for (size_t i = 0; i <= len; i++)
		row[i] = i;
	for (size_t y = 1; *a; a++, y++) {
		left = row[0]; /* diagonal of the first column */
		row[0] = y;
		for (size_t x = 1; x <= len; x++) {
			above = row[x];
			row[x] = MIN(left + (*a != b[x - 1]), MIN(above, row[x - 1]) + 1);
			left = above;
		}
	}
	return row[len];
}

struct nearest {
	const char *name;
	size_t distance;
};

static void try_nearest(struct nearest *n, const char *word, const char *name)
{
	size_t len = strlen(word), d = strncmp(word, name, len) == 0 ? 1 : distance(word, name);

	if (d > 2 || d * 2 > len || (n->name && n->distance <= d))
		return;
	n->name = name;
	n->distance = d;
}

/* "disktracker: scan: what 'word': did you mean 'nearest'?", or where to look instead */
static int misused(const struct command *c, const char *what, const char *word,
                   const struct nearest *n)
{
	char said[160], hint[80];

	(void)snprintf(said, sizeof(said), "%s: %s", c->name, what);
	(void)snprintf(hint, sizeof(hint),
	               n && n->name ? "did you mean '%s'?" : "see 'disktracker %s --help'",
	               n && n->name ? n->name : c->name);
	return tool_fail(EXIT_USAGE, said, word, hint);
}

int tool_takes(const struct tool_option *o, const char *what, const char *value)
{
	char said[160];

	(void)snprintf(said, sizeof(said), "%s takes %s, not", o->name, what);
	return tool_fail(-1, said, value, NULL);
}

const struct command *tool_find(const char *name)
{
	struct nearest n = { 0 };
	char hint[80];

	for (const struct command *const *c = tool_commands; *c; c++) {
		if (strcmp((*c)->name, name) == 0)
			return *c;
		try_nearest(&n, name, (*c)->name);
	}
	(void)snprintf(hint, sizeof(hint), n.name ? "did you mean '%s'?" : "see '%s'",
	               n.name ? n.name : "disktracker help");
	(void)tool_fail(0, "unknown command", name, hint);
	return NULL;
}

/* -- values ---------------------------------------------------------------------------------- */

int tool_set_flag(const struct tool_option *o, void *field, char *value)
{
	(void)o;
	(void)value;
	*(bool *)field = true;
	return 0;
}

int tool_set_value(const struct tool_option *o, void *field, char *value)
{
	(void)value;
	*(int *)field = o->value;
	return 0;
}

int tool_set_string(const struct tool_option *o, void *field, char *value)
{
	(void)o;
	*(const char **)field = value;
	return 0;
}

bool tool_number(const char *s, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || n > max)
		return false;
	*ret = n;
	return true;
}

int tool_set_number(const struct tool_option *o, void *field, char *value)
{
	uint64_t n;

	if (!tool_number(value, INT32_MAX, &n) || n == 0)
		return tool_takes(o, "a positive number", value);
	*(uint64_t *)field = n;
	return 0;
}

int tool_set_age(const struct tool_option *o, void *field, char *value)
{
	int64_t age;

	if (snap_parse_age(value, &age) < 0 || age == 0)
		return tool_takes(o, "a time such as 10m, 12h, 90d or 8w", value);
	*(int64_t *)field = age;
	return 0;
}

/* -- the command line ------------------------------------------------------------------------ */

struct parser {
	const struct command *c;
	char **next; /* the words not read yet */
	void *args;
};

static const struct tool_option *find(const struct tool_option *o, const char *name, size_t len,
                                      struct nearest *n)
{
	char word[64];

	(void)snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word) - 1), name);
	for (; o && o->name; o++) {
		size_t known = strlen(o->name);

		if (o->name[known - 1] == '*' ? strncmp(name, o->name, known - 1) == 0
		                              : known == len && memcmp(name, o->name, len) == 0)
			return o;
		if (o->help && len > 2)
			try_nearest(n, word, o->name);
	}
	return NULL;
}

static int set(struct parser *p, const struct tool_option *o, char *value)
{
	return o->set(o, (char *)p->args + o->at, value) < 0 ? EXIT_USAGE : TOOL_RUN;
}

/* word,word=value,... */
static int parse_list(struct parser *p, const struct tool_option *words, char *list)
{
	char *save, *word = strtok_r(list, ",", &save);
	int status = TOOL_RUN;

	for (; word && status == TOOL_RUN; word = strtok_r(NULL, ",", &save)) {
		struct nearest n = { 0 };
		char *value = strchr(word, '=');
		const struct tool_option *o =
			find(words, word, value ? (size_t)(value - word) : strlen(word), &n);

		if (!o)
			return misused(p->c, "unknown option", word, &n);
		if (o->name[strlen(o->name) - 1] != '*' && !o->arg != !value)
			return misused(p->c, o->arg ? "no value given for" : "unexpected value for",
			               word, NULL);
		status = set(p, o, value ? value + 1 : NULL);
	}
	return status;
}

/* value is what is joined to the option, NULL if nothing is */
static int parse_value(struct parser *p, const struct tool_option *o, char *value)
{
	if (!o->arg)
		return value ? misused(p->c, "unexpected value for", o->name, NULL)
		             : set(p, o, NULL);
	if (!value && !*p->next)
		return misused(p->c, "no value given for", o->name, NULL);
	if (!value)
		value = *p->next++;
	return o->words ? parse_list(p, o->words, value) : set(p, o, value);
}

static bool is_help(const char *word, size_t len)
{
	return (len == 6 && memcmp(word, "--help", 6) == 0) ||
	       (len == 2 && memcmp(word, "-h", 2) == 0);
}

static int parse_option(struct parser *p, char *word)
{
	bool is_long = word[1] == '-';
	struct nearest n = { 0 };
	int status = TOOL_RUN;

	for (char *c = word + 1; *c && status == TOOL_RUN; c++) { /* -abc is -a -b -c */
		char letter[3] = { '-', *c, '\0' };
		size_t len = is_long ? strcspn(word, "=") : 2;
		const char *name = is_long ? word : letter;
		const struct tool_option *o = find(p->c->options, name, len, &n);
		struct text help = { 0 };

		if (!o && is_help(name, len)) {
			tool_help(&help, p->c);
			return tool_print(EXIT_DONE, &help);
		}
		if (!o)
			return misused(p->c, "unknown option", name, &n);
		if (is_long)
			return parse_value(p, o, word[len] ? word + len + 1 : NULL);
		if (o->arg)
			return parse_value(p, o, c[1] ? c + 1 : NULL);
		status = set(p, o, NULL);
	}
	return status;
}

/* By the command's args: words in brackets may be missing, "..." stands for any number. */
static int count_words(const struct command *c, char **words)
{
	const char *a = c->args;
	char missing[80];

	for (; *a; a += strcspn(a, " "), a += strspn(a, " ")) {
		size_t len = strcspn(a, " .");

		if (!*words && *a == '[')
			return TOOL_RUN;
		if (!*words) {
			(void)snprintf(missing, sizeof(missing), "%.*s is missing", (int)len, a);
			return misused(c, missing, NULL, NULL);
		}
		words++;
		if (strncmp(a + len, "...", 3) == 0)
			return TOOL_RUN;
	}
	return *words ? misused(c, "unexpected argument", *words, NULL) : TOOL_RUN;
}

int tool_parse(const struct command *c, int argc, char **argv, void *args)
{
	struct parser p = { .c = c, .next = argv + MIN(argc, 1), .args = args };
	char **words = p.next, **end = words;
	bool only_words = false;
	int status = TOOL_RUN;

	while (*p.next && status == TOOL_RUN) {
		char *word = *p.next++;

		if (only_words || word[0] != '-' || !word[1])
			*end++ = word;
		else if (strcmp(word, "--") == 0)
			only_words = true;
		else
			status = parse_option(&p, word);
	}
	*end = NULL;
	return status == TOOL_RUN ? count_words(c, words) : status;
}

/* -- help ------------------------------------------------------------------------------------ */

enum {
	HELP_COLUMN = 20
};

static void help_option(struct text *out, const char *before, const struct tool_option *o)
{
	size_t start = out->len, width;

	text_printf(out, "  %s%s%s%s", before, o->name, o->arg ? *before ? "=" : " " : "",
	            o->arg ? o->arg : "");
	width = out->len - start;
	if (width >= HELP_COLUMN) {
		text_puts(out, "\n");
		width = 0;
	}
	for (const char *line = o->help; *line; width = 0) {
		size_t len = strcspn(line, "\n");

		text_printf(out, "%*s%.*s\n", (int)(HELP_COLUMN - width), "", (int)len, line);
		line += len + (line[len] == '\n');
	}
}

void tool_help(struct text *out, const struct command *c)
{
	text_printf(out, "usage: disktracker %s%s%s%s\n\n%c%s.\n", c->name,
	            c->options ? " [OPTION]..." : "", *c->args ? " " : "", c->args,
	            toupper((unsigned char)*c->help), c->help + 1);
	if (c->options || c->more)
		text_puts(out, "\n");
	for (const struct tool_option *o = c->options; o && o->name; o++) {
		help_option(out, "", o);
		for (const struct tool_option *w = o->words; w && w->name; w++)
			if (w->help)
				help_option(out, "-o ", w);
	}
	if (c->options && c->more)
		text_puts(out, "\n");
	if (c->more)
		text_puts(out, c->more);
}
