/* Converts the result of a call for the model. */
#include <stdio.h>

#include "mcp.h"

/* The state while reading a result. */
struct reader {
    struct bl_arena *arena;
    struct bl_buffer text;
    struct bl_list *images; /* NULL if there are none so far */
};

/* Begins a new line before each part. */
static void begin_part(struct reader *reader)
{
    if (reader->text.size > 0 && reader->text.data[reader->text.size - 1] != '\n')
        bl_buffer_append_byte(&reader->text, '\n');
}

static void mcp_result_note(struct reader *reader, const char *format, ...) BL_PRINTF(2, 3);

static void mcp_result_note(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    begin_part(reader);
    va_start(arguments, format);
    bl_buffer_vprintf(&reader->text, format, arguments);
    va_end(arguments);
}

static const char *shown(struct reader *reader, struct bl_text text)
{
    char *copy = bl_arena_alloc(reader->arena, 201);
    struct bl_text cut = bl_utf8_cut(text, 200);
    for (size_t i = 0; i < cut.size; i++)
        copy[i] = (unsigned char)cut.data[i] < 0x20 || cut.data[i] == 0x7f ? ' ' : cut.data[i];
    copy[cut.size] = '\0';
    return copy;
}

static void mcp_result_take_image(struct reader *reader, struct bl_text type, struct bl_text data)
{
    struct bl_block *block = bl_arena_zalloc(reader->arena, sizeof *block);
    block->type = BL_BLOCK_IMAGE;
    block->name = bl_arena_text(reader->arena, type);
    block->text = bl_arena_text(reader->arena, data);
    const char *problem = bl_image_problem(block);
    begin_part(reader);
    bl_buffer_append(&reader->text, bl_image_note(reader->arena, block, problem));
    if (problem != NULL)
        return;
    if (reader->images == NULL) {
        reader->images = bl_arena_alloc(reader->arena, sizeof *reader->images);
        bl_list_init(reader->images);
    }
    bl_list_push_back(reader->images, &block->link);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void take_resource(struct reader *reader, const struct bl_json *resource)
{
    struct bl_text uri = bl_json_text(bl_json_get(resource, BL_TEXT("uri")));
    struct bl_text type = bl_json_text(bl_json_get(resource, BL_TEXT("mimeType")));
    const struct bl_json *text = bl_json_get(resource, BL_TEXT("text"));
    struct bl_text blob = bl_json_text(bl_json_get(resource, BL_TEXT("blob")));
    if (bl_text_starts_with(type, BL_TEXT("image/")) && blob.size > 0) {
        mcp_result_take_image(reader, type, blob);
        return;
    }
    mcp_result_note(reader, "[resource: %s%s%s%s]", shown(reader, uri), type.size > 0 ? ", " : "",
                    shown(reader, type), text == NULL ? "; left out" : "");
    if (text != NULL) {
        begin_part(reader);
        bl_buffer_append(&reader->text, bl_json_text(text));
    }
}

static void mcp_result_take_part(struct reader *reader, const struct bl_json *part)
{
    struct bl_text type = bl_json_text(bl_json_get(part, BL_TEXT("type")));
    struct bl_text media = bl_json_text(bl_json_get(part, BL_TEXT("mimeType")));
    struct bl_text data = bl_json_text(bl_json_get(part, BL_TEXT("data")));
    if (bl_text_equal(type, BL_TEXT("text"))) {
        begin_part(reader);
        bl_buffer_append(&reader->text, bl_json_text(bl_json_get(part, BL_TEXT("text"))));
    } else if (bl_text_equal(type, BL_TEXT("image"))) {
        mcp_result_take_image(reader, media, data);
    } else if (bl_text_equal(type, BL_TEXT("resource"))) {
        take_resource(reader, bl_json_get(part, BL_TEXT("resource")));
    } else if (bl_text_equal(type, BL_TEXT("resource_link"))) {
        struct bl_text name = bl_json_text(bl_json_get(part, BL_TEXT("name")));
        struct bl_text uri = bl_json_text(bl_json_get(part, BL_TEXT("uri")));
        mcp_result_note(reader, "[link: %s, %s]", shown(reader, name), shown(reader, uri));
    } else {
        mcp_result_note(reader, "[%s%s%s; left out]",
                        shown(reader, type.size > 0 ? type : BL_TEXT("part")),
                        media.size > 0 ? ": " : "", shown(reader, media));
    }
}

/* Shortens a long text to its head and tail. */
static struct bl_text mcp_result_bounded(struct bl_arena *arena, struct bl_text text,
                                         size_t maximum)
{
    struct output_text output;
    struct bl_buffer kept;
    output_text_init(&output, maximum);
    output_text_add(&output, text);
    output_text_end(&output);
    bl_buffer_init(&kept, SIZE_MAX);
    output_text_write(&output, &kept);
    struct bl_text result = bl_arena_text(arena, bl_buffer_text(&kept));
    bl_buffer_done(&kept);
    output_text_done(&output);
    return result;
}

static void take_structured(struct reader *reader, const struct bl_json *structured)
{
    struct bl_json_writer writer;
    bl_json_writer_init(&writer, &reader->text);
    bl_json_write_value(&writer, structured);
    bl_json_writer_done(&writer);
}

void mcp_result_fill(struct bl_arena *arena, const struct bl_json *result, size_t output_max,
                     struct bl_tool_result *ret_result)
{
    const struct bl_json *content = bl_json_get(result, BL_TEXT("content"));
    const struct bl_json *structured = bl_json_get(result, BL_TEXT("structuredContent"));
    struct reader reader = {.arena = arena};
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (!bl_json_is(content, BL_JSON_ARRAY) && structured == NULL) {
        ret_result->text =
            BL_TEXT("The server's response is not a tool result: it has no 'content'.");
        return;
    }
    bl_buffer_init(&reader.text, SIZE_MAX);
    BL_JSON_EACH (part, content)
        mcp_result_take_part(&reader, part);
    if (reader.text.size == 0 && structured != NULL)
        take_structured(&reader, structured);
    ret_result->text = reader.text.size > 0
                           ? mcp_result_bounded(arena, bl_buffer_text(&reader.text), output_max)
                           : BL_TEXT("(empty result)");
    ret_result->images = reader.images;
    ret_result->is_error = bl_json_boolean(bl_json_get(result, BL_TEXT("isError")), false);
    bl_buffer_done(&reader.text);
}
