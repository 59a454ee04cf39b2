/* Features: holding, writing and reading them. */
#include "postgres.h"

static struct store_feature_hold *feature_hold_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_feature_hold, job);
}

static struct store_feature_write *feature_write_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_feature_write, job);
}

static struct store_feature_look *feature_look_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_feature_look, job);
}

/* ---- Owners ---- */

/* The lease of `s` with its holder, whether it was left without a release, and the time of the last
 * heartbeat. */
#define FEATURE_OWNER_COLUMNS PG_LEASE_COLUMNS ", s.owner is not null, w.beat_at"

/* Reads the owner from the columns above. One whose worker is lost is dead, whether its process is
 * alive or not. */
static void feature_take_owner(const struct store_row *row, int column,
                               const struct store_claimant *claimant, struct store_lease *ret_lease,
                               struct bl_store_owner *ret_owner)
{
    store_lease_read(row, column, ret_lease);
    bool lost = !ret_lease->held && store_row_flag(row, column + 10);
    ret_lease->held = ret_lease->held || lost;
    store_lease_owner(ret_lease, claimant, ret_owner);
    if (lost)
        ret_owner->life = BL_OWNER_DEAD;
    if (ret_owner->life != BL_OWNER_NONE)
        ret_owner->seen_wall_ns = store_row_time(row, column + 11);
}

/* ---- Not found ---- */

static int feature_refuse_missing(struct pg_work *work, const char *host, const char *repository,
                                  const char *id, struct bl_error *error)
{
    struct store_suggestion suggestion;
    struct pg_call *ids = pg_call_new(&work->arena,
                                      "select id from belay.feature where host = $1 and"
                                      " repository = $2 order by updated desc limit $3",
                                      "ssi", host, repository, (int64_t)STORE_SUGGEST_IDS_MAX);
    int code = pg_suggest(work, ids, id, &suggestion, error);
    return code != 0 ? code
                     : store_refuse_missing_feature(id, repository, work->store->address.shown,
                                                    &suggestion, error);
}

/* ---- Hold ---- */

/* Columns of belay.hold_feature, with the lease before. */
#define HOLD_FEATURE                                                                               \
    "select s.verdict, s.key, s.generation, " FEATURE_OWNER_COLUMNS                                \
    " from belay.hold_feature($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"                       \
    " s (verdict, key, generation, epoch, owner, holder, handle, since) " PG_LEASE_WORKER

/* `dead`: a worker that was seen dead on this host; may be empty. */
static struct pg_call *call_feature_hold(struct pg_work *work,
                                         const struct store_feature_hold *hold, const char *dead)
{
    const struct bl_store_feature_options *options = &hold->options;
    const struct store_claimant *claimant = &hold->claimant;
    struct pg_array handles, workers;
    pg_claim_init(&handles, &workers, claimant, dead);
    struct pg_call *call = pg_call_new(
        &work->arena, HOLD_FEATURE, "suAAosssssw", work->store->owner, claimant->handle, &handles,
        &workers, (int)options->must_exist, claimant->self.host, options->repository, options->id,
        options->name, options->run_id, claimant->wall_ns);
    pg_call_keep(call, &work->arena);
    pg_array_done(&handles);
    pg_array_done(&workers);
    return call;
}

/* Takes the answer of the call. Returns BL_EAGAIN if the holder is dead on this host: then its
 * worker is in `dead`. */
