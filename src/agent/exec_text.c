/* The input of `exec`, and the answers of `exec` and `wait`: only conversions of texts. */
#include <inttypes.h>
#include <stdio.h>

#include "parts.h"

#define PRAGMA        "@exec"
#define IMAGES_MAX    8u
#define ENDED_EARLIER " (ended earlier)"
/* Limit of the line that replaces omitted output. */
#define MARK_MAX ((size_t)48)
/* More tokens than anyone has: larger values make no difference. */
#define TOKENS_MAX ((uint64_t)1 << 40)

/* ---- Input ----------------------------------------------------------------------------------- */

#define OUTPUT_MEMBERS                                                                             \
    BL_MEMBER_INTEGER("yield_time_ms", yield_ms, .optional = true, .none = BL_CELL_YIELD_MS,       \
                      .most = BL_CELL_YIELD_MS_MAX,                                                \
                      .about = "Return after at most this many milliseconds, with the output so "  \
                               "far (10000)."),                                                    \
        BL_MEMBER_INTEGER(                                                                         \
            "max_output_tokens", output_tokens_max, .optional = true, .none = EXEC_OUTPUT_TOKENS,  \
            .least = 1,                                                                            \
            .about = "Limit of the output: the middle of longer output is left out (10000).")

#define BL_RECORD_STRUCT struct agent_exec_input
static const struct bl_member pragma_members[] = {
    OUTPUT_MEMBERS,
    BL_MEMBER_INTEGER("timeout_ms", timeout_ms, .optional = true, .least = 1,
                      .most = BL_CELL_DEADLINE_MS_MAX,
                      .about = "End the cell after this many milliseconds (30 minutes)."),
    BL_MEMBER_BOOLEAN("background", background, .optional = true,
                      .about = "Keep it running after the end of this turn."),
    BL_MEMBER_END,
};
static const struct bl_record pragma_record =
    BL_RECORD_GROUP("the pragma", pragma_members, .closed = true);
