/* SPDX-License-Identifier: MIT */
/*
 * audience - who may list a directory. It depends on the directory alone, so sums for it can be stored.
 *
 * A mode or an ACL may deny a group what others have, so "all" needs both classes, and an ACL says nothing
 * but that the owner is the only one we know.
 */
#include "scanner/scanner.h"

enum scan_audience scan_audience(const struct scan_meta *dir)
{
	if (dir->acl)
		return SCAN_OWNER;
	if ((dir->mode & 055) == 055)
		return SCAN_ALL;
	return (dir->mode & 057) == 050 ? SCAN_GROUP : SCAN_OWNER;
}

bool scan_audience_covers(const struct scan_meta *child, const struct scan_meta *dir)
{
	if (scan_audience(child) == SCAN_ALL)
		return true;
	switch (scan_audience(dir)) {
	case SCAN_OWNER:
		return child->uid == dir->uid && (child->mode & 0500) == 0500;
	case SCAN_GROUP:
		return child->uid == dir->uid && child->gid == dir->gid &&
		       (child->mode & 0550) == 0550 && !child->acl;
	default:
		return false;
	}
}
