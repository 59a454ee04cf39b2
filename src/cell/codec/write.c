/* Writes frames, and digests a create. */
#include <stdlib.h>

#include "codec.h"

void cell_frame_write(struct bl_json_writer *writer, const struct cell_frame *frame)
{
    bl_record_write(writer, &cell_frame_record, frame);
}

/* ---- Capabilities and versions --------------------------------------------------------------- */

static const uint64_t versions[] = {CELL_VERSION};
/* Indexed by the number of the bit. */
static const struct bl_text capabilities[CELL_CAPABILITIES] = {BL_TEXT("tools"), BL_TEXT("notify")};

static size_t capability_list(unsigned bits, struct bl_text out[CELL_CAPABILITIES])
{
    size_t count = 0;

    for (size_t i = 0; i < CELL_CAPABILITIES; i++) {
        if ((bits >> i & 1) != 0)
            out[count++] = capabilities[i];
    }
    return count;
}

static unsigned capability_bit(struct bl_text name)
{
    for (unsigned i = 0; i < CELL_CAPABILITIES; i++) {
        if (bl_text_equal(name, capabilities[i]))
            return 1u << i;
    }
    return 0;
}

bool cell_hello_has_version(const struct cell_hello *hello)
{
    for (size_t i = 0; i < hello->version_count; i++) {
        if (hello->versions[i] == CELL_VERSION)
            return true;
    }
    return false;
}

unsigned cell_hello_capabilities(const struct cell_hello *hello)
{
    unsigned bits = 0;

    for (size_t i = 0; i < hello->require_count; i++)
        bits |= capability_bit(hello->requires[i]);
    for (size_t i = 0; i < hello->want_count; i++)
        bits |= capability_bit(hello->wants[i]);
    return bits;
}

struct bl_text cell_hello_lacking(const struct cell_hello *hello)
{
    for (size_t i = 0; i < hello->require_count; i++) {
        if (capability_bit(hello->requires[i]) == 0)
        return hello->requires[i];
    }
    return (struct bl_text){0};
}

/* ---- Frames that are mostly constant --------------------------------------------------------- */

void cell_hello_write(struct bl_json_writer *writer, const char *client, unsigned wants)
{
    struct bl_text names[CELL_CAPABILITIES];
    struct cell_frame frame = {.type = CELL_FRAME_HELLO,
                               .hello = {.client = bl_text_from(client),
                                         .versions = versions,
                                         .version_count = BL_COUNT(versions),
                                         .wants = names,
                                         .want_count = capability_list(wants, names)}};

    cell_frame_write(writer, &frame);
}

void cell_ready_write(struct bl_json_writer *writer, unsigned bits, const char *instance,
                      uint32_t live_cells)
{
    struct bl_text names[CELL_CAPABILITIES];
    struct cell_frame frame = {.type = CELL_FRAME_READY,
                               .ready = {.version = CELL_VERSION,
                                         .capabilities = names,
                                         .capability_count = capability_list(bits, names),
                                         .instance = bl_text_from(instance),
                                         .frame_bytes = BL_CELL_FRAME_MAX,
                                         .live_cells = live_cells,
                                         .requests = BL_CELL_REQUESTS_MAX,
                                         .control_requests = BL_CELL_CONTROL_MAX}};

    cell_frame_write(writer, &frame);
}

void cell_rejected_write(struct bl_json_writer *writer, enum cell_rejection rejection,
                         struct bl_text text)
{
    struct cell_frame frame = {.type = CELL_FRAME_REJECTED,
                               .rejected = {.type = rejection,
                                            .versions = versions,
                                            .version_count = BL_COUNT(versions),
                                            .text = text}};

    cell_frame_write(writer, &frame);
}

static void reply_write(struct bl_json_writer *writer, const struct cell_reply *reply)
{
    struct cell_frame frame = {.type = CELL_FRAME_REPLY, .reply = *reply};
    cell_frame_write(writer, &frame);
}

void cell_reply_ok_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                         struct bl_text ok)
{
    reply_write(writer, &(struct cell_reply){.id = id, .op = op, .ok_json = ok});
}

void cell_reply_err_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                          const struct bl_cell_fault *fault)
{
    reply_write(writer, &(struct cell_reply){.id = id, .op = op, .err = fault});
}

/* ---- The digest of a create ------------------------------------------------------------------ */

static void digest_number(struct bl_sha256 *hash, uint64_t number)
{
    char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(number >> (56 - 8 * i));
    bl_sha256_add(hash, (struct bl_text){bytes, sizeof bytes});
}

/* Adds the length first, so that no two lists of texts have the same digest input. */
static void digest_text(struct bl_sha256 *hash, struct bl_text text)
{
    digest_number(hash, text.size);
    bl_sha256_add(hash, text);
}

static int digest_compare(const void *left, const void *right)
{
    const struct bl_cell_tool *const *a = left, *const *b = right;

    return bl_text_compare((*a)->name, (*b)->name);
}

void cell_digest(const struct bl_cell_create *create, uint8_t out[32])
{
    const struct bl_cell_tool **tools = bl_alloc(create->tool_count * sizeof(*tools));
    struct bl_sha256 hash;

    for (size_t i = 0; i < create->tool_count; i++)
        tools[i] = &create->tools[i];
    if (create->tool_count > 1)
        qsort(tools, create->tool_count, sizeof(*tools), digest_compare);
    bl_sha256_init(&hash);
    digest_text(&hash, create->source);
    digest_number(&hash, create->memory_bytes > 0 ? create->memory_bytes : BL_CELL_MEMORY);
    digest_number(&hash, create->output_bytes > 0 ? create->output_bytes : BL_CELL_OUTPUT);
    digest_number(&hash, create->tool_count);
    for (size_t i = 0; i < create->tool_count; i++) {
        digest_text(&hash, tools[i]->name);
        digest_text(&hash, tools[i]->description);
        digest_number(&hash, tools[i]->takes_text);
        digest_text(&hash, tools[i]->schema);
    }
    bl_sha256_end(&hash, out);
    bl_free(tools);
}