static const struct bl_member exec_members[] = {
    BL_MEMBER_TEXT("source", source, .least = 1,
                   .about = "The code. A first line `// @exec: {\"yield_time_ms\": N}` sets "
                            "the same options as the other members."),
    BL_MEMBER_INCLUDE(&pragma_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record agent_exec_input =
    BL_RECORD("input of exec", struct agent_exec_input, exec_members, .closed = true);

#define BL_RECORD_STRUCT struct agent_wait_input
static const struct bl_member wait_members[] = {
    BL_MEMBER_TEXT("cell_id", cell_id, .least = 1, .about = "The id that `exec` returned."),
    OUTPUT_MEMBERS,
    BL_MEMBER_BOOLEAN("terminate", terminate, .optional = true, .about = "End the cell now."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record agent_wait_input =
    BL_RECORD("input of wait", struct agent_wait_input, wait_members, .closed = true);

static bool exec_text_is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct bl_text skip_blanks(struct bl_text text)
{
    while (text.size > 0 && exec_text_is_blank(text.data[0]))
        text = (struct bl_text){text.data + 1, text.size - 1};
    return text;
}

/* Returns the part of a line after `// @exec`; false if the line is not meant to be a pragma. */
static bool find_pragma(struct bl_text line, struct bl_text *ret_rest)
{
    struct bl_text text = skip_blanks(line);

    if (!bl_text_starts_with(text, BL_TEXT("//")))
        return false;
    text = skip_blanks((struct bl_text){text.data + 2, text.size - 2});
    if (!bl_text_starts_with(text, BL_TEXT(PRAGMA)))
        return false;
    text = (struct bl_text){text.data + strlen(PRAGMA), text.size - strlen(PRAGMA)};
    *ret_rest = text;
    return text.size == 0 || exec_text_is_blank(text.data[0]) || text.data[0] == ':' ||
           text.data[0] == '{' || text.data[0] == '\r';
}

static struct bl_text exec_text_fault(struct bl_arena *arena, const struct bl_record_fault *fault)
{
    char text[sizeof fault->path + sizeof fault->message + sizeof fault->hint];

    bl_record_fault_text(fault, text, sizeof text);
    return bl_arena_text(arena, bl_text_from(text));
}

/* Reads `rest`, the part after the pragma's name. Returns the problem, or an empty text. */
static struct bl_text read_pragma(struct bl_arena *arena, struct bl_text rest,
                                  struct agent_exec_input *input)
{
    struct bl_json_limits limits = {.depth_max = 8, .refuse_duplicates = true};
    struct bl_record_fault wrong;
    const struct bl_json *value;
    struct bl_json_fault fault;
    char text[256];

    rest = bl_text_trim(rest);
    if (!bl_text_starts_with(rest, BL_TEXT(":")))
        return BL_TEXT("a colon and a JSON object must follow '// @exec'");
    rest = (struct bl_text){rest.data + 1, rest.size - 1};
    if (bl_json_read(arena, rest, &limits, &value, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        return bl_arena_printf(arena, "invalid JSON: %s", text);
    }
    if (bl_record_merge(arena, &pragma_record, value, input, &wrong) != 0)
        return exec_text_fault(arena, &wrong);
    return (struct bl_text){0};
}

bool exec_input_read(struct bl_arena *arena, const struct bl_json *value,
                     struct agent_exec_input *ret_input, struct bl_text *ret_problem)
{
    struct bl_record_fault fault;
    struct bl_text pragma;

    if (bl_record_view(arena, &agent_exec_input, value, ret_input, &fault) != 0) {
        *ret_problem = bl_arena_printf(arena, "No cell was created: " BL_TEXT_FORMAT ".",
                                       BL_TEXT_ARG(exec_text_fault(arena, &fault)));
        return false;
    }
    struct bl_text source = ret_input->source;
    if (bl_text_trim(source).size == 0) {
        *ret_problem = BL_TEXT("No cell was created: source is empty.");
        return false;
    }
    const char *end = memchr(source.data, '\n', source.size);
    size_t line_size = end != NULL ? (size_t)(end - source.data) : source.size;
    if (!find_pragma((struct bl_text){source.data, line_size}, &pragma))
        return true;
    struct bl_text problem = read_pragma(arena, pragma, ret_input);
    /* Members of the input take precedence. */
    bl_record_merge(arena, &agent_exec_input, value, ret_input, NULL);
    /* The line stays as an empty one, so that the numbers of later lines do not change. */
    ret_input->source = (struct bl_text){source.data + line_size, source.size - line_size};
    if (problem.size == 0 && bl_text_trim(ret_input->source).size == 0)
        problem = BL_TEXT("no code follows it");
    if (problem.size > 0)
        *ret_problem = bl_arena_printf(
            arena, "Invalid pragma in line 1: " BL_TEXT_FORMAT "%s No cell was created.",
            BL_TEXT_ARG(problem), problem.data[problem.size - 1] == '?' ? "" : ".");
    return problem.size == 0;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Hashes the size first, so that different lists of texts are different bytes. */
static void hash_text(struct bl_sha256 *hash, const char *string)
{
    struct bl_text text = bl_text_from(string);
    uint8_t size[8];

    for (size_t i = 0; i < sizeof size; i++)
        size[i] = (uint8_t)((uint64_t)text.size >> (56 - 8 * i));
    bl_sha256_add(hash, (struct bl_text){(const char *)size, sizeof size});
    if (text.size > 0)
        bl_sha256_add(hash, text);
}

void exec_cell_id(const char *session, const char *turn, const char *call, uint64_t repeat,
                  char out[EXEC_ID_SIZE])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    struct bl_sha256 hash;
    uint8_t digest[32];
    char number[24];

    bl_sha256_init(&hash);
    hash_text(&hash, session);
    hash_text(&hash, turn);
    hash_text(&hash, call);
    if (repeat > 0) {
        snprintf(number, sizeof number, "%" PRIu64, repeat);
        hash_text(&hash, number);
    }
    bl_sha256_end(&hash, digest);
    out[0] = 'c';
    out[1] = '-';
    for (size_t i = 0; i < 16; i++) {
        size_t bit = 5 * i;
        unsigned pair = (unsigned)digest[bit / 8] << 8 | digest[bit / 8 + 1];
        out[2 + i] = digits[pair >> (11 - bit % 8) & 31];
    }
    out[18] = '\0';
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* The text of all items; the middle of a long one is left out. */
struct shown {
    struct bl_buffer *out;
    size_t total;    /* bytes of all texts, each with its newline */
    size_t head_max; /* number of bytes to show from the beginning; more from `tail_from` on */
    size_t tail_from;
    size_t at; /* bytes processed so far */
    bool marked;
    unsigned images;
};

static bool ends_line(struct bl_text text)
{
    return text.size > 0 && text.data[text.size - 1] == '\n';
}

static void count_items(const struct bl_list *items, size_t *bytes, size_t *lines)
{
    if (items == NULL)
        return;
    BL_LIST_EACH (link, items) {
        struct bl_text text = BL_CONTAINER(link, struct bl_cell_item, link)->text;
        if (BL_CONTAINER(link, struct bl_cell_item, link)->image)
            continue;
        *bytes += text.size + !ends_line(text);
        *lines += !ends_line(text);
        for (size_t i = 0; i < text.size; i++)
            *lines += text.data[i] == '\n';
    }
}

static void exec_text_end_line(struct bl_buffer *out)
{
    if (out->size > 0 && out->data[out->size - 1] != '\n')
        bl_buffer_append_byte(out, '\n');
}

/* Writes the mark once, where the first byte is left out. */
static void mark(struct shown *shown, size_t left_out)
{
    if (shown->marked)
        return;
    shown->marked = true;
    exec_text_end_line(shown->out);
    bl_buffer_printf(shown->out, "…%zu bytes left out…\n", left_out);
}

/* Shows the parts of a piece that are in the head, and in the tail. */
static void show_piece(struct shown *shown, struct bl_text text)
{
    size_t from = shown->at, to = from + text.size;

    shown->at = to;
    if (from < shown->head_max)
        bl_buffer_append(shown->out, (struct bl_text){text.data, to <= shown->head_max
                                                                     ? text.size
                                                                     : shown->head_max - from});
    if (to > shown->head_max)
        mark(shown, shown->tail_from - shown->head_max);
    if (to > shown->tail_from) {
        size_t start = from >= shown->tail_from ? 0 : shown->tail_from - from;
        bl_buffer_append(shown->out, (struct bl_text){text.data + start, text.size - start});
    }
}

/* Parses "data:image/png;base64,…". */
static struct bl_block exec_text_read_image(const struct bl_cell_item *item)
{
    ptrdiff_t comma = bl_text_find(item->url, BL_TEXT(","));
    struct bl_block image = {.type = BL_BLOCK_IMAGE, .name = item->url};

    if (comma >= 0) {
        image.name.size = (size_t)comma;
        image.text =
            (struct bl_text){item->url.data + comma + 1, item->url.size - (size_t)comma - 1};
    }
    if (bl_text_starts_with(image.name, BL_TEXT("data:")))
        image.name = (struct bl_text){image.name.data + 5, image.name.size - 5};
    ptrdiff_t semicolon = bl_text_find(image.name, BL_TEXT(";"));
    if (semicolon >= 0)
        image.name.size = (size_t)semicolon;
    return image;
}

/* Writes a line for an image, even if the image itself is part of the result: only the text is
 * kept. */
static void show_image(struct shown *shown, const struct bl_cell_item *item)
{
    struct bl_block image = exec_text_read_image(item);
    struct bl_text data = image.text;

    exec_text_end_line(shown->out);
    if (shown->images++ >= IMAGES_MAX) {
        bl_buffer_append(shown->out, BL_TEXT("[image left out]\n"));
        return;
    }
    while (data.size > 0 && data.data[data.size - 1] == '=')
        data.size--;
    bl_buffer_printf(shown->out, "[image " BL_TEXT_FORMAT ", %zu bytes]\n",
                     BL_TEXT_ARG(bl_utf8_cut(image.name, 64)),
                     data.size / 4 * 3 + data.size % 4 * 3 / 4);
}

static void exec_text_show_items(struct shown *shown, const struct bl_list *items)
{
    if (items == NULL)
        return;
    BL_LIST_EACH (link, items) {
        const struct bl_cell_item *item = BL_CONTAINER(link, struct bl_cell_item, link);
        if (item->image) {
            show_image(shown, item);
            continue;
        }
        show_piece(shown, item->text);
        if (!ends_line(item->text))
            show_piece(shown, BL_TEXT("\n"));
    }
}

/* Moves an offset into all texts to the start of a character: down, or up. */
static size_t align(const struct exec_answer *answer, size_t offset, bool up)
{
    const struct bl_list *const lists[] = {answer->unseen, answer->items};
    size_t at = 0;

    for (size_t i = 0; i < BL_COUNT(lists); i++) {
        if (lists[i] == NULL)
            continue;
        BL_LIST_EACH (link, lists[i]) {
            const struct bl_cell_item *item = BL_CONTAINER(link, struct bl_cell_item, link);
            if (item->image)
                continue;
            if (offset < at + item->text.size) {
                size_t within = offset - at;
                while (up && within < item->text.size &&
                       ((unsigned char)item->text.data[within] & 0xC0) == 0x80)
                    within++;
                return at + (up ? within : bl_utf8_cut(item->text, within).size);
            }
            at += item->text.size + !ends_line(item->text);
            if (offset < at)
                return offset;
        }
    }
    return offset;
}

static void show_output(struct bl_buffer *out, const struct exec_answer *answer,
                        uint64_t tokens_max)
{
    size_t budget = tokens_max > TOKENS_MAX ? SIZE_MAX : (size_t)tokens_max * 4;
    struct shown shown = {.out = out};
    size_t lines = 0;

    count_items(answer->unseen, &shown.total, &lines);
    count_items(answer->items, &shown.total, &lines);
    shown.tail_from = shown.head_max = shown.total;
    if (shown.total > budget) {
        size_t kept = budget > 2 * MARK_MAX ? budget - MARK_MAX : budget;
        shown.head_max = align(answer, kept / 2, false);
        shown.tail_from = align(answer, shown.total - kept / 2, true);
        bl_buffer_printf(out, "Output, %zu bytes in %zu lines, shortened:\n", shown.total, lines);
    } else {
        bl_buffer_append(out, BL_TEXT("Output:\n"));
    }
    exec_text_show_items(&shown, answer->unseen);
    exec_text_show_items(&shown, answer->items);
    exec_text_end_line(out);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void show_error(struct bl_buffer *out, const struct bl_cell_error *error)
{
    struct bl_text name = error->name;
    struct bl_text stack = bl_text_trim(error->stack);

    if (name.size == 0)
        name = bl_text_from(bl_cell_error_kind_name(error->kind));
    bl_buffer_append(out, BL_TEXT("Error:\n"));
    bl_buffer_append(out, name);
    bl_buffer_append(out, BL_TEXT(": "));
    bl_buffer_append(out, error->message);
    exec_text_end_line(out);
    bl_buffer_append(out, stack);
    exec_text_end_line(out);
}

const char *exec_state_text(enum exec_state state)
{
    switch (state) {
    case EXEC_RUNNING: return "running";
    case EXEC_STALLED: return "running (stalled: nothing left can wake it)";
    case EXEC_COMPLETED: return "completed";
    case EXEC_FAILED: return "failed";
    case EXEC_TERMINATED: return "terminated";
    case EXEC_MISSING: return "missing";
    case EXEC_UNKNOWN: return "unknown";
    }
    return "unknown";
}

struct bl_text exec_answer_text(struct bl_arena *arena, const struct exec_answer *answer,
                                uint64_t tokens_max)
{
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_buffer_printf(&out, "Cell " BL_TEXT_FORMAT ": %s", BL_TEXT_ARG(answer->cell_id),
                     exec_state_text(answer->state));
    if (answer->state == EXEC_TERMINATED)
        bl_buffer_printf(&out, " (" BL_TEXT_FORMAT ")", BL_TEXT_ARG(answer->reason));
    bl_buffer_printf(&out, "\nWall time: %.1f s\n", (double)answer->wall_ns / (double)BL_NS_PER_S);
    if (answer->stopped_calls > 0)
        bl_buffer_printf(&out, "Nested calls stopped at the end: %" PRIu64 "\n",
                         answer->stopped_calls);
    if (answer->note.size > 0) {
        bl_buffer_append(&out, answer->note);
        bl_buffer_append_byte(&out, '\n');
    }
    show_output(&out, answer, tokens_max);
    if (answer->error != NULL)
        show_error(&out, answer->error);
    out.size--; /* without the final newline */
    return bl_arena_text(arena, bl_buffer_text(&out));
}

const struct bl_list *exec_answer_images(struct bl_arena *arena, const struct exec_answer *answer)
{
    const struct bl_list *const lists[] = {answer->unseen, answer->items};
    struct bl_list *images = bl_arena_alloc(arena, sizeof *images);
    unsigned count = 0;

    bl_list_init(images);
    for (size_t i = 0; i < BL_COUNT(lists); i++) {
        if (lists[i] == NULL)
            continue;
        BL_LIST_EACH (link, lists[i]) {
            const struct bl_cell_item *item = BL_CONTAINER(link, struct bl_cell_item, link);
            if (!item->image || count++ >= IMAGES_MAX)
                continue;
            struct bl_block *image = bl_arena_alloc(arena, sizeof *image);
            *image = exec_text_read_image(item);
            bl_list_push_back(images, &image->link);
        }
    }
    return count > 0 ? images : NULL;
}

struct bl_text exec_output_text(struct bl_arena *arena, const struct bl_list *items,
                                uint64_t tokens_max)
{
    struct exec_answer answer = {.items = items};
    BL_AUTO_BUFFER(out, SIZE_MAX);

    show_output(&out, &answer, tokens_max);
    /* Without the heading. */
    struct bl_text text = bl_buffer_text(&out), first;
    bl_text_split(&text, '\n', &first);
    text = bl_arena_text(arena, text);
    return text;
}

bool exec_answer_is_end(struct bl_text text, struct bl_text cell_id)
{
    static const struct bl_text ends[] = {BL_TEXT("completed"), BL_TEXT("failed"),
                                          BL_TEXT("terminated (")};
    struct bl_text rest;

    if (!exec_answer_is_of(text, cell_id, &rest))
        return false;
    for (size_t i = 0; i < BL_COUNT(ends); i++)
        if (bl_text_starts_with(rest, ends[i]))
            return true;
    return false;
}

bool exec_answer_is_of(struct bl_text text, struct bl_text cell_id, struct bl_text *ret_rest)
{
    static const struct bl_text before = BL_TEXT("Cell "), after = BL_TEXT(": ");
    struct bl_text rest = text;

    if (!bl_text_starts_with(rest, before))
        return false;
    rest = (struct bl_text){rest.data + before.size, rest.size - before.size};
    if (cell_id.size == 0 || !bl_text_starts_with(rest, cell_id))
        return false;
    rest = (struct bl_text){rest.data + cell_id.size, rest.size - cell_id.size};
    if (!bl_text_starts_with(rest, after))
        return false;
    *ret_rest = (struct bl_text){rest.data + after.size, rest.size - after.size};
    return true;
}

struct bl_text exec_answer_again(struct bl_arena *arena, struct bl_text text)
{
    struct bl_text rest = text, first;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_text_split(&rest, '\n', &first);
    if (bl_text_ends_with(first, BL_TEXT(ENDED_EARLIER)))
        return bl_arena_text(arena, text);
    bl_buffer_append(&out, first);
    bl_buffer_append(&out, BL_TEXT(ENDED_EARLIER "\n"));
    bl_buffer_append(&out, rest);
    text = bl_arena_text(arena, bl_buffer_text(&out));
    return text;
}
