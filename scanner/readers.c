/* SPDX-License-Identifier: MIT */
/*
 * readers - how many workers read at once, by what the disk is and by what is seen while scanning.
 *
 *     kind of storage -> first choice
 *     every few directories a worker asks the kernel whether it had to wait for the disk: a sample
 *         RUSAGE_THREAD's ru_inblock grows when this thread's own calls read from a block device;
 *         on network file systems a wait shows as a voluntary context switch (getrusage(2))
 *     samples -> readers_decide() -> how many
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
	READERS_MAX = 16, /* of those that are not one per CPU */
	/* Directories between two looks, fewer at first; one on a rotational disk. */
	SAMPLE_DIRS = 16,
	/* Directories in a row without a read before that counts as cached; more than were opened ahead at once. */
	CACHED_ROTATIONAL = SCAN_AHEAD + 48,
	CACHED_OTHER = 512,
	/* A decision soon after another doubles that, up to so many times; one that held halves it. */
	HOLD_DOUBLED = 64,
	HELD = 64,            /* times the directories that it takes */
	SAMPLES_DOWN = 32,    /* at least, before fewer read */
	SAMPLES_UP = 4,       /* ... before more read again */
	WAITS_UP = 2,         /* of them with a wait, */
	WAIT_FORGOTTEN = 256, /* unless so many directories came without one since */
	WAITS_NETWORK = 4,    /* waits in a sample that count as cold */
	WORKER_STACK = 256 * 1024
};

static unsigned cpu_count(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned)n : 1;
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

void readers_control_init(struct readers_control *c, unsigned cached, unsigned cold, bool spins,
                          bool starts_cold)
{
	*c = (struct readers_control){ .cached = cached,
		                       .cold = cold,
		                       .limit = starts_cold ? cold : cached,
		                       .spins = spins,
		                       .base = spins ? CACHED_ROTATIONAL : CACHED_OTHER };
	c->hold = c->base;
}

/* On a disk that moves its head one more reader costs more than any wait: the first one decides. */
static bool waits_enough(const struct readers_control *c, bool cold)
{
	if (c->spins || c->decisions == 0)
		return cold;
	return c->waits >= WAITS_UP && c->samples >= SAMPLES_UP && c->dirs >= c->hold / 4;
}

/*
 * One sample, of dirs directories: does it change c->limit? What is partly cached would be called cold and
 * cached in turns, and each turn would be right. So a decision has to hold for some samples and directories,
 * longer for fewer readers than for more, since too many do less harm than too few; and each that comes soon
 * after the one before makes the next wait twice as long.
 */
bool readers_decide(struct readers_control *c, bool cold, unsigned dirs)
{
	unsigned want = c->limit;

	c->dirs += dirs;
	c->samples++;
	c->run = cold ? 0 : c->run + dirs;
	if (c->run >= WAIT_FORGOTTEN)
		c->waits = 0;
	c->waits += cold;
	if (waits_enough(c, cold))
		want = c->cold;
	else if (c->run > c->hold && c->samples >= SAMPLES_DOWN)
		want = c->cached;
	if (want == c->limit)
		return false;
	if (c->decisions > 0)
		c->hold = c->dirs < (uint64_t)HELD * c->hold
		                  ? MIN(c->hold * 2, c->base * HOLD_DOUBLED)
		                  : MAX(c->hold / 2, c->base);
	c->limit = want;
	c->decisions++;
	c->dirs = c->samples = 0;
	c->run = c->waits = 0;
	return true;
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
	unsigned cpus = cpu_count();
	const struct storage_traits *kind;
	struct storage found;
	int e = storage_find(&where, &found);

	if (e < 0)
		return e;
	kind = storage_traits(found.kind);
	(void)snprintf(r->kind, sizeof(r->kind), "%s", kind->name);
	(void)snprintf(r->evidence, sizeof(r->evidence), "%s", found.evidence);
	r->rotational = kind->spins;
	r->network = kind->remote;
	r->by_inode = s->options->order == SCAN_ORDER_INODE ||
	              (s->options->order == SCAN_ORDER_AUTO && kind->spins);
	readers_control_init(&r->control, MIN(cpus, s->n_workers),
	                     MIN(kind->spins ? kind->cold : MAX(kind->cold, cpus), s->n_workers),
	                     kind->spins, kind->spins || kind->remote);
	r->fixed = s->options->threads != 0;
	if (r->fixed)
		r->control.limit = s->n_workers;
	atomic_store(&r->limit, r->control.limit);
	note(s, r->control.limit, r->fixed ? "asked for" : kind->first);
	return 0;
}

/* How many workers may be needed at most, before storage is known. */
unsigned readers_max(const struct scan_options *o)
{
	return o->threads ? o->threads : MAX(READERS_MAX, cpu_count());
}

/* Threads for the workers below the limit that have none yet. Fewer do, too: then it stays at those. */
static void start_threads(struct scan *s)
{
	struct readers *r = &s->readers;
	unsigned want = MIN(atomic_load(&r->limit), s->n_workers);
	pthread_attr_t attr;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, WORKER_STACK);
	while (s->n_started < want) {
		struct worker *w = &s->workers[s->n_started];

		if (pthread_create(&w->thread, &attr, s->worker_main, w) != 0)
			break;
		s->n_started++;
	}
	(void)pthread_attr_destroy(&attr);
	if (s->n_started == want)
		return;
	r->control.limit = MAX(s->n_started, 1);
	r->control.cold = MIN(r->control.cold, r->control.limit);
	r->control.cached = MIN(r->control.cached, r->control.limit);
	atomic_store(&r->limit, r->control.limit);
	note(s, r->control.limit, "no more threads may be made");
}

/* False if there is not one thread: the caller has to read by itself. */
bool readers_start(struct scan *s)
{
	unsigned begun;

	(void)pthread_mutex_lock(&s->readers.lock);
	(void)pthread_mutex_lock(&s->idle_lock);
	start_threads(s);
	begun = s->n_started;
	(void)pthread_mutex_unlock(&s->idle_lock);
	(void)pthread_mutex_unlock(&s->readers.lock);
	return begun > 0;
}

static void set_limit(struct scan *s, unsigned n, const char *why)
{
	(void)pthread_mutex_lock(&s->idle_lock);
	if (!atomic_load(&s->done)) {
		atomic_store(&s->readers.limit, n);
		note(s, n, why);
		start_threads(s);
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
	(void)pthread_mutex_lock(&r->lock);
	r->cold_samples += cold;
	r->cached_samples += !cold;
	if (!r->fixed && readers_decide(&r->control, cold, every))
		set_limit(s, r->control.limit,
		          cold ? "it waits for the disk" : "what it reads is cached");
	(void)pthread_mutex_unlock(&r->lock);
}

bool readers_may_read(const struct worker *w)
{
	return w->id < atomic_load_explicit(&w->scan->readers.limit, memory_order_relaxed);
}

void readers_report(struct scan *s, struct scan_stats *ret)
{
	const struct readers *r = &s->readers;
	uint64_t cold = r->cold_samples, cached = r->cached_samples;

	memcpy(ret->storage, r->kind, sizeof(ret->storage));
	memcpy(ret->storage_evidence, r->evidence, sizeof(ret->storage_evidence));
	memcpy(ret->readers_log, r->log, sizeof(ret->readers_log));
	ret->readers = atomic_load(&r->limit);
	ret->readers_changes = r->changes;
	ret->by_inode = r->by_inode;
	ret->cached_percent = cold + cached ? cached * 100 / (cold + cached) : 100;
}
