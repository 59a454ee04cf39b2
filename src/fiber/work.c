/* Design notes.
 *
 * Threads for operations without an asynchronous form. They are not libuv's: a stuck thread (a dead
 * disk, a resolver without network) must neither keep the process from exiting nor occupy a place
 * in the pool, and with libuv's pool it does both.
 *
 * A job belongs to the pool from submission to delivery. The fiber that waits for it may leave
 * earlier (at the limit of its shield): the job then has no caller, and delivery drops its payload.
 */
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
    struct bl_fiber *caller; /* NULL: abandoned. Only the loop's thread reads and writes it. */
    enum job_state state;    /* under the lock, like the link */
};

/* Lives as long as any of its threads: a loop with a stuck thread is not freed. */
struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct bl_list queued;
    struct bl_list finished;
    uint32_t queued_count;
    uint32_t threads; /* started and not ended */
    uint32_t running; /* of these, that run a job; each of the others takes the next or ends */
    uint32_t stuck;   /* of these, that run an abandoned job */
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

/* Returns the next job, under the lock; NULL if the thread may end, because the pool closes or the
 * thread was idle for long. */
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

/* Starts a thread, under the lock. It blocks all signals, which the program's own threads handle.
 */
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

/* Starts another thread, up to the limit, if there are more queued jobs than free threads. Under the
 * lock. A thread that was notified of a job and has not taken it yet is not free for another one. */
static int start_missing(struct workers *workers)
{
    uint32_t able = workers->threads - workers->stuck;
    if (workers->queued_count <= workers->threads - workers->running ||
        able >= workers->threads_max)
        return 0;
    return start_thread(workers);
}

/* Queues a job. Returns 0, or BL_ETHREADS if there is no thread that could ever run it. */
static int submit(struct workers *workers, struct job *job)
{
    pthread_mutex_lock(&workers->lock);
    bl_list_push_back(&workers->queued, &job->link);
    workers->queued_count++;
    int code = start_missing(workers);
    if (code != 0 && workers->threads > workers->stuck)
        code = 0; /* the job waits for a free thread */
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
        /* The caller frees its job: a stop may have woken it in the same turn, and it still has to
         * find out that the work is done. */
        if (job->caller != NULL) {
            fiber_wake(job->caller, 0);
            continue;
        }
        if (job->work.drop != NULL)
            job->work.drop(job->work.payload);
        bl_free(job);
    }
}

/* Abandons, removes or completes the job of a caller that a stop has woken. Returns the call's
 * code.
 *
 *  */
static int leave_job(struct workers *workers, struct job *job, int code, bool *ret_abandoned)
{
    pthread_mutex_lock(&workers->lock);
    *ret_abandoned = job->state == JOB_RUNNING;
    if (*ret_abandoned) {
        job->caller = NULL;
        workers->stuck++;
        /* Queued jobs must not wait for a thread that may never return. */
        start_missing(workers);
    } else {
        bl_list_remove(&job->link);
        if (job->state == JOB_QUEUED)
            workers->queued_count--;
        if (job->state == JOB_FINISHED)
            code = 0; /* it finished at the same moment: the payload is complete */
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
    /* Threads that are not stuck end soon. */
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
