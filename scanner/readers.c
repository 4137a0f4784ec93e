/* SPDX-License-Identifier: MIT */
/*
 * readers - how many workers read at once, by what the disk is and by what is seen while scanning.
 *
 *     kind of storage -> first choice
 *     every few directories a worker asks the kernel whether it had to wait for the disk:
 *         RUSAGE_THREAD's ru_inblock grows when this thread's own calls read from a block device;
 *         on network file systems a wait shows as a voluntary context switch (getrusage(2))
 *     cached  -> one reader per CPU, whatever the device
 *     cold    -> one on a disk that has to move its head, in inode order; eight on a solid or virtual
 *                one, even with two CPUs; sixteen where each request waits for somebody else
 *
 * Measured: on a simulated disk one reader in inode order takes a tenth of the time of directory order,
 * and a second reader makes it slower than one; on a virtual disk eight take 0.37 of the time of one.
 */
#include "scanner/internal.h"
#include "scanner/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

enum {
	COLD_SOLID = 8,
	COLD_NETWORK = 16,
	/* Directories between two looks, fewer at first; one on a rotational disk. */
	SAMPLE_DIRS = 16,
	/* Directories in a row without a read before more readers may join; more than were opened ahead at once. */
	CACHED_ROTATIONAL = SCAN_AHEAD + 48,
	CACHED_OTHER = 512,
	WAITS_NETWORK = 4, /* waits in a sample that count as cold */
	WORKER_STACK = 256 * 1024
};

static unsigned cpu_count(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned)n : 1;
}

static unsigned cold_readers(enum storage_kind kind, unsigned cpus)
{
	switch (kind) {
	case STORAGE_ROTATIONAL:
		return 1;
	case STORAGE_NETWORK:
		return MAX(COLD_NETWORK, cpus);
	case STORAGE_MEMORY:
		return cpus;
	default:
		return MAX(COLD_SOLID, cpus);
	}
}

/* One line of the log of decisions: when, how many, why. */
static void note(struct scan *s, unsigned n, const char *why)
{
	struct readers *r = &s->readers;
	size_t len = strlen(r->log);

	r->changes++;
	(void)snprintf(r->log + len, sizeof(r->log) - len, "%s%u readers at %" PRIu64 " ms: %s",
	               len ? "; " : "", n, (clock_ns(CLOCK_MONOTONIC) - s->start_ns) / 1000000,
	               why);
}

/* After the limits of descriptors are known and the root is open. */
int readers_init(struct scan *s)
{
	struct readers *r = &s->readers;
	struct storage_where where = {
		.mnt_id = s->have_mnt_id ? s->root_mnt : 0,
		.dev_major = (unsigned)major(s->root_dev),
		.dev_minor = (unsigned)minor(s->root_dev),
	};
	struct storage found;
	int e = storage_find(&where, &found);

	if (e < 0)
		return e;
	(void)snprintf(r->kind, sizeof(r->kind), "%s", storage_kind_name(found.kind));
	(void)snprintf(r->evidence, sizeof(r->evidence), "%s", found.evidence);
	r->rotational = found.kind == STORAGE_ROTATIONAL;
	r->network = found.kind == STORAGE_NETWORK;
	r->by_inode = s->options->order == SCAN_ORDER_INODE ||
	              (s->options->order == SCAN_ORDER_AUTO && r->rotational);
	r->cached = MIN(cpu_count(), s->n_workers);
	r->cold = MIN(cold_readers(found.kind, cpu_count()), s->n_workers);
	r->fixed = s->options->threads != 0;
	if (r->fixed) {
		atomic_store(&r->limit, s->n_workers);
		note(s, s->n_workers, "asked for");
	} else {
		unsigned first = r->rotational || r->network ? r->cold : r->cached;

		atomic_store(&r->limit, first);
		note(s, first,
		     r->rotational ? "a disk that moves its head"
		     : r->network  ? "each request waits for a server"
		                   : "one per CPU until the disk is waited for");
	}
	return 0;
}

