/* The subcommands that ask a host: connect, open the session, send one request, print the answer. A
 * signal ends only the wait of such a command, nothing else. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cell.h"
#include "cell/cell.h"
#include "cli/answers.h"

#define TEXT_MAX      ((size_t)256 * 1024 * 1024)
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
    struct cell_ok ok; /* the answer */
    struct bl_text ok_json;
    uint64_t kept; /* an earlier generation that can still be read; 0 if none */
    struct bl_error error;
};

/* ---- Requests -------------------------------------------------------------------------------- */

static struct cell_request client_request(const struct asking *asking, enum cell_operation op)
{
    return (struct cell_request){.op = op, .session_id = asking->options->session};
}

/* Sends a request; the answer is in `ok`. If it is refused, returns BL_EREFUSED and sets `*fault`,
 * or `asking->error` if `fault` is NULL. */
static int cell_client_send_request(struct asking *asking, const struct cell_request *request,
                                    struct bl_cell_fault *fault)
{
    struct bl_cell_fault *own = bl_arena_zalloc(&asking->arena, sizeof *own);

    int code = cell_client_request(asking->client, request, &asking->arena, &asking->ok,
                                   &asking->ok_json, own, &asking->error);
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
    struct cell_request request = client_request(asking, CELL_OPEN_SESSION);

    /* The cells must outlive this command. */
    request.open.linger_ms = BL_CELL_LINGER_MS_MAX;
    return cell_client_send_request(asking, &request, NULL);
}

/* ---- Listing --------------------------------------------------------------------------------- */

static const struct cell_listed *client_find_listed(const struct cell_ok *listed, const char *id)
{
    for (size_t i = 0; i < listed->cell_count; i++) {
        if (strcmp(listed->cells[i].cell_id, id) == 0)
            return &listed->cells[i];
    }
    return NULL;
}

/* Reads all pages into one list; if `id` is not NULL, only up to the page with that cell. */
static int client_list_pages(struct asking *asking, const char *id)
{
    struct cell_request request = client_request(asking, CELL_LIST);
    struct cell_ok *page = &asking->ok;
    struct cell_listed *all = NULL;
    size_t count = 0;

    request.list.max = LIST_PAGE;
    do {
        int code = cell_client_send_request(asking, &request, NULL);
        if (code != 0)
            return code;
        const struct cell_listed *before = all;
        all = bl_arena_alloc(&asking->arena, (count + page->cell_count + 1) * sizeof *all);
        memcpy(all, before != NULL ? before : all, count * sizeof *all);
        for (size_t i = 0; i < page->cell_count; i++)
            all[count++] = page->cells[i];
        request.list.after = count > 0 ? all[count - 1].cell_id : NULL;
    } while (page->more && page->cell_count > 0 &&
             (id == NULL || client_find_listed(page, id) == NULL));
    page->cells = all;
    page->cell_count = count;
    page->more = false;
    return 0;
}

/* Finds the cell's entry; all members are 0 if it is not listed. */
static int client_find_cell(struct asking *asking, struct cell_listed *ret_place)
{
    int code = client_list_pages(asking, asking->cell_id);
    const struct cell_listed *found =
        code == 0 ? client_find_listed(&asking->ok, asking->cell_id) : NULL;

    *ret_place = found != NULL ? *found : (struct cell_listed){0};
    return code;
}

/* ---- One function per subcommand ------------------------------------------------------------- */

static int cell_client_create(struct asking *asking)
{
    const struct cell_options *options = asking->options;
    struct cell_request request = client_request(asking, CELL_CREATE_CELL);

    request.create = (struct bl_cell_create){
        .cell_id = asking->cell_id,
        .source = asking->source,
        .deadline_ms = cell_deadline_ms(options),
        .memory_bytes = options->memory_bytes,
        .output_bytes = options->output_bytes,
    };
    return cell_client_send_request(asking, &request, NULL);
}

static int observe_generation(struct asking *asking, uint64_t generation,
                              struct bl_cell_fault *fault)
{
    struct cell_request request = client_request(asking, CELL_OBSERVE);

    request.observe = (struct bl_cell_observe){.cell_id = asking->cell_id,
                                               .generation = generation,
                                               .yield_ms = asking->options->yield_ms};
    return cell_client_send_request(asking, &request, fault);
}

static int terminate_as(struct asking *asking, const char *id)
{
    struct cell_request request = client_request(asking, CELL_TERMINATE);
    char made_up[BL_ID_SIZE];

    bl_id_make(made_up, "t-");
    request.terminate = (struct bl_cell_terminate){.cell_id = asking->cell_id,
                                                   .terminate_id = id != NULL ? id : made_up,
                                                   .reason = BL_STOP_USER};
    return cell_client_send_request(asking, &request, NULL);
}

/* Reads the end of a cell by `terminate`, which discards nothing: output from before the end that
 * may not have been read can still be observed. To learn which generations are kept, it first
 * observes NO_GENERATION, a number that no cell reaches: the refusal changes nothing and lists
 * them. */
