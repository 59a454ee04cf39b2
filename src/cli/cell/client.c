/* The verbs that ask a host: one connection, the session opened, one question, the answer printed.
 * Whoever ends such a command by a signal ends its wait, and nothing else. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cell.h"

#define TEXT_MAX      ((size_t)256 * 1024 * 1024)
#define ARGS_MAX      ((size_t)16 * 1024 * 1024)
#define LIST_PAGE     100u
#define NO_GENERATION (((uint64_t)1 << 53) - 1)
#define CELL_COLUMN   26

struct asking {
    struct cli_call *call;
    const struct cell_options *options;
    struct bl_arena arena;
    struct bl_cell_client *client;
    const char *cell_id;
    struct bl_text source;
    struct bl_text ok; /* the answer */
    uint64_t kept;     /* a generation before the one that is shown can still be read; 0: none */
    struct bl_error error;
};

/* ---- Questions ------------------------------------------------------------------------------- */

/* The arguments of a request, in the making. */
struct request {
    struct bl_buffer args;
    struct bl_json_writer writer;
};

static void begin_request(struct request *request, const struct asking *asking, bool of_cell)
{
    bl_buffer_init(&request->args, ARGS_MAX);
    bl_json_writer_init(&request->writer, &request->args);
    bl_json_write_object(&request->writer);
    bl_json_put_string(&request->writer, "session_id", asking->options->session);
    if (of_cell)
        bl_json_put_string(&request->writer, "cell_id", asking->cell_id);
}

/* BL_EREFUSED with `fault` (may be NULL: then `asking->error` says it). */
static int cell_client_send_request(struct asking *asking, struct request *request, const char *op,
                                    struct bl_text *ret_ok, struct bl_cell_fault *fault)
{
    struct bl_cell_fault *own = bl_arena_zalloc(&asking->arena, sizeof *own);

    bl_json_write_end(&request->writer);
    int code = bl_json_writer_done(&request->writer);
    if (code == 0)
        code = bl_cell_client_call(asking->client, op, bl_buffer_text(&request->args),
                                   &asking->arena, ret_ok, own, &asking->error);
    bl_buffer_done(&request->args);
    if (code != BL_EREFUSED)
        return code;
    if (fault != NULL)
        *fault = *own;
    else
        cell_refusal(own, asking->options->name, asking->cell_id, &asking->error);
    return code;
}

static int cell_client_open_session(struct asking *asking)
{
    struct request request;
    struct bl_text ok;

    begin_request(&request, asking, false);
    bl_json_put_boolean(&request.writer, "serves_tools", false);
    /* The cells are to outlive this command. */
    bl_json_put_uint64(&request.writer, "linger_ms", BL_CELL_LINGER_MS_MAX);
    return cell_client_send_request(asking, &request, "open_session", &ok, NULL);
}

/* ---- What is there --------------------------------------------------------------------------- */

static int list_page(struct asking *asking, const char *after, const struct bl_json **ret_page)
{
    struct request request;
    struct bl_text ok;

    begin_request(&request, asking, false);
    bl_json_put_string(&request.writer, "after", after);
    bl_json_put_uint64(&request.writer, "max", LIST_PAGE);
    int code = cell_client_send_request(asking, &request, "list", &ok, NULL);
    if (code == 0 && bl_json_read(&asking->arena, ok, NULL, ret_page, NULL) != 0)
        code = bl_error_set(&asking->error, BL_EPARSE, BL_KIND_CELL, "list", NULL,
                            "the host's answer cannot be read");
    return code;
}

/* Walks all pages, until `visit` says true. */
static int list_each(struct asking *asking,
                     bool (*visit)(const struct bl_json *cell, void *context), void *context)
{
    const struct bl_json *page = NULL;
    const char *after = NULL;
    bool more = true, found = false;

    while (more && !found) {
        int code = list_page(asking, after, &page);
        if (code != 0)
            return code;
        const char *before = after;
        BL_JSON_EACH (cell, bl_json_get(page, BL_TEXT("cells"))) {
            after = bl_json_text(bl_json_get(cell, BL_TEXT("cell_id"))).data;
            found = found || visit(cell, context);
        }
        more = bl_json_boolean(bl_json_get(page, BL_TEXT("more")), false) && after != before;
    }
    return 0;
}

/* Where one cell stands. */
struct place {
    const char *cell_id;
    bool found;
    bool ended;
    uint64_t generation;
};

