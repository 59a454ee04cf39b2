#include "files.h"

static int echoed(void *argument)
{
    struct files *files = argument;
    CHECK_EQUAL(files_call(files, &tool_todo,
                           "{\"todos\":[{\"content\":\"look\",\"status\":\"completed\"},"
                           "{\"content\":\" fix\\nit \",\"status\":\"in_progress\"},"
                           "{\"content\":\"test\",\"status\":\"pending\"}]}"),
                0);
    CHECK(!files->result.is_error);
    CHECK(strcmp(files_text(files), "1 of 3 done\n[x] look\n[>] fix it\n[ ] test") == 0);
    CHECK_EQUAL(files_call(files, &tool_todo, "{\"todos\":[]}"), 0);
    CHECK(files_says(files, false, "The list is empty."));
    return 0;
}

/* As many characters as the schema allows, each of several bytes. */
static int wide(void *argument)
{
    struct files *files = argument;
    char content[500 * 3 + 1] = "";
    for (size_t i = 0; i < 500; i++)
        memcpy(content + 3 * i, "€", 4);
    CHECK_EQUAL(files_call(files, &tool_todo,
                           "{\"todos\":[{\"content\":\"%s\",\"status\":\"pending\"}]}", content),
                0);
    CHECK(files_says(files, false, content));
    return 0;
}

static int checked(void *argument)
{
    struct files *files = argument;
    CHECK_EQUAL(files_call(files, &tool_todo,
                           "{\"todos\":[{\"content\":\"a\",\"status\":\"in_progress\"},"
                           "{\"content\":\"b\",\"status\":\"in_progress\"}]}"),
                0);
    CHECK(files_says(files, true, "more than one item is in_progress"));
    CHECK_EQUAL(
        files_call(files, &tool_todo, "{\"todos\":[{\"content\":\"  \",\"status\":\"pending\"}]}"),
        0);
    CHECK(files_says(files, true, "an item has no content"));
    CHECK(!files_fits(files, &tool_todo, "{\"todos\":[{\"content\":\"a\"}]}"));
    CHECK(!files_fits(files, &tool_todo, "{\"todos\":[{\"content\":\"a\",\"status\":\"done\"}]}"));
    CHECK(!files_fits(files, &tool_todo, "{\"todos\":\"a\"}"));
    CHECK(!files_fits(files, &tool_todo, "{}"));
    CHECK(tool_todo.reads && !tool_todo.parallel);
    return 0;
}

FILES_TEST(todo_echoes_the_list_with_marks, echoed)
FILES_TEST(todo_counts_characters_as_its_schema_does, wide)
FILES_TEST(todo_takes_at_most_one_item_in_progress, checked)

SUITE(todo, cmocka_unit_test(todo_echoes_the_list_with_marks),
      cmocka_unit_test(todo_counts_characters_as_its_schema_does),
      cmocka_unit_test(todo_takes_at_most_one_item_in_progress));