static int observe_ended(struct asking *asking, uint64_t generation)
{
    struct bl_cell_fault *fault = bl_arena_zalloc(&asking->arena, sizeof *fault);

    if (generation > 1 && observe_generation(asking, NO_GENERATION, fault) == BL_EREFUSED &&
        fault->code == BL_CELL_WRONG_GENERATION && fault->retained_count > 0 &&
        fault->retained[0] < generation)
        asking->kept = fault->retained[0];
    return asking->error.code != 0 ? asking->error.code : terminate_as(asking, NULL);
}

static int cell_client_observe(struct asking *asking)
{
    uint64_t generation = asking->options->generation;
    struct cell_listed place;

    if (generation == 0) {
        int code = client_find_cell(asking, &place);
        if (code != 0)
            return code;
        if (place.state == CELL_COMPLETED || place.state == CELL_TERMINATED)
            return observe_ended(asking, place.generation);
        generation = place.generation + 1;
    }
    return observe_generation(asking, generation, NULL);
}

static int cell_client_terminate(struct asking *asking)
{
    return terminate_as(asking, asking->options->terminate_id);
}

/* Releases the cell. The generation of the end proves that the end was read; for a cell that is no
 * longer listed, the host decides. */
static int cell_client_release(struct asking *asking)
{
    struct cell_request request = client_request(asking, CELL_RELEASE);
    struct cell_listed place;

    int code = client_find_cell(asking, &place);
    if (code != 0)
        return code;
    request.release.cell_id = asking->cell_id;
    request.release.generation = place.generation > 0 ? place.generation : 1;
    return cell_client_send_request(asking, &request, NULL);
}

static int cell_client_list(struct asking *asking)
{
    int code = client_list_pages(asking, NULL);

    if (code == 0)
        asking->ok_json = bl_record_text(&asking->arena, cell_ok_records[CELL_LIST], &asking->ok);
    return code;
}

/* ---- In the fiber ---------------------------------------------------------------------------- */

