/* Lines of a client: reading a message, and the prompt in it, must not crash or leak. What is
 * refused must say where and why; what is taken must be text that a model can be sent, and images
 * that are base64. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/acp/acp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "acp_fuzz: %s\n", what);
    abort();
}

static void check_prompt(struct bl_arena *arena, const struct bl_json *prompt, bool takes_images)
{
    struct acp_content content;
    const char *why = NULL;
    char path[80];

    if (!acp_content_read(arena, prompt, takes_images, &content, path, sizeof path, &why)) {
        check(strncmp(path, "/prompt", 7) == 0 && strlen(path) < sizeof path, "a path to nowhere");
        check(why != NULL && why[0] != '\0', "a refusal without a reason");
        return;
    }
    check(bl_text_trim(content.text).size > 0, "a prompt without words");
    check(bl_utf8_valid(content.text), "words that are not UTF-8");
    check(takes_images || bl_list_empty(&content.images), "images for who takes none");
    BL_LIST_EACH (link, &content.images) {
        struct bl_block image = *BL_CONTAINER(link, struct bl_block, link);
        const char *problem;
        check(image.type == BL_BLOCK_IMAGE && image.text.size > 0, "not an image");
        /* The engine checks type and size again. */
        image.name = BL_TEXT("image/png");
        problem = image.text.size > BL_IMAGE_SIZE_MAX ? NULL : bl_image_problem(&image);
        check(problem == NULL, "an image that is not base64");
    }
}

static void check_line(struct bl_text line)
{
    struct bl_rpc_message message;
    struct bl_rpc_fault fault;
    struct bl_arena arena;

    bl_arena_init(&arena);
    if (bl_rpc_message_read(&arena, line, &message, &fault) != 0) {
        check(fault.code == BL_RPC_PARSE || fault.code == BL_RPC_INVALID_REQUEST,
              "a fault of no known code");
        check(bl_utf8_valid(bl_text_from(fault.message)), "a fault that is not UTF-8");
    } else if (message.type == BL_RPC_REQUEST || message.type == BL_RPC_NOTIFICATION) {
        const struct bl_json *prompt = bl_json_get(message.params, BL_TEXT("prompt"));
        check_prompt(&arena, prompt, false);
        check_prompt(&arena, prompt, true);
    }
    bl_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text rest = {(const char *)data, size}, line;

    while (rest.size > 0 && bl_text_split(&rest, '\n', &line))
        check_line(line);
    return 0;
}