static bool cell_client_find_place(const struct bl_json *cell, void *context)
{
    struct place *place = context;
    struct bl_text state = bl_json_text(bl_json_get(cell, BL_TEXT("state")));
    int64_t generation = 0;

    if (!bl_text_equal(bl_json_text(bl_json_get(cell, BL_TEXT("cell_id"))),
                       bl_text_from(place->cell_id)))
        return false;
    bl_json_int64(bl_json_get(cell, BL_TEXT("generation")), &generation);
    place->found = true;
    place->generation = generation > 0 ? (uint64_t)generation : 0;
    place->ended =
        bl_text_equal(state, BL_TEXT("completed")) || bl_text_equal(state, BL_TEXT("terminated"));
    return true;
}

static int client_find_cell(struct asking *asking, struct place *ret_place)
{
    *ret_place = (struct place){.cell_id = asking->cell_id};
    return list_each(asking, cell_client_find_place, ret_place);
}

/* ---- One function a verb --------------------------------------------------------------------- */

static int cell_client_create(struct asking *asking)
{
    const struct cell_options *options = asking->options;
    uint64_t deadline_ms = cell_deadline_ms(options);
    struct request request;

    begin_request(&request, asking, true);
    bl_json_put_text(&request.writer, "source", asking->source);
    bl_json_write_key(&request.writer, BL_TEXT("tools"));
    bl_json_write_array(&request.writer);
    bl_json_write_end(&request.writer);
    bl_json_write_key(&request.writer, BL_TEXT("limits"));
    bl_json_write_object(&request.writer);
    if (deadline_ms > 0)
        bl_json_put_uint64(&request.writer, "deadline_ms", deadline_ms);
    if (options->memory_bytes > 0)
        bl_json_put_uint64(&request.writer, "memory_bytes", options->memory_bytes);
    if (options->output_bytes > 0)
        bl_json_put_uint64(&request.writer, "output_bytes", options->output_bytes);
    bl_json_write_end(&request.writer);
    return cell_client_send_request(asking, &request, "create_cell", &asking->ok, NULL);
}

static int observe_generation(struct asking *asking, uint64_t generation, struct bl_text *ret_ok,
                              struct bl_cell_fault *fault)
{
    struct request request;

    begin_request(&request, asking, true);
    bl_json_put_uint64(&request.writer, "generation", generation);
    bl_json_put_uint64(&request.writer, "yield_time_ms", asking->options->yield_ms);
    return cell_client_send_request(asking, &request, "observe", ret_ok, fault);
}

static int terminate_as(struct asking *asking, const char *id)
{
    char made_up[BL_ID_SIZE];
    struct request request;

    bl_id_make(made_up, "t-");
    begin_request(&request, asking, true);
    bl_json_put_string(&request.writer, "terminate_id", id != NULL ? id : made_up);
    bl_json_put_string(&request.writer, "reason", bl_stop_reason_name(BL_STOP_USER));
    return cell_client_send_request(asking, &request, "terminate", &asking->ok, NULL);
}

/* An ended cell is read by terminate, which lets go of nothing: what it had handed over before its
 * end, and nobody may have seen, can still be asked for. No cell has so many generations, and a
 * refusal changes nothing: but it says which are kept. */
static int observe_ended(struct asking *asking, uint64_t generation)
{
    struct bl_cell_fault *fault = bl_arena_zalloc(&asking->arena, sizeof *fault);
    struct bl_text ok;

    if (generation > 1 && observe_generation(asking, NO_GENERATION, &ok, fault) == BL_EREFUSED &&
        fault->code == BL_CELL_WRONG_GENERATION && fault->retained_count > 0 &&
        fault->retained[0] < generation)
        asking->kept = fault->retained[0];
    return asking->error.code != 0 ? asking->error.code : terminate_as(asking, NULL);
}

static int cell_client_observe(struct asking *asking)
{
    uint64_t generation = asking->options->generation;
    struct place place;

    if (generation == 0) {
        int code = client_find_cell(asking, &place);
        if (code != 0)
            return code;
        if (place.ended)
            return observe_ended(asking, place.generation);
        generation = place.generation + 1;
    }
    return observe_generation(asking, generation, &asking->ok, NULL);
}

static int cell_client_terminate(struct asking *asking)
{
    return terminate_as(asking, asking->options->terminate_id);
}

