#include "folder.h"

static size_t find(struct folder *folder, const char *below, struct bl_list *ret_skills)
{
    char directory[4096];
    size_t count = 0;
    snprintf(directory, sizeof directory, "%s/%s", folder->root, below);
    bl_skills_find(&folder->arena, directory, ret_skills, &folder->notices);
    BL_LIST_EACH (link, ret_skills)
        count++;
    return count;
}

static const struct bl_skill *named(const struct bl_list *skills, const char *name)
{
    BL_LIST_EACH (link, skills) {
        const struct bl_skill *skill = BL_CONTAINER(link, struct bl_skill, link);
        if (strcmp(skill->name, name) == 0)
            return skill;
    }
    return NULL;
}

static void a_folder_with_a_skill_file_is_listed_by_name_and_description(void **state)
{
    struct folder *folder = *state;
    struct bl_list skills;

    folder_write(folder, "work/.belay/skills/release/SKILL.md",
                 BL_TEXT("---\nname: making releases\ndescription: |\n  How to release.\n"
                         "  When asked to.\n"
                         "license: MIT\nmetadata: {author: someone}\n---\nDo this.\n"));
    folder_write(folder, "work/.belay/skills/release/notes.md", BL_TEXT("beside it"));
    folder_write(folder, "work/.belay/skills/plain/SKILL.md", BL_TEXT("---\ndescription: D\n---"));
    /* None of these is a skill. */
    folder_make(folder, "work/.belay/skills/empty");
    folder_write(folder, "work/.belay/skills/README.md", BL_TEXT("about"));
    folder_write(folder, "work/.belay/skills/.hidden/SKILL.md", BL_TEXT("broken"));
    assert_int_equal(find(folder, "work", &skills), 2);
    assert_true(bl_list_empty(&folder->notices));
    const struct bl_skill *skill = named(&skills, "making releases");
    assert_non_null(skill);
    assert_string_equal(skill->description, "How to release. When asked to.");
    assert_string_equal(skill->path, folder_path(folder, "work/.belay/skills/release/SKILL.md"));
    assert_string_equal(skill->folder, folder_path(folder, "work/.belay/skills/release"));
    assert_non_null(named(&skills, "plain"));
    /* Without a name, the folder's name. Sorted. */
    assert_ptr_equal(skills.next, &named(&skills, "plain")->link);
}

static void skills_are_the_users_and_those_from_the_root_down(void **state)
{
    static const char *const folders[] = {
        "config/belay/skills",   "work/.agents/skills",  "work/.belay/skills",
        "work/a/.agents/skills", "work/a/.belay/skills",
    };
    struct folder *folder = *state;
    struct bl_list skills;

    folder_write(folder, ".agents/skills/x/SKILL.md", BL_TEXT("---\ndescription: out\n---"));
    for (size_t i = 0; i < BL_COUNT(folders); i++) {
        char path[128], text[64];
        snprintf(path, sizeof path, "%s/x/SKILL.md", folders[i]);
        snprintf(text, sizeof text, "---\ndescription: from %zu\n---\n", i);
        folder_write(folder, path, bl_text_from(text));
        snprintf(path, sizeof path, "%s/own%zu/SKILL.md", folders[i], i);
        folder_write(folder, path, bl_text_from(text));
        assert_int_equal(find(folder, "work/a", &skills), i + 2);
        /* The nearest of that name is used. */
        assert_int_equal(named(&skills, "x")->description[5], '0' + (int)i);
    }
    assert_int_equal(find(folder, "work", &skills), 4);
    assert_true(bl_list_empty(&folder->notices));
}

static void a_skill_file_that_is_wrong_is_left_out_with_a_notice(void **state)
{
    static const struct {
        const char *text;
        const char *notice; /* after the file's name */
    } cases[] = {
        {"No front matter.\n", ":1:1: missing front matter; begin the file with a line ---, then "
                               "name: and description:, then a line ---, then the text"},
        {"---\nname: x\ndescriptions: D\n---\n",
         ":2:1: description: missing; expected a string; describe in one line what it is for, and "
         "when to read it"},
        {"---\nname: [x]\ndescription: D\n---\n", ":2:7: name: expected a string, found a list"},
        {"---\nname: x\ndescription: a: b\n---\n", NULL},
    };
    struct folder *folder = *state;
    struct bl_list skills;

    folder_write(folder, "work/.belay/skills/good/SKILL.md", BL_TEXT("---\ndescription: D\n---"));
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char expected[512];
        folder_write(folder, "work/.belay/skills/bad/SKILL.md", bl_text_from(cases[i].text));
        assert_int_equal(find(folder, "work", &skills), 1);
        assert_non_null(named(&skills, "good"));
        assert_false(bl_list_empty(&folder->notices));
        snprintf(expected, sizeof expected, "work/.belay/skills/bad/SKILL.md%s",
                 cases[i].notice != NULL ? cases[i].notice : "");
        if (cases[i].notice != NULL)
            folder_expect_notice(folder, expected);
        bl_list_init(&folder->notices);
    }
    char text[1200] = "---\ndescription: ";
    memset(text + strlen(text), 'x', 1025);
    strcat(text, "\n---\n");
    folder_write(folder, "work/.belay/skills/bad/SKILL.md", bl_text_from(text));
    find(folder, "work", &skills);
    folder_expect_notice(
        folder, "work/.belay/skills/bad/SKILL.md:2:14: description must have at most 1024 bytes");
}

SUITE(skill, IN_FOLDER(a_folder_with_a_skill_file_is_listed_by_name_and_description),
      IN_FOLDER(skills_are_the_users_and_those_from_the_root_down),
      IN_FOLDER(a_skill_file_that_is_wrong_is_left_out_with_a_notice));
