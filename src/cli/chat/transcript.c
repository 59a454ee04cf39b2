/* Design notes.
 *
 * The conversation is kept as source texts, besides the lines that show it, so that it can be shown
 * in full in a window of any width. The oldest entries are removed when the total is too long. A
 * call has its entry from the moment it is requested, so that the calls of a sub-agent follow the
 * one that started it; the entry owns the call once it has ended. */
#include "view.h"

#define TRANSCRIPT_MAX  ((size_t)2 * 1024 * 1024)
#define ENTRY_SIZE_MIN  ((size_t)256)
#define TRANSCRIPT_DEEP 8u

struct chat_entry {
    struct bl_list link;
    enum {
        ENTRY_PROMPT,
        ENTRY_MARKDOWN,
        ENTRY_NOTE,
        ENTRY_RECEIPT,
        ENTRY_CALL,
    } type;
    struct bl_buffer text;
    char mark[CHAT_NAME_WIDTH + 1];
    struct text_style style;
    struct chat_call *call;
    bool ended;
    struct chat_end end;
    unsigned depth;
};

void chat_transcript_init(struct chat_transcript *transcript)
{
    *transcript = (struct chat_transcript){0};
    bl_list_init(&transcript->entries);
}

static size_t entry_size(const struct chat_entry *entry)
{
    size_t size = ENTRY_SIZE_MIN + entry->text.size;

    if (entry->call != NULL && entry->ended)
        size += entry->call->line.size + entry->call->output.all.size;
    return size;
}

static void entry_free(struct chat_entry *entry)
{
    bl_list_remove(&entry->link);
    if (entry->call != NULL)
        entry->call->entry = NULL;
    if (entry->call != NULL && entry->ended)
        chat_call_free(entry->call);
    bl_buffer_done(&entry->text);
    bl_free(entry);
}

void chat_transcript_done(struct chat_transcript *transcript)
{
    BL_LIST_EACH_SAFE (link, &transcript->entries)
        entry_free(BL_CONTAINER(link, struct chat_entry, link));
}

/* Adds to the size, and removes the oldest entries if the total is too long. */
static void transcript_grow(struct chat_transcript *transcript, size_t size)
{
    transcript->version++;
    transcript->size += size;
    while (transcript->size > TRANSCRIPT_MAX &&
           transcript->entries.next != transcript->entries.previous) {
        struct chat_entry *oldest = BL_CONTAINER(transcript->entries.next, struct chat_entry, link);
        size_t gone = entry_size(oldest);
        transcript->size -= gone < transcript->size ? gone : transcript->size;
        transcript->forgotten = true;
        entry_free(oldest);
    }
}

static struct chat_entry *transcript_add(struct chat_transcript *transcript, unsigned type,
                                         struct bl_text text)
{
    struct chat_entry *entry = bl_zalloc(sizeof *entry);

    entry->type = type;
    bl_buffer_init(&entry->text, SIZE_MAX / 2);
    bl_buffer_append(&entry->text, text);
    bl_list_push_back(&transcript->entries, &entry->link);
    return entry;
}

void chat_transcript_prompt(struct chat_transcript *transcript, struct bl_text text)
{
    transcript_grow(transcript, entry_size(transcript_add(transcript, ENTRY_PROMPT, text)));
}

void chat_transcript_markdown(struct chat_transcript *transcript, struct bl_text text)
{
    if (text.size > 0)
        transcript_grow(transcript, entry_size(transcript_add(transcript, ENTRY_MARKDOWN, text)));
}

void chat_transcript_receipt(struct chat_transcript *transcript, struct bl_text json)
{
    transcript_grow(transcript, entry_size(transcript_add(transcript, ENTRY_RECEIPT, json)));
}

void chat_transcript_note(struct chat_transcript *transcript, const char *mark, struct bl_text text,
                          const struct text_style *style)
{
    struct chat_entry *entry = transcript_add(transcript, ENTRY_NOTE, text);

    bl_text_into(entry->mark, sizeof entry->mark, mark);
    entry->style = *style;
    transcript_grow(transcript, entry_size(entry));
}

void chat_transcript_call(struct chat_transcript *transcript, struct chat_call *call)
{
    struct chat_entry *entry = transcript_add(transcript, ENTRY_CALL, (struct bl_text){0});

    for (const struct chat_agent *agent = call->agent; agent != NULL; agent = agent->above)
        entry->depth += entry->depth < TRANSCRIPT_DEEP;
    entry->call = call;
    call->entry = entry;
    transcript_grow(transcript, entry_size(entry));
}

void chat_transcript_ended(struct chat_transcript *transcript, struct chat_call *call,
                           const struct chat_end *end)
{
    struct chat_entry *entry = call->entry;

    bl_list_remove(&call->link);
    bl_list_init(&call->link);
    call->agent = NULL;
    if (entry == NULL) {
        chat_call_free(call);
        return;
    }
    size_t before = entry_size(entry);
    entry->ended = true;
    entry->end = *end;
    entry->end.status =
        end->status != NULL ? bl_arena_text(&call->arena, bl_text_from(end->status)).data : NULL;
    entry->end.note = bl_arena_text(&call->arena, end->note);
    entry->end.text = (struct bl_text){0};
    transcript_grow(transcript, entry_size(entry) - before);
}

/* ---- Display --------------------------------------------------------------------------------- */

static void entry_show(const struct chat_entry *entry, const struct chat_frame *frame)
{
    static const struct text_style strong = {.bold = true};
    struct bl_text text = bl_buffer_text(&entry->text);

    switch (entry->type) {
    case ENTRY_PROMPT: chat_paragraph(frame, "> ", text, &strong); break;
    case ENTRY_MARKDOWN: markdown_render(text, frame->columns, frame->colours, frame->out); break;
    case ENTRY_NOTE: chat_paragraph(frame, entry->mark, text, &entry->style); break;
    case ENTRY_RECEIPT: chat_receipt(text, NULL, true, frame, 0); break;
    case ENTRY_CALL:
        if (entry->ended)
            chat_call_ended(entry->call, &entry->end, frame, (size_t)entry->depth * 2);
        else
            chat_call_live(entry->call, frame, (size_t)entry->depth * 2, SIZE_MAX);
        break;
    }
}

void chat_transcript_show(const struct chat_transcript *transcript, const struct chat_frame *frame)
{
    static const struct text_style dim = {.dim = true};
    int last = -1;

    if (transcript->forgotten)
        chat_line(frame, 0, BL_TEXT("… earlier output was not kept"), &dim);
    BL_LIST_EACH (link, &transcript->entries) {
        const struct chat_entry *entry = BL_CONTAINER(link, struct chat_entry, link);
        if (last >= 0 && !(last == ENTRY_NOTE && entry->type == ENTRY_NOTE))
            bl_buffer_append_byte(frame->out, '\n');
        entry_show(entry, frame);
        last = (int)entry->type;
    }
}
