/* Holding a session. One call of the server grants the lease. Then the holder settles what a dead one
 * left, and loads the model's context. No other process can change the session meanwhile. */
#include "postgres.h"

/* Columns of the answer: what was found, its counters for store_hold_take_counters, what a dead
 * holder left, whether there was a holder before, and the lease of that one with the new epoch. */
#define HOLD_COLUMNS                                                                               \
    "verdict, held_key, held_id, turns, from_turn, used_input, used_output, newest_turn,"          \
    " cut_turn, cut_run, last_run, before is not null, new_epoch,"                                 \
    " case when was_held then before end, before_handle, before_pid, before_started,"              \
    " before_since, timestamptz '2262-01-01', before_host, before_boot, before_space"

enum {
    HOLD_VERDICT,
    HOLD_KEY,
    HOLD_ID,
    HOLD_COUNTERS,
    HOLD_CUT_TURN = HOLD_COUNTERS + 5,
    HOLD_CUT_RUN,
    HOLD_LAST_RUN,
    HOLD_HAD_HOLDER,
    HOLD_BEFORE,
};

static struct store_hold *hold_of(struct store_job *job)
{
    return BL_CONTAINER(job, struct store_hold, job);
}

/* ---- The call ---- */

/* Made once for a job: a hold that is repeated finds the session that it made. */
static void make_id(struct store_hold *hold)
{
    if (hold->made[0] == '\0')
        bl_id_make(hold->made, "s-");
}

void pg_claim_init(struct pg_array *handles, struct pg_array *workers,
                   const struct store_claimant *claimant, const char *dead)
{
    pg_array_init(handles, 'i');
    for (size_t i = 0; i < claimant->handle_count; i++)
        pg_array_add_integer(handles, (int64_t)claimant->handles[i]);
    pg_array_init(workers, 't');
    if (dead[0] != '\0')
        pg_array_add_text(workers, bl_text_from(dead));
}

static struct pg_call *call_hold(struct pg_work *work, struct store_hold *hold, const char *dead)
{
    const struct bl_store_hold_options *options = &hold->options;
    const struct store_claimant *claimant = &hold->claimant;
    struct pg_array handles, workers;
    struct bl_sha256 hash;
    uint8_t digest[32];
    make_id(hold);
    bl_sha256_init(&hash);
    bl_sha256_add(&hash, options->prompt);
    bl_sha256_end(&hash, digest);
    pg_claim_init(&handles, &workers, claimant, dead);
    struct pg_call *call = pg_call_new(
        &work->arena,
        "select " HOLD_COLUMNS
        " from belay.hold($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,"
        " $16, $17, $18, $19)",
        "suAAsooosss"
        "sbsssssw",
        work->store->owner, claimant->handle, &handles, &workers, options->id, (int)options->newest,
        (int)options->must_exist, (int)options->fork, claimant->self.host,
        options->directory != NULL ? options->directory : "", options->run_id, options->request_id,
        (struct bl_text){(const char *)digest, 32}, hold->title, options->agent_of,
        options->agent_turn, options->persona, hold->made, claimant->wall_ns);
    pg_call_keep(call, &work->arena);
    pg_array_done(&handles);
    pg_array_done(&workers);
    return call;
}

static int refuse_hold(struct pg_work *work, struct store_hold *hold, struct bl_text verdict,
                       const struct store_lease *before, struct bl_error *error)
{
    const struct bl_store_hold_options *options = &hold->options;
    if (bl_text_equal(verdict, BL_TEXT("busy")))
        return store_refuse_held_session(hold, before, error);
    if (bl_text_equal(verdict, BL_TEXT("none")))
        return store_refuse_no_newest(options->directory != NULL ? options->directory : "", error);
    if (bl_text_equal(verdict, BL_TEXT("missing")))
        return pg_refuse_missing(work, options->id, error);
    return store_refuse_request(hold, error);
}

