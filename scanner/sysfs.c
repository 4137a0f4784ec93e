/* SPDX-License-Identifier: MIT */
/*
 * sysfs - first reading and finding, then the judgement of a disk.
 */
#include "scanner/sysfs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

char *sysfs_resolve(struct sysfs *sys, const char *dir, const char *name)
{
	AUTO(base_free) char *path = NULL;
	char *real;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		sys->error = -ENOMEM;
		return NULL;
	}
	real = realpath(path, NULL);
	if (!real && errno == ENOMEM)
		sys->error = -ENOMEM;
	return real;
}

bool sysfs_attr(const char *dir, const char *name, char *buf, size_t size)
{
	AUTO(base_close) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO(base_close) int fd = -1;
	ssize_t n;

	buf[0] = '\0';
	if (dir_fd >= 0)
		fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, buf, size - 1) : -1;
	if (n < 0)
		return false;
	while (n > 0 && isspace((unsigned char)buf[n - 1]))
		n--;
	buf[n] = '\0';
	return true;
}

bool sysfs_attr_is(const char *dir, const char *name, const char *value)
{
	char buf[32];

	return sysfs_attr(dir, name, buf, sizeof(buf)) && strcmp(buf, value) == 0;
}

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int sysfs_each(const char *dir, void (*add)(void *ctx, const char *name), void *ctx)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, is_visible, alphasort);

	for (int i = 0; i < n; i++) {
		add(ctx, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return n;
}

char *sysfs_device(struct sysfs *sys, unsigned major, unsigned minor)
{
	char name[48];

	(void)snprintf(name, sizeof(name), "dev/block/%u:%u", major, minor);
	return sysfs_resolve(sys, sys->root, name);
}

/* The kernel writes the slash in names like cciss/c0d0 as an exclamation mark. */
static char *device_of_kernel_name(struct sysfs *sys, const char *node)
{
	static const char dir[] = "class/block/";
	char name[256];

	if (*node == '.' || !*node || strlen(node) > sizeof(name) - sizeof(dir))
		return NULL;
	(void)snprintf(name, sizeof(name), "%s%s", dir, node);
	for (char *slash = name + strlen(dir); (slash = strchr(slash, '/'));)
		*slash = '!';
	return sysfs_resolve(sys, sys->root, name);
}

struct dm_wanted {
	struct sysfs *sys;
	const char *name; /* of the mapping */
	const char *dir;  /* of all block devices */
	char *found;
};

static void match_dm_name(void *ctx, const char *device)
{
	struct dm_wanted *w = ctx;
	AUTO(base_free) char *path = NULL;
	char name[256];

	if (w->found || strncmp(device, "dm-", strlen("dm-")) != 0)
		return;
	path = sysfs_resolve(w->sys, w->dir, device);
	if (path && sysfs_attr(path, "dm/name", name, sizeof(name)) && strcmp(name, w->name) == 0)
		w->found = TAKE(path);
}

/* /dev/mapper/NAME is dm-N for sysfs. */
static char *device_of_dm_name(struct sysfs *sys, const char *name)
{
	AUTO(base_free) char *dir = sysfs_resolve(sys, sys->root, "class/block");
	struct dm_wanted wanted = { .sys = sys, .name = name, .dir = dir };

	if (dir)
		(void)sysfs_each(dir, match_dm_name, &wanted);
	return wanted.found;
}

/* Asks sysfs first: a container's /dev may lack the node. stat() is for links like /dev/disk/by-uuid/... */
char *sysfs_device_of_node(struct sysfs *sys, const char *path)
{
	static const char dev[] = "/dev/", mapper[] = "/dev/mapper/";
	char *found;
	struct stat st;

	if (strncmp(path, dev, strlen(dev)) != 0)
		return NULL;
	if (strncmp(path, mapper, strlen(mapper)) == 0)
		found = device_of_dm_name(sys, path + strlen(mapper));
	else
		found = device_of_kernel_name(sys, path + strlen(dev));
	if (!found && stat(path, &st) == 0 && S_ISBLK(st.st_mode))
		found = sysfs_device(sys, major(st.st_rdev), minor(st.st_rdev));
	return found;
}

/*
 * The judgement. queue/rotational is what counts, unless the way to the disk or its model tells that nobody
 * can have asked a real disk.
 */

struct place_row {
	const char *prefix; /* of a directory on the way to the device; a digit follows */
	enum storage_kind kind;
	const char *what;
};

/* clang-format off */
static const struct place_row places[] = {
	{ "zram",     STORAGE_MEMORY,  "a disk in compressed memory" },
	{ "ram",      STORAGE_MEMORY,  "a disk in memory" },
	{ "pmem",     STORAGE_MEMORY,  "persistent memory" },
	{ "nbd",      STORAGE_NETWORK, "a network block device" },
	{ "rbd",      STORAGE_NETWORK, "a Ceph block device" },
	{ "etherd!e", STORAGE_NETWORK, "an ATA over Ethernet disk" },
	{ "session",  STORAGE_NETWORK, "an iSCSI disk" },
	{ "virtio",   STORAGE_VIRTUAL, "a virtio disk" },
	{ "vbd-",     STORAGE_VIRTUAL, "a Xen disk" },
	{ "VMBUS:",   STORAGE_VIRTUAL, "a Hyper-V disk" },
	{ "vmbus_",   STORAGE_VIRTUAL, "a Hyper-V disk" },
};

/* What hypervisors write into vendor and model of the disks that they make up. */
static const char *const hypervisors[] = {
	"Alibaba Cloud", "Amazon", "BHYVE", "Google", "Msft", "Nutanix", "nvme_card", "QEMU",
	"VBOX", "VDASD", "Virtual HDD", "VMware", "Xen",
};
/* clang-format on */

static bool is_on_way(const char *path, const char *prefix)
{
	for (const char *p = path; (p = strchr(p, '/')); p++)
		if (strncmp(p + 1, prefix, strlen(prefix)) == 0 &&
		    isdigit((unsigned char)p[1 + strlen(prefix)]))
			return true;
	return false;
}

static const struct place_row *find_place(const char *path)
{
	for (const struct place_row *p = places; p < places + ARRAY_SIZE(places); p++)
		if (is_on_way(path, p->prefix))
			return p;
	return NULL;
}

static bool is_hypervisor(const char *model)
{
	for (size_t i = 0; i < ARRAY_SIZE(hypervisors); i++)
		if (strcasestr(model, hypervisors[i]))
			return true;
	return false;
}

/* Vendor and model; the vendor of all SATA disks is "ATA", which says nothing. */
static void read_model(const char *dir, char *buf, size_t size)
{
	char vendor[32], model[64];

	(void)sysfs_attr(dir, "device/vendor", vendor, sizeof(vendor));
	if (!sysfs_attr(dir, "device/model", model, sizeof(model)))
		(void)sysfs_attr(dir, "device/name", model, sizeof(model)); /* MMC */
	/* PCI devices have a number for a vendor. */
	if (strcmp(vendor, "ATA") == 0 || strncmp(vendor, "0x", 2) == 0)
		vendor[0] = '\0';
	(void)snprintf(buf, size, "%s%s%s", vendor, *vendor && *model ? " " : "", model);
}

/* USB sticks seldom say that they do not rotate, so the kernel assumes it; USB disks are not removable. */
static bool is_stick(const char *dir, const char *way)
{
	return is_on_way(way, "usb") && sysfs_attr_is(dir, "removable", "1") &&
	       sysfs_attr_is(dir, "device/type", "0");
}

/* NVMe over TCP and the like. */
static bool is_fabric(const char *dir)
{
	return sysfs_attr_is(dir, "device/transport", "tcp") ||
	       sysfs_attr_is(dir, "device/transport", "rdma") ||
	       sysfs_attr_is(dir, "device/transport", "fc");
}

enum storage_kind sysfs_disk_kind(const struct sysfs *sys, const char *dir, char *why, size_t size)
{
	size_t root = strlen(sys->root);
	/* What the path of sysfs itself says is no evidence. */
	const char *way = strncmp(dir, sys->root, root) == 0 ? dir + root : dir;
	const struct place_row *place = find_place(way);
	bool spins = sysfs_attr_is(dir, "queue/rotational", "1");
	const char *doubt = spins ? ", where queue/rotational 1 is no evidence" : "";
	char model[100];

	read_model(dir, model, sizeof(model));
	if (place) {
		(void)snprintf(why, size, "%s%s", place->what,
		               place->kind == STORAGE_VIRTUAL ? doubt : "");
		return place->kind;
	}
	if (is_hypervisor(model)) {
		(void)snprintf(why, size, "a hypervisor's disk, model %.60s%s", model, doubt);
		return STORAGE_VIRTUAL;
	}
	if (is_fabric(dir)) {
		(void)snprintf(why, size, "NVMe over a network, model %.60s", model);
		return STORAGE_NETWORK;
	}
	if (!spins && !sysfs_attr_is(dir, "queue/rotational", "0")) {
		(void)snprintf(why, size, "it has no queue/rotational");
		return STORAGE_UNKNOWN;
	}
	if (spins && is_stick(dir, way)) {
		(void)snprintf(why, size,
		               "removable on USB, so flash although queue/rotational is 1");
		return STORAGE_SOLID;
	}
	(void)snprintf(why, size, "queue/rotational is %d%s%.60s", spins, *model ? ", model " : "",
	               model);
	return spins ? STORAGE_ROTATIONAL : STORAGE_SOLID;
}
