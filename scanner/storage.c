/* SPDX-License-Identifier: MIT */
/*
 * storage - follows a tree from its mount down to the disks.
 *
 *   1. Find the mount that the tree is on.
 *   2. Visit what was found, first come, first served: a mount or a device either is a leaf, whose kind is
 *      known, or adds what it lies on. Nothing is added twice, so rings end by themselves.
 *   3. The leaf that minds most decides; its way up to the mount is the evidence.
 *
 * Sources: Documentation/ABI/{stable/sysfs-block,testing/sysfs-fs-btrfs} of Linux.
 */
#include "scanner/fstype.h"
#include "scanner/mountinfo.h"
#include "scanner/sysfs.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

/* clang-format off */
static const struct storage_traits kinds[] = {
	[STORAGE_UNKNOWN]    = { "unknown",    0, 8,  false, false, "one per CPU until the disk is waited for" },
	[STORAGE_ROTATIONAL] = { "rotational", 5, 1,  true,  false, "a disk that moves its head" },
	[STORAGE_SOLID]      = { "solid",      2, 8,  false, false, "one per CPU until the disk is waited for" },
	[STORAGE_VIRTUAL]    = { "virtual",    3, 8,  false, false, "one per CPU until the disk is waited for" },
	[STORAGE_NETWORK]    = { "network",    4, 16, false, true,  "each request waits for a server" },
	[STORAGE_MEMORY]     = { "memory",     1, 0,  false, false, "one per CPU until the disk is waited for" },
};
/* clang-format on */

const struct storage_traits *storage_traits(enum storage_kind kind)
{
	return &kinds[kind];
}

enum {
	NODES_MAX = 256,
	NOWHERE = NODES_MAX
};

/* Something that the tree lies on: a mount or a device. */
struct node {
	const struct mount *mount; /* NULL: a device */
	char *path;       /* device: its directory in sysfs; mount: the file asked for, or NULL */
	size_t parent;    /* what lies on this; NOWHERE for the first */
	bool claims_spin; /* a loop device whose queue/rotational is 1 */
};

struct search {
	struct sysfs sys;
	struct mountinfo mounts;
	struct node *nodes;
	size_t n_nodes, nodes_cap;
	bool full; /* NODES_MAX was reached */

	enum storage_kind kind; /* of the best leaf so far */
	size_t leaf;            /* its node, or NOWHERE */
	char why[128];
	unsigned n_leaves, n_alike;
};

static char *copy_text(struct search *s, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		s->sys.error = -ENOMEM;
	return copy;
}

/* Adds what parent lies on and takes path over. Something known already is not added again. */
static void add_node(struct search *s, size_t parent, const struct mount *mount, char *path)
{
	AUTO(base_free) char *own = path;

	for (size_t i = 0; i < s->n_nodes; i++) {
		const struct node *n = &s->nodes[i];

		if (mount ? n->mount == mount : !n->mount && strcmp(n->path, path) == 0)
			return;
	}
	if (s->n_nodes == NODES_MAX) {
		s->full = true;
		return;
	}
	if (base_reserve((void *)&s->nodes, &s->nodes_cap, s->n_nodes + 1, sizeof(*s->nodes)) < 0) {
		s->sys.error = -ENOMEM;
		return;
	}
	s->nodes[s->n_nodes++] =
		(struct node){ .mount = mount, .path = TAKE(own), .parent = parent };
}

static const char *device_name(const struct node *n)
{
	return strrchr(n->path, '/') + 1;
}

/*
 * A loop device inherits queue/rotational from the disk below. Where no disk can be below, a 1 was written
 * by somebody who knows better: so does who simulates a disk with FUSE.
 */
static const struct node *claiming_loop(const struct search *s, size_t leaf)
{
	for (size_t i = leaf; i != NOWHERE; i = s->nodes[i].parent)
		if (s->nodes[i].claims_spin)
			return &s->nodes[i];
	return NULL;
}

static void PRINTF_LIKE(4, 5)
	add_leaf(struct search *s, size_t node, enum storage_kind kind, const char *format, ...)
{
	const struct node *loop = NULL;
	va_list args;

	if (kind == STORAGE_NETWORK || kind == STORAGE_MEMORY)
		loop = claiming_loop(s, node);
	if (loop)
		kind = STORAGE_ROTATIONAL;
	s->n_leaves++;
	if (s->leaf != NOWHERE && storage_traits(kind)->rank <= storage_traits(s->kind)->rank) {
		s->n_alike += kind == s->kind;
		return;
	}
	s->kind = kind;
	s->leaf = node;
	s->n_alike = 1;
	if (loop) {
		(void)snprintf(s->why, sizeof(s->why), "queue/rotational of %s was set to 1",
		               device_name(loop));
		return;
	}
	va_start(args, format);
	(void)vsnprintf(s->why, sizeof(s->why), format, args);
	va_end(args);
}

