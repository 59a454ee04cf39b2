/* A held feature, and reading features. */
#include "parts.h"

/* ---- Hold ---- */

static bool id_valid(const char *id)
{
    size_t size = strnlen(id, 65);
    for (size_t i = 0; i < size; i++) {
        char c = id[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || strchr("_-", c) == NULL))
            return false;
    }
    return size >= 1 && size <= 64;
}

static int store_feature_check_options(const struct bl_store_feature_options *options,
                                       struct bl_error *error)
{
    if (!id_valid(options->id)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "hold the feature", options->id,
                     "invalid feature id");
        bl_error_hint(error, "use a letter or digit, then up to 63 of A-Z, a-z, 0-9, _ and -");
        return BL_EINVAL;
    }
    if (options->repository[0] == '/')
        return 0;
    return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "hold the feature", options->repository,
                        "the path of a repository must be absolute");
}

static struct store_feature_hold *store_feature_make_hold(
    struct bl_store_feature *held, const struct bl_store_feature_options *options)
{
    struct store_feature_hold *hold = store_job_new(STORE_FEATURE_HOLD, sizeof *hold);
    struct store_job *job = &hold->job;
    job->linger_ns = STORE_LINGER_NS;
    hold->options = (struct bl_store_feature_options){
        .repository = store_job_string(job, options->repository),
        .id = store_job_string(job, options->id),
        .name = store_job_string(job, options->name),
        .run_id = store_job_string(job, options->run_id),
        .must_exist = options->must_exist,
    };
    store_claimant_fill(&hold->claimant, held->store, &held->handle, &job->input);
    return hold;
}

static void free_feature(struct bl_store_feature *held)
{
    store_handle_close(&held->handle, held->store);
    bl_free(held);
}

int bl_store_feature_hold(struct bl_store *store, const struct bl_store_feature_options *options,
                          struct bl_store_feature **ret_held, struct bl_store_owner *ret_owner,
                          struct bl_error *error)
{
    int code = store_feature_check_options(options, error);
    if (ret_owner != NULL)
        *ret_owner = (struct bl_store_owner){.life = BL_OWNER_NONE};
    if (code != 0)
        return code;
    struct bl_store_feature *held = bl_zalloc(sizeof *held);
    held->store = store;
    bl_text_into(held->id, sizeof held->id, options->id);
    store_handle_open(&held->handle, store);
    struct store_feature_hold *hold = store_feature_make_hold(held, options);
    enum store_lane_end end = store_run(store, &hold->job, &code, error);
    if (end == STORE_ANSWERED && ret_owner != NULL)
        *ret_owner = hold->owner;
    if (end == STORE_ANSWERED && code == 0) {
        held->grip = hold->grip;
        held->generation = hold->generation;
        *ret_held = held;
    } else {
        /* If the hold takes effect after all, the next hold finds a lease whose handle is not open.
         */
        free_feature(held);
    }
    store_job_leave(&hold->job);
    return code;
}

uint64_t bl_store_feature_epoch(const struct bl_store_feature *held)
{
    return held->grip.epoch;
}

uint64_t bl_store_feature_generation(const struct bl_store_feature *held)
{
    return held->generation;
}

/* ---- Write ---- */

static struct store_feature_write *store_feature_make_write(struct bl_store_feature *held,
                                                            enum store_operation operation)
{
    struct store_feature_write *write = store_job_new(operation, sizeof *write);
    write->job.linger_ns = STORE_LINGER_NS;
    write->grip = held->grip;
    memcpy(write->id, held->id, sizeof write->id);
    write->number = ++held->writes;
    write->wall_ns = store_wall_ns();
    bl_list_init(&write->records);
    return write;
}

