/* Reporting a stop: when it is requested, and what it interrupted. */
#include <stdio.h>

#include "parts.h"

static int stop_watch_main(void *argument)
{
    const struct stop_watch *watch = argument;

    if (!bl_receipt_elsewhere(watch->receipt))
        journal_tell_cancel(watch->journal, watch->receipt);
    return 0;
}

/* Emitting may wait, which a hook must not do. Without memory for a stack, the stop is emitted with
 * its receipt. */
static void stop_watch_asked(struct bl_stop_hook *hook, struct bl_scope *scope BL_UNUSED)
{
    struct stop_watch *watch = BL_CONTAINER(hook, struct stop_watch, hook);

    bl_nursery_spawn(&watch->nursery, NULL, "stop", stop_watch_main, watch, NULL);
}

void stop_watch_begin(struct stop_watch *watch, struct bl_journal *journal,
                      const struct bl_receipt *receipt)
{
    struct bl_scope *outer = bl_scope_current();

    watch->journal = journal;
    watch->receipt = receipt;
    bl_shield_begin(&watch->shield, BL_NEVER);
    bl_nursery_init(&watch->nursery, &watch->shield);
    bl_scope_enter(outer);
    bl_stop_hook_add(&watch->hook, receipt->scope, stop_watch_asked);
}

void stop_watch_end(struct stop_watch *watch)
{
    struct bl_scope *outer = bl_scope_enter(&watch->shield);

    bl_stop_hook_remove(&watch->hook);
    bl_nursery_join(&watch->nursery);
    bl_nursery_done(&watch->nursery);
    bl_shield_end(&watch->shield);
    bl_scope_enter(outer);
}

/* ---- The interrupted stage ------------------------------------------------------------------- */

static const struct {
    const char *text;
    const char *words; /* for people, after the time; NULL: part of a prefix */
} stop_stages[] = {
    [TURN_ENTRY] = {"entry", " before the turn began"},
    [TURN_BEGIN] = {"store: begin", " while recording the start of the turn"},
    [TURN_EVENTS] = {"events", " while announcing the start of the turn"},
    [TURN_BETWEEN] = {"between steps", " between two steps"},
    [TURN_TOOLS] = {"tools: starting", " while waiting for tool servers"},
    [TURN_MODEL] = {"model: ", NULL},
    [TURN_CALLS] = {"between steps", " between two steps"},
    [TURN_SETTLE] = {"tools: ending", " while ending work that tools left running"},
    [TURN_COMMIT] = {"store: commit", " while committing the turn"},
};

static const struct {
    const char *text;
    const char *words;
} stop_waits[] = {
#define MODEL_WAIT(name, text, words) [name] = {text, words},
    BL_MODEL_WAIT_TABLE(MODEL_WAIT)
#undef MODEL_WAIT
};

void turn_note_stop(struct turn *turn)
{
    if (turn->stop_noted)
        return;
    turn->stop_noted = true;
    turn->stopped_in = turn->stage;
    if (turn->stage != TURN_CALLS || bl_list_empty(&turn->at_work))
        return;
    const struct step *step = BL_CONTAINER(turn->at_work.next, struct step, link);
    snprintf(turn->stopped_call, sizeof turn->stopped_call, "%s: " BL_TEXT_FORMAT, step->doing,
             BL_TEXT_ARG(bl_utf8_cut(step->name, 64)));
}

bool turn_may_continue(struct turn *turn)
{
    const struct bl_finish *finish = turn->engine->finish;

    while (finish != NULL && !finish->asked)
        finish = finish->above;
    if (finish != NULL)
        bl_scope_stop(turn->receipt->scope, BL_STOP_USER, finish->origin);
    return bl_scope_check(&turn->scope) == 0 || turn_end_stopped(turn);
}

static enum bl_model_wait stop_wait_of(const struct turn_answer *answer)
{
    bool began = answer->bytes > 0 || answer->calls > 0;

