/* SPDX-License-Identifier: MIT */
/*
 * Which kind of storage a tree lives on: recorded machines, each a table of devices and of mounts.
 *
 *   1. A machine's devices are written to a private sysfs, its mounts to a file.
 *   2. storage_find() must name the kind and the evidence.
 *
 * A device is a line "MAJOR:MINOR PATH; FILE=TEXT; ...; slaves=NAME,NAME", a btrfs is "btrfs UUID NAME,NAME".
 */
#include "scanner/storage.h"
#include "tests/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

struct machine {
	const char *name;
	const char *devices;
	const char *mounts;
	enum storage_kind kind;
	const char *evidence;
	unsigned dev_major, dev_minor; /* with mount 30 if both are 0 */
};

/* clang-format off */
#define ATA(n)  "pci0000:00/0000:00:17.0/ata" n "/host" n "/target" n ":0:0/" n ":0:0:0/block/"
#define SCSI(n) "pci0000:00/0000:00:10.0/host" n "/target" n ":0:0/" n ":0:0:0/block/"
#define NVME(n) "pci0000:00/0000:00:1d.0/0000:0" n ":00.0/nvme/nvme" n "/nvme" n "n1"
#define SPINS   "; queue/rotational=1"
#define STILL   "; queue/rotational=0"

#define HDD_A   "8:0 " ATA("1") "sda" SPINS "; removable=0; device/type=0; device/vendor=ATA; device/model=ST4000DM004-2CV1\n"
#define HDD_A1  "8:1 " ATA("1") "sda/sda1; partition=1\n"
#define HDD_B   "8:16 " ATA("2") "sdb" SPINS "; device/vendor=ATA; device/model=WDC WD40EFRX-68N\n"
#define HDD_B1  "8:17 " ATA("2") "sdb/sdb1; partition=1\n"
#define SSD_C   "8:32 " ATA("3") "sdc" STILL "; device/vendor=ATA; device/model=Samsung SSD 870\n"
#define SSD_C1  "8:33 " ATA("3") "sdc/sdc1; partition=1\n"
#define NVME_0  "259:0 " NVME("0") STILL "; device/transport=pcie; device/model=WD_BLACK SN850X 1000GB\n"
#define NVME_0P2 "259:2 " NVME("0") "/nvme0n1p2; partition=2\n"
#define LOOP_0  "7:0 virtual/block/loop0"

#define ROOT_ON(dev, source) "30 1 " dev " / / rw,relatime shared:1 - ext4 " source " rw\n"

static struct machine machines[] = {
	/* One disk */
	{ "a_partition_of_a_sata_disk_is_rotational", HDD_A HDD_A1, ROOT_ON("8:1", "/dev/sda1"),
	  STORAGE_ROTATIONAL, "ext4 on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1", 0, 0 },
	{ "a_sata_ssd_is_solid", SSD_C SSD_C1, ROOT_ON("8:33", "/dev/sdc1"),
	  STORAGE_SOLID, "ext4 on sdc1 on sdc: queue/rotational is 0, model Samsung SSD 870", 0, 0 },
	{ "a_partition_of_an_nvme_disk_is_solid", NVME_0 NVME_0P2, ROOT_ON("259:2", "/dev/nvme0n1p2"),
	  STORAGE_SOLID, "ext4 on nvme0n1p2 on nvme0n1: queue/rotational is 0, model WD_BLACK SN850X 1000GB", 0, 0 },
	{ "a_sas_disk_behind_an_adapter_is_rotational",
	  "8:64 pci0000:80/0000:83:00.0/host6/port-6:0/expander-6:0/port-6:0:3/end_device-6:0:3/target6:0:3/6:0:3:0/block/sde"
	  SPINS "; device/vendor=SEAGATE ; device/model=ST8000NM0075    \n", ROOT_ON("8:64", "/dev/sde"),
	  STORAGE_ROTATIONAL, "ext4 on sde: queue/rotational is 1, model SEAGATE ST8000NM0075", 0, 0 },
	{ "a_removable_usb_stick_is_solid_though_it_claims_to_rotate",
	  "8:48 pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host7/target7:0:0/7:0:0:0/block/sdd"
	  SPINS "; removable=1; device/type=0; device/vendor=SanDisk; device/model=Ultra\n", ROOT_ON("8:48", "/dev/sdd"),
	  STORAGE_SOLID, "ext4 on sdd: removable on USB, so flash although queue/rotational is 1", 0, 0 },
	{ "a_usb_disk_that_is_not_removable_is_rotational",
	  "8:48 pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host7/target7:0:0/7:0:0:0/block/sdd"
	  SPINS "; removable=0; device/type=0; device/vendor=WD; device/model=Elements 25A2\n", ROOT_ON("8:48", "/dev/sdd"),
	  STORAGE_ROTATIONAL, "ext4 on sdd: queue/rotational is 1, model WD Elements 25A2", 0, 0 },
	{ "a_cd_in_a_usb_drive_is_rotational",
	  "11:0 pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host7/target7:0:0/7:0:0:0/block/sr0"
	  SPINS "; removable=1; device/type=5; device/model=DVDRAM GP57\n", "30 1 11:0 / /media ro - iso9660 /dev/sr0 ro\n",
	  STORAGE_ROTATIONAL, "iso9660 on sr0: queue/rotational is 1, model DVDRAM GP57", 0, 0 },
	{ "an_sd_card_is_solid",
	  "179:0 platform/soc/fe340000.mmc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0" STILL "; device/name=SC32G\n"
	  "179:2 platform/soc/fe340000.mmc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0/mmcblk0p2; partition=2\n",
	  ROOT_ON("179:2", "/dev/root"),
	  STORAGE_SOLID, "ext4 on mmcblk0p2 on mmcblk0: queue/rotational is 0, model SC32G", 0, 0 },
	{ "a_disk_with_a_slash_in_its_name_is_found",
	  "104:0 pci0000:00/0000:00:03.0/cciss0/c0d0/block/cciss!c0d0" SPINS "\n",
	  "30 1 0:60 / / rw - btrfs /dev/cciss/c0d0 rw\n",
	  STORAGE_ROTATIONAL, "btrfs on cciss!c0d0: queue/rotational is 1", 0, 0 },