/*
 * Visiting a mount
 */

static bool judge_type(struct search *s, size_t node, const struct mount *m)
{
	const struct fstype *t = fstype_find(m->type);

	if (t && t->flags & FS_NETWORK)
		add_leaf(s, node, STORAGE_NETWORK, "a network file system, source %.60s",
		         m->source);
	else if (t && t->flags & FS_MEMORY)
		add_leaf(s, node, STORAGE_MEMORY, "a file system in memory");
	else if (t && t->flags & FS_FLASH)
		add_leaf(s, node, STORAGE_SOLID, "a file system for flash chips, source %.60s",
		         m->source);
	else
		return false;
	return true;
}

static bool add_device(struct search *s, size_t parent, char *path)
{
	if (path)
		add_node(s, parent, NULL, path);
	return path;
}

/* The devices in a source: "/dev/sda1", or "/dev/sda:/dev/sdb" as bcachefs has it. */
static bool add_source(struct search *s, size_t node, const char *source)
{
	AUTO(base_free) char *copy = copy_text(s, source);
	char *part = copy, *next;
	bool any = false;

	/* Names like /dev/disk/by-path/pci-0000:00:17.0-ata-1 hold colons themselves. */
	for (; part && strncmp(part, "/dev/", strlen("/dev/")) == 0; part = next) {
		next = strstr(part, ":/dev/");
		if (next)
			*next++ = '\0';
		any |= add_device(s, node, sysfs_device_of_node(&s->sys, part));
	}
	return any;
}

/* The file or directory at path carries the node. Paths of device nodes mean the device. */
static bool add_path(struct search *s, size_t node, const char *path)
{
	const struct mount *m = *path == '/' ? mountinfo_of_path(&s->mounts, path) : NULL;

	if (add_device(s, node, sysfs_device_of_node(&s->sys, path)))
		return true;
	if (!m || m == s->nodes[node].mount)
		return false;
	add_node(s, node, m, copy_text(s, path));
	return true;
}

/* lowerdir=/a:/b\:c::/data, already without octal escapes: colons separate, a backslash protects one. */
static bool add_layers(struct search *s, size_t node, char *list)
{
	bool any = false;

	while (*list) {
		char *out = list, *in = list;

		for (; *in && *in != ':'; in++) {
			if (in[0] == '\\' && in[1])
				in++;
			*out++ = *in;
		}
		in += *in == ':';
		*out = '\0';
		any |= add_path(s, node, list);
		list = in;
	}
	return any;
}

static void visit_overlay(struct search *s, size_t node, const struct mount *m)
{
	AUTO(base_free) char *options = copy_text(s, m->options);
	char *rest = options, *option;
	bool any = false;

	while ((option = strsep(&rest, ","))) {
		char *value = strchr(option, '=');

		if (!value)
			continue;
		*value++ = '\0';
		mountinfo_unescape(value);
		if (strcmp(option, "lowerdir") == 0)
			any |= add_layers(s, node, value);
		else if (strcmp(option, "upperdir") == 0 || strcmp(option, "lowerdir+") == 0 ||
		         strcmp(option, "datadir+") == 0)
			any |= add_path(s, node, value);
	}
	if (!any)
		add_leaf(s, node, STORAGE_UNKNOWN,
		         "its layers are outside of this mount namespace");
}

struct links {
	struct search *s;
	size_t node;
	const char *dir;
};

static void add_link(void *ctx, const char *name)
{
	struct links *l = ctx;

	if (!add_device(l->s, l->node, sysfs_resolve(&l->s->sys, l->dir, name)))
		add_leaf(l->s, l->node, STORAGE_UNKNOWN, "its part %.60s is not in sysfs", name);
}

/* Adds the devices that the links in dir/name lead to. False if there are none. */
static bool add_links(struct search *s, size_t node, const char *dir, const char *name)
{
	AUTO(base_free) char *path = sysfs_resolve(&s->sys, dir, name);
	struct links l = { .s = s, .node = node, .dir = path };

	return path && sysfs_each(path, add_link, &l) > 0;
}

