/* A command for a shell: taking it apart, guarding, searching and making patterns of it may
 * neither crash nor read outside of it; and the patterns that are made for a command allow that
 * command. */
#include "tool/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_patterns(struct bl_text command, const struct bl_text *patterns, size_t count)
{
    struct bl_permissions *permissions = bl_permissions_new(BL_PERMISSION_ASK);
    struct permission_question question = {
        .tool = "bash", .kind = SUBJECT_COMMAND, .subject = command};
    struct bl_arena arena = {0};
    char reason[256];
    for (size_t i = 0; i < count; i++) {
        const char *rule =
            bl_arena_printf(&arena, "bash(" BL_TEXT_FORMAT ")", BL_TEXT_ARG(patterns[i])).data;
        if (bl_permissions_add(permissions, true, rule, NULL) != 0)
            __builtin_trap();
    }
    if (permission_decide(permissions, &question, reason, sizeof reason) != BL_PERMIT_ALLOWED)
        __builtin_trap();
    bl_arena_done(&arena);
    bl_permissions_free(permissions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bl_text globs[] = {BL_TEXT("rm *"), BL_TEXT("git push*"), BL_TEXT("*x*")};
    struct bl_arena arena = {0};
    /* Of exactly that size, so that a byte too many is seen. */
    char *copy = bl_alloc(size);
    memcpy(copy, data, size);
    struct bl_text command = {copy, size};
    struct command_parts parts;
    command_split(&arena, command, &parts);
    for (size_t i = 0; i < parts.count; i++) {
        struct bl_text part = parts.parts[i];
        if (part.size == 0)
            __builtin_trap();
        enum command_guard guard = command_guard(&arena, part, parts.count == 1);
        command_guard_lets(guard, part, globs[i % BL_COUNT(globs)]);
    }
    for (size_t i = 0; i < BL_COUNT(globs); i++)
        command_mentions(&arena, command, &parts, globs[i]);
    struct bl_text patterns[COMMAND_PATTERNS_MAX];
    size_t count = command_patterns(&arena, command, patterns);
    if (count > 0)
        check_patterns(command, patterns, count);
    bl_free(copy);
    bl_arena_done(&arena);
    return 0;
}
