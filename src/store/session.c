/* A held session: implements the engine's store interface. */
#include <stdio.h>

#include "parts.h"

#define TITLE_CHARACTERS_MAX 80

/* ---- Hold ---- */

static bool request_id_valid(const char *id)
{
    size_t size = strnlen(id, 129);
    for (size_t i = 0; i < size; i++) {
        char c = id[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && strchr("._:-", c) == NULL)
            return false;
    }
    return size >= 1 && size <= 128;
}

static int store_session_check_options(const struct bl_store_hold_options *options,
                                       struct bl_error *error)
{
    if (options->id != NULL && bl_session_id_check(options->id, error) != 0)
        return BL_EINVAL;
    if (options->agent_of != NULL && bl_session_id_check(options->agent_of, error) != 0)
        return BL_EINVAL;
    if (options->request_id == NULL || request_id_valid(options->request_id))
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "submit", NULL, "invalid request id");
    bl_error_hint(error, "use 1 to 128 characters from A-Z, a-z, 0-9 and . _ : -");
    return BL_EINVAL;
}

/* Returns the title that a prompt gives its session. A prompt may be any bytes, and a title is text in
 * every form: bytes that are not text become U+FFFD. */
static struct bl_text store_session_title(struct bl_arena *arena, struct bl_text prompt)
{
    struct bl_text rest = bl_utf8_title(prompt, TITLE_CHARACTERS_MAX);
    BL_AUTO_BUFFER(title, (size_t)4 * TITLE_CHARACTERS_MAX);
    uint32_t code_point;
    while (rest.size > 0) {
        size_t size = bl_utf8_decode(rest, &code_point);
        bool text = size > 0 && code_point != 0;
        size = size > 0 ? size : 1;
        bl_buffer_append(&title,
                         text ? (struct bl_text){rest.data, size} : BL_TEXT("\xef\xbf\xbd"));
        rest = (struct bl_text){rest.data + size, rest.size - size};
    }
    return bl_arena_text(arena, bl_buffer_text(&title));
}

static struct store_hold *store_session_make_hold(struct bl_store *store,
                                                  const struct bl_store_hold_options *options,
                                                  const struct store_handle *handle)
{
    struct store_hold *hold = store_job_new(STORE_HOLD, sizeof *hold);
    struct store_job *job = &hold->job;
    job->linger_ns = STORE_LINGER_NS;
    hold->options = (struct bl_store_hold_options){
        .id = store_job_string(job, options->id),
        .newest = options->newest,
        .must_exist = options->must_exist,
        .fork = options->fork,
        .directory = store_job_string(job, options->directory),
        .run_id = store_job_string(job, options->run_id),
        .request_id = store_job_string(job, options->request_id),
        .prompt = store_job_text(job, options->prompt),
        .agent_of = store_job_string(job, options->agent_of),
        .agent_turn = store_job_string(job, options->agent_turn),
        .persona = store_job_string(job, options->persona),
    };
    hold->title = store_session_title(&job->input, options->prompt).data;
    store_claimant_fill(&hold->claimant, store, handle, &job->input);
    return hold;
}

static struct bl_store_session *store_make_session(struct bl_store *store)
{
    struct bl_store_session *held = bl_zalloc(sizeof *held);
    held->store = store;
    bl_list_init(&held->doubts);
    store_handle_open(&held->handle, store);
    return held;
}

static void store_free_session(struct bl_store_session *held)
{
    store_handle_close(&held->handle, held->store);
    store_doubts_free(held);
    bl_arena_done(&held->arena);
    bl_free(held);
}

static int store_session_begin_turn(void *context, const struct bl_attempt *attempt,
                                    struct bl_error *error);
static int store_session_commit_turn(void *context, const struct bl_settlement *settlement,
                                     struct bl_error *error);
static int store_session_reject_turn(void *context, const struct bl_settlement *settlement,
                                     struct bl_error *error);
static int store_session_note(void *context, struct bl_text events, const char *receipt_id,
                              struct bl_text receipt, struct bl_error *error);
static int store_session_compact(void *context, const struct bl_settlement *settlement,
                                 struct bl_error *error);
static uint64_t store_session_answer_ns(void *context);