/* The generation of the end proves that it was read; of one that is not listed any more the host
 * knows best. */
static int cell_client_release(struct asking *asking)
{
    struct request request;
    struct place place;

    int code = client_find_cell(asking, &place);
    if (code != 0)
        return code;
    begin_request(&request, asking, true);
    bl_json_put_uint64(&request.writer, "generation", place.generation > 0 ? place.generation : 1);
    return cell_client_send_request(asking, &request, "release", &asking->ok, NULL);
}

static bool write_cell(const struct bl_json *cell, void *context)
{
    bl_json_write_value(context, cell);
    return false;
}

/* All pages as one. */
static int cell_client_list(struct asking *asking)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(ok, TEXT_MAX);

    bl_json_writer_init(&writer, &ok);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "type", "listed");
    bl_json_put_string(&writer, "session_id", asking->options->session);
    bl_json_write_key(&writer, BL_TEXT("cells"));
    bl_json_write_array(&writer);
    int code = list_each(asking, write_cell, &writer);
    bl_json_write_end(&writer);
    bl_json_put_boolean(&writer, "more", false);
    bl_json_write_end(&writer);
    if (code == 0)
        code = bl_json_writer_done(&writer);
    asking->ok = bl_arena_text(&asking->arena, bl_buffer_text(&ok));
    return code;
}

/* ---- In the fiber ---------------------------------------------------------------------------- */

static int cell_client_ask(struct asking *asking)
{
    switch (asking->options->verb) {
    case CELL_CREATE: return cell_client_create(asking);
    case CELL_OBSERVE: return cell_client_observe(asking);
    case CELL_TERMINATE: return cell_client_terminate(asking);
    case CELL_RELEASE: return cell_client_release(asking);
    case CELL_LIST: return cell_client_list(asking);
    case CELL_RUN:
    case CELL_SERVE: break;
    }
    return BL_EINVAL;
}

