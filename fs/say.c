/* SPDX-License-Identifier: MIT */
/* say - what goes wrong while the mount runs is told to people once per cause. */
#include "fs/internal.h"

#include <syslog.h>

void fs_say(struct fs *fs, const char *what, int error)
{
	bool fresh = false;

	(void)pthread_mutex_lock(&fs->stop_lock);
	for (size_t i = 0; i < ARRAY_SIZE(fs->said); i++) {
		if (fs->said[i] == error)
			break;
		if (fs->said[i] == 0) {
			fs->said[i] = error;
			fresh = true;
			break;
		}
	}
	(void)pthread_mutex_unlock(&fs->stop_lock);
	if (!fresh)
		return;
	fs->o->say(fs->o->say_ctx, fs->o->index, snap_strerror(error));
	syslog(LOG_DAEMON | LOG_WARNING, "disktracker: %s index '%s': %s", what, fs->o->index,
	       snap_strerror(error));
}