static void take_answer(struct bl_store_session *held, struct store_hold *hold,
                        struct bl_session *session)
{
    struct bl_list *link;
    held->grip = hold->grip;
    held->turns = hold->turns_total;
    memcpy(held->id, hold->id, sizeof held->id);
    bl_text_into(held->run, sizeof held->run, hold->options.run_id);
    held->untitled = hold->options.prompt.size == 0 && hold->turns_total == 0;
    held->recovery = hold->recovery;
    held->arena = hold->job.output;
    bl_arena_init(&hold->job.output);
    held->recorded = hold->recorded.items;
    held->recorded_count = hold->recorded.count;
    held->table = (struct bl_turn_store){
        .context = held,
        .begin = store_session_begin_turn,
        .commit = store_session_commit_turn,
        .reject = store_session_reject_turn,
        .note = store_session_note,
        .compact = store_session_compact,
        .answer_ns = store_session_answer_ns,
    };
    bl_text_into(session->id, sizeof session->id, hold->id);
    session->turns_total = hold->turns_total;
    session->usage = hold->usage;
    session->unknown = false;
    bl_session_drop(session, 0, hold->summary);
    hold->summary = NULL;
    while ((link = bl_list_pop_front(&hold->records)) != NULL)
        bl_session_add(session, BL_CONTAINER(link, struct bl_turn_record, link));
}

int bl_store_hold(struct bl_store *store, const struct bl_store_hold_options *options,
                  struct bl_session *session, struct bl_store_session **ret_held,
                  struct bl_error *error)
{
    int code = store_session_check_options(options, error);
    if (code != 0)
        return code;
    struct bl_store_session *held = store_make_session(store);
    struct store_hold *hold = store_session_make_hold(store, options, &held->handle);
    if (store_run(store, &hold->job, &code, error) == STORE_ANSWERED && code == 0) {
        take_answer(held, hold, session);
        *ret_held = held;
    } else {
        /* If the hold takes effect after all, the next hold finds a lease whose handle is not open.
         */
        store_free_session(held);
    }
    BL_LOG(BL_ROOM_STORE, BL_LOG_DEBUG, "session held",
           BL_LOG_STRING("session", code == 0 ? (*ret_held)->id : ""),
           BL_LOG_STRING("result", bl_error_text(code)));
    store_job_leave(&hold->job);
    return code;
}

const struct bl_turn_store *bl_store_session_table(const struct bl_store_session *held)
{
    return &held->table;
}

const struct bl_store_recovery *bl_store_session_recovery(const struct bl_store_session *held)
{
    return &held->recovery;
}

/* Returns a sentence such as "Nothing left running." */
static struct bl_text recovery_rest(struct bl_arena *arena,
                                    const struct bl_store_recovery *recovery)
{
    BL_AUTO_BUFFER(rest, 4096);

    bl_survivors_text(recovery->left.survivors, bl_text_from(recovery->left.unverified), &rest);
    return bl_arena_text(arena, bl_buffer_text(&rest));
}

struct bl_text bl_store_recovery_text(struct bl_arena *arena, const char *session,
                                      const struct bl_store_recovery *recovery)
{
    struct bl_text died =
        bl_arena_printf(arena, "The last owner of session %s (%s) died", session, recovery->owner);

    if (recovery->cut_off[0] != '\0')
        return bl_arena_printf(
            arena,
            BL_TEXT_FORMAT "; its turn %s was cut off and is not in the session. " BL_TEXT_FORMAT,
            BL_TEXT_ARG(died), recovery->cut_off, BL_TEXT_ARG(recovery_rest(arena, recovery)));
    if (recovery->receipt_id[0] != '\0')
        return bl_arena_printf(
            arena,
            BL_TEXT_FORMAT "; no turn was running. Stopped %u background process%s that it had "
                           "left. " BL_TEXT_FORMAT,
            BL_TEXT_ARG(died), (unsigned)recovery->left.processes,
            recovery->left.processes == 1 ? "" : "es", BL_TEXT_ARG(recovery_rest(arena, recovery)));
    if (recovery->last_turn[0] != '\0')
        return bl_arena_printf(arena,
                               BL_TEXT_FORMAT "; nothing was cut off, and its last turn, %s, is in "
                                              "the session.",
                               BL_TEXT_ARG(died), recovery->last_turn);
    return bl_arena_printf(arena, BL_TEXT_FORMAT "; no turn was running.", BL_TEXT_ARG(died));
}