static int cell_client_ask_main(void *argument)
{
    struct asking *asking = argument;
    const struct cell_options *options = asking->options;
    char name[40];

    snprintf(name, sizeof name, "belay-cell-%ld", (long)getpid());
    struct bl_cell_client_options client = {.socket = options->socket, .name = name};
    int code = 0;
    if (options->verb == CELL_CREATE)
        code = cell_source_read(options->operand, &asking->arena, &asking->source, &asking->error);
    if (code == 0)
        code = bl_cell_client_open(&client, &asking->client, &asking->error);
    if (code == 0)
        code = cell_client_open_session(asking);
    if (code == 0)
        code = cell_client_ask(asking);
    bl_cell_client_close(asking->client);
    return code;
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* Both unions, as far as they are printed alike. */
struct outcome {
    enum {
        OUTCOME_YIELDED,
        OUTCOME_COMPLETED,
        OUTCOME_TERMINATED,
        OUTCOME_MISSING
    } type;
    const struct bl_list *items;
    uint64_t generation;
    bool stalled;
    uint64_t stopped_calls;
    const struct bl_cell_error *error;
    const struct bl_json *receipt;
};

static void cell_client_take_completed(struct outcome *outcome,
                                       const struct bl_cell_completed *completed)
{
    *outcome = (struct outcome){.type = OUTCOME_COMPLETED,
                                .items = &completed->items,
                                .generation = completed->generation,
                                .stopped_calls = completed->stopped_calls,
                                .error = completed->error};
}

static void cell_client_take_terminated(struct outcome *outcome,
                                        const struct bl_cell_terminated *terminated)
{
    *outcome = (struct outcome){.type = OUTCOME_TERMINATED,
                                .items = &terminated->items,
                                .generation = terminated->generation,
                                .receipt = terminated->receipt};
}

static int read_terminated(struct asking *asking, struct outcome *outcome)
{
    struct bl_cell_terminate_outcome *found = bl_arena_zalloc(&asking->arena, sizeof *found);

    int code = bl_cell_terminate_outcome_read(&asking->arena, asking->ok, found, &asking->error);
    if (code != 0)
        return code;
    switch (found->type) {
    case BL_CELL_TERMINATE_COMPLETED: cell_client_take_completed(outcome, &found->completed); break;
    case BL_CELL_TERMINATE_TERMINATED:
        cell_client_take_terminated(outcome, &found->terminated);
        break;
    case BL_CELL_TERMINATE_MISSING: *outcome = (struct outcome){.type = OUTCOME_MISSING}; break;
    }
    return 0;
}

static int read_observed(struct asking *asking, struct outcome *outcome)
{
    struct bl_cell_observe_outcome *found = bl_arena_zalloc(&asking->arena, sizeof *found);

    int code = bl_cell_observe_outcome_read(&asking->arena, asking->ok, found, &asking->error);
    if (code != 0)
        return code;
    switch (found->type) {
    case BL_CELL_OBSERVE_YIELDED:
        *outcome = (struct outcome){.type = OUTCOME_YIELDED,
                                    .items = &found->yielded.items,
                                    .generation = found->yielded.generation,
                                    .stalled = found->yielded.stalled};
        break;
    case BL_CELL_OBSERVE_COMPLETED: cell_client_take_completed(outcome, &found->completed); break;
    case BL_CELL_OBSERVE_TERMINATED:
        cell_client_take_terminated(outcome, &found->terminated);
        break;
    case BL_CELL_OBSERVE_MISSING: *outcome = (struct outcome){.type = OUTCOME_MISSING}; break;
    }
    return 0;
}

static void fail_missing(struct asking *asking)
{
    bl_error_set(&asking->error, BL_ENOENT, BL_KIND_CELL, asking->options->name, asking->cell_id,
                 "no cell '%s' in session '%s'", asking->cell_id, asking->options->session);
    bl_error_name_set(&asking->error, "missing");
    bl_error_hint(&asking->error, "'belay cell list' lists them; ended ones go after an hour, or "
                                  "when they are released");
}

/* "c-7: completed, generation 2", and what there is to add. */
static void append_state(struct asking *asking, const struct outcome *outcome,
                         struct bl_buffer *notes)
{
    static const char *const names[] = {"running", "completed", "terminated", "missing"};
    const char *name = outcome->error != NULL ? "failed" : names[outcome->type];

    bl_buffer_printf(notes, "%s: %s%s, generation %" PRIu64 "\n", asking->cell_id, name,
                     outcome->stalled ? " (stalled: nothing left can wake it)" : "",
                     outcome->generation);
    if (asking->kept > 0)
        bl_buffer_printf(notes,
                         "generation %" PRIu64 ", from before its end, is still kept: "
                         "--generation %" PRIu64 " shows it\n",
                         asking->kept, asking->kept);
    if (outcome->stopped_calls > 0)
        bl_buffer_printf(notes, "calls stopped at the end: %" PRIu64 "\n", outcome->stopped_calls);
    if (outcome->error != NULL)
        cell_failure_text(outcome->error, notes);
    if (outcome->receipt != NULL) {
        cli_receipt_line(outcome->receipt, notes);
        bl_buffer_append_byte(notes, '\n');
    }
}

/* Items on standard output, the rest beside it. */
static int print_outcome(struct asking *asking, const struct outcome *outcome, int exit_code)
{
    struct bl_buffer out, notes;

    bl_buffer_init(&out, TEXT_MAX);
    bl_buffer_init(&notes, TEXT_MAX);
    cell_items_text(outcome->items, &out, &notes);
    append_state(asking, outcome, &notes);
    exit_code = cli_print(asking->call, bl_buffer_text(&out), exit_code);
    cli_remark(bl_buffer_text(&notes));
    bl_buffer_done(&notes);
    bl_buffer_done(&out);
    return exit_code;
}

struct client_view {
    const char *verb;
    struct bl_text ok;
    const struct bl_error *error; /* NULL: none */
};

#define BL_RECORD_STRUCT struct client_view
static const struct bl_member view_members[] = {
    BL_MEMBER_STRING("verb", verb),
    BL_MEMBER_RAW("ok", ok, .object = true),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record view_record = BL_RECORD("cell", struct client_view, view_members);

static int client_print_json(const struct asking *asking, int exit_code)
{
    struct client_view view = {asking->options->name, asking->ok,
                               asking->error.code != 0 ? &asking->error : NULL};

    return cli_answer_print(asking->call, exit_code, &view_record, &view);
}

static int answer_outcome(struct asking *asking)
{
    struct outcome outcome = {0};
    /* What terminate answers, observe can answer as well, and the other way round not. */
    int code = asking->options->verb == CELL_TERMINATE ? read_terminated(asking, &outcome)
                                                       : read_observed(asking, &outcome);

    if (code != 0)
        return cli_fail(asking->call, &asking->error, CLI_EXIT_FAILED);
    if (outcome.type == OUTCOME_MISSING)
        fail_missing(asking);
    else if (outcome.error != NULL)
        cell_failure(outcome.error, asking->cell_id, &asking->error);
    int exit_code = asking->error.code != 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
    if (asking->call->format != CLI_FORMAT_TEXT)
        return client_print_json(asking, exit_code);
    if (outcome.type == OUTCOME_MISSING)
        return cli_fail(asking->call, &asking->error, exit_code);
    return print_outcome(asking, &outcome, exit_code);
}

static uint64_t cell_client_number_of(const struct bl_json *cell, const char *key)
{
    int64_t number = 0;

    bl_json_int64(bl_json_get(cell, bl_text_from(key)), &number);
    return number < 0 ? 0 : (uint64_t)number;
}

/* "c-7  running  generation 1, 5.1 s, 12 bytes waiting". */
static void append_cell(struct bl_buffer *out, const struct bl_json *cell)
{
    struct bl_text id = bl_json_text(bl_json_get(cell, BL_TEXT("cell_id")));
    struct bl_text state = bl_json_text(bl_json_get(cell, BL_TEXT("state")));
    uint64_t waiting = cell_client_number_of(cell, "undelivered_bytes"),
             calls = cell_client_number_of(cell, "calls");
    char age[32];

    bl_duration_format((int64_t)(cell_client_number_of(cell, "age_ms") * BL_NS_PER_MS), age);
    bl_buffer_printf(out, "%-*.*s %-11.*s generation %" PRIu64 ", age %s", CELL_COLUMN,
                     (int)id.size, id.data, (int)state.size, state.data,
                     cell_client_number_of(cell, "generation"), age);
    if (waiting > 0)
        bl_buffer_printf(out, ", %" PRIu64 " bytes to be read", waiting);
    if (calls > 0)
        bl_buffer_printf(out, ", %" PRIu64 " call%s", calls, calls == 1 ? "" : "s");
    bl_buffer_append_byte(out, '\n');
}

static int cell_client_print_text(struct asking *asking, const struct bl_json *ok)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (asking->options->verb == CELL_CREATE)
        bl_buffer_printf(&out, "%s\n", asking->cell_id);
    else if (asking->options->verb == CELL_RELEASE)
        bl_buffer_printf(&out, "Released %s.\n", asking->cell_id);
    else if (bl_json_size(bl_json_get(ok, BL_TEXT("cells"))) == 0)
        bl_buffer_printf(&out, "No cells in session %s.\n", asking->options->session);
    BL_JSON_EACH (cell, bl_json_get(ok, BL_TEXT("cells")))
        append_cell(&out, cell);
    return cli_print(asking->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

static int cell_client_answer(struct asking *asking)
{
    const struct bl_json *ok = NULL;

    if (asking->options->verb == CELL_OBSERVE || asking->options->verb == CELL_TERMINATE)
        return answer_outcome(asking);
    bl_json_read(&asking->arena, asking->ok, NULL, &ok, NULL);
    bool missing =
        bl_text_equal(bl_json_text(bl_json_get(ok, BL_TEXT("type"))), BL_TEXT("missing"));
    if (missing)
        fail_missing(asking);
    int exit_code = missing ? CLI_EXIT_FAILED : CLI_EXIT_OK;
    if (asking->call->format != CLI_FORMAT_TEXT)
        return client_print_json(asking, exit_code);
    return missing ? cli_fail(asking->call, &asking->error, exit_code)
                   : cell_client_print_text(asking, ok);
}

int cell_ask(struct cli_call *call, const struct cell_options *options)
{
    struct asking asking = {.call = call, .options = options};
    char made_up[BL_ID_SIZE];
    int exit_code;

    bl_id_make(made_up, "c-");
    asking.cell_id = options->verb == CELL_CREATE ? (options->id != NULL ? options->id : made_up)
                                                  : options->operand;
    bl_arena_init(&asking.arena);
    int code = cli_loop_run("cell", cell_client_ask_main, &asking, &asking.error);
    if (code != 0)
        exit_code = cli_fail(call, &asking.error, cli_error_exit_code(&asking.error));
    else
        exit_code = cell_client_answer(&asking);
    bl_arena_done(&asking.arena);
    return exit_code;
}
