/* Design notes.
 *
 * A lane has no lock and no thread of its own: the queue belongs to the loop, and a batch belongs
 * to the thread from the call to its end. A caller may leave at any time (the limit of its shield,
 * a stop). A job that is still queued is then removed without being run; a running job stays with
 * the batch, and is freed with it. A leader that leaves does not take its batch along: the end of
 * the work is reported on the loop's thread in any case, and the remaining callers get their
 * answers.
 *
 * A batch that runs longer than any caller waits is stuck, for example on a failed disk. Until it
 * returns, new callers are refused at once. */
#include <assert.h>

#include "parts.h"

struct store_batch {
    struct store_lane *lane;
    struct bl_list jobs;
    uint64_t started_ns;
};

void *store_job_new(enum store_operation operation, size_t size)
{
    struct store_job *job = bl_zalloc(size);
    bl_semaphore_init(&job->woken, 0);
    job->operation = operation;
    if (operation == STORE_HOLD)
        bl_list_init(&((struct store_hold *)(void *)job)->records);
    return job;
}

static void job_free(struct store_job *job)
{
    struct bl_list *link;
    if (job->operation == STORE_HOLD) {
        struct store_hold *hold = BL_CONTAINER(job, struct store_hold, job);
        while ((link = bl_list_pop_front(&hold->records)) != NULL)
            bl_turn_record_free(BL_CONTAINER(link, struct bl_turn_record, link));
        bl_turn_record_free(hold->summary);
    }
    bl_arena_done(&job->input);
    bl_arena_done(&job->output);
    bl_free(job);
}

void store_job_leave(struct store_job *job)
{
    if (job->state == STORE_JOB_RUNNING)
        job->left = true;
    else
        job_free(job);
}

struct bl_text store_job_text(struct store_job *job, struct bl_text text)
{
    job->weight += text.size;
    return bl_arena_text(&job->input, text);
}

const char *store_job_string(struct store_job *job, const char *string)
{
    return string == NULL ? NULL : store_job_text(job, bl_text_from(string)).data;
}

void store_lane_init(struct store_lane *lane, const char *where, size_t jobs_max,
                     void (*run)(void *context, struct bl_list *jobs), void *context)
{
    *lane = (struct store_lane){
        .run = run,
        .context = context,
        .where = where,
        .jobs_max = jobs_max,
        .stuck_after_ns = BL_STORE_NS_MAX,
    };
    bl_list_init(&lane->queue);
    bl_semaphore_init(&lane->idle, 0);
    bl_semaphore_init(&lane->queued, 0);
}

/* Moves a job to another state:
 *
 *   queued   --taken into a batch-->    running
 *   running  --answered-->              done
 *   running  --could not start-->       queued
 *
 * Only this function changes the state, on the loop's thread. */
static void lane_move(struct store_job *job, enum store_job_state to)
{
    static const unsigned char moves[] = {
        [STORE_JOB_QUEUED] = BL_TO(STORE_JOB_RUNNING),
        [STORE_JOB_RUNNING] = BL_TO(STORE_JOB_DONE) | BL_TO(STORE_JOB_QUEUED),
        [STORE_JOB_DONE] = 0,
    };
    assert(BL_MAY_MOVE(moves, job->state, to));
    job->state = to;
}

static uint64_t running_ns(const struct store_lane *lane)
{
    return lane->running == NULL ? 0 : bl_now_ns() - lane->running->started_ns;
}

static struct store_job *find_urgent(const struct store_lane *lane)
{
    BL_LIST_EACH (link, &lane->queue) {
        struct store_job *job = BL_CONTAINER(link, struct store_job, link);
        if (job->urgent)
            return job;
    }
    return NULL;
}