static int store_feature_check_object(struct bl_text json, const char *what, const char *id,
                                      struct bl_error *error)
{
    struct bl_arena arena = {0};
    const struct bl_json *value;
    struct bl_json_fault fault;
    char why[192] = "it has another type";
    int code = bl_json_read(&arena, json, NULL, &value, &fault);
    if (code != 0)
        bl_json_fault_text(&fault, why, sizeof why);
    else if (bl_json_type(value) != BL_JSON_OBJECT)
        code = BL_EINVAL;
    bl_arena_done(&arena);
    if (code == 0)
        return 0;
    return bl_error_set(error, code, BL_KIND_PARSE, "write to the feature", id,
                        "%.100s must be one JSON object: %s", what, why);
}

static int check_write(const struct bl_store_feature *held,
                       const struct bl_store_feature_write *write, struct bl_error *error)
{
    int code = 0;
    for (size_t i = 0; i < write->event_count && code == 0; i++)
        code = store_feature_check_object(write->events[i], "an event", held->id, error);
    if (write->records == NULL)
        return code;
    BL_LIST_EACH (link, write->records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        if (code == 0 && record->json.size > 0)
            code = store_feature_check_object(record->json, record->name, held->id, error);
    }
    return code;
}

static struct store_feature_write *copy_write(struct bl_store_feature *held,
                                              const struct bl_store_feature_write *write)
{
    struct store_feature_write *copy = store_feature_make_write(held, STORE_FEATURE_WRITE);
    struct store_job *job = &copy->job;
    struct bl_text *events = bl_arena_alloc(&job->input, write->event_count * sizeof *events);
    job->durable = write->durable;
    copy->new_generation = write->new_generation;
    for (size_t i = 0; i < write->event_count; i++)
        events[i] = store_job_text(job, write->events[i]);
    copy->events = events;
    copy->event_count = write->event_count;
    if (write->records == NULL)
        return copy;
    BL_LIST_EACH (link, write->records) {
        const struct bl_row *from = BL_CONTAINER(link, struct bl_row, link);
        struct bl_row *to = bl_arena_alloc(&job->input, sizeof *to);
        to->name = store_job_string(job, from->name);
        to->json = store_job_text(job, from->json);
        bl_list_push_back(&copy->records, &to->link);
    }
    return copy;
}

/* Tasks of a feature write at the same time, from many fibers: each counts as separate work. */
static enum store_lane_end store_feature_run(struct bl_store_feature *held,
                                             struct store_feature_write *write, int *ret_code,
                                             struct bl_error *error)
{
    struct bl_store *store = held->store;
    store->feature_writes++;
    store_share_batches(store);
    enum store_lane_end end = store_run(store, &write->job, ret_code, error);
    store->feature_writes--;
    store_share_batches(store);
    return end;
}

int bl_store_feature_write(struct bl_store_feature *held,
                           const struct bl_store_feature_write *write, struct bl_error *error)
{
    struct bl_error own = {0};
    int code = check_write(held, write, error);
    if (code != 0)
        return code;
    struct store_feature_write *job = copy_write(held, write);
    enum store_lane_end end = store_feature_run(held, job, &code, &own);
    if (end == STORE_NO_ANSWER) {
        own = (struct bl_error){0};
        code = bl_error_set(&own, BL_EUNKNOWN, BL_KIND_FILESYSTEM, "write to the feature",
                            held->store->where,
                            "the store did not respond: it is unknown whether the write to feature "
                            "%s took place",
                            held->id);
        bl_error_name_set(&own, "commit_unknown");
    }
    if (code == 0 && job->generation > held->generation)
        held->generation = job->generation;
    /* A write that was cancelled before it was run is not a failure: its caller gave it up. */
    if (code != 0 && !(end == STORE_NOT_RUN && code == BL_ECANCELED))
        held->failed = true;
    store_job_leave(&job->job);
    if (code != 0 && error != NULL && error->code == 0)
        *error = own;
    return code;
}