static int take_feature_hold(struct pg_work *work, struct store_feature_hold *hold,
                             const struct store_row *row, struct store_lease *ret_before,
                             char *dead, size_t dead_size, struct bl_error *error)
{
    const struct bl_store_feature_options *options = &hold->options;
    struct bl_text verdict = store_row_text(row, 0);
    if (bl_text_equal(verdict, BL_TEXT("unregistered"))) {
        work->store->registered = false;
        int code = pg_register(work, error);
        return code != 0 ? code : BL_EAGAIN;
    }
    if (bl_text_equal(verdict, BL_TEXT("missing")))
        return feature_refuse_missing(work, hold->claimant.self.host, options->repository,
                                      options->id, error);
    feature_take_owner(row, 3, &hold->claimant, ret_before, &hold->owner);
    hold->grip = (struct store_feature_grip){store_row_integer(row, 1), ret_before->epoch + 1};
    hold->generation = store_row_count(row, 2);
    if (bl_text_equal(verdict, BL_TEXT("held"))) {
        /* The server gave the feature away: the worker before has ended or is lost. */
        if (hold->owner.life != BL_OWNER_NONE)
            hold->owner.life = BL_OWNER_DEAD;
        return 0;
    }
    if (hold->owner.life == BL_OWNER_DEAD) {
        bl_text_into(dead, dead_size, ret_before->owner);
        return BL_EAGAIN;
    }
    return store_refuse_held_feature(hold, error);
}

/* Takes the lease. A holder that is dead on this host loses it. */
static int take_feature_lease(struct pg_work *work, struct store_feature_hold *hold,
                              struct store_lease *ret_before, struct bl_error *error)
{
    char dead[32] = "";
    int code = BL_EAGAIN;
    for (int tries = 0; code == BL_EAGAIN && tries < 5; tries++) {
        struct pg_call *call = call_feature_hold(work, hold, dead);
        code = pg_ask(work, call, error);
        if (code == 0 && pg_rows(call) == 1) {
            struct store_row row = pg_row(call, 0);
            code = take_feature_hold(work, hold, &row, ret_before, dead, sizeof dead, error);
        } else if (code == 0) {
            code = BL_ESYSTEM;
        }
        pg_call_done(call);
    }
    /* Each time, another process had taken it and died. */
    return code == BL_EAGAIN ? store_refuse_held_feature(hold, error) : code;
}

static int run_feature_hold(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_feature_hold *hold = feature_hold_of(job);
    struct store_lease before;
    hold->owner = (struct bl_store_owner){.life = BL_OWNER_NONE};
    int code = pg_register(work, error);
    if (code == 0)
        code = take_feature_lease(work, hold, &before, error);
    if (code == 0 && hold->owner.life == BL_OWNER_DEAD)
        code = pg_settle_processes(&hold->claimant.self, &before.holder, &hold->owner.left);
    return code;
}

const struct pg_operation pg_feature_hold = {.run = run_feature_hold};

/* ---- Release ---- */

static struct pg_call *call_feature_release(struct pg_work *work, struct store_job *job)
{
    const struct store_feature_write *write = feature_write_of(job);
    return pg_call_new(&work->arena, "select belay.release_feature($1, $2, $3)", "siu",
                       work->store->owner, write->grip.feature, write->grip.epoch);
}

static int take_feature_release(struct pg_work *work BL_UNUSED, struct store_job *job BL_UNUSED,
                                struct pg_call *call BL_UNUSED, struct bl_error *error BL_UNUSED)
{
    return 0;
}

const struct pg_operation pg_feature_release = {.call = call_feature_release,
                                                .take = take_feature_release};

/* ---- Write ---- */

static int feature_refuse_write(struct pg_work *work, const struct store_feature_write *write,
                                struct bl_error *error)
{
    struct store_lease lease;
    struct pg_call *call = pg_call_new(&work->arena,
                                       "select " PG_LEASE_COLUMNS
                                       " from belay.feature s " PG_LEASE_WORKER " where s.key = $1",
                                       "i", write->grip.feature);
    int code = pg_ask(work, call, error);
    bool found = code == 0 && pg_rows(call) == 1;
    if (found) {
        struct store_row row = pg_row(call, 0);
        store_lease_read(&row, 0, &lease);
    }
    pg_call_done(call);
    if (code != 0)
        return code;
    return found ? store_refuse_stale_feature(write, &lease, error)
                 : store_refuse_gone_feature(write, error);
}

static bool feature_has_value(const struct bl_json *member)
{
    return member != NULL && !bl_json_is(member, BL_JSON_NULL);
}

