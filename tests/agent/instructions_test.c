#include "folder.h"

static size_t find(struct folder *folder, const char *below, struct bl_list *list,
                   struct bl_error *error, int *ret_code)
{
    char directory[4096];
    size_t count = 0;
    snprintf(directory, sizeof directory, "%s/%s", folder->root, below);
    *ret_code = bl_instructions_find(&folder->arena, directory, list, error);
    BL_LIST_EACH (link, list)
        count++;
    return count;
}

static void instructions_go_from_the_root_down_nearest_last_after_the_users_own(void **state)
{
    struct folder *folder = *state;
    struct bl_list list;
    int code;

    folder_write(folder, "config/belay/AGENTS.md", BL_TEXT("own"));
    folder_write(folder, "AGENTS.md", BL_TEXT("above"));
    folder_write(folder, "work/AGENTS.md", BL_TEXT("root"));
    folder_write(folder, "work/a/b/AGENTS.md", BL_TEXT("near"));
    assert_int_equal(find(folder, "work/a/b", &list, NULL, &code), 3);
    assert_int_equal(code, 0);
    const struct bl_instruction *own = BL_CONTAINER(list.next, struct bl_instruction, link);
    const struct bl_instruction *root = BL_CONTAINER(own->link.next, struct bl_instruction, link);
    const struct bl_instruction *near = BL_CONTAINER(list.previous, struct bl_instruction, link);
    assert_true(bl_text_equal(own->text, BL_TEXT("own")));
    assert_true(bl_text_equal(root->text, BL_TEXT("root")));
    assert_string_equal(root->path, folder_path(folder, "work/AGENTS.md"));
    assert_true(bl_text_equal(near->text, BL_TEXT("near")));
}

static void without_a_repository_only_the_directory_itself_counts(void **state)
{
    struct folder *folder = *state;
    struct bl_list list;
    int code;

    folder_write(folder, "config/belay/AGENTS.md", BL_TEXT("own"));
    folder_write(folder, "AGENTS.md", BL_TEXT("above"));
    assert_int_equal(find(folder, "config", &list, NULL, &code), 1);
    folder_write(folder, "config/AGENTS.md", BL_TEXT("here"));
    assert_int_equal(find(folder, "config", &list, NULL, &code), 2);
    setenv("XDG_CONFIG_HOME", "not/absolute", 1);
    setenv("HOME", "", 1);
    assert_int_equal(find(folder, "config", &list, NULL, &code), 1);
    assert_int_equal(bl_instructions_find(&folder->arena, "/", &list, NULL), 0);
}

static void what_cannot_be_used_is_an_error_that_names_the_file(void **state)
{
    static char large[300 * 1024];
    struct folder *folder = *state;
    struct bl_error error = {0};
    struct bl_list list;
    int code;

    folder_write(folder, "work/AGENTS.md", BL_TEXT("\xff\xfe"));
    find(folder, "work", &list, &error, &code);
    assert_int_equal(code, BL_EPARSE);
    assert_non_null(strstr(error.message, "work/AGENTS.md"));
    memset(large, 'x', sizeof large);
    folder_write(folder, "work/AGENTS.md", (struct bl_text){large, 256 * 1024});
    assert_int_equal(find(folder, "work", &list, NULL, &code), 1);
    folder_write(folder, "work/AGENTS.md", (struct bl_text){large, 256 * 1024 + 1});
    find(folder, "work", &list, NULL, &code);
    assert_int_equal(code, BL_ELIMIT);
    folder_write(folder, "work/AGENTS.md", BL_TEXT(""));
    folder_make(folder, "work/a/AGENTS.md");
    find(folder, "work/a", &list, NULL, &code);
    assert_int_equal(code, BL_EIO);
}

SUITE(instructions, IN_FOLDER(instructions_go_from_the_root_down_nearest_last_after_the_users_own),
      IN_FOLDER(without_a_repository_only_the_directory_itself_counts),
      IN_FOLDER(what_cannot_be_used_is_an_error_that_names_the_file));
