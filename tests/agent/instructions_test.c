#include "folder.h"

static size_t find(struct folder *folder, const char *below, struct bl_list *list,
                   struct bl_error *error, int *ret_code)
{
    char directory[4096];
    size_t count = 0;
    snprintf(directory, sizeof directory, "%s/%s", folder->root, below);
    *ret_code = bl_instructions_find(&folder->arena, directory, list, &folder->notices, error);
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
    assert_int_equal(bl_instructions_find(&folder->arena, "/", &list, &folder->notices, NULL), 0);
}

static void unusable_instructions_are_an_error_with_the_file(void **state)
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

static size_t count_notices(const struct folder *folder, const char *part)
{
    size_t count = 0;
    BL_LIST_EACH (link, &folder->notices)
        count +=
            bl_text_find(BL_CONTAINER(link, struct bl_notice, link)->text, bl_text_from(part)) >= 0;
    return count;
}

static void link_to(struct folder *folder, const char *target, const char *relative)
{
    assert_int_equal(symlink(target, folder_path(folder, relative)), 0);
}

/* The content of a file outside must not be sent to a provider. */
static void a_link_out_of_the_workspace_is_left_out_with_a_notice(void **state)
{
    struct folder *folder = *state;
    char outside[200];
    struct bl_list list;
    int code;

    folder_write(folder, "private", BL_TEXT("private text"));
    snprintf(outside, sizeof outside, "%s/private", folder->root);
    folder_write(folder, "work/a/AGENTS.md", BL_TEXT("plain"));
    link_to(folder, outside, "work/AGENTS.md");
    link_to(folder, "../../../private", "work/a/b/AGENTS.md");
    assert_int_equal(find(folder, "work/a/b", &list, NULL, &code), 1);
    assert_int_equal(code, 0);
    assert_true(bl_text_equal(BL_CONTAINER(list.next, struct bl_instruction, link)->text,
                              BL_TEXT("plain")));
    assert_int_equal(count_notices(folder, "leads out of"), 2);
    assert_int_equal(count_notices(folder, "work/a/b/AGENTS.md"), 1);
}

static void a_link_within_the_workspace_and_one_of_the_users_own_are_read(void **state)
{
    struct folder *folder = *state;
    struct bl_list list;
    int code;

    folder_write(folder, "dotfiles", BL_TEXT("own"));
    folder_write(folder, "work/docs/agents.md", BL_TEXT("docs"));
    link_to(folder, "../../dotfiles", "config/belay/AGENTS.md");
    link_to(folder, "docs/agents.md", "work/AGENTS.md");
    char inside[200];
    snprintf(inside, sizeof inside, "%s/work/docs/agents.md", folder->root);
    link_to(folder, inside, "work/a/AGENTS.md");
    assert_int_equal(find(folder, "work/a", &list, NULL, &code), 3);
    assert_int_equal(code, 0);
    assert_true(bl_list_empty(&folder->notices));
}

static void a_fifo_and_a_device_are_errors_without_waiting(void **state)
{
    struct folder *folder = *state;
    struct bl_error error = {0};
    struct bl_list list;
    int code;

    assert_int_equal(mkfifo(folder_path(folder, "work/AGENTS.md"), 0600), 0);
    find(folder, "work", &list, &error, &code);
    assert_int_equal(code, BL_EIO);
    assert_non_null(strstr(error.message, "not a regular file"));
    unlink(folder_path(folder, "work/AGENTS.md"));
    link_to(folder, "/dev/zero", "work/AGENTS.md");
    assert_int_equal(find(folder, "work", &list, NULL, &code), 0);
    assert_int_equal(count_notices(folder, "leads out of"), 1);
}

/* Folders that are links, and links in real folders. */
static void skills_and_personas_do_not_lead_out_either(void **state)
{
    static const char page[] = "---\nname: stolen\ndescription: d\n---\nprivate text\n";
    struct folder *folder = *state;
    struct bl_list skills, personas;
    char work[200];

    folder_write(folder, "outside/SKILL.md", bl_text_from(page));
    folder_make(folder, "work/.belay/skills/one");
    folder_make(folder, "work/.belay/agents");
    link_to(folder, "../../../outside", "work/.belay/skills/two");
    link_to(folder, "../../../../outside/SKILL.md", "work/.belay/skills/one/SKILL.md");
    link_to(folder, "../../../outside/SKILL.md", "work/.belay/agents/stolen.md");
    snprintf(work, sizeof work, "%s/work", folder->root);
    bl_skills_find(&folder->arena, work, &skills, &folder->notices);
    assert_true(bl_list_empty(&skills));
    bl_personas_find(&folder->arena, work, &personas, &folder->notices);
    assert_null(bl_persona_named(&personas, BL_TEXT("stolen")));
    assert_int_equal(count_notices(folder, "leads out of"), 3);
}

SUITE(instructions, IN_FOLDER(instructions_go_from_the_root_down_nearest_last_after_the_users_own),
      IN_FOLDER(without_a_repository_only_the_directory_itself_counts),
      IN_FOLDER(unusable_instructions_are_an_error_with_the_file),
      IN_FOLDER(a_link_out_of_the_workspace_is_left_out_with_a_notice),
      IN_FOLDER(a_link_within_the_workspace_and_one_of_the_users_own_are_read),
      IN_FOLDER(a_fifo_and_a_device_are_errors_without_waiting),
      IN_FOLDER(skills_and_personas_do_not_lead_out_either));