struct bl_text bl_store_session_recorded(const struct bl_store_session *held, size_t index)
{
    return index < held->recorded_count ? held->recorded[index] : (struct bl_text){0};
}

/* ---- Writes ---- */

struct store_write *store_write_new(struct bl_store_session *held, enum store_operation operation)
{
    struct store_write *write = store_job_new(operation, sizeof *write);
    write->job.durable = operation == STORE_COMMIT || operation == STORE_COMPACT ||
                         operation == STORE_CHECKPOINT_PUT || operation == STORE_CELL_END ||
                         operation == STORE_CELLS_FORGET;
    /* Urgent jobs keep their order: a withdrawn admission is withdrawn before it is made again. */
    write->job.urgent = operation == STORE_CELL_ADMIT || operation == STORE_CELL_WITHDRAW ||
                        operation == STORE_CELL_YIELD;
    write->grip = held->grip;
    memcpy(write->id, held->id, sizeof write->id);
    memcpy(write->run, held->run, sizeof write->run);
    write->handle = held->handle.number;
    write->number = ++held->writes;
    write->epoch_made = held->grip.epoch;
    write->turns_known = held->turns;
    write->wall_ns = store_wall_ns();
    return write;
}

enum store_lane_end store_write_run(struct bl_store_session *held, struct store_write *write,
                                    int *ret_code, struct bl_error *error)
{
    enum store_lane_end end = STORE_NOT_RUN;
    if (held->unknown)
        *ret_code =
            bl_error_set(error, BL_EUNKNOWN, BL_KIND_SESSION, "write to the session", held->id,
                         "it is unknown whether the last commit to session %s took place: "
                         "open the session again",
                         held->id);
    else
        end = store_run(held->store, &write->job, ret_code, error);
    /* The form may have raised the epoch, to refuse a write that is still on its way. */
    if (end == STORE_ANSWERED && write->grip.epoch > held->grip.epoch)
        held->grip.epoch = write->grip.epoch;
    store_job_leave(&write->job);
    return end;
}

static int store_session_begin_turn(void *context, const struct bl_attempt *attempt,
                                    struct bl_error *error)
{
    struct bl_store_session *held = context;
    struct store_write *write = store_write_new(held, STORE_BEGIN);
    int code;
    if (held->untitled)
        held->title = store_session_title(&held->arena, attempt->prompt);
    write->attempt = (struct bl_attempt){
        .turn_id = store_job_text(&write->job, attempt->turn_id),
        .prompt = store_job_text(&write->job, attempt->prompt),
        .started_wall_ns = attempt->started_wall_ns,
    };
    store_write_run(context, write, &code, error);
    snprintf(held->begun, sizeof held->begun, BL_TEXT_FORMAT,
             BL_TEXT_ARG(code == 0 ? attempt->turn_id : (struct bl_text){0}));
    return code;
}

static struct store_write *make_settlement(struct bl_store_session *held,
                                           enum store_operation operation,
                                           const struct bl_settlement *settlement)
{
    struct store_write *write = store_write_new(held, operation);
    write->title = held->untitled ? store_job_text(&write->job, held->title) : (struct bl_text){0};
    write->begun = bl_text_equal(settlement->turn_id, bl_text_from(held->begun));
    write->settlement = *settlement;
    write->settlement.turn_id = store_job_text(&write->job, settlement->turn_id);
    write->settlement.messages = store_job_text(&write->job, settlement->messages);
    write->settlement.result = store_job_text(&write->job, settlement->result);
    write->settlement.summary = store_job_text(&write->job, settlement->summary);
    write->settlement.receipt = store_job_text(&write->job, settlement->receipt);
    write->settlement.events = store_job_text(&write->job, settlement->events);
    return write;
}