/* Makes the first job in the queue the leader, if no batch is running or about to start. */
static void choose_leader(struct store_lane *lane)
{
    if (lane->served || lane->running != NULL || lane->leader != NULL ||
        bl_list_empty(&lane->queue))
        return;
    struct store_job *urgent = lane->was_ahead ? NULL : find_urgent(lane);
    lane->ahead = urgent != NULL;
    lane->leader = urgent != NULL ? urgent : BL_CONTAINER(lane->queue.next, struct store_job, link);
    bl_semaphore_give(&lane->leader->woken);
}

static struct store_batch *take_batch(struct store_lane *lane)
{
    assert(lane->running == NULL);
    struct store_batch *batch = bl_zalloc(sizeof *batch);
    size_t count = 0, bytes = 0;
    batch->lane = lane;
    bl_list_init(&batch->jobs);
    BL_LIST_EACH_SAFE (link, &lane->queue) {
        struct store_job *job = BL_CONTAINER(link, struct store_job, link);
        if (lane->ahead && !job->urgent)
            continue;
        if (count == lane->jobs_max)
            break;
        bytes += job->weight;
        if (count > 0 && bytes > STORE_BATCH_BYTES_MAX)
            break;
        bl_list_remove(&job->link);
        lane_move(job, STORE_JOB_RUNNING);
        bl_list_push_back(&batch->jobs, &job->link);
        count++;
    }
    batch->started_ns = bl_now_ns();
    lane->running = batch;
    lane->leader = NULL;
    return batch;
}

/* Completes a batch, on the loop's thread, in the leader or after it has left: every job has its
 * answer. */
static void finish_batch(void *payload)
{
    struct store_batch *batch = payload;
    struct store_lane *lane = batch->lane;
    struct bl_list *link;
    lane->running = NULL;
    lane->was_ahead = lane->ahead;
    /* Before the others are woken, so that the thread does not wait for what they do. */
    choose_leader(lane);
    lane->prompt = lane->leader != NULL;
    while ((link = bl_list_pop_front(&batch->jobs)) != NULL) {
        struct store_job *job = BL_CONTAINER(link, struct store_job, link);
        lane_move(job, STORE_JOB_DONE);
        if (job->left)
            job_free(job);
        else
            bl_semaphore_give(&job->woken);
    }
    bl_free(batch);
    if (lane->closing)
        bl_semaphore_give(&lane->idle);
}

/* Puts a batch that could not start back at the front of the queue, in the same order. */
static void lane_put_back(struct store_batch *batch)
{
    struct store_lane *lane = batch->lane;
    lane->running = NULL;
    while (!bl_list_empty(&batch->jobs)) {
        struct bl_list *link = batch->jobs.previous;
        struct store_job *job = BL_CONTAINER(link, struct store_job, link);
        bl_list_remove(link);
        lane_move(job, STORE_JOB_QUEUED);
        bl_list_push_front(&lane->queue, link);
        if (job->left) {
            bl_list_remove(link);
            job_free(job);
        }
    }
    bl_free(batch);
}

int store_lane_serve(struct store_lane *lane)
{
    int code;
    assert(lane->served);
    while ((code = bl_semaphore_take(&lane->queued)) == 0) {
        /* The caller may have left, or its job may have gone with others. */
        if (bl_list_empty(&lane->queue))
            continue;
        lane->ahead = !lane->was_ahead && find_urgent(lane) != NULL;
        struct store_batch *batch = take_batch(lane);
        lane->run(lane->context, &batch->jobs);
        finish_batch(batch);
        if (!bl_list_empty(&lane->queue))
            bl_semaphore_give(&lane->queued);
    }
    return code;
}

static void lane_run_batch(void *payload)
{
    struct store_batch *batch = payload;
    batch->lane->run(batch->lane->context, &batch->jobs);
}

/* Runs one batch that includes the caller's job. Returns 0, or why the caller stops waiting. */
static int lead(struct store_lane *lane)
{
    bool abandoned;
    /* After a pause, jobs from the same turn of the loop join the batch. */
    if (!lane->prompt)
        bl_yield();
    lane->prompt = false;
    struct store_batch *batch = take_batch(lane);
    int code = bl_work_call(
        &(struct bl_work){
            .run = lane_run_batch, .drop = finish_batch, .payload = batch, .abandon_on_stop = true},
        &abandoned);
    if (code == 0)
        finish_batch(batch);
    else if (!abandoned)
        lane_put_back(batch);
    return code;
}