struct btrfs_wanted {
	struct search *s;
	const char *member; /* "devices/sda1" */
	const char *dir;    /* of all file systems */
	char *found;        /* directory of the one that has the member */
};

static void match_btrfs(void *ctx, const char *uuid)
{
	struct btrfs_wanted *w = ctx;
	AUTO(base_free) char *dir = w->found ? NULL : sysfs_resolve(&w->s->sys, w->dir, uuid);
	AUTO(base_free) char *member = dir ? sysfs_resolve(&w->s->sys, dir, w->member) : NULL;

	if (member)
		w->found = TAKE(dir);
}

/* Subvolumes have device numbers that lead nowhere, so one member comes from mountinfo, the others with it. */
static void visit_btrfs(struct search *s, size_t node, const struct mount *m)
{
	AUTO(base_free) char *device = sysfs_device_of_node(&s->sys, m->source);
	AUTO(base_free) char *dir = sysfs_resolve(&s->sys, s->sys.root, "fs/btrfs");
	AUTO(base_free) char *found = NULL;
	char member[300];

	if (!device) {
		add_leaf(s, node, STORAGE_UNKNOWN, "its device %.60s is not in sysfs", m->source);
		return;
	}
	if (dir) {
		struct btrfs_wanted w = { .s = s, .member = member, .dir = dir };

		(void)snprintf(member, sizeof(member), "devices%s", strrchr(device, '/'));
		(void)sysfs_each(dir, match_btrfs, &w);
		found = w.found;
	}
	if (!found || !add_links(s, node, found, "devices"))
		(void)add_device(s, node, TAKE(device));
}

static bool is_fuse(const char *type)
{
	const struct fstype *t = fstype_find(type);

	return t && t->flags & FS_FUSE;
}

static void visit_mount(struct search *s, size_t node)
{
	const struct mount *m = s->nodes[node].mount;

	if (judge_type(s, node, m))
		return;
	if (strcmp(m->type, "overlay") == 0) {
		visit_overlay(s, node, m);
		return;
	}
	if (strcmp(m->type, "btrfs") == 0) {
		visit_btrfs(s, node, m);
		return;
	}
	if (m->major && add_device(s, node, sysfs_device(&s->sys, m->major, m->minor)))
		return;
	if (add_source(s, node, m->source))
		return;
	if (is_fuse(m->type))
		add_leaf(s, node, STORAGE_NETWORK, "a FUSE file system, source %.60s", m->source);
	else if (strcmp(m->type, "ecryptfs") == 0 && add_path(s, node, m->source))
		return;
	else if (m->major)
		add_leaf(s, node, STORAGE_UNKNOWN, "device %u:%u is not in sysfs", m->major,
		         m->minor);
	else
		add_leaf(s, node, STORAGE_UNKNOWN, "its source %.60s names no device", m->source);
}

/*
 * Visiting a device
 */

static void visit_loop(struct search *s, size_t node)
{
	char backing[PATH_MAX];
	const char *dir = s->nodes[node].path;

	if (!sysfs_attr(dir, "loop/backing_file", backing, sizeof(backing)) || !*backing) {
		add_leaf(s, node, STORAGE_UNKNOWN, "it has no backing file");
		return;
	}
	s->nodes[node].claims_spin = sysfs_attr_is(dir, "queue/rotational", "1");
	if (!add_path(s, node, backing))
		add_leaf(s, node, STORAGE_UNKNOWN, "its backing file %.60s is on no mount",
		         backing);
}

static bool is_stacked(const char *name)
{
	return strncmp(name, "dm-", 3) == 0 || strncmp(name, "bcache", 6) == 0 ||
	       (strncmp(name, "md", 2) == 0 && (isdigit((unsigned char)name[2]) || name[2] == '_'));
}

static bool is_loop(const char *name)
{
	return strncmp(name, "loop", 4) == 0 && isdigit((unsigned char)name[4]);
}

static void visit_device(struct search *s, size_t node)
{
	const struct node *n = &s->nodes[node];
	const char *name = device_name(n);
	char why[sizeof(s->why)], ignored[2];

	if (sysfs_attr(n->path, "partition", ignored, sizeof(ignored))) {
		(void)add_device(s, node, sysfs_resolve(&s->sys, n->path, ".."));
		return;
	}
	if (is_loop(name)) {
		visit_loop(s, node);
		return;
	}
	/* Of a bcache only the disk behind it is a slave, and it is what a cold scan waits for. */
	if (is_stacked(name) && add_links(s, node, n->path, "slaves"))
		return;
	if (is_stacked(name))
		add_leaf(s, node, STORAGE_UNKNOWN, "it lists no slaves");
	else
		add_leaf(s, node, sysfs_disk_kind(&s->sys, n->path, why, sizeof(why)), "%s", why);
}

