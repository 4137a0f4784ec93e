/* SPDX-License-Identifier: MIT */
/*
 * jobs - requests that may take long, served by two threads of their own.
 *
 * A request whose text must first be gathered from many directories is parked here, so that LOOKUP,
 * GETATTR and READDIR of everything else never wait behind it. An interrupted reader stops its job.
 */
#include "fs/internal.h"

enum { JOB_THREADS = 2 };

struct jobs {
	struct fs *fs;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t cond;
	struct job *first, *last;
	struct job *running[JOB_THREADS];
	bool stopping;
	pthread_t thread[JOB_THREADS];
	unsigned n_threads;
};

static void on_interrupt(fuse_req_t req, void *data)
{
	struct job *job = data;

	(void)req;
	atomic_store(&job->stop, true);
}

/* The callback must not see the job any more: libfuse holds a lock of the request while it calls. */
static void run_job(struct jobs *j, struct job *job)
{
	fuse_req_interrupt_func(job->req, on_interrupt, job);
	if (fuse_req_interrupted(job->req))
		atomic_store(&job->stop, true);
	job->run(j->fs, job);
}

static void *thread_main(void *arg)
{
	struct jobs *j = arg;
	unsigned me;

	(void)pthread_mutex_lock(&j->lock);
	me = j->n_threads++;
	while (!j->stopping || j->first) {
		struct job *job = j->first;

		if (!job) {
			(void)pthread_cond_wait(&j->cond, &j->lock);
			continue;
		}
		j->first = job->next;
		if (!j->first)
			j->last = NULL;
		j->running[me] = job;
		if (j->stopping)
			atomic_store(&job->stop, true);
		(void)pthread_mutex_unlock(&j->lock);
		run_job(j, job);
		(void)pthread_mutex_lock(&j->lock);
		j->running[me] = NULL;
		free(job);
	}
	(void)pthread_mutex_unlock(&j->lock);
	return NULL;
}

struct jobs *jobs_new(struct fs *fs)
{
	struct jobs *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->fs = fs;
	(void)pthread_mutex_init(&j->lock, NULL);
	(void)pthread_cond_init(&j->cond, NULL);
	for (size_t i = 0; i < JOB_THREADS; i++) {
		if (pthread_create(&j->thread[i], NULL, thread_main, j) == 0)
			continue;
		j->thread[i] = 0;
		if (i == 0) {
			free(j);
			return NULL;
		}
	}
	return j;
}

void jobs_add(struct jobs *j, struct job *job)
{
	(void)pthread_mutex_lock(&j->lock);
	job->next = NULL;
	*(j->last ? &j->last->next : &j->first) = job;
	j->last = job;
	(void)pthread_cond_signal(&j->cond);
	(void)pthread_mutex_unlock(&j->lock);
}

/* Ends the threads; what still runs is told to give up, and everything gets an answer. */
void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	(void)pthread_mutex_lock(&j->lock);
	j->stopping = true;
	for (size_t i = 0; i < JOB_THREADS; i++)
		if (j->running[i])
			atomic_store(&j->running[i]->stop, true);
	(void)pthread_cond_broadcast(&j->cond);
	(void)pthread_mutex_unlock(&j->lock);
	for (size_t i = 0; i < JOB_THREADS; i++)
		if (j->thread[i])
			(void)pthread_join(j->thread[i], NULL);
	(void)pthread_cond_destroy(&j->cond);
	(void)pthread_mutex_destroy(&j->lock);
	free(j);
}