/* Takes the lease. A holder that is dead on this host loses it. */
static int take(struct pg_work *work, struct store_hold *hold, struct pg_call **ret_call,
                struct bl_error *error)
{
    char dead[32] = "";
    for (int tries = 0;; tries++) {
        struct store_lease before;
        struct pg_call *call = call_hold(work, hold, dead);
        int code = pg_ask(work, call, error);
        if (code != 0 || pg_rows(call) != 1) {
            pg_call_done(call);
            return code != 0 ? code : BL_ESYSTEM;
        }
        struct store_row row = pg_row(call, 0);
        struct bl_text verdict = store_row_text(&row, HOLD_VERDICT);
        store_lease_read(&row, HOLD_BEFORE, &before);
        hold->grip.session = store_row_integer(&row, HOLD_KEY);
        store_row_into(hold->id, sizeof hold->id, &row, HOLD_ID);
        *ret_call = call;
        if (bl_text_equal(verdict, BL_TEXT("held")))
            return 0;
        bool again = false;
        if (bl_text_equal(verdict, BL_TEXT("unregistered"))) {
            work->store->registered = false;
            code = pg_register(work, error);
            again = code == 0 && work->store->registered && tries < 3;
        } else if (bl_text_equal(verdict, BL_TEXT("gone"))) {
            again = true;
        } else if (bl_text_equal(verdict, BL_TEXT("busy")) && dead[0] == '\0' &&
                   store_identity_life(&hold->claimant.self, &before.holder) == STORE_DEAD) {
            bl_text_into(dead, sizeof dead, before.owner);
            again = true;
        }
        if (!again && code == 0)
            code = refuse_hold(work, hold, verdict, &before, error);
        pg_call_done(call);
        if (!again)
            return code;
    }
}

/* ---- What a dead holder left ---- */

/* Waits on a worker thread, which a stop of the store abandons. */
struct settling {
    struct store_identity self;
    struct store_identity gone;
    struct bl_wardens_end end;
};

static void run_settling(void *payload)
{
    struct settling *settling = payload;
    store_identity_settle(&settling->self, &settling->gone, &settling->end);
}

static void drop_settling(void *payload)
{
    bl_free(payload);
}

int pg_settle_processes(const struct store_identity *self, const struct store_identity *gone,
                        struct bl_wardens_end *ret_end)
{
    struct settling *settling = bl_zalloc(sizeof *settling);
    bool abandoned;
    settling->self = *self;
    settling->gone = *gone;
    int code = bl_work_call(&(struct bl_work){.run = run_settling,
                                              .drop = drop_settling,
                                              .payload = settling,
                                              .abandon_on_stop = true},
                            &abandoned);
    if (code == 0)
        *ret_end = settling->end;
    if (!abandoned)
        bl_free(settling);
    return code;
}

static int last_event(struct pg_work *work, struct store_hold *hold, const char *run,
                      uint64_t *ret_last, struct bl_error *error)
{
    struct pg_call *call =
        pg_call_new(&work->arena,
                    "(select events from belay.turn where session = $1 and run = $2"
                    " order by number desc limit 1) union all (select lines from belay.journal"
                    " where session = $1 and run = $2 and length(lines) > 0"
                    " order by key desc limit 1)",
                    "is", hold->grip.session, run);
    int code = pg_ask(work, call, error);
    *ret_last = 0;
    for (int i = 0; code == 0 && i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        uint64_t number = store_left_seq(hold, &row);
        if (number > *ret_last)
            *ret_last = number;
    }
    pg_call_done(call);
    return code;
}

static int note_left(struct pg_work *work, struct store_hold *hold, const char *turn,
                     const char *run, struct bl_error *error)
{
    uint64_t last;
    int code = last_event(work, hold, run, &last, error);
    if (code != 0)
        return code;
    store_left_cut_off(hold, turn != NULL ? turn : "");
    BL_AUTO_BUFFER(receipt, 65536);
    BL_AUTO_BUFFER(events, 65536);
    store_left_write(hold, run, turn, last, &receipt, &events);
    struct pg_call *call = pg_call_new(
        &work->arena, "select belay.settle_left($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        "siussibsbw", work->store->owner, hold->grip.session, hold->grip.epoch, turn, run,
        (int64_t)(hold->grip.epoch << 32), bl_buffer_text(&events), hold->recovery.receipt_id,
        bl_buffer_text(&receipt), hold->claimant.wall_ns);
    code = pg_ask(work, call, error);
    pg_call_done(call);
    return code;
}

/* An attempt recorded as running is not running: the session was not held, or its holder is dead.
 */
static int settle_left(struct pg_work *work, struct store_hold *hold, const struct store_row *row,
                       struct bl_error *error)
{
    struct bl_arena *arena = &hold->job.output;
    const char *turn = store_row_string(arena, row, HOLD_CUT_TURN);
    const char *run = store_row_string(arena, row, turn != NULL ? HOLD_CUT_RUN : HOLD_LAST_RUN);
    int code = 0;
    if (hold->recovery.owner_died || turn != NULL)
        code = pg_settle_processes(&hold->claimant.self, &hold->before, &hold->recovery.left);
    if (code == 0 && run != NULL && (turn != NULL || store_left_processes(hold)))
        code = note_left(work, hold, turn, run, error);
    return code;
}