	/* Disks that a hypervisor makes up */
	{ "a_virtio_disk_is_virtual_though_it_claims_to_rotate",
	  "254:0 pci0000:00/0000:00:02.0/virtio1/block/vda" SPINS "; device/vendor=0x1af4\n"
	  "254:1 pci0000:00/0000:00:02.0/virtio1/block/vda/vda1; partition=1\n", ROOT_ON("254:1", "/dev/vda1"),
	  STORAGE_VIRTUAL, "ext4 on vda1 on vda: a virtio disk, where queue/rotational 1 is no evidence", 0, 0 },
	{ "a_xen_disk_is_virtual", "202:0 vbd-51712/block/xvda" STILL "\n202:1 vbd-51712/block/xvda/xvda1; partition=1\n",
	  ROOT_ON("202:1", "/dev/xvda1"), STORAGE_VIRTUAL, "ext4 on xvda1 on xvda: a Xen disk", 0, 0 },
	{ "a_disk_of_hyper_v_is_virtual",
	  "8:0 LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:01/fd1d2cbd-ce7c-535c-966b-eb5f811c95f0/host0/target0:0:0/0:0:0:0/block/sda"
	  SPINS "; device/vendor=Msft    ; device/model=Virtual Disk\n", ROOT_ON("8:0", "/dev/sda"),
	  STORAGE_VIRTUAL, "ext4 on sda: a Hyper-V disk, where queue/rotational 1 is no evidence", 0, 0 },
	{ "a_disk_of_vmware_is_virtual",
	  "8:0 " SCSI("2") "sda" SPINS "; device/vendor=VMware  ; device/model=Virtual disk\n", ROOT_ON("8:0", "/dev/sda"),
	  STORAGE_VIRTUAL,
	  "ext4 on sda: a hypervisor's disk, model VMware Virtual disk, where queue/rotational 1 is no evidence", 0, 0 },
	{ "an_emulated_sata_disk_is_virtual",
	  "8:0 " ATA("1") "sda" SPINS "; device/vendor=ATA; device/model=QEMU HARDDISK\n", ROOT_ON("8:0", "/dev/sda"),
	  STORAGE_VIRTUAL,
	  "ext4 on sda: a hypervisor's disk, model QEMU HARDDISK, where queue/rotational 1 is no evidence", 0, 0 },
	{ "a_virtio_scsi_disk_is_virtual",
	  "8:0 pci0000:00/0000:00:03.0/virtio0/host0/target0:0:1/0:0:1:0/block/sda" SPINS
	  "; device/vendor=Google; device/model=PersistentDisk\n", ROOT_ON("8:0", "/dev/sda"),
	  STORAGE_VIRTUAL, "ext4 on sda: a virtio disk, where queue/rotational 1 is no evidence", 0, 0 },
	{ "an_nvme_disk_of_a_cloud_is_virtual",
	  "259:0 " NVME("0") STILL "; device/transport=pcie; device/model=Amazon Elastic Block Store\n",
	  ROOT_ON("259:0", "/dev/nvme0n1"),
	  STORAGE_VIRTUAL, "ext4 on nvme0n1: a hypervisor's disk, model Amazon Elastic Block Store", 0, 0 },
	{ "a_virtual_disk_of_a_raid_controller_is_not_a_hypervisors",
	  "8:0 " SCSI("0") "sda" SPINS "; device/vendor=DELL; device/model=Virtual Disk\n", ROOT_ON("8:0", "/dev/sda"),
	  STORAGE_ROTATIONAL, "ext4 on sda: queue/rotational is 1, model DELL Virtual Disk", 0, 0 },

