/* SPDX-License-Identifier: MIT */
/*
 * jobs - requests that may take long, served by threads of their own.
 *
 * A request whose text must first be gathered from many directories is parked here, so that LOOKUP,
 * GETATTR and READDIR of everything else never wait behind it. An interrupted reader stops its job.
 */
#include "fs/internal.h"

/* The last thread only answers those that were interrupted while all others work. */
enum {
	JOB_THREADS = 3
};

struct jobs {
	struct fs *fs;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t cond;
	struct job *first, *last;
	struct job *running[JOB_THREADS];
	bool stopping;
	unsigned n_running;
	pthread_t thread[JOB_THREADS];
	unsigned n_threads; /* started; only for jobs_start() and jobs_free() */
};

/*
 * The reader is interrupted: a running job gives up soon, a waiting one is answered at once. libfuse calls
 * this with a lock of the request held, and jobs_end() takes that lock, so the job is still there.
 */
static void on_interrupt(fuse_req_t req, void *data)
{
	struct job *job = data;

	(void)req;
	atomic_store(&job->stop, true);
	(void)pthread_mutex_lock(&job->jobs->lock);
	(void)pthread_cond_broadcast(&job->jobs->cond);
	(void)pthread_mutex_unlock(&job->jobs->lock);
}

/* Before a job's request is answered: from here on nobody calls back for it. */
void jobs_end(struct job *job)
{
	fuse_req_interrupt_func(job->req, NULL, NULL);
}

/* Jobs that were interrupted come first. Lock held. */
static struct job *take(struct jobs *j, bool only_interrupted)
{
	struct job *none = NULL, **at = only_interrupted ? &none : &j->first, *job, *before = NULL;

	for (struct job *i = j->first, *prev = NULL; i; prev = i, i = i->next) {
		if (!atomic_load(&i->stop))
			continue;
		at = prev ? &prev->next : &j->first;
		before = prev;
		break;
	}
	job = *at;
	if (!job)
		return NULL;
	*at = job->next;
	if (j->last == job)
		j->last = before;
	return job;
}

static void *thread_main(void *arg)
{
	struct jobs *j = arg;
	unsigned me;

	(void)pthread_mutex_lock(&j->lock);
	me = j->n_running++;
	while (!j->stopping || j->first) {
		struct job *job = take(j, me == JOB_THREADS - 1 && !j->stopping);

		if (!job) {
			(void)pthread_cond_wait(&j->cond, &j->lock);
			continue;
		}
		j->running[me] = job;
		if (j->stopping)
			atomic_store(&job->stop, true);
		(void)pthread_mutex_unlock(&j->lock);
		job->run(j->fs, job);
		(void)pthread_mutex_lock(&j->lock);
		j->running[me] = NULL;
		free(job);
	}
	(void)pthread_mutex_unlock(&j->lock);
	return NULL;
}

void jobs_add(struct jobs *j, struct job *job)
{
	job->jobs = j;
	/* From here an interrupt may come: the request is not in the queue yet, so it can only set stop. */
	fuse_req_interrupt_func(job->req, on_interrupt, job);
	(void)pthread_mutex_lock(&j->lock);
	job->next = NULL;
	*(j->last ? &j->last->next : &j->first) = job;
	j->last = job;
	(void)pthread_cond_broadcast(&j->cond);
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
	for (size_t i = 0; i < j->n_threads; i++)
		(void)pthread_join(j->thread[i], NULL);
	(void)pthread_cond_destroy(&j->cond);
	(void)pthread_mutex_destroy(&j->lock);
	free(j);
}

int jobs_start(struct fs *fs)
{
	struct jobs *j = calloc(1, sizeof(*j));
	int r = 0;

	if (!j)
		return -ENOMEM;
	j->fs = fs;
	fs->jobs = j;
	(void)pthread_mutex_init(&j->lock, NULL);
	(void)pthread_cond_init(&j->cond, NULL);
	for (; r == 0 && j->n_threads < JOB_THREADS; j->n_threads += r == 0)
		r = -pthread_create(&j->thread[j->n_threads], NULL, thread_main, j);
	return r;
}