/* True if a task in that state has ended. */
static bool feature_task_is_final(const struct bl_json *state)
{
    static const char *const busy[] = {"pending", "queued", "running", "stopping", "approved"};
    bool final = feature_has_value(state);
    for (size_t i = 0; i < BL_COUNT(busy); i++)
        final = final && !bl_text_is(bl_json_text(state), busy[i]);
    return final;
}

/* The columns of a record: what a look-up by id needs of its JSON, and the JSON. */
enum {
    RECORD_NAME,
    RECORD_RUN,
    RECORD_RECEIPT,
    RECORD_ENDED,
    RECORD_JSON,
    RECORD_COLUMNS,
};

static void feature_put_record(struct pg_array *columns, struct bl_arena *arena,
                               const struct bl_row *record)
{
    bool feature = strcmp(record->name, "feature") == 0;
    bool task = bl_text_starts_with(bl_text_from(record->name), BL_TEXT("task/"));
    BL_AUTO_ARENA(parsed);
    const struct bl_json *body = pg_body(&parsed, record->json);
    const struct bl_json *run = feature ? bl_json_get(body, BL_TEXT("run_id")) : NULL;
    const struct bl_json *receipt = bl_json_get(body, BL_TEXT("receipt"));
    bool ended = (feature && feature_has_value(bl_json_get(body, BL_TEXT("ended_at")))) ||
                 (task && feature_task_is_final(bl_json_get(body, BL_TEXT("state"))));
    pg_array_add_text(&columns[RECORD_NAME], bl_text_from(record->name));
    pg_array_add_optional(&columns[RECORD_RUN], bl_text_from(pg_string(arena, run)));
    pg_array_add_optional(&columns[RECORD_RECEIPT], bl_text_from(pg_string(arena, receipt)));
    pg_array_add_integer(&columns[RECORD_ENDED], ended);
    pg_array_add_optional(&columns[RECORD_JSON], record->json);
}

static struct pg_call *call_feature_write(struct pg_work *work, struct store_job *job)
{
    static const char types[] = "tttob";
    const struct store_feature_write *write = feature_write_of(job);
    struct pg_array columns[RECORD_COLUMNS], events;
    for (size_t i = 0; i < RECORD_COLUMNS; i++)
        pg_array_init(&columns[i], types[i]);
    pg_array_init(&events, 'b');
    BL_LIST_EACH (link, &write->records)
        feature_put_record(columns, &work->arena, BL_CONTAINER(link, struct bl_row, link));
    for (size_t i = 0; i < write->event_count; i++)
        pg_array_add_text(&events, write->events[i]);
    struct pg_call *call = pg_call_new(
        &work->arena,
        "select belay.write_feature($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        "siuouowAAAAAA", work->store->owner, write->grip.feature, write->grip.epoch,
        (int)job->durable, write->number, (int)write->new_generation, write->wall_ns,
        &columns[RECORD_NAME], &columns[RECORD_RUN], &columns[RECORD_RECEIPT],
        &columns[RECORD_ENDED], &columns[RECORD_JSON], &events);
    pg_call_keep(call, &work->arena);
    for (size_t i = 0; i < RECORD_COLUMNS; i++)
        pg_array_done(&columns[i]);
    pg_array_done(&events);
    return call;
}

static int take_feature_write(struct pg_work *work, struct store_job *job, struct pg_call *call,
                              struct bl_error *error)
{
    struct store_feature_write *write = feature_write_of(job);
    struct store_row row = pg_row(call, 0);
    if (pg_rows(call) != 1 || store_row_null(&row, 0))
        return feature_refuse_write(work, write, error);
    write->generation = store_row_count(&row, 0);
    return 0;
}

const struct pg_operation pg_feature_write = {.call = call_feature_write,
                                              .take = take_feature_write};

bool pg_feature_only_renews(struct store_job *job)
{
    const struct store_feature_write *write = feature_write_of(job);
    return !write->new_generation && write->event_count == 0 && bl_list_empty(&write->records);
}

static int renew_feature(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    bool live;
    int code = pg_beat(work, &live, error);
    return code != 0 || live ? code : feature_refuse_write(work, feature_write_of(job), error);
}

const struct pg_operation pg_feature_renew = {.run = renew_feature};