static int refuse_stuck(const struct store_lane *lane, struct bl_error *error)
{
    char since[32];
    bl_duration_format((int64_t)running_ns(lane), since);
    bl_error_set(error, BL_EBUSY, BL_KIND_FILESYSTEM, "store", lane->where,
                 "the store does not respond: a write has been blocked for %s", since);
    bl_error_hint(error, "check the disk of %s; nothing was changed", lane->where);
    return BL_EBUSY;
}

static int explain_left(const struct store_lane *lane, int code, bool running,
                        struct bl_error *error)
{
    if (code == BL_ETHREADS)
        return bl_error_set(error, code, BL_KIND_RUNTIME, "store", lane->where,
                            "no thread available for the store");
    return bl_error_set(error, code, BL_KIND_FILESYSTEM, "store", lane->where,
                        running ? "the store did not respond in time; the operation may still take "
                                  "place"
                                : "the store was busy for too long; nothing was changed");
}

enum store_lane_end store_lane_call(struct store_lane *lane, struct store_job *job, int *ret_code,
                                    struct bl_error *error)
{
    struct bl_scope shield;
    if (!lane->served && lane->running != NULL && running_ns(lane) >= lane->stuck_after_ns) {
        *ret_code = refuse_stuck(lane, error);
        return STORE_NOT_RUN;
    }
    job->state = STORE_JOB_QUEUED;
    job->queued_ns = bl_now_ns();
    bl_list_push_back(&lane->queue, &job->link);
    if (lane->served)
        bl_semaphore_give(&lane->queued);
    choose_leader(lane);
    int code = bl_semaphore_take(&job->woken);
    if (code == 0 && lane->leader == job)
        code = lead(lane);
    if (code != 0 && job->state == STORE_JOB_RUNNING && job->linger_ns > 0) {
        bl_shield_begin(&shield, job->linger_ns);
        bl_semaphore_take(&job->woken);
        bl_shield_end(&shield);
    }
    switch (job->state) {
    case STORE_JOB_DONE:
        *ret_code = job->code;
        BL_LOG(BL_ROOM_STORE, BL_LOG_TRACE, "job done",
               BL_LOG_INTEGER("operation", (int64_t)job->operation),
               BL_LOG_STRING("result", bl_error_text(job->code)));
        if (job->code != 0 && error != NULL && error->code == 0)
            *error = job->error;
        return STORE_ANSWERED;
    case STORE_JOB_RUNNING:
        BL_LOG(BL_ROOM_STORE, BL_LOG_WARNING, "no answer",
               BL_LOG_INTEGER("operation", (int64_t)job->operation));
        *ret_code = explain_left(lane, code, true, error);
        return STORE_NO_ANSWER;
    case STORE_JOB_QUEUED: break;
    }
    assert(code != 0);
    bl_list_remove(&job->link);
    if (lane->leader == job)
        lane->leader = NULL;
    choose_leader(lane);
    *ret_code = explain_left(lane, code, false, error);
    return STORE_NOT_RUN;
}

bool store_lane_close(struct store_lane *lane)
{
    struct bl_scope shield;
    uint64_t age_ns = running_ns(lane);
    assert(bl_list_empty(&lane->queue));
    /* The fiber that serves it ends its batch when it is stopped. */
    if (lane->served)
        return true;
    if (lane->running != NULL && age_ns < lane->stuck_after_ns) {
        lane->closing = true;
        bl_shield_begin(&shield, lane->stuck_after_ns - age_ns);
        bl_semaphore_take(&lane->idle);
        bl_shield_end(&shield);
    }
    return lane->running == NULL;
}