	/* Stacks */
	{ "dm_crypt_on_lvm_on_md_raid_of_two_disks_is_rotational",
	  HDD_A HDD_A1 HDD_B HDD_B1 "9:127 virtual/block/md127" SPINS "; md/level=raid1; slaves=sda1,sdb1\n"
	  "253:0 virtual/block/dm-0" SPINS "; dm/name=vg-home; slaves=md127\n"
	  "253:1 virtual/block/dm-1" SPINS "; dm/name=home_crypt; slaves=dm-0\n", ROOT_ON("253:1", "/dev/mapper/home_crypt"),
	  STORAGE_ROTATIONAL, "ext4 on dm-1 on dm-0 on md127 on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1 "
	  "(2 of 2 devices)", 0, 0 },
	{ "lvm_on_nvme_is_solid", NVME_0 NVME_0P2 "253:0 virtual/block/dm-0" STILL "; dm/name=vg-root; slaves=nvme0n1p2\n",
	  ROOT_ON("253:0", "/dev/mapper/vg-root"),
	  STORAGE_SOLID, "ext4 on dm-0 on nvme0n1p2 on nvme0n1: queue/rotational is 0, model WD_BLACK SN850X 1000GB", 0, 0 },
	{ "lvm_on_a_virtio_disk_is_virtual",
	  "254:0 pci0000:00/0000:00:02.0/virtio1/block/vda" SPINS "\n253:0 virtual/block/dm-0" SPINS "; slaves=vda\n",
	  ROOT_ON("253:0", "/dev/mapper/vg-root"),
	  STORAGE_VIRTUAL, "ext4 on dm-0 on vda: a virtio disk, where queue/rotational 1 is no evidence", 0, 0 },
	{ "md_of_an_ssd_and_a_disk_is_rotational",
	  HDD_B HDD_B1 SSD_C SSD_C1 "9:0 virtual/block/md0" SPINS "; slaves=sdc1,sdb1\n", ROOT_ON("9:0", "/dev/md0"),
	  STORAGE_ROTATIONAL, "ext4 on md0 on sdb1 on sdb: queue/rotational is 1, model WDC WD40EFRX-68N (1 of 2 devices)",
	  0, 0 },
	{ "md_of_a_virtual_disk_and_an_ssd_is_virtual",
	  "254:0 pci0000:00/0000:00:02.0/virtio1/block/vda" STILL "\n" SSD_C
	  "9:0 virtual/block/md0" STILL "; slaves=sdc,vda\n9:1 virtual/block/md0/md0p1; partition=1\n",
	  ROOT_ON("9:1", "/dev/md0p1"),
	  STORAGE_VIRTUAL, "ext4 on md0p1 on md0 on vda: a virtio disk (1 of 2 devices)", 0, 0 },
	{ "bcache_is_what_lies_behind_it",
	  HDD_A HDD_A1 SSD_C "251:0 virtual/block/bcache0" STILL "; slaves=sda1\n", ROOT_ON("251:0", "/dev/bcache0"),
	  STORAGE_ROTATIONAL, "ext4 on bcache0 on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1", 0, 0 },
	{ "dm_without_slaves_is_unknown", "253:0 virtual/block/dm-0" SPINS "; dm/name=zero\n", ROOT_ON("253:0", "/dev/dm-0"),
	  STORAGE_UNKNOWN, "ext4 on dm-0: it lists no slaves", 0, 0 },
	{ "slaves_in_a_ring_are_unknown",
	  "253:0 virtual/block/dm-0" SPINS "; slaves=dm-1\n253:1 virtual/block/dm-1" SPINS "; slaves=dm-0,dm-1\n",
	  ROOT_ON("253:0", "/dev/dm-0"), STORAGE_UNKNOWN, "ext4: the way down leads back to itself", 0, 0 },
	{ "a_disk_beside_a_ring_counts",
	  SSD_C "253:0 virtual/block/dm-0" SPINS "; slaves=dm-1\n253:1 virtual/block/dm-1" SPINS "; slaves=dm-0,sdc\n",
	  ROOT_ON("253:0", "/dev/dm-0"),
	  STORAGE_SOLID, "ext4 on dm-0 on dm-1 on sdc: queue/rotational is 0, model Samsung SSD 870", 0, 0 },
	{ "a_missing_slave_is_unknown", "253:0 virtual/block/dm-0" SPINS "; slaves=gone\n", ROOT_ON("253:0", "/dev/dm-0"),
	  STORAGE_UNKNOWN, "ext4 on dm-0: its part gone is not in sysfs", 0, 0 },

