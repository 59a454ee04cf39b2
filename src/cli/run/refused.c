/* Refused tool calls, and the options that would have allowed them. They are reported so that an
 * answer such as "Written." is not believed. */
#include <inttypes.h>

#include "run.h"

#define REFUSALS_SHOWN_MAX 10u

/* A refusal; those with the same text are counted together. In the arena of the run. */
struct run_refusal {
    struct bl_list link;
    struct bl_text text;
    uint64_t count;
};

/* Quotes a rule for a shell, in single quotes. */
static void refused_quote(struct bl_buffer *out, struct bl_text rule)
{
    bl_buffer_append_byte(out, '\'');
    for (size_t i = 0; i < rule.size; i++) {
        if (rule.data[i] == '\'')
            bl_buffer_append(out, BL_TEXT("'\\'"));
        bl_buffer_append_byte(out, rule.data[i]);
    }
    bl_buffer_append_byte(out, '\'');
}

struct bl_text run_refusal_text(struct bl_arena *arena, const struct cli_command *command,
                                const struct bl_denial *denial)
{
    bool options = cli_command_has_option(command, "allow");
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);

    bl_buffer_printf(&text, BL_TEXT_FORMAT " was refused: " BL_TEXT_FORMAT,
                     BL_TEXT_ARG(denial->tool), BL_TEXT_ARG(denial->reason));
    for (size_t i = 0; options && denial->rules != NULL && denial->rules[i] != NULL; i++) {
        bl_buffer_append(&text,
                         i == 0 ? BL_TEXT("; to allow it, add --allow ") : BL_TEXT(" --allow "));
        refused_quote(&text, bl_text_from(denial->rules[i]));
    }
    return bl_arena_text(arena, bl_buffer_text(&text));
}

static void refused_add(struct run_work *work, const struct bl_denial *denial)
{
    struct bl_text text = run_refusal_text(&work->arena, work->call->command, denial);

    BL_LIST_EACH (link, &work->refusals) {
        struct run_refusal *refusal = BL_CONTAINER(link, struct run_refusal, link);
        if (!bl_text_equal(refusal->text, text))
            continue;
        refusal->count++;
        return;
    }
    struct run_refusal *refusal = bl_arena_zalloc(&work->arena, sizeof *refusal);
    refusal->text = text;
    refusal->count = 1;
    bl_list_push_back(&work->refusals, &refusal->link);
    work->bash_refused = work->bash_refused || bl_text_equal(denial->tool, BL_TEXT("bash"));
}

void run_refusals_add(struct run_work *work, const struct bl_turn_result *result)
{
    BL_LIST_EACH (link, &result->denials)
        refused_add(work, BL_CONTAINER(link, struct bl_denial, link));
}

void run_refusals_say(struct run_work *work)
{
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);
    uint64_t shown = 0, left_out = 0;

    BL_LIST_EACH (link, &work->refusals) {
        const struct run_refusal *refusal = BL_CONTAINER(link, struct run_refusal, link);
        if (shown++ >= REFUSALS_SHOWN_MAX) {
            left_out += refusal->count;
            continue;
        }
        bl_buffer_printf(&text, "belay %s: " BL_TEXT_FORMAT, work->call->command->name,
                         BL_TEXT_ARG(refusal->text));
        if (refusal->count > 1)
            bl_buffer_printf(&text, " (%" PRIu64 " times)", refusal->count);
        bl_buffer_append_byte(&text, '\n');
    }
    if (left_out > 0)
        bl_buffer_printf(&text, "belay %s: %" PRIu64 " more call%s refused\n",
                         work->call->command->name, left_out, left_out == 1 ? " was" : "s were");
    /* Only if a sandbox would have been used. */
    if (work->bash_refused && work->options->workspace.mode == BL_PERMISSION_AUTO &&
        !work->options->workspace.sandbox_chosen && run_sandbox(work) == BL_SANDBOX_OFF)
        bl_buffer_append(&text, BL_TEXT("hint: with bubblewrap, commands run in a sandbox without "
                                        "a rule; 'belay doctor' shows what is missing\n"));
    cli_remark(bl_buffer_text(&text));
}