    return answer->sink.wait == BL_MODEL_STREAMING && !began ? BL_MODEL_FIRST_TOKEN
                                                             : answer->sink.wait;
}

const char *turn_stopped_during(struct turn *turn)
{
    turn_note_stop(turn);
    if (turn->stopped_call[0] != '\0')
        return bl_arena_text(turn->arena, bl_text_from(turn->stopped_call)).data;
    if (turn->stopped_in == TURN_ENTRY && turn->journal->stopped_in_commit)
        return stop_stages[TURN_COMMIT].text;
    if (turn->stopped_in != TURN_MODEL)
        return stop_stages[turn->stopped_in].text;
    return bl_arena_printf(turn->arena, "%s%s", stop_stages[TURN_MODEL].text,
                           stop_waits[stop_wait_of(&turn->answer)].text)
        .data;
}

/* ---- For people ------------------------------------------------------------------------------ */

static int stop_write_call(struct bl_text during, struct bl_buffer *out)
{
    static const struct {
        const char *prefix;
        const char *words;
    } kinds[] = {{"tool: ", " while running "},
                 {"permission: ", " while asking about "},
                 {"hook: ", " in a hook before "}};

    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        struct bl_text prefix = bl_text_from(kinds[i].prefix);
        if (bl_text_starts_with(during, prefix))
            return bl_buffer_printf(out, "%s" BL_TEXT_FORMAT, kinds[i].words,
                                    (int)(during.size - prefix.size), during.data + prefix.size);
    }
    return 0;
}

static int stop_write_words(const char *during, struct bl_buffer *out)
{
    struct bl_text text = bl_text_from(during), model = bl_text_from(stop_stages[TURN_MODEL].text);

    for (size_t i = 0; i < BL_COUNT(stop_stages); i++) {
        if (stop_stages[i].words != NULL && strcmp(stop_stages[i].text, during) == 0)
            return bl_buffer_append(out, bl_text_from(stop_stages[i].words));
    }
    if (!bl_text_starts_with(text, model))
        return stop_write_call(text, out);
    for (size_t i = 0; i < BL_COUNT(stop_waits); i++) {
        if (strcmp(stop_waits[i].text, during + model.size) == 0)
            return bl_buffer_printf(out, " while %s", stop_waits[i].words);
    }
    return 0;
}

/* Returns whether the receipt has nothing but the model call that the sentence names already. */
static bool stop_is_plain(const struct bl_receipt_row *receipt)
{
    const struct bl_list *units = &receipt->units;

    if (bl_list_empty(units))
        return true;
    const struct bl_unit_row *unit = BL_CONTAINER(units->next, struct bl_unit_row, link);
    return units->next == units->previous && unit->kind != NULL && bl_list_empty(&unit->units) &&
           strcmp(unit->kind, bl_unit_kind_name(BL_UNIT_MODEL)) == 0;
}

int bl_stop_line(const struct bl_receipt_row *receipt, const struct bl_turn_result *turn,
                 int64_t after_ns, struct bl_buffer *out)
{
    bool late = turn != NULL && turn->end == BL_TURN_TIMEOUT;
    char duration[32];

    if (turn == NULL || turn->stopped_during == NULL || after_ns < 0 ||
        (!late && turn->end != BL_TURN_CANCELLED))
        return bl_receipt_row_line(receipt, out);
    bl_duration_format(after_ns, duration);
    int code = bl_buffer_printf(out, "%s after %s", late ? "Timed out" : "Cancelled", duration);
    if (code == 0)
        code = stop_write_words(turn->stopped_during, out);
    if (code == 0)
        code = bl_buffer_append(out, BL_TEXT(". "));
    if (code != 0)
        return code;
    return stop_is_plain(receipt)
               ? bl_survivors_text(receipt->survivors, bl_text_from(receipt->unverified), out)
               : bl_receipt_row_line(receipt, out);
}
