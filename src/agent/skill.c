#include "found.h"

#define OPERATION "read a skill"
#define FILE_NAME "SKILL.md"
#define LABEL_MAX 64u

#define BL_RECORD_STRUCT struct bl_skill
static const struct bl_member skill_members[] = {
    BL_MEMBER_STRING("name", name, .optional = true),
    BL_MEMBER_STRING("description", description,
                     .about = "describe in one line what it is for, and when to read it"),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

/* Other members are for other programs that read skills. */
static const struct bl_record skill_record = BL_RECORD("a skill", struct bl_skill, skill_members);

static int read_skill(struct bl_arena *arena, const struct found_place *folder,
                      const char *folder_name, struct bl_skill **ret_skill, struct bl_error *error)
{
    struct bl_skill *skill = bl_arena_zalloc(arena, sizeof *skill);
    struct found_page page;

    skill->folder = folder->path;
    skill->path = bl_arena_printf(arena, "%s/" FILE_NAME, folder->path).data;
    skill->name = folder_name;
    *ret_skill = skill;
    struct found_place place = {skill->path, folder->root};
    int code = found_page_read(arena, &place, OPERATION, &page, error);
    if (code != 0)
        return code;
    const struct bl_json *root = page.source.document.root;
    code = bl_source_read(&page.source, arena, &skill_record, root, skill);
    if (code == 0)
        code = found_line(&page.source, bl_json_get(root, BL_TEXT("name")), arena, LABEL_MAX,
                          &skill->name);
    if (code == 0)
        code = found_line(&page.source, bl_json_get(root, BL_TEXT("description")), arena,
                          FOUND_DESCRIPTION_MAX, &skill->description);
    if (code == 0 && strlen(skill->name) > LABEL_MAX) {
        code = bl_source_fail(&page.source, root, "a skill needs a name");
        bl_error_hint(error, "add name: the folder's name is longer than %u bytes", LABEL_MAX);
    }
    return code;
}

/* Returns false if there are too many. */
static bool add_skill(struct bl_list *skills, struct bl_skill *skill)
{
    size_t count = 0;

    BL_LIST_EACH (link, skills) {
        count++;
        if (strcmp(BL_CONTAINER(link, struct bl_skill, link)->name, skill->name) != 0)
            continue;
        bl_list_insert_before(link, &skill->link);
        bl_list_remove(link);
        return true;
    }
    if (count == FOUND_COUNT_MAX)
        return false;
    bl_list_push_back(skills, &skill->link);
    return true;
}

static bool skill_add_folder(struct bl_arena *arena, const struct found_place *folder,
                             struct bl_list *skills, struct bl_list *notices)
{
    const char *const *names = found_names(arena, folder->path, notices);

    for (; *names != NULL; names++) {
        struct bl_error error = {0};
        struct bl_skill *skill;
        struct found_place place = {
            bl_arena_printf(arena, "%s/%s", folder->path, *names).data,
            folder->root,
        };
        int code = read_skill(arena, &place, *names, &skill, &error);
        if (code == 0 && !add_skill(skills, skill)) {
            found_too_many(arena, notices, "skills", skill->path);
            return false;
        }
        /* A folder without that file, or a file next to the folders, is not a skill. */
        if (error.code != 0)
            found_notice(arena, notices, &error);
    }
    return true;
}

void bl_skills_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_skills,
                    struct bl_list *notices)
{
    /* Our own folder comes after the one shared with other programs, so it takes precedence. */
    static const char *const below[] = {".agents/skills", ".belay/skills", NULL};
    const struct found_place *folders = found_places(arena, directory, "skills", below);
    bool room = true;

    bl_list_init(ret_skills);
    for (; room && folders->path != NULL; folders++)
        room = skill_add_folder(arena, folders, ret_skills, notices);
}