void bl_store_feature_release(struct bl_store_feature *held)
{
    struct bl_scope shield;
    int code;
    if (held == NULL)
        return;
    if (!held->failed) {
        struct store_feature_write *write = store_feature_make_write(held, STORE_FEATURE_RELEASE);
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        store_feature_run(held, write, &code, NULL);
        bl_shield_end(&shield);
        store_job_leave(&write->job);
    }
    free_feature(held);
}

/* ---- Reading ---- */

static struct store_feature_look *store_feature_make_look(struct bl_store *store,
                                                          enum store_operation operation,
                                                          const char *repository, const char *id)
{
    struct store_feature_look *look = store_job_new(operation, sizeof *look);
    look->repository = store_job_string(&look->job, repository);
    look->id = store_job_string(&look->job, id);
    store_claimant_fill(&look->claimant, store, NULL, &look->job.input);
    bl_list_init(&look->records);
    bl_list_init(&look->summaries);
    return look;
}

static const char *store_feature_copy_string(struct bl_arena *arena, const char *string)
{
    return bl_arena_text(arena, bl_text_from(string)).data;
}

static void copy_records(struct bl_arena *arena, const struct bl_list *records,
                         struct bl_list *ret_records)
{
    bl_list_init(ret_records);
    BL_LIST_EACH (link, records) {
        const struct bl_row *from = BL_CONTAINER(link, struct bl_row, link);
        struct bl_row *to = bl_arena_alloc(arena, sizeof *to);
        to->name = store_feature_copy_string(arena, from->name);
        to->json = bl_arena_text(arena, from->json);
        bl_list_push_back(ret_records, &to->link);
    }
}

int bl_store_feature_load(struct bl_store *store, struct bl_arena *arena, const char *repository,
                          const char *id, const char *prefix, struct bl_list *ret_records,
                          struct bl_store_owner *ret_owner, uint64_t *ret_generation,
                          struct bl_error *error)
{
    struct store_feature_look *look =
        store_feature_make_look(store, STORE_FEATURE_LOAD, repository, id);
    int code;
    look->prefix = store_job_string(&look->job, prefix != NULL ? prefix : "");
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0) {
        copy_records(arena, &look->records, ret_records);
        if (ret_owner != NULL)
            *ret_owner = look->owner;
        if (ret_generation != NULL)
            *ret_generation = look->generation;
    }
    store_job_leave(&look->job);
    return code;
}

int bl_store_feature_events(struct bl_store *store, struct bl_arena *arena, const char *repository,
                            const char *id, uint64_t after, uint64_t limit,
                            struct bl_list *ret_events, struct bl_error *error)
{
    struct store_feature_look *look =
        store_feature_make_look(store, STORE_FEATURE_EVENTS, repository, id);
    int code;
    look->after = after;
    look->limit = limit;
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0)
        copy_records(arena, &look->records, ret_events);
    store_job_leave(&look->job);
    return code;
}

int bl_store_feature_list(struct bl_store *store, struct bl_arena *arena, const char *repository,
                          struct bl_list *ret_summaries, struct bl_error *error)
{
    struct store_feature_look *look =
        store_feature_make_look(store, STORE_FEATURE_LIST, repository, NULL);
    int code;
    if (store_run(store, &look->job, &code, error) == STORE_ANSWERED && code == 0) {
        bl_list_init(ret_summaries);
        BL_LIST_EACH (link, &look->summaries) {
            const struct bl_store_feature_summary *from =
                BL_CONTAINER(link, struct bl_store_feature_summary, link);
            struct bl_store_feature_summary *to = bl_arena_alloc(arena, sizeof *to);
            *to = *from;
            to->repository = store_feature_copy_string(arena, from->repository);
            to->id = store_feature_copy_string(arena, from->id);
            to->name = store_feature_copy_string(arena, from->name);
            to->record = bl_arena_text(arena, from->record);
            bl_list_push_back(ret_summaries, &to->link);
        }
    }
    store_job_leave(&look->job);
    return code;
}
