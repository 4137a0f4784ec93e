/* SPDX-License-Identifier: MIT */
/* progress - how far a scan is while it runs, and what it took when it is over. */
#include "scanner/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

enum {
	PROGRESS_MS = 200
};

void progress_path(struct worker *w, const struct scan_dir *d)
{
	struct scan *s = w->scan;

	if (!atomic_load_explicit(&s->want_path, memory_order_relaxed))
		return;
	(void)pthread_mutex_lock(&s->path_lock);
	(void)path_of(d, s->root_path, s->path, sizeof(s->path));
	(void)pthread_mutex_unlock(&s->path_lock);
	atomic_store_explicit(&s->want_path, false, memory_order_relaxed);
}

static void add_stats(const struct scan *s, struct scan_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < s->n_workers; i++) {
		const struct scan_counters *c = &s->workers[i].count;

		ret->openat += atomic_load_explicit(&c->openat, memory_order_relaxed);
		ret->statx += atomic_load_explicit(&c->statx, memory_order_relaxed);
		ret->getdents64 += atomic_load_explicit(&c->getdents64, memory_order_relaxed);
		ret->close += atomic_load_explicit(&c->close, memory_order_relaxed);
		ret->entries += atomic_load_explicit(&c->entries, memory_order_relaxed);
		ret->bytes =
			size_sum(ret->bytes, atomic_load_explicit(&c->bytes, memory_order_relaxed));
		ret->dirs += atomic_load_explicit(&c->dirs, memory_order_relaxed);
		ret->steals += atomic_load_explicit(&c->steals, memory_order_relaxed);
	}
}

static void report_progress(struct scan *s)
{
	struct scan_progress p;

	if (!s->options->progress)
		return;
	add_stats(s, &p.stats);
	p.stats.wall_ns = clock_ns(CLOCK_MONOTONIC) - s->start_ns;
	(void)pthread_mutex_lock(&s->path_lock);
	memcpy(p.path, s->path, sizeof(p.path));
	(void)pthread_mutex_unlock(&s->path_lock);
	atomic_store(&s->want_path, true);
	if (s->options->progress(s->options->progress_ctx, &p))
		state_fail(s, -ECANCELED);
}

void progress_look(struct scan *s)
{
	uint64_t now;

	if (!s->options->progress)
		return;
	now = clock_ns(CLOCK_MONOTONIC);
	if (now - s->report_ns < PROGRESS_MS * 1000000u)
		return;
	s->report_ns = now;
	report_progress(s);
}

/* Until the workers are done, tell the caller how far they are. */
void progress_wait(struct scan *s)
{
	atomic_store(&s->want_path, true);
	(void)pthread_mutex_lock(&s->idle_lock);
	while (!atomic_load(&s->done)) {
		struct timespec until;

		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PROGRESS_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_cond_timedwait(&s->done_cond, &s->idle_lock, &until) != ETIMEDOUT)
			continue;
		(void)pthread_mutex_unlock(&s->idle_lock);
		report_progress(s);
		(void)pthread_mutex_lock(&s->idle_lock);
	}
	(void)pthread_mutex_unlock(&s->idle_lock);
}

static void source_report(const struct scan *s, struct scan_stats *ret)
{
	uint64_t listed = 0, declined = 0, doubted = 0, kept = 0;

	for (unsigned i = 0; i < s->n_workers; i++) {
		const struct scan_counters *c = &s->workers[i].count;

		listed += c->listed;
		declined += c->declined;
		doubted += c->doubted;
		kept += c->kept;
	}
	(void)snprintf(ret->source, sizeof(ret->source), "%s",
	               s->source ? s->source_ops->name : "walk");
	if (!s->source)
		(void)snprintf(ret->source_evidence, sizeof(ret->source_evidence), "%s",
		               *s->source_why ? s->source_why
		                              : "system calls read any file system");
	else
		(void)snprintf(ret->source_evidence, sizeof(ret->source_evidence),
		               "%" PRIu64 " directories listed, %" PRIu64
		               " of them with doubts; %" PRIu64 " declined, %" PRIu64
		               " kept as they were",
		               listed, doubted, declined, kept);
}

void progress_stats(struct scan *s, struct scan_stats *ret)
{
	struct rusage ru;

	add_stats(s, ret);
	for (unsigned i = 0; i < s->n_workers; i++) {
		const struct worker *w = &s->workers[i];

		if (w->life_ns > w->idle_ns + w->user_ns + w->sys_ns)
			ret->blocked_ns += w->life_ns - w->idle_ns - w->user_ns - w->sys_ns;
		ret->user_ns += w->user_ns;
		ret->sys_ns += w->sys_ns;
		for (size_t e = 0; e < SCAN_ERRNO_SLOTS; e++)
			ret->by_errno[e] += w->count.by_errno[e];
	}
	source_report(s, ret);
	readers_report(s, ret);
	ret->wall_ns = clock_ns(CLOCK_MONOTONIC) - s->start_ns;
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		ret->peak_rss_kb = (uint64_t)ru.ru_maxrss;
}
