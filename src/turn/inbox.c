#include "parts.h"

void bl_inbox_init(struct bl_inbox *inbox)
{
    *inbox = (struct bl_inbox){0};
    bl_list_init(&inbox->waiting);
}

void bl_inbox_done(struct bl_inbox *inbox)
{
    struct bl_inbox_message *message;

    while ((message = bl_inbox_take(inbox)) != NULL)
        bl_free(message);
}

int bl_inbox_put(struct bl_inbox *inbox, struct bl_text text, char ret_id[BL_ID_SIZE])
{
    if (inbox->closed)
        return BL_ECLOSED;
    if (text.size > BL_PROMPT_SIZE_MAX)
        return BL_ELIMIT;
    struct bl_inbox_message *message = bl_alloc(sizeof *message + text.size + 1);
    char *bytes = (char *)(message + 1);
    bl_id_make(message->id, "msg_");
    memcpy(bytes, text.data != NULL ? text.data : "", text.size);
    bytes[text.size] = '\0';
    message->text = (struct bl_text){bytes, text.size};
    if (ret_id != NULL)
        bl_text_into(ret_id, BL_ID_SIZE, message->id);
    bl_list_push_back(&inbox->waiting, &message->link);
    return 0;
}

struct bl_inbox_message *bl_inbox_take(struct bl_inbox *inbox)
{
    struct bl_list *link = bl_list_pop_front(&inbox->waiting);

    return link != NULL ? BL_CONTAINER(link, struct bl_inbox_message, link) : NULL;
}

/* Emits that a message is delivered, and how. */
static void inbox_tell(const struct bl_inbox_message *message, struct bl_journal *journal,
                       const char *delivered)
{
    bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_MESSAGE_INJECTED,
                                                .id = bl_text_from(message->id),
                                                .text = message->text,
                                                .status = delivered});
}

/* Appends a message, after a blank line. */
static void add_message(struct bl_arena *arena, struct bl_text *text,
                        const struct bl_inbox_message *message)
{
    *text = text->size == 0 ? bl_arena_text(arena, message->text)
                            : bl_arena_printf(arena, BL_TEXT_FORMAT "\n\n" BL_TEXT_FORMAT,
                                              BL_TEXT_ARG(*text), BL_TEXT_ARG(message->text));
}

struct bl_text inbox_next_prompt(struct bl_inbox *inbox, struct bl_journal *journal,
                                 struct bl_arena *arena, struct bl_list *taken)
{
    struct bl_inbox_message *message;
    struct bl_text text = {0};

    while ((message = bl_inbox_take(inbox)) != NULL) {
        bl_list_push_back(taken, &message->link);
        add_message(arena, &text, message);
        inbox_tell(message, journal, "prompt");
    }
    return text;
}

struct bl_text bl_inbox_take_all(struct bl_inbox *inbox, struct bl_arena *arena)
{
    struct bl_inbox_message *message;
    struct bl_text text = {0};

    while ((message = bl_inbox_take(inbox)) != NULL) {
        add_message(arena, &text, message);
        bl_free(message);
    }
    return text;
}

void inbox_close(struct bl_inbox *inbox, struct bl_journal *journal)
{
    inbox->closed = true;
    BL_LIST_EACH (link, &inbox->waiting) {
        const struct bl_inbox_message *message = BL_CONTAINER(link, struct bl_inbox_message, link);
        bl_journal_emit(journal, &(struct bl_event){.type = BL_EVENT_MESSAGE_UNDELIVERED,
                                                    .id = bl_text_from(message->id),
                                                    .text = message->text});
    }
}

void inbox_settle(struct bl_inbox *inbox, struct bl_list *taken, bool delivered)
{
    while (!bl_list_empty(taken)) {
        struct bl_list *link = taken->previous;
        bl_list_remove(link);
        if (delivered)
            bl_free(BL_CONTAINER(link, struct bl_inbox_message, link));
        else
            bl_list_push_front(&inbox->waiting, link);
    }
}

void turn_take_injected(struct turn *turn)
{
    struct bl_inbox *inbox = turn->engine->inbox;
    struct bl_arena *arena = &turn->record->arena;
    struct bl_inbox_message *message;

    if (inbox == NULL || turn->results == NULL)
        return;
    while ((message = bl_inbox_take(inbox)) != NULL) {
        bl_block_add(arena, turn->results, BL_BLOCK_TEXT)->text =
            bl_arena_text(arena, message->text);
        bl_list_push_back(&turn->injected, &message->link);
        inbox_tell(message, turn->journal, "turn");
    }
}

void turn_settle_injected(struct turn *turn, bool delivered)
{
    inbox_settle(turn->engine->inbox, &turn->injected, delivered);
}
