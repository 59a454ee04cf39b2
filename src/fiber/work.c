/* Design notes.
 *
 * Threads for what has no asynchronous form. They are our own, not libuv's: a thread that is stuck
 * (a dead disk, a resolver without network) must neither keep the process from exiting nor take a
 * place from the others, and libuv's pool does both.
 *
 * A job belongs to the pool from submission to delivery. The fiber that waits for it may leave
 * before (the limit of its shield): the job then has no caller, and delivery drops its payload. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "parts.h"

#define WORKER_STACK_SIZE ((size_t)512 * 1024)
#define WORKER_IDLE_S     10

enum job_state {
    JOB_QUEUED,
    JOB_RUNNING,
    JOB_FINISHED,
};

struct job {
    struct bl_list link;
    struct bl_work work;
    struct bl_fiber *caller; /* NULL: abandoned. The loop's thread alone reads and writes it. */
    enum job_state state;    /* under the lock, as the link */
};

/* Lives as long as a thread of it: a loop with a stuck one is not freed. */
struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct bl_list queued;
    struct bl_list finished;
    uint32_t queued_count;
    uint32_t threads; /* started and not ended */
    uint32_t running; /* of these, who run a job; each of the others takes the next, or ends */
    uint32_t stuck;   /* of these, who run one that was abandoned */
    uint32_t threads_max;
    bool closing;
    struct bl_loop *loop;
    _Atomic(bool) has_finished;
};

struct workers *workers_new(struct bl_loop *loop, uint32_t threads_max)
{
    struct workers *workers = bl_zalloc(sizeof *workers);
    pthread_mutex_init(&workers->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&workers->more, &attributes);
    pthread_condattr_destroy(&attributes);
    bl_list_init(&workers->queued);
    bl_list_init(&workers->finished);
    workers->threads_max = threads_max;
    workers->loop = loop;
    return workers;
}

/* The next job, under the lock; NULL when the thread may end: closing, or idle for long. */
static struct job *next_job(struct workers *workers)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WORKER_IDLE_S;
    int status = 0;
    while (bl_list_empty(&workers->queued)) {
        if (workers->closing || status == ETIMEDOUT)
            return NULL;
        status = pthread_cond_timedwait(&workers->more, &workers->lock, &until);
    }
    workers->queued_count--;
    return BL_CONTAINER(bl_list_pop_front(&workers->queued), struct job, link);
}

static void *fiber_work_worker_main(void *argument)
{
    struct workers *workers = argument;
    struct job *job;
    pthread_mutex_lock(&workers->lock);
    while ((job = next_job(workers)) != NULL) {
        job->state = JOB_RUNNING;
        workers->running++;
        pthread_mutex_unlock(&workers->lock);
        job->work.run(job->work.payload);
        pthread_mutex_lock(&workers->lock);
        workers->running--;
        job->state = JOB_FINISHED;
        bl_list_push_back(&workers->finished, &job->link);
        atomic_store(&workers->has_finished, true);
        loop_wake(workers->loop);
    }
    workers->threads--;
    pthread_cond_broadcast(&workers->more);
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* Under the lock. Signals stay with the threads of the program. */
static int start_thread(struct workers *workers)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WORKER_STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&thread, &attributes, fiber_work_worker_main, workers);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (status != 0)
        return BL_ETHREADS;
    workers->threads++;
    return 0;
}

/* Under the lock: a thread for each job in line, as far as there may be so many. One that was told
 * of a job and has not come to it yet is not free for another. */
static int start_missing(struct workers *workers)
{
    uint32_t able = workers->threads - workers->stuck;
    if (workers->queued_count <= workers->threads - workers->running ||
        able >= workers->threads_max)
        return 0;
    return start_thread(workers);
}

