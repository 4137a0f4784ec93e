/* SPDX-License-Identifier: MIT */
/*
 * mounts - where other file systems are mounted below the root, so that the scan need not touch them.
 *
 * Opening a dead NFS or FUSE mount can hang for ever, so mount points are known by name before anything
 * is opened.
 */
#include "scanner/fstype.h"
#include "scanner/internal.h"
#include "scanner/mountinfo.h"

static struct mount_trap *find_child(const struct mount_trap *t, const char *name, size_t len)
{
	for (struct mount_trap *c = t->child; c; c = c->sibling)
		if (strlen(c->name) == len && memcmp(c->name, name, len) == 0)
			return c;
	return NULL;
}

static struct mount_trap *add_child(struct mount_trap *t, const char *name, size_t len)
{
	struct mount_trap *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->name = strndup(name, len);
	if (!c->name) {
		free(c);
		return NULL;
	}
	c->sibling = t->child;
	t->child = c;
	return c;
}

/* Add the mount point below the root, component by component. The last mount on a path wins. */
static int add_mount(struct mount_trap *t, const char *below, const char *fstype)
{
	while (*below) {
		size_t len = strcspn(below, "/");
		struct mount_trap *c = find_child(t, below, len);

		if (!c)
			c = add_child(t, below, len);
		if (!c)
			return -ENOMEM;
		t = c;
		below += len;
		below += *below == '/';
	}
	free(t->fstype);
	t->fstype = strdup(fstype);
	return t->fstype ? 0 : -ENOMEM;
}

/* Reads a mountinfo file and keeps what lies below root. 0 or -errno. */
int mounts_load(const char *mountinfo, const char *root, struct mount_trap *ret)
{
	size_t root_len = strcmp(root, "/") == 0 ? 0 : strlen(root);
	struct mountinfo mi = { 0 };
	int r = mountinfo_load(mountinfo, &mi);

	for (size_t i = 0; r == 0 && i < mi.n; i++) {
		const char *point = mi.mount[i].point;

		if (strncmp(point, root, root_len) == 0 && point[root_len] == '/' &&
		    point[root_len + 1])
			r = add_mount(ret, point + root_len + 1, mi.mount[i].type);
	}
	mountinfo_done(&mi);
	return r;
}

/* Frees what is below t. Mount points nest as deep as an administrator made them; still no recursion. */
void mounts_done(struct mount_trap *t)
{
	while (t->child) {
		struct mount_trap *c = t->child;

		if (c->child) { /* lift the grandchildren up, then c is a leaf */
			struct mount_trap *last = c->child;

			while (last->sibling)
				last = last->sibling;
			last->sibling = c->sibling;
			c->sibling = c->child;
			c->child = NULL;
		}
		t->child = c->sibling;
		free(c->name);
		free(c->fstype);
		free(c);
	}
}

const struct mount_trap *mounts_child(const struct mount_trap *t, const char *name)
{
	return t ? find_child(t, name, strlen(name)) : NULL;
}

/* With --cross-mounts: is this a file system that holds somebody's data? */
bool mounts_may_cross(const struct mount_trap *t)
{
	const struct fstype *type = fstype_find(t->fstype);

	return !type || !(type->flags & FS_KERNEL);
}