static int cell_client_ask(struct asking *asking)
{
    switch (asking->options->verb) {
    case CELL_VERB_CREATE: return cell_client_create(asking);
    case CELL_VERB_OBSERVE: return cell_client_observe(asking);
    case CELL_VERB_TERMINATE: return cell_client_terminate(asking);
    case CELL_VERB_RELEASE: return cell_client_release(asking);
    case CELL_VERB_LIST: return cell_client_list(asking);
    case CELL_VERB_RUN:
    case CELL_VERB_SERVE: break;
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
    if (options->verb == CELL_VERB_CREATE)
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

static void fail_missing(struct asking *asking)
{
    bl_error_set(&asking->error, BL_ENOENT, BL_KIND_CELL, asking->options->name, asking->cell_id,
                 "no cell '%s' in session '%s'", asking->cell_id, asking->options->session);
    bl_error_name_set(&asking->error, "missing");
    bl_error_hint(&asking->error, "'belay cell list' lists the cells; ended ones are removed after "
                                  "an hour, or when they are released");
}

/* Appends "c-7: completed, generation 2" and further facts. */
static void append_state(struct asking *asking, struct bl_buffer *notes)
{
    const struct cell_ok *ok = &asking->ok;
    const char *name = ok->type == CELL_OK_YIELDED      ? "running"
                       : ok->type == CELL_OK_TERMINATED ? "terminated"
                       : ok->error != NULL              ? "failed"
                                                        : "completed";

    bl_buffer_printf(notes, "%s: %s%s, generation %" PRIu64 "\n", asking->cell_id, name,
                     ok->stalled ? " (stalled: nothing left can wake it)" : "", ok->generation);
    if (asking->kept > 0)
        bl_buffer_printf(notes,
                         "generation %" PRIu64 ", from before its end, is still kept: "
                         "--generation %" PRIu64 " shows it\n",
                         asking->kept, asking->kept);
    if (ok->stopped_calls > 0)
        bl_buffer_printf(notes, "calls stopped at the end: %" PRIu64 "\n", ok->stopped_calls);
    if (ok->error != NULL)
        cell_failure_text(ok->error, notes);
    if (ok->receipt != NULL) {
        cli_receipt_line(ok->receipt, notes);
        bl_buffer_append_byte(notes, '\n');
    }
}

/* Prints the items to standard output and the rest to standard error. */
static int print_outcome(struct asking *asking, int exit_code)
{
    struct bl_buffer out, notes;

    bl_buffer_init(&out, TEXT_MAX);
    bl_buffer_init(&notes, TEXT_MAX);
    cell_items_text(&asking->ok.items, &out, &notes);
    append_state(asking, &notes);
    exit_code = cli_print(asking->call, bl_buffer_text(&out), exit_code);
    cli_remark(bl_buffer_text(&notes));
    bl_buffer_done(&notes);
    bl_buffer_done(&out);
    return exit_code;
}

struct client_view {
    const char *verb;
    struct bl_text ok;
    const struct bl_error *error; /* NULL if none */
};

#define BL_RECORD_STRUCT struct client_view
#define VIEW_ERROR                                                                                 \
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true,                          \
                      .about = "Only with exit code 1."),
/* `exit_codes` is NULL for answers that never contain an error: a failure has its own envelope. */
#define VIEW(name, exit_codes, more)                                                               \
    static const char *const name##_verb[] = {#name};                                              \
    static const struct bl_names name##_verbs = BL_NAMES(name##_verb);                             \
    static const struct bl_member name##_members[] = {                                             \
        BL_MEMBER_STRING("verb", verb, .names = &name##_verbs),                                    \
        BL_MEMBER_RAW("ok", ok, .record = &cell_##name##_ok_record,                                \
                      .about = "As the host has answered."),                                       \
        more BL_MEMBER_END};                                                                       \
    const struct cli_answer cell_##name##_answer = {                                               \
        BL_RECORD("cell-" #name, struct client_view, name##_members), .of = "cell " #name,         \
        .exits = (exit_codes)};
VIEW(create, NULL, )
VIEW(observe, &cli_exits_failing, VIEW_ERROR)
VIEW(terminate, &cli_exits_failing, VIEW_ERROR)
VIEW(release, &cli_exits_failing, VIEW_ERROR)
VIEW(list, NULL, )
#undef VIEW
#undef BL_RECORD_STRUCT
static const struct cli_answer *const view_answers[] = {
    [CELL_VERB_CREATE] = &cell_create_answer,       [CELL_VERB_OBSERVE] = &cell_observe_answer,
    [CELL_VERB_TERMINATE] = &cell_terminate_answer, [CELL_VERB_RELEASE] = &cell_release_answer,
    [CELL_VERB_LIST] = &cell_list_answer,
};

static int client_print_json(const struct asking *asking, int exit_code)
{
    struct client_view view = {asking->options->name, asking->ok_json,
                               asking->error.code != 0 ? &asking->error : NULL};

    return cli_answer_print(asking->call, exit_code, &view_answers[asking->options->verb]->record,
                            &view);
}

/* Appends "c-7  running  generation 1, age 5.1 s, 12 bytes to be read". */
static void append_cell(struct bl_buffer *out, const struct cell_listed *cell)
{
    char age[32];

    bl_duration_format((int64_t)(cell->age_ms * BL_NS_PER_MS), age);
    bl_buffer_printf(out, "%-*s %-11s generation %" PRIu64 ", age %s", CELL_COLUMN, cell->cell_id,
                     bl_names_get(&cell_states, cell->state), cell->generation, age);
    if (cell->undelivered_bytes > 0)
        bl_buffer_printf(out, ", %" PRIu64 " bytes to be read", cell->undelivered_bytes);
    if (cell->calls > 0)
        bl_buffer_printf(out, ", %" PRIu64 " call%s", cell->calls, cell->calls == 1 ? "" : "s");
    bl_buffer_append_byte(out, '\n');
}

static int cell_client_print_text(struct asking *asking)
{
    BL_AUTO_BUFFER(out, TEXT_MAX);

    if (asking->ok.type == CELL_OK_CREATED)
        bl_buffer_printf(&out, "%s\n", asking->cell_id);
    else if (asking->ok.type == CELL_OK_RELEASED)
        bl_buffer_printf(&out, "Released %s.\n", asking->cell_id);
    else if (asking->ok.cell_count == 0)
        bl_buffer_printf(&out, "No cells in session %s.\n", asking->options->session);
    for (size_t i = 0; i < asking->ok.cell_count; i++)
        append_cell(&out, &asking->ok.cells[i]);
    return cli_print(asking->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

static int cell_client_answer(struct asking *asking)
{
    const struct cell_ok *ok = &asking->ok;

    if (ok->type == CELL_OK_MISSING)
        fail_missing(asking);
    else if (ok->error != NULL)
        cell_failure(ok->error, asking->cell_id, &asking->error);
    int exit_code = asking->error.code != 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
    if (asking->call->format != CLI_FORMAT_TEXT)
        return client_print_json(asking, exit_code);
    if (ok->type == CELL_OK_MISSING)
        return cli_fail(asking->call, &asking->error, exit_code);
    if (ok->type == CELL_OK_YIELDED || ok->type == CELL_OK_COMPLETED ||
        ok->type == CELL_OK_TERMINATED)
        return print_outcome(asking, exit_code);
    return cell_client_print_text(asking);
}

int cell_ask(struct cli_call *call, const struct cell_options *options)
{
    struct asking asking = {.call = call, .options = options};
    char made_up[BL_ID_SIZE];
    int exit_code;

    bl_id_make(made_up, "c-");
    asking.cell_id = options->verb == CELL_VERB_CREATE
                         ? (options->id != NULL ? options->id : made_up)
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