/* Commits. If there is no answer, `what` may be in the session. */
static int store_session_commit(struct bl_store_session *held, enum store_operation operation,
                                const char *what, const struct bl_settlement *settlement,
                                struct bl_error *error)
{
    struct bl_error own = {0};
    int code;
    enum store_lane_end end =
        store_write_run(held, make_settlement(held, operation, settlement), &code, &own);
    if (end == STORE_NO_ANSWER) {
        own = (struct bl_error){0};
        code = bl_error_set(&own, BL_EUNKNOWN, BL_KIND_FILESYSTEM, "commit", held->store->where,
                            "the store did not respond: it is unknown whether the %s is in "
                            "session %s",
                            what, held->id);
        bl_error_hint(&own, "open the session again to find out");
        bl_error_name_set(&own, "commit_unknown");
    }
    if (code == 0 && operation == STORE_COMMIT) {
        held->untitled = false;
        held->turns++;
        held->begun[0] = '\0';
    }
    if (code == BL_EUNKNOWN)
        held->unknown = true;
    BL_LOG(BL_ROOM_STORE, BL_LOG_DEBUG, "committed", BL_LOG_STRING("what", what),
           BL_LOG_STRING("session", held->id), BL_LOG_STRING("result", bl_error_text(code)));
    if (code != 0 && error != NULL && error->code == 0)
        *error = own;
    return code;
}

static int store_session_commit_turn(void *context, const struct bl_settlement *settlement,
                                     struct bl_error *error)
{
    return store_session_commit(context, STORE_COMMIT, "turn", settlement, error);
}

static int store_session_compact(void *context, const struct bl_settlement *settlement,
                                 struct bl_error *error)
{
    return store_session_commit(context, STORE_COMPACT, "compaction", settlement, error);
}

static uint64_t store_session_answer_ns(void *context)
{
    const struct bl_store *store = ((struct bl_store_session *)context)->store;
    return store->form->answer_ns != NULL ? store->form->answer_ns(store->state) : BL_STORE_NS_MAX;
}

static int store_session_reject_turn(void *context, const struct bl_settlement *settlement,
                                     struct bl_error *error)
{
    struct bl_store_session *held = context;
    int code;
    store_write_run(held, make_settlement(held, STORE_REJECT, settlement), &code, error);
    held->begun[0] = '\0';
    return code;
}

static int store_session_note(void *context, struct bl_text events, const char *receipt_id,
                              struct bl_text receipt, struct bl_error *error)
{
    struct bl_settlement settlement = {.events = events, .receipt = receipt};
    int code;
    bl_text_into(settlement.receipt_id, sizeof settlement.receipt_id, receipt_id);
    store_write_run(context, make_settlement(context, STORE_NOTE, &settlement), &code, error);
    return code;
}

int bl_store_renew(struct bl_store_session *held, struct bl_error *error)
{
    int code;
    store_write_run(held, store_write_new(held, STORE_RENEW), &code, error);
    return code;
}

int bl_store_checkpoint_put(struct bl_store_session *held, const char *name, struct bl_text json,
                            struct bl_error *error)
{
    struct bl_arena arena = {0};
    const struct bl_json *value;
    struct bl_json_fault fault;
    char why[192];
    int code = bl_json_read(&arena, json, NULL, &value, &fault);
    bl_arena_done(&arena);
    if (code != 0) {
        bl_json_fault_text(&fault, why, sizeof why);
        return bl_error_set(error, code, BL_KIND_PARSE, "write the checkpoint", name,
                            "a checkpoint must be one JSON value: %s", why);
    }
    struct store_write *write = store_write_new(held, STORE_CHECKPOINT_PUT);
    write->checkpoint.name = store_job_string(&write->job, name);
    write->checkpoint.json = store_job_text(&write->job, json);
    store_write_run(held, write, &code, error);
    return code;
}

void bl_store_release(struct bl_store_session *held)
{
    struct bl_scope shield;
    int code;
    if (held == NULL)
        return;
    if (!held->unknown) {
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        store_doubts_settle(held, NULL);
        store_write_run(held, store_write_new(held, STORE_RELEASE), &code, NULL);
        bl_shield_end(&shield);
    }
    BL_LOG(BL_ROOM_STORE, BL_LOG_DEBUG, "session released", BL_LOG_STRING("session", held->id),
           BL_LOG_BOOLEAN("unknown", held->unknown));
    store_free_session(held);
}
