/* SPDX-License-Identifier: MIT */
/* state - how a scan ends: all is read, or something made it fail. */
#include "scanner/internal.h"

void state_fail(struct scan *s, int error)
{
	int none = 0;

	(void)atomic_compare_exchange_strong(&s->failed, &none, error);
}

void state_finish(struct scan *s)
{
	(void)pthread_mutex_lock(&s->idle_lock);
	atomic_store(&s->done, true);
	(void)pthread_cond_broadcast(&s->idle_cond);
	(void)pthread_cond_broadcast(&s->done_cond);
	(void)pthread_mutex_unlock(&s->idle_lock);
}