/* 0, or BL_ETHREADS when there is not one thread that could ever run it. */
static int submit(struct workers *workers, struct job *job)
{
    pthread_mutex_lock(&workers->lock);
    bl_list_push_back(&workers->queued, &job->link);
    workers->queued_count++;
    int code = start_missing(workers);
    if (code != 0 && workers->threads > workers->stuck)
        code = 0; /* it waits for its turn */
    if (code == 0) {
        pthread_cond_signal(&workers->more);
    } else {
        bl_list_remove(&job->link);
        workers->queued_count--;
    }
    pthread_mutex_unlock(&workers->lock);
    return code;
}

bool workers_finished(struct bl_loop *loop)
{
    return atomic_load(&loop->workers->has_finished);
}

void workers_deliver(struct bl_loop *loop)
{
    struct workers *workers = loop->workers;
    if (!workers_finished(loop))
        return;
    struct bl_list finished;
    bl_list_init(&finished);
    pthread_mutex_lock(&workers->lock);
    struct bl_list *link;
    while ((link = bl_list_pop_front(&workers->finished)) != NULL) {
        bl_list_push_back(&finished, link);
        if (BL_CONTAINER(link, struct job, link)->caller == NULL)
            workers->stuck--;
    }
    atomic_store(&workers->has_finished, false);
    pthread_mutex_unlock(&workers->lock);
    while ((link = bl_list_pop_front(&finished)) != NULL) {
        struct job *job = BL_CONTAINER(link, struct job, link);
        /* The caller frees its job: a stop may have woken it in this same turn, and then it still
         * has to find out that the work is done. */
        if (job->caller != NULL) {
            fiber_wake(job->caller, 0);
            continue;
        }
        if (job->work.drop != NULL)
            job->work.drop(job->work.payload);
        bl_free(job);
    }
}

/* A stop has woken the caller: what becomes of its job. Returns the call's code. */
static int leave_job(struct workers *workers, struct job *job, int code, bool *ret_abandoned)
{
    pthread_mutex_lock(&workers->lock);
    *ret_abandoned = job->state == JOB_RUNNING;
    if (*ret_abandoned) {
        job->caller = NULL;
        workers->stuck++;
        /* Those in line behind it must not wait for a thread that may never come back. */
        start_missing(workers);
    } else {
        bl_list_remove(&job->link);
        if (job->state == JOB_QUEUED)
            workers->queued_count--;
        if (job->state == JOB_FINISHED)
            code = 0; /* in the same instant: it is done, and the payload whole */
    }
    pthread_mutex_unlock(&workers->lock);
    if (!*ret_abandoned)
        bl_free(job);
    return code;
}

int bl_work_call(const struct bl_work *work, bool *ret_abandoned)
{
    struct workers *workers = loop_current->workers;
    *ret_abandoned = false;
    int code = scope_code(bl_scope_current());
    if (code != 0)
        return code;
    struct job *job = bl_zalloc(sizeof *job);
    job->work = *work;
    job->caller = bl_fiber_current();
    bl_list_init(&job->link);
    code = submit(workers, job);
    if (code != 0) {
        bl_free(job);
        return code;
    }
    code = fiber_wait_external(NULL, "a worker thread",
                               work->abandon_on_stop ? WAIT_STOPPABLE : WAIT_SHIELDED);
    if (code != 0)
        return leave_job(workers, job, code, ret_abandoned);
    bl_free(job);
    return 0;
}

bool workers_done(struct bl_loop *loop)
{
    struct workers *workers = loop->workers;
    struct timespec until;
    workers_deliver(loop);
    pthread_mutex_lock(&workers->lock);
    workers->closing = true;
    pthread_cond_broadcast(&workers->more);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 5;
    /* Threads that are not stuck end in a moment. */
    while (workers->threads > workers->stuck)
        if (pthread_cond_timedwait(&workers->more, &workers->lock, &until) == ETIMEDOUT)
            break;
    bool all_ended = workers->threads == 0;
    workers->closing = all_ended;
    pthread_mutex_unlock(&workers->lock);
    if (!all_ended)
        return false;
    workers_deliver(loop);
    pthread_mutex_destroy(&workers->lock);
    pthread_cond_destroy(&workers->more);
    bl_free(workers);
    loop->workers = NULL;
    return true;
}
