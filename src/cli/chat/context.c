/* /context: the parts of the next request's context. The sizes are estimates, and are shown as
 * such: four bytes of text count as a token. */
#include <inttypes.h>

#include "state.h"

#define BYTES_PER_TOKEN 4u

struct context_sizes {
    uint64_t system; /* bytes */
    uint64_t instructions;
    uint64_t tools;
    uint64_t messages;
    uint64_t attached;
    uint64_t images; /* number of images */
};

/* Adds a prompt; attached files follow it in the same text. */
static void context_add_text(struct context_sizes *sizes, struct bl_text text)
{
    ptrdiff_t at = bl_text_find(text, BL_TEXT("\n\n<attached "));
    size_t own = at < 0 ? text.size : (size_t)at;

    sizes->messages += own;
    sizes->attached += text.size - own;
}

static void context_add_record(struct context_sizes *sizes, const struct bl_turn_record *record)
{
    if (record == NULL)
        return;
    BL_LIST_EACH (link, &record->messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        BL_LIST_EACH (part, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            sizes->images += block->type == BL_BLOCK_IMAGE;
            if (block->type == BL_BLOCK_TEXT && message->role == BL_ROLE_USER)
                context_add_text(sizes, block->text);
            else if (block->type != BL_BLOCK_IMAGE)
                sizes->messages += block->text.size + block->name.size + block->input.size;
        }
    }
}

static void context_measure(struct chat *chat, struct context_sizes *sizes)
{
    const struct bl_session *session = bl_agent_session(chat->agent);
    const struct bl_tools *tools = bl_agent_tools(chat->agent);

    *sizes = (struct context_sizes){.system = bl_workspace_agent(chat->work.workspace).system.size};
    BL_LIST_EACH (link, chat->work.workspace->instructions)
        sizes->instructions += BL_CONTAINER(link, struct bl_instruction, link)->text.size;
    if (sizes->instructions > sizes->system)
        sizes->instructions = sizes->system;
    sizes->system -= sizes->instructions;
    for (size_t i = 0; i < tools->offer_count; i++)
        sizes->tools += strlen(tools->offers[i].name) + strlen(tools->offers[i].description) +
                        tools->offers[i].schema.size;
    context_add_record(sizes, session->summary);
    BL_LIST_EACH (link, &session->turns)
        context_add_record(sizes, BL_CONTAINER(link, struct bl_turn_record, link));
}

static uint64_t context_tokens(uint64_t bytes)
{
    return (bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN;
}

void chat_say_context(struct chat *chat)
{
    uint64_t most = bl_agent_model(chat->agent)->input_tokens_max;
    struct context_sizes sizes;

    context_measure(chat, &sizes);
    const struct {
        const char *name;
        uint64_t tokens;
    } rows[] = {
        {"system", context_tokens(sizes.system)},
        {"instructions", context_tokens(sizes.instructions)},
        {"tools", context_tokens(sizes.tools)},
        {"messages", context_tokens(sizes.messages)},
        {"attachments", context_tokens(sizes.attached) + sizes.images * BL_IMAGE_TOKENS},
    };
    uint64_t total = 0;

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        chat_say_row(chat, rows[i].name, "about %" PRIu64 " tokens", rows[i].tokens);
        total += rows[i].tokens;
    }
    if (most == 0)
        chat_say_row(chat, "total", "about %" PRIu64 " tokens; the model's limit is unknown",
                     total);
    else
        chat_say_row(chat, "total",
                     "about %" PRIu64 " of %" PRIu64 " tokens; room left: about %" PRIu64, total,
                     most, total < most ? most - total : 0);
}