	/* Loop devices */
	{ "a_loop_on_a_disk_is_rotational",
	  HDD_A HDD_A1 SSD_C LOOP_0 SPINS "; loop/backing_file=/srv/a b/disk.img\n7:1 virtual/block/loop0/loop0p1; partition=1\n",
	  ROOT_ON("7:1", "/dev/loop0p1") "31 1 8:32 / / rw - ext4 /dev/sdc rw\n32 31 8:1 / /srv/a\\040b rw - xfs /dev/sda1 rw\n"
	  "33 31 8:32 / /srv/a rw - ext4 /dev/sdc rw\n",
	  STORAGE_ROTATIONAL, "ext4 on loop0p1 on loop0 on /srv/a b/disk.img (xfs) on sda1 on sda: queue/rotational is 1, "
	  "model ST4000DM004-2CV1", 0, 0 },
	{ "a_loop_on_a_virtual_disk_is_virtual_though_it_inherits_a_1",
	  "254:0 pci0000:00/0000:00:02.0/virtio1/block/vda" SPINS "\n" LOOP_0 SPINS "; loop/backing_file=/disk.img\n",
	  "31 1 254:0 / / rw - ext4 /dev/vda rw\n30 31 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_VIRTUAL, "ext4 on loop0 on /disk.img (ext4) on vda: a virtio disk, where queue/rotational 1 is no evidence",
	  0, 0 },
	{ "a_loop_on_fuse_that_was_told_to_rotate_is_rotational", LOOP_0 SPINS "; loop/backing_file=/run/sim/disk\n",
	  "31 1 0:50 / /run/sim rw - fuse.simulator simulator rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_ROTATIONAL, "ext4 on loop0 on /run/sim/disk (fuse.simulator): queue/rotational of loop0 was set to 1", 0, 0 },
	{ "a_loop_on_fuse_is_network", LOOP_0 STILL "; loop/backing_file=/run/sim/disk\n",
	  "31 1 0:50 / /run/sim rw - fuse.simulator simulator rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_NETWORK, "ext4 on loop0 on /run/sim/disk (fuse.simulator): a FUSE file system, source simulator", 0, 0 },
	{ "a_loop_on_tmpfs_is_memory", LOOP_0 STILL "; loop/backing_file=/tmp/disk\n",
	  "31 1 0:50 / /tmp rw - tmpfs tmpfs rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_MEMORY, "ext4 on loop0 on /tmp/disk (tmpfs): a file system in memory", 0, 0 },
	{ "a_loop_on_a_block_device_is_what_that_is", NVME_0 LOOP_0 STILL "; loop/backing_file=/dev/nvme0n1\n",
	  "31 1 0:6 / /dev rw - devtmpfs devtmpfs rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_SOLID, "ext4 on loop0 on nvme0n1: queue/rotational is 0, model WD_BLACK SN850X 1000GB", 0, 0 },
	{ "a_loop_whose_file_was_deleted_is_where_it_was", SSD_C LOOP_0 STILL "; loop/backing_file=/a/disk.img (deleted)\n",
	  "31 1 8:32 / / rw - ext4 /dev/sdc rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_SOLID, "ext4 on loop0 on /a/disk.img (deleted) (ext4) on sdc: queue/rotational is 0, model Samsung SSD 870",
	  0, 0 },
	{ "a_detached_loop_is_unknown", LOOP_0 SPINS "\n", ROOT_ON("7:0", "/dev/loop0"),
	  STORAGE_UNKNOWN, "ext4 on loop0: it has no backing file", 0, 0 },
	{ "the_mount_that_hides_another_holds_the_backing_file",
	  HDD_A HDD_A1 SSD_C LOOP_0 STILL "; loop/backing_file=/srv/disk\n",
	  "31 1 8:1 / /srv rw - ext4 /dev/sda1 rw\n32 31 8:32 / /srv rw - ext4 /dev/sdc rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_SOLID, "ext4 on loop0 on /srv/disk (ext4) on sdc: queue/rotational is 0, model Samsung SSD 870", 0, 0 },
	{ "evidence_is_one_printable_line", LOOP_0 STILL "; loop/backing_file=/t/new\nline\x1b[2J\xff\n",
	  "31 1 0:50 / /t rw - tmpfs tmpfs rw\n30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
	  STORAGE_MEMORY, "ext4 on loop0 on /t/new?line?[2J? (tmpfs): a file system in memory", 0, 0 },

	/* btrfs, overlay and others without a device number of their own */
	{ "btrfs_of_an_ssd_and_a_disk_is_rotational",
	  HDD_A HDD_A1 SSD_C SSD_C1 NVME_0 "btrfs 0f1c7d5e-0000-4000-8000-000000000001 nvme0n1\n"
	  "btrfs 8a6b7c5d-0000-4000-8000-000000000002 sdc1,sda1\n",
	  "30 1 0:31 /@home /home rw - btrfs /dev/sdc1 rw,subvolid=257,subvol=/@home\n",
	  STORAGE_ROTATIONAL, "btrfs on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1 (1 of 2 devices)", 0, 0 },
	{ "btrfs_on_a_mapping_is_found_by_its_name",
	  SSD_C "253:0 virtual/block/dm-0" STILL "; dm/name=root_crypt; slaves=sdc\nbtrfs 8a6b7c5d-0000-4000-8000-000000000002 dm-0\n",
	  "30 1 0:31 / / rw - btrfs /dev/mapper/root_crypt rw\n",
	  STORAGE_SOLID, "btrfs on dm-0 on sdc: queue/rotational is 0, model Samsung SSD 870", 0, 0 },
	{ "btrfs_on_a_device_that_sysfs_lacks_is_unknown", SSD_C, "30 1 0:31 / / rw - btrfs /dev/none-such rw\n",
	  STORAGE_UNKNOWN, "btrfs: its device /dev/none-such is not in sysfs", 0, 0 },
	{ "bcachefs_of_an_ssd_and_a_disk_is_rotational", HDD_B SSD_C, "30 1 0:31 / / rw - bcachefs /dev/sdc:/dev/sdb rw\n",
	  STORAGE_ROTATIONAL, "bcachefs on sdb: queue/rotational is 1, model WDC WD40EFRX-68N (1 of 2 devices)", 0, 0 },
	{ "overlay_on_nvme_is_solid", NVME_0 NVME_0P2,
	  "29 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n30 29 0:55 / /var/lib/docker/overlay2/x/merged rw - overlay overlay "
	  "rw,lowerdir=/var/lib/docker/overlay2/l/AB:/var/lib/docker/overlay2/l/CD,upperdir=/var/lib/docker/overlay2/x/diff,"
	  "workdir=/var/lib/docker/overlay2/x/work\n",
	  STORAGE_SOLID, "overlay on /var/lib/docker/overlay2/l/AB (ext4) on nvme0n1p2 on nvme0n1: queue/rotational is 0, "
	  "model WD_BLACK SN850X 1000GB", 0, 0 },
	{ "an_overlay_with_one_layer_on_a_disk_is_rotational", NVME_0 HDD_A HDD_A1,
	  "29 1 8:1 / /a:b,c rw - ext4 /dev/sda1 rw\n28 1 259:0 / /fast rw - ext4 /dev/nvme0n1 rw\n"
	  "30 1 0:55 / / rw - overlay overlay rw,lowerdir+=/fast/l,lowerdir=/a\\134:b\\054c/low::/fast/data,upperdir=/fast/up\n",
	  STORAGE_ROTATIONAL, "overlay on /a:b,c/low (ext4) on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1 "
	  "(1 of 2 devices)", 0, 0 },
	{ "an_overlay_that_was_mounted_outside_of_the_container_is_unknown", NVME_0,
	  "30 1 0:55 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/l/AB:l/CD,upperdir=/var/lib/docker/x/diff\n",
	  STORAGE_UNKNOWN, "overlay: its layers are outside of this mount namespace", 0, 0 },
	{ "ecryptfs_is_what_its_lower_directory_is_on", HDD_A HDD_A1,
	  "29 1 8:1 / /home rw - ext4 /dev/sda1 rw\n30 29 0:70 / /home/me rw - ecryptfs /home/.ecryptfs/me rw\n",
	  STORAGE_ROTATIONAL, "ecryptfs on /home/.ecryptfs/me (ext4) on sda1 on sda: queue/rotational is 1, model "
	  "ST4000DM004-2CV1", 0, 0 },
	{ "zfs_is_unknown", NVME_0, "30 1 0:31 / /tank rw - zfs tank/home rw,xattr\n",
	  STORAGE_UNKNOWN, "zfs: its source tank/home names no device", 0, 0 },

	/* Memory */
	{ "tmpfs_is_memory", "", "30 1 0:44 / /tmp rw - tmpfs tmpfs rw,size=4k\n",
	  STORAGE_MEMORY, "tmpfs: a file system in memory", 0, 0 },
	{ "ramfs_is_memory", "", "30 1 0:44 / /r rw - ramfs none rw\n", STORAGE_MEMORY, "ramfs: a file system in memory", 0, 0 },
	{ "zram_is_memory", "252:0 virtual/block/zram0" STILL "\n", ROOT_ON("252:0", "/dev/zram0"),
	  STORAGE_MEMORY, "ext4 on zram0: a disk in compressed memory", 0, 0 },
	{ "a_ram_disk_is_memory", "1:0 virtual/block/ram0" SPINS "\n", ROOT_ON("1:0", "/dev/ram0"),
	  STORAGE_MEMORY, "ext4 on ram0: a disk in memory", 0, 0 },
	{ "persistent_memory_is_memory",
	  "259:1 LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/namespace0.0/block/pmem0" STILL "\n",
	  ROOT_ON("259:1", "/dev/pmem0"), STORAGE_MEMORY, "ext4 on pmem0: persistent memory", 0, 0 },

	/* Network */
	{ "nfs4_is_network", "", "30 1 0:48 / /net rw - nfs4 server:/export rw,vers=4.2,addr=192.0.2.1\n",
	  STORAGE_NETWORK, "nfs4: a network file system, source server:/export", 0, 0 },
	{ "cifs_is_network", "", "30 1 0:48 / /net rw - cifs //server/my\\040share rw\n",
	  STORAGE_NETWORK, "cifs: a network file system, source //server/my share", 0, 0 },
	{ "9p_is_network", "", "30 1 0:48 / /host rw - 9p /dev/sda1 rw,trans=virtio\n",
	  STORAGE_NETWORK, "9p: a network file system, source /dev/sda1", 0, 0 },
	{ "an_empty_source_is_read_as_such", "", "30 1 0:48 / /c rw - ceph  rw\n",
	  STORAGE_NETWORK, "ceph: a network file system, source ", 0, 0 },
	{ "sshfs_is_network", HDD_A, "30 1 0:48 / /ssh rw - fuse.sshfs me@server:/dev/sda rw,user_id=0\n",
	  STORAGE_NETWORK, "fuse.sshfs: a FUSE file system, source me@server:/dev/sda", 0, 0 },
	{ "ntfs_by_fuseblk_is_what_its_device_is", HDD_A HDD_A1, "30 1 8:1 / /win rw - fuseblk /dev/sda1 rw,user_id=0\n",
	  STORAGE_ROTATIONAL, "fuseblk on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1", 0, 0 },
	{ "fuse_that_names_a_device_is_what_that_is", HDD_A HDD_A1, "30 1 0:49 / /win rw - fuse.fuse2fs /dev/sda1 rw\n",
	  STORAGE_ROTATIONAL, "fuse.fuse2fs on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1", 0, 0 },
	{ "a_network_block_device_is_network", "43:0 virtual/block/nbd0" SPINS "\n", ROOT_ON("43:0", "/dev/nbd0"),
	  STORAGE_NETWORK, "ext4 on nbd0: a network block device", 0, 0 },
	{ "a_ceph_block_device_is_network", "250:0 rbd/0/block/rbd0" STILL "\n", ROOT_ON("250:0", "/dev/rbd0"),
	  STORAGE_NETWORK, "ext4 on rbd0: a Ceph block device", 0, 0 },
	{ "an_iscsi_disk_is_network",
	  "8:80 platform/host9/session3/target9:0:0/9:0:0:1/block/sdf" SPINS "; device/vendor=LIO-ORG; device/model=lun\n",
	  ROOT_ON("8:80", "/dev/sdf"), STORAGE_NETWORK, "ext4 on sdf: an iSCSI disk", 0, 0 },
	{ "nvme_over_tcp_is_network",
	  "259:9 virtual/nvme-fabrics/ctl/nvme4/nvme4n1" STILL "; device/transport=tcp; device/model=Linux\n",
	  ROOT_ON("259:9", "/dev/nvme4n1"), STORAGE_NETWORK, "ext4 on nvme4n1: NVMe over a network, model Linux", 0, 0 },

	/* What is missing */
	{ "a_device_that_sysfs_lacks_is_unknown", HDD_A, ROOT_ON("240:7", "/dev/none-such"),
	  STORAGE_UNKNOWN, "ext4: device 240:7 is not in sysfs", 0, 0 },
	{ "a_disk_without_queue_is_unknown", "240:0 virtual/block/thing0\n", ROOT_ON("240:0", "/dev/thing0"),
	  STORAGE_UNKNOWN, "ext4 on thing0: it has no queue/rotational", 0, 0 },
	{ "a_mount_is_found_by_its_device", HDD_A HDD_A1, "12 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
	  STORAGE_ROTATIONAL, "ext4 on sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1", 8, 1 },
	{ "without_its_mount_the_device_decides", HDD_A HDD_A1, "garbage\n1 2 - -\n\n1 2 3 4 5 6 - ext4\n",
	  STORAGE_ROTATIONAL, "sda1 on sda: queue/rotational is 1, model ST4000DM004-2CV1", 8, 1 },
	{ "without_mount_and_device_it_is_unknown", HDD_A, "12 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
	  STORAGE_UNKNOWN, "neither mountinfo nor sysfs know device 0:77", 0, 77 },
};
/* clang-format on */

/*
 * Writing a machine down
 */

static void make_parents(int fd, char *path)
{
	for (char *slash = path; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdirat(fd, path, 0700) < 0)
			assert_int_equal(errno, EEXIST);
	}
}

static void write_file(int fd, char *path, const char *text)
{
	AUTO(base_close) int file = -1;

	make_parents(fd, path);
	file = openat(fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
}

/* A relative link, as the kernel makes them, from path to target; both count from the top. */
static void write_link(int fd, char *path, const char *target)
{
	char link[1024];
	size_t len = 0;

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++)
		len += (size_t)snprintf(link + len, sizeof(link) - len, "../");
	len += (size_t)snprintf(link + len, sizeof(link) - len, "%s", target);
	assert_true(len < sizeof(link));
	make_parents(fd, path);
	assert_int_equal(symlinkat(link, fd, path), 0);
}

/* Links dir/NAME for each of the names to the device with that name. */
static void write_members(int fd, const char *dir, char *names)
{
	for (char *name; (name = strsep(&names, ","));) {
		char path[1024], device[1024], target[1024] = "../../nowhere";

		(void)snprintf(device, sizeof(device), "class/block/%s", name);
		(void)readlinkat(fd, device, target, sizeof(target) - 1);
		(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
		write_link(fd, path, target + strlen("../../"));
	}
}

/* One line of the table, without the members, which may be further down. */
static void write_device(int fd, char *line)
{
	char path[8192], device[512], *field;
	const char *number = strsep(&line, " ");

	if (strcmp(number, "btrfs") == 0)
		return;
	(void)snprintf(device, sizeof(device), "devices/%s", strsep(&line, ";"));
	(void)snprintf(path, sizeof(path), "%s/slaves/", device);
	make_parents(fd, path);
	(void)snprintf(path, sizeof(path), "dev/block/%s", number);
	write_link(fd, path, device);
	(void)snprintf(path, sizeof(path), "class/block/%s", strrchr(device, '/') + 1);
	write_link(fd, path, device);
	while ((field = strsep(&line, ";"))) {
		char *text = strchr(field, '=');

		*text++ = '\0';
		if (strcmp(field, " slaves") == 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", device, field + 1);
		write_file(fd, path, text);
	}
}

static void write_line_members(int fd, char *line)
{
	char dir[512], *slaves = strstr(line, "; slaves=");
	const char *number = strsep(&line, " ");

	if (strcmp(number, "btrfs") == 0) {
		(void)snprintf(dir, sizeof(dir), "fs/btrfs/%s/devices", strsep(&line, " "));
		write_members(fd, dir, line);
	} else if (slaves) {
		(void)snprintf(dir, sizeof(dir), "devices/%s/slaves", strsep(&line, ";"));
		write_members(fd, dir, slaves + strlen("; slaves="));
	}
}

/* Ends a line of the table. Texts may hold newlines: a line begins with "btrfs " or a device number. */
static char *next_line(char **rest)
{
	char *line = *rest, *end = line;

	if (!line || !*line)
		return NULL;
	while ((end = strchr(end, '\n'))) {
		char *after = ++end;

		(void)strtoul(after, &after, 10);
		if (!*end || *after == ':' || strncmp(end, "btrfs ", 6) == 0) {
			end[-1] = '\0';
			break;
		}
	}
	*rest = end;
	return line;
}

static void for_each_line(int fd, const char *table, void (*write_line)(int fd, char *line))
{
	AUTO(base_free) char *copy = strdup(table);
	char *rest = copy, *line;

	assert_non_null(copy);
	while ((line = next_line(&rest)))
		write_line(fd, line);
}

static void find(const struct tree *t, struct storage_where where, struct storage *ret)
{
	char sysfs[256], mountinfo[256];

	(void)snprintf(sysfs, sizeof(sysfs), "%s/sys", t->path);
	(void)snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", t->path);
	where.sysfs = sysfs;
	where.mountinfo = mountinfo;
	memset(ret, 0xa5, sizeof(*ret));
	assert_int_equal(storage_find(&where, ret), 0);
	assert_non_null(memchr(ret->evidence, '\0', sizeof(ret->evidence)));
}

static void write_machine(const struct tree *t, const char *devices, const char *mounts)
{
	AUTO(base_close) int sys = -1;
	char mountinfo[] = "mountinfo", dir[] = "sys/";

	make_parents(t->fd, dir);
	sys = openat(t->fd, "sys", O_DIRECTORY | O_CLOEXEC);
	for_each_line(sys, devices, write_device);
	for_each_line(sys, devices, write_line_members);
	write_file(t->fd, mountinfo, mounts);
}

static void storage_of_a_machine(void **state)
{
	const struct machine *m = *state;
	bool by_device = m->dev_major || m->dev_minor;
	struct storage_where where = { .mnt_id = by_device ? 0 : 30,
		                       .dev_major = m->dev_major,
		                       .dev_minor = m->dev_minor };
	struct storage found;
	struct tree t;

	tree_new(&t);
	write_machine(&t, m->devices, m->mounts);
	find(&t, where, &found);
	tree_remove(&t);
	assert_string_equal(found.evidence, m->evidence);
	assert_string_equal(storage_traits(found.kind)->name, storage_traits(m->kind)->name);
}

/*
 * What no table can hold
 */

/* n mappings, each on the one before; the first is on sda. */
static void find_in_a_tower(unsigned n, struct storage *ret)
{
	AUTO(base_free) char *devices = NULL;
	size_t size;
	FILE *out = open_memstream(&devices, &size);
	struct storage_where where = { .mnt_id = 30 };
	char mounts[128];
	struct tree t;

	assert_non_null(out);
	(void)fputs(HDD_A, out);
	for (unsigned i = 0; i < n; i++) {
		(void)fprintf(out, "253:%u virtual/block/dm-%u; slaves=", i, i);
		(void)(i ? fprintf(out, "dm-%u\n", i - 1) : fputs("sda\n", out));
	}
	(void)fclose(out);
	(void)snprintf(mounts, sizeof(mounts), "30 1 253:%u / / rw - ext4 /dev/x rw\n", n - 1);
	tree_new(&t);
	write_machine(&t, devices, mounts);
	find(&t, where, ret);
	tree_remove(&t);
}

static void a_high_tower_is_followed_and_its_middle_left_out(void **state)
{
	struct storage found;

	(void)state;
	find_in_a_tower(200, &found);
	assert_int_equal(found.kind, STORAGE_ROTATIONAL);
	assert_int_equal(strlen(found.evidence), sizeof(found.evidence) - 1);
	assert_ptr_equal(strstr(found.evidence, "ext4 on dm-199 on dm-198 "), found.evidence);
	assert_non_null(strstr(found.evidence, "..."));
	assert_non_null(strstr(found.evidence,
	                       " on dm-0 on sda: queue/rotational is 1, model ST4000DM004"));
}

static void a_tower_without_end_is_given_up(void **state)
{
	struct storage found;

	(void)state;
	find_in_a_tower(300, &found);
	assert_int_equal(found.kind, STORAGE_UNKNOWN);
	assert_string_equal(found.evidence, "ext4: too many devices to follow");
}

static void a_backing_file_with_a_long_path_is_found(void **state)
{
	char path[3900], devices[4200], mounts[4200];
	struct storage_where where = { .mnt_id = 30 };
	struct storage found;
	struct tree t;

	(void)state;
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 200 ? 'x' : '/';
	path[sizeof(path) - 1] = '\0';
	(void)snprintf(devices, sizeof(devices), LOOP_0 STILL "; loop/backing_file=%s/disk\n" SSD_C,
	               path);
	(void)snprintf(
		mounts, sizeof(mounts),
		"31 1 8:32 / %s rw - ext4 /dev/sdc rw\n30 1 7:0 / / rw - ext4 /dev/loop0 rw\n",
		path);
	tree_new(&t);
	write_machine(&t, devices, mounts);
	find(&t, where, &found);
	tree_remove(&t);
	assert_int_equal(found.kind, STORAGE_SOLID);
	assert_non_null(strstr(found.evidence, "/disk (ext4) on sdc: queue/rotational is 0"));
}

static void without_sysfs_and_mountinfo_it_is_unknown(void **state)
{
	const struct storage_where where = { .sysfs = "/nonexistent/sys",
		                             .mountinfo = "/nonexistent/mountinfo",
		                             .mnt_id = 30,
		                             .dev_major = 240,
		                             .dev_minor = 7 };
	struct storage found;

	(void)state;
	assert_int_equal(storage_find(&where, &found), 0);
	assert_int_equal(found.kind, STORAGE_UNKNOWN);
	assert_string_equal(found.evidence, "neither mountinfo nor sysfs know device 240:7");
}

static void this_machine_has_an_answer(void **state)
{
	const struct storage_where where = { 0 };
	struct storage found;

	(void)state;
	assert_int_equal(storage_find(&where, &found), 0);
	assert_true(strlen(found.evidence) > 0);
}

int main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(a_high_tower_is_followed_and_its_middle_left_out),
		cmocka_unit_test(a_tower_without_end_is_given_up),
		cmocka_unit_test(a_backing_file_with_a_long_path_is_found),
		cmocka_unit_test(without_sysfs_and_mountinfo_it_is_unknown),
		cmocka_unit_test(this_machine_has_an_answer),
	};
	struct CMUnitTest recorded[ARRAY_SIZE(machines)];

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		recorded[i] = (struct CMUnitTest){ .name = machines[i].name,
			                           .test_func = storage_of_a_machine,
			                           .initial_state = &machines[i] };
	return cmocka_run_group_tests_name("recorded machines", recorded, NULL, NULL) +
	       cmocka_run_group_tests_name("limits", others, NULL, NULL);
}