/*
 * 3. The sentence
 */

static void print_node(const struct node *n, FILE *out)
{
	if (!n->mount)
		(void)fputs(device_name(n), out);
	else if (n->path)
		(void)fprintf(out, "%s (%s)", n->path, n->mount->type);
	else
		(void)fputs(n->mount->type, out);
}

/* "btrfs on dm-0 on sda1 on sda", or NULL without memory. */
static char *chain_new(const struct search *s)
{
	size_t way[NODES_MAX], len = 0, size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = s->leaf; i != NOWHERE; i = s->nodes[i].parent)
		way[len++] = i;
	while (len-- > 0) {
		print_node(&s->nodes[way[len]], out);
		(void)fputs(len > 0 ? " on " : ": ", out);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Names are bytes; evidence is one line that any format can hold. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (!isascii((unsigned char)*text) || !isprint((unsigned char)*text))
			*text = '?';
}

static char *put(char *out, const char *end, const char *text, size_t len)
{
	len = MIN(len, (size_t)(end - out));
	memcpy(out, text, len);
	return out + len;
}

/* A chain that is too long loses its middle: both ends and the reason matter more. */
static int write_evidence(const struct search *s, struct storage *ret)
{
	AUTO(base_free) char *chain = s->leaf == NOWHERE ? strdup("") : chain_new(s);
	char *out = ret->evidence, *end = out + sizeof(ret->evidence) - 1;
	char count[48] = "";
	size_t room, len;

	if (!chain)
		return -ENOMEM;
	if (s->n_leaves > 1)
		(void)snprintf(count, sizeof(count), " (%u of %u devices%s)", s->n_alike,
		               s->n_leaves, s->full ? " looked at" : "");
	len = strlen(chain);
	room = (size_t)(end - out) - strlen(s->why) - strlen(count);
	if (len > room) {
		out = put(out, end, chain, room / 2);
		out = put(out, end, "...", 3);
		room -= room / 2 + 3;
	}
	len = MIN(len, room);
	out = put(out, end, chain + strlen(chain) - len, len);
	out = put(out, end, s->why, strlen(s->why));
	out = put(out, end, count, strlen(count));
	*out = '\0';
	make_printable(ret->evidence);
	ret->kind = s->kind;
	return 0;
}

static void start_search(struct search *s, const struct storage_where *where)
{
	const struct mount *m =
		mountinfo_of_device(&s->mounts, where->mnt_id, where->dev_major, where->dev_minor);

	if (m)
		add_node(s, NOWHERE, m, NULL);
	else if (!add_device(s, NOWHERE, sysfs_device(&s->sys, where->dev_major, where->dev_minor)))
		(void)snprintf(s->why, sizeof(s->why),
		               "neither mountinfo nor sysfs know device %u:%u", where->dev_major,
		               where->dev_minor);
}

static void finish_search(struct search *s)
{
	mountinfo_done(&s->mounts);
	for (size_t i = 0; i < s->n_nodes; i++)
		free(s->nodes[i].path);
	free(s->nodes);
}

static void run_search(struct search *s)
{
	for (size_t i = 0; i < s->n_nodes && s->sys.error == 0; i++) {
		if (s->nodes[i].mount)
			visit_mount(s, i);
		else
			visit_device(s, i);
	}
	if (s->leaf == NOWHERE && s->n_nodes > 0)
		add_leaf(s, 0, STORAGE_UNKNOWN, "%s",
		         s->full ? "too many devices to follow"
		                 : "the way down leads back to itself");
}

int storage_find(const struct storage_where *where, struct storage *ret)
{
	const char *mountinfo = where->mountinfo ? where->mountinfo : "/proc/self/mountinfo";
	AUTO(base_free) char *sysfs = realpath(where->sysfs ? where->sysfs : "/sys", NULL);
	struct search s = { .sys.root = sysfs ? sysfs : "/sys", .leaf = NOWHERE };
	int r = mountinfo_load(mountinfo, &s.mounts);

	if (r != -ENOMEM) { /* without the list the device number still leads on */
		start_search(&s, where);
		run_search(&s);
		r = s.sys.error;
	}
	if (r == 0)
		r = write_evidence(&s, ret);
	finish_search(&s);
	return r;
}
