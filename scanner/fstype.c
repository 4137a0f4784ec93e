/* SPDX-License-Identifier: MIT */
/* fstype - one row for each type that is treated in a way of its own. */
#include "scanner/fstype.h"

#include <sys/vfs.h>

/* clang-format off */
static const struct fstype types[] = {
	{ "9p",               FS_NETWORK | FS_LOOK,   0x01021997 },
	{ "acfs",             FS_NETWORK,             0 },
	{ "afs",              FS_NETWORK | FS_LOOK,   0x5346414F },
	{ "autofs",           FS_KERNEL | FS_LOOK,    0x0187 },
	{ "beegfs",           FS_NETWORK,             0 },
	{ "binfmt_misc",      FS_KERNEL,              0 },
	{ "bpf",              FS_KERNEL,              0 },
	{ "ceph",             FS_NETWORK | FS_LOOK,   0x00C36400 },
	{ "cgroup",           FS_KERNEL | FS_MEMORY,  0 },
	{ "cgroup2",          FS_KERNEL | FS_MEMORY,  0 },
	{ "cifs",             FS_NETWORK | FS_LOOK,   0xFF534D42 },
	{ "coda",             FS_NETWORK,             0 },
	{ "configfs",         FS_KERNEL | FS_MEMORY,  0 },
	{ "debugfs",          FS_KERNEL | FS_MEMORY,  0 },
	{ "devpts",           FS_KERNEL,              0 },
	{ "devtmpfs",         FS_KERNEL | FS_MEMORY,  0 },
	{ "efivarfs",         FS_KERNEL,              0 },
	{ "fuse",             FS_FUSE | FS_LOOK,      0x65735546 },
	{ "fuse.disktracker", FS_FUSE | FS_KERNEL,    0 },
	{ "fuseblk",          FS_FUSE,                0 },
	{ "fusectl",          FS_KERNEL,              0 },
	{ "glusterfs",        FS_NETWORK,             0 },
	{ "gpfs",             FS_NETWORK,             0 },
	{ "hugetlbfs",        FS_KERNEL | FS_MEMORY,  0 },
	{ "jffs2",            FS_FLASH,               0 },
	{ "kafs",             FS_NETWORK | FS_LOOK,   0x6B414653 }, /* mountinfo says afs, too */
	{ "lustre",           FS_NETWORK,             0 },
	{ "mqueue",           FS_KERNEL,              0 },
	{ "ncpfs",            FS_NETWORK,             0 },
	{ "nfs",              FS_NETWORK | FS_LOOK,   0x6969 },
	{ "nfs4",             FS_NETWORK | FS_LOOK,   0x6969 },
	{ "nsfs",             FS_KERNEL,              0 },
	{ "orangefs",         FS_NETWORK,             0 },
	{ "prl_fs",           FS_NETWORK,             0 },
	{ "proc",             FS_KERNEL | FS_MEMORY,  0 },
	{ "pstore",           FS_KERNEL,              0 },
	{ "pvfs2",            FS_NETWORK,             0 },
	{ "ramfs",            FS_MEMORY,              0 },
	{ "rootfs",           FS_MEMORY,              0 },
	{ "rpc_pipefs",       FS_KERNEL,              0 },
	{ "securityfs",       FS_KERNEL,              0 },
	{ "selinuxfs",        FS_KERNEL,              0 },
	{ "smb3",             FS_NETWORK | FS_LOOK,   0xFE534D42 },
	{ "smbfs",            FS_NETWORK | FS_LOOK,   0x517B },
	{ "sysfs",            FS_KERNEL | FS_MEMORY,  0 },
	{ "tmpfs",            FS_MEMORY,              0 },
	{ "tracefs",          FS_KERNEL | FS_MEMORY,  0 },
	{ "ubifs",            FS_FLASH,               0 },
	{ "vboxsf",           FS_NETWORK,             0 },
	{ "virtiofs",         FS_NETWORK,             0 },
	{ "wekafs",           FS_NETWORK,             0 },
};
/* clang-format on */

static const struct fstype *find(const char *name, size_t len)
{
	for (const struct fstype *t = types; t < types + ARRAY_SIZE(types); t++)
		if (strlen(t->name) == len && memcmp(t->name, name, len) == 0)
			return t;
	return NULL;
}

const struct fstype *fstype_find(const char *name)
{
	const struct fstype *t = find(name, strlen(name));

	return t || strncmp(name, "fuse.", strlen("fuse.")) != 0 ? t : find("fuse", strlen("fuse"));
}

bool fstype_of_fd_has(int fd, unsigned flag)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (const struct fstype *t = types; t < types + ARRAY_SIZE(types); t++)
		if (t->magic && t->magic == (uint32_t)fs.f_type)
			return t->flags & flag;
	return false;
}