/* How many workers may be needed at most, before storage is known. */
unsigned readers_max(const struct scan_options *o)
{
	return o->threads ? o->threads : MAX(COLD_NETWORK, cpu_count());
}

/* Threads for the workers below the limit that have none yet. Fewer do, too. With idle_lock held. */
void readers_start(struct scan *s)
{
	unsigned want = MIN(atomic_load(&s->readers.limit), s->n_workers);
	pthread_attr_t attr;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, WORKER_STACK);
	for (; s->n_started < want; s->n_started++) {
		struct worker *w = &s->workers[s->n_started];

		if (pthread_create(&w->thread, &attr, s->worker_main, w) != 0)
			break;
	}
	(void)pthread_attr_destroy(&attr);
}

static void set_limit(struct scan *s, unsigned n, const char *why)
{
	struct readers *r = &s->readers;

	(void)pthread_mutex_lock(&s->idle_lock);
	if (atomic_load(&r->limit) != n && !atomic_load(&s->done)) {
		atomic_store(&r->limit, n);
		note(s, n, why);
		readers_start(s);
		(void)pthread_cond_broadcast(&s->idle_cond);
	}
	(void)pthread_mutex_unlock(&s->idle_lock);
}

/* Did this worker wait for the storage since the last look? */
static bool had_to_wait(struct worker *w)
{
	const struct readers *r = &w->scan->readers;
	struct rusage ru;
	bool cold;

	if (getrusage(RUSAGE_THREAD, &ru) < 0)
		return false;
	cold = ru.ru_inblock != w->seen_inblock;
	if (r->network && ru.ru_nvcsw - w->seen_switches >= WAITS_NETWORK)
		cold = true;
	w->seen_inblock = ru.ru_inblock;
	w->seen_switches = ru.ru_nvcsw;
	return cold;
}

/* After each directory that a worker has read. */
void readers_look(struct worker *w)
{
	struct scan *s = w->scan;
	struct readers *r = &s->readers;
	unsigned every = r->rotational ? 1 : w->look_after;
	bool cold;

	if (++w->since_look < every)
		return;
	w->since_look = 0;
	w->look_after = MIN(every * 2, SAMPLE_DIRS); /* a small cold tree is half read by then */
	cold = had_to_wait(w);
	atomic_fetch_add_explicit(cold ? &r->cold_samples : &r->cached_samples, 1,
	                          memory_order_relaxed);
	if (r->fixed)
		return;
	if (cold) {
		atomic_store_explicit(&r->cached_run, 0, memory_order_relaxed);
		if (atomic_load_explicit(&r->limit, memory_order_relaxed) != r->cold)
			set_limit(s, r->cold, "it waits for the disk");
	} else if (atomic_fetch_add_explicit(&r->cached_run, every, memory_order_relaxed) >
	           (r->rotational ? CACHED_ROTATIONAL : CACHED_OTHER)) {
		if (atomic_load_explicit(&r->limit, memory_order_relaxed) != r->cached)
			set_limit(s, r->cached, "what it reads is cached");
	}
}

bool readers_may_read(const struct worker *w)
{
	return w->id < atomic_load_explicit(&w->scan->readers.limit, memory_order_relaxed);
}

void readers_report(struct scan *s, struct scan_stats *ret)
{
	const struct readers *r = &s->readers;
	uint64_t cold = atomic_load(&r->cold_samples), cached = atomic_load(&r->cached_samples);

	memcpy(ret->storage, r->kind, sizeof(ret->storage));
	memcpy(ret->storage_evidence, r->evidence, sizeof(ret->storage_evidence));
	memcpy(ret->readers_log, r->log, sizeof(ret->readers_log));
	ret->readers = atomic_load(&r->limit);
	ret->readers_changes = r->changes;
	ret->by_inode = r->by_inode;
	ret->cached_percent = cold + cached ? cached * 100 / (cold + cached) : 100;
}
