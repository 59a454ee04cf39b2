/* Damaged exports and stores are either read or refused with a message; the contents of the store
 * do not change, and nothing crashes or hangs. SQLite is built without sanitizers, so its memory is
 * sometimes placed before unmapped pages. */
#include <fcntl.h>
#include <unistd.h>

#include "guard_page.h"
#include "helpers.h"
#include "mutate.h"

/* ---- Lines of an export ---- */

static int keep_line(void *context, struct bl_text line)
{
    bl_buffer_append(context, line);
    return 0;
}

static void export_session(struct bl_store *store, const char *id, struct bl_buffer *out)
{
    struct bl_error error = {0};

    bl_buffer_clear(out);
    CHECK_EQUAL(bl_store_export(store, id, keep_line, out, &error), 0);
}

/* Imported under its own id, the session is accepted or refused; a refused one leaves nothing. */
static void import_damaged(struct bl_store *store, struct bl_text lines)
{
    struct bl_store_session_view view;
    struct bl_error error = {0}, missing = {0};
    struct bl_arena arena = {0};
    const char *id = NULL;

    int code = bl_store_import(store, lines, "copy", &arena, &id, &error);
    CHECK_EQUAL(code, error.code);
    if (code != 0) {
        CHECK(error.message[0] != '\0');
        CHECK_EQUAL(bl_store_show(store, &arena, "copy", &view, &missing), BL_ENOENT);
    } else {
        CHECK_EQUAL(bl_store_show(store, &arena, "copy", &view, &missing), 0);
        CHECK_EQUAL(bl_store_delete(store, "copy", &missing), 0);
    }
    bl_arena_done(&arena);
}

STORE_TEST(damaged_lines_are_imported_whole_or_not_at_all)
{
    static const char bytes[] = "{}[]\",:0-9.eE\\ntf u\n\x80";
    unsigned long rounds = suite_rounds(150, 20000);
    struct bl_store *store = store_at(place);
    struct bl_buffer before, after, text;
    struct guard_page guard = {0};
    struct bl_random random;
    struct holding holding;

    bl_random_seed(&random, 71);
    bl_buffer_init(&before, SIZE_MAX / 2);
    bl_buffer_init(&after, SIZE_MAX / 2);
    bl_buffer_init(&text, SIZE_MAX / 2);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    add_turn(&holding, "turn_2");
    release(&holding);
    export_session(store, "alpha", &before);
    for (unsigned long round = 0; round < rounds; round++) {
        bl_buffer_clear(&text);
        bl_buffer_append(&text, bl_buffer_text(&before));
        mutate(&random, (struct bl_text){bytes, sizeof bytes}, &text);
        import_damaged(store, guard_page_before(&guard, bl_buffer_text(&text)));
    }
    export_session(store, "alpha", &after);
    CHECK(bl_text_equal(bl_buffer_text(&before), bl_buffer_text(&after)));
    bl_store_close(store);
    bl_buffer_done(&before);
    bl_buffer_done(&after);
    bl_buffer_done(&text);
    guard_page_done(&guard);
}

/* ---- A store ---- */

static void write_store(const struct place *place, struct bl_text bytes)
{
    int fd = open(place->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK_EQUAL(write(fd, bytes.data, bytes.size), bytes.size);
    close(fd);
}

/* Like `belay session show` and `export`. */
static void read_damaged(const struct place *place)
{
    struct bl_store *store = NULL;
    struct bl_store_session_view view;
    struct bl_error error = {0};
    struct bl_arena arena = {0};
    struct bl_buffer out;

    int code = bl_store_open_reading(place->path, &store, &error);
    CHECK_EQUAL(code, error.code);
    CHECK(code == 0 || error.message[0] != '\0');
    if (code != 0)
        return;
    bl_buffer_init(&out, SIZE_MAX / 2);
    code = bl_store_show(store, &arena, "alpha", &view, &error);
    CHECK(code == 0 || error.message[0] != '\0');
    error = (struct bl_error){0};
    code = bl_store_export(store, "alpha", keep_line, &out, &error);
    CHECK(code == 0 || error.message[0] != '\0');
    bl_store_close(store);
    bl_arena_done(&arena);
    bl_buffer_done(&out);
}

STORE_TEST(a_damaged_store_is_read_or_refused_and_stays_as_it_is)
{
    static const char bytes[] = "\x00\x00\xFF\x7F\x80\x01\x0D\x05\x0A\x02";
    unsigned long rounds = suite_rounds(100, 5000);
    struct bl_store *store = store_at(place);
    struct bl_random random;
    struct holding holding;
    struct bl_buffer text;

    bl_random_seed(&random, 72);
    bl_buffer_init(&text, SIZE_MAX / 2);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    release(&holding);
    bl_store_close(store);
    struct bl_text whole = suite_read_file(place->path);
    for (unsigned long round = 0; round < rounds; round++) {
        bl_buffer_clear(&text);
        bl_buffer_append(&text, whole);
        mutate(&random, (struct bl_text){bytes, sizeof bytes}, &text);
        write_store(place, bl_buffer_text(&text));
        if (round % 16 == 0)
            guard_heap_begin();
        read_damaged(place);
        guard_heap_end();
        struct bl_text after = suite_read_file(place->path);
        CHECK(bl_text_equal(bl_buffer_text(&text), after));
        bl_free((void *)(uintptr_t)after.data);
    }
    bl_free((void *)(uintptr_t)whole.data);
    bl_buffer_done(&text);
}

SUITE(damage, cmocka_unit_test(damaged_lines_are_imported_whole_or_not_at_all),
      cmocka_unit_test(a_damaged_store_is_read_or_refused_and_stays_as_it_is));