/* ---- The context ---- */

/* `from` is the first turn of the context; 0: there is none. */
static int hold_load_context(struct pg_work *work, struct store_hold *hold, int64_t from,
                             struct bl_error *error)
{
    if (from == 0)
        return 0;
    struct pg_call *summary =
        pg_call_new(&work->arena, "select messages from belay.summary where session = $1", "i",
                    hold->grip.session);
    struct pg_call *turns = pg_call_new(&work->arena,
                                        "select messages, number from belay.turn where session = $1"
                                        " and number >= $2 order by number",
                                        "ii", hold->grip.session, from);
    struct pg_call *recorded =
        pg_call_new(&work->arena,
                    "select result from belay.turn where session = $1 and run"
                    " in (select id from belay.run where request = $2) and"
                    " not interrupted order by number",
                    "is", hold->grip.session, hold->options.request_id);
    struct pg_call *calls[] = {summary, turns, recorded};
    int code = pg_ask_all(work, calls, BL_COUNT(calls), error);
    for (int i = 0; code == 0 && i < pg_rows(summary); i++) {
        struct store_row row = pg_row(summary, i);
        code = store_hold_take_summary(hold, &row, error);
    }
    for (int i = 0; code == 0 && i < pg_rows(turns); i++) {
        struct store_row row = pg_row(turns, i);
        code = store_hold_add_turn(hold, &row, error);
    }
    for (int i = 0; code == 0 && i < pg_rows(recorded); i++) {
        struct store_row row = pg_row(recorded, i);
        store_hold_add_recorded(hold, &row);
    }
    pg_calls_done(calls, BL_COUNT(calls));
    return code;
}

/* Returns the number of the first turn of the context. */
static int64_t take_granted(struct store_hold *hold, const struct store_row *row)
{
    struct store_lease before;
    store_lease_read(row, HOLD_BEFORE, &before);
    hold->grip.epoch = before.epoch;
    hold->before = before.holder;
    hold->recovery.owner_died = before.held;
    if (store_row_flag(row, HOLD_HAD_HOLDER))
        store_identity_text(&before.holder, before.since_wall_ns, hold->recovery.owner,
                            sizeof hold->recovery.owner);
    return store_hold_take_counters(hold, row, HOLD_COUNTERS);
}

static struct pg_call *call_give_back(struct pg_work *work, const struct store_grip *grip)
{
    return pg_call_new(&work->arena, "select belay.release($1, $2, $3)", "siu", work->store->owner,
                       grip->session, grip->epoch);
}

/* A session that cannot be used must not stay held. */
static void give_back(struct pg_work *work, const struct store_hold *hold)
{
    struct pg_call *call = call_give_back(work, &hold->grip);
    pg_ask(work, call, NULL);
    pg_call_done(call);
}

static int run_hold(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct store_hold *hold = hold_of(job);
    struct pg_call *call;
    store_hold_begin(hold);
    int code = pg_register(work, error);
    if (code == 0)
        code = take(work, hold, &call, error);
    if (code != 0)
        return code;
    struct store_row row = pg_row(call, 0);
    int64_t from = take_granted(hold, &row);
    code = settle_left(work, hold, &row, error);
    if (code == 0)
        code = hold_load_context(work, hold, from, error);
    pg_call_done(call);
    /* Not if the hold is repeated, or the store is being closed. */
    if (code != 0 && code != BL_EPIPE && code != BL_ECANCELED)
        give_back(work, hold);
    return code;
}

const struct pg_operation pg_hold = {.run = run_hold};

/* ---- Release ---- */

static struct pg_call *call_release(struct pg_work *work, struct store_job *job)
{
    return call_give_back(work, &BL_CONTAINER(job, struct store_write, job)->grip);
}

static int take_release(struct pg_work *work, struct store_job *job, struct pg_call *call BL_UNUSED,
                        struct bl_error *error BL_UNUSED)
{
    pg_doubt_forget(work->store, BL_CONTAINER(job, struct store_write, job)->handle);
    return 0;
}

const struct pg_operation pg_release = {.call = call_release, .take = take_release};