/* ---- Load ---- */

/* One row for each record, or one without a record. */
static struct pg_call *call_feature_load(struct pg_work *work, struct store_job *job)
{
    const struct store_feature_look *look = feature_look_of(job);
    return pg_call_new(
        &work->arena,
        "select r.name, r.json, s.generation, " FEATURE_OWNER_COLUMNS
        " from belay.feature s " PG_LEASE_WORKER " left join belay.feature_record r on"
        " r.feature = s.key and r.generation = s.generation and r.name >= $4 and"
        " starts_with(r.name, $4) where s.host = $1 and s.repository = $2 and s.id = $3"
        " order by r.name",
        "ssss", look->claimant.self.host, look->repository, look->id, look->prefix);
}

static int take_feature_load(struct pg_work *work, struct store_job *job, struct pg_call *call,
                             struct bl_error *error)
{
    struct store_feature_look *look = feature_look_of(job);
    struct store_lease lease;
    bl_list_init(&look->records);
    if (pg_rows(call) == 0)
        return feature_refuse_missing(work, look->claimant.self.host, look->repository, look->id,
                                      error);
    struct store_row row = pg_row(call, 0);
    look->generation = store_row_count(&row, 2);
    feature_take_owner(&row, 3, &look->claimant, &lease, &look->owner);
    for (int i = 0; i < pg_rows(call) && !store_row_null(&row, 0); i++) {
        row = pg_row(call, i);
        store_feature_add_record(look, &row);
    }
    return 0;
}

const struct pg_operation pg_feature_load = {.call = call_feature_load, .take = take_feature_load};

/* ---- Events ---- */

static struct pg_call *call_feature_events(struct pg_work *work, struct store_job *job)
{
    const struct store_feature_look *look = feature_look_of(job);
    return pg_call_new(
        &work->arena,
        "select e.number, e.json from belay.feature s left join belay.feature_event e"
        " on e.feature = s.key and e.generation = s.generation and e.number > $4"
        " where s.host = $1 and s.repository = $2 and s.id = $3"
        " order by e.number limit $5",
        "sssuu", look->claimant.self.host, look->repository, look->id, look->after,
        look->limit == 0 ? UINT64_MAX : look->limit);
}

static int take_feature_events(struct pg_work *work, struct store_job *job, struct pg_call *call,
                               struct bl_error *error)
{
    struct store_feature_look *look = feature_look_of(job);
    bl_list_init(&look->records);
    if (pg_rows(call) == 0)
        return feature_refuse_missing(work, look->claimant.self.host, look->repository, look->id,
                                      error);
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        if (!store_row_null(&row, 0))
            store_feature_add_event(look, &row);
    }
    return 0;
}

const struct pg_operation pg_feature_events = {.call = call_feature_events,
                                               .take = take_feature_events};

/* ---- List ---- */

static struct pg_call *call_feature_list(struct pg_work *work, struct store_job *job)
{
    const struct store_feature_look *look = feature_look_of(job);
    return pg_call_new(
        &work->arena,
        "select s.repository, s.id, s.name, s.created, s.updated, r.json, " FEATURE_OWNER_COLUMNS
        " from belay.feature s " PG_LEASE_WORKER " left join belay.feature_record r on"
        " r.feature = s.key and r.generation = s.generation and r.name = 'feature'"
        " where s.host = $1 and ($2::text is null or s.repository = $2)"
        " order by s.updated desc, s.key desc",
        "ss", look->claimant.self.host, look->repository);
}

static int take_feature_list(struct pg_work *work BL_UNUSED, struct store_job *job,
                             struct pg_call *call, struct bl_error *error BL_UNUSED)
{
    struct store_feature_look *look = feature_look_of(job);
    struct store_lease lease;
    bl_list_init(&look->summaries);
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        struct bl_store_feature_summary *summary = store_feature_add_summary(look, &row);
        feature_take_owner(&row, 6, &look->claimant, &lease, &summary->owner);
    }
    return 0;
}

const struct pg_operation pg_feature_list = {.call = call_feature_list, .take = take_feature_list};
