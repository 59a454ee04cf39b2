/* A script of the script model: it must not crash, leak or hang, and what is refused must say why
 * in a way that can be shown. */
#include <belay/model.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct bl_error *error)
{
    if (error->code != BL_EPARSE && error->code != BL_ELIMIT)
        __builtin_trap();
    if (error->kind != BL_KIND_PARSE || error->message[0] == '\0' || error->hint[0] == '\0')
        __builtin_trap();
    if (!bl_utf8_valid(bl_text_from(error->message)) || !bl_utf8_valid(bl_text_from(error->hint)))
        __builtin_trap();
    for (const char *at = error->message; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20)
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text source = {(const char *)data, size};
    struct bl_script *script;
    struct bl_error error = {0};
    struct bl_model model;

    int result = bl_script_parse(source, "fuzz", &script, &error);
    if (result != 0) {
        if (result != error.code)
            __builtin_trap();
        check_error(&error);
        return 0;
    }
    if (error.code != 0 || bl_script_name(script) == NULL)
        __builtin_trap();
    struct bl_script_player *player = bl_script_player_new(script, 1, &model);
    bl_script_player_free(player);
    bl_script_free(script);
    return 0;
}
