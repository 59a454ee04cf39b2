#include "folder.h"

static void find(struct folder *folder, const char *below, struct bl_list *ret_personas)
{
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/%s", folder->root, below);
    bl_personas_find(&folder->arena, directory, ret_personas, &folder->notices);
}

static const struct bl_persona *named(const struct bl_list *personas, const char *name)
{
    return bl_persona_named(personas, bl_text_from(name));
}

static void expect_tools(const struct bl_persona *persona, const char *tools)
{
    struct bl_buffer joined;
    bl_buffer_init(&joined, 4096);
    for (size_t i = 0; persona->tools != NULL && persona->tools[i] != NULL; i++)
        bl_buffer_printf(&joined, "%s ", persona->tools[i]);
    bl_buffer_append_byte(&joined, '\0');
    assert_string_equal(joined.data, tools);
    bl_buffer_done(&joined);
}

static size_t count_of(const struct bl_list *list)
{
    size_t count = 0;
    BL_LIST_EACH (link, list)
        count++;
    return count;
}

/* ---- Valid personas -------------------------------------------------------------------------- */

static void explore_worker_and_review_are_built_in(void **state)
{
    static const char *const names[] = {"explore", "worker", "review"};
    struct folder *folder = *state;
    struct bl_list personas;

    find(folder, "work", &personas);
    assert_int_equal(count_of(&personas), 3);
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        const struct bl_persona *persona = named(&personas, names[i]);
        assert_non_null(persona);
        assert_true(strlen(persona->description) > 40);
        assert_true(persona->instructions.size > 200);
        assert_null(persona->path);
        assert_null(persona->model);
        assert_int_equal(persona->max_steps, BL_UNLIMITED);
        assert_int_equal(persona->max_budget_tokens, BL_UNLIMITED);
        assert_int_equal(persona->timeout_ns, 0);
        assert_false(persona->synthesize);
    }
    expect_tools(named(&personas, "explore"), "read glob grep ls ");
    expect_tools(named(&personas, "review"), "read glob grep ls bash ");
    assert_null(named(&personas, "worker")->tools);
    assert_null(named(&personas, "nobody"));
    assert_true(bl_list_empty(&folder->notices));
}

static void a_markdown_file_is_a_persona_with_its_own_instructions_tools_model_and_limits(
    void **state)
{
    struct folder *folder = *state;
    struct bl_list personas;

    folder_write(folder, "work/.belay/agents/any.md",
                 BL_TEXT("---\n"
                         "name: tester-2\n"
                         "description: >\n"
                         "  Writes tests,\n"
                         "  and runs them.\n"
                         "tools: [read, write, mcp__db__*]\n"
                         "model: small\n"
                         "max_steps: 20\n"
                         "on_exhausted: synthesize\n"
                         "max_budget_tokens: 50000\n"
                         "timeout: 10m\n"
                         "---\n"
                         "\n"
                         "Write tests.\n\n---\n\nNot too many.\n"));
    find(folder, "work/a", &personas);
    assert_true(bl_list_empty(&folder->notices));
    const struct bl_persona *persona = named(&personas, "tester-2");
    assert_non_null(persona);
    assert_string_equal(persona->description, "Writes tests, and runs them.");
    assert_true(
        bl_text_equal(persona->instructions, BL_TEXT("Write tests.\n\n---\n\nNot too many.")));
    expect_tools(persona, "read write mcp__db__* ");
    assert_string_equal(persona->model, "small");
    assert_int_equal(persona->max_steps, 20);
    assert_true(persona->synthesize);
    assert_int_equal(persona->max_budget_tokens, 50000);
    assert_int_equal(persona->timeout_ns, 600 * BL_NS_PER_S);
    assert_string_equal(persona->path, folder_path(folder, "work/.belay/agents/any.md"));
}

static void a_persona_defaults_to_its_files_name_and_all_tools(void **state)
{
    struct folder *folder = *state;
    struct bl_list personas;

    /* As an editor on another system may save it. */
    folder_write(folder, "config/belay/agents/plain.md",
                 BL_TEXT("\xEF\xBB\xBF---\r\ndescription: Plain.\r\n---  \r\nDo it.\r\n"));
    folder_write(folder, "config/belay/agents/text.md",
                 BL_TEXT("---\ndescription: D\ntools: read,  bash ,grep,\n---\nDo it."));
    folder_write(folder, "config/belay/agents/none.md",
                 BL_TEXT("---\ndescription: D\ntools: []\non_exhausted: stop\n---\nDo it."));
    find(folder, "work", &personas);
    assert_true(bl_list_empty(&folder->notices));
    assert_int_equal(count_of(&personas), 6);
    assert_null(named(&personas, "plain")->tools);
    assert_true(bl_text_equal(named(&personas, "plain")->instructions, BL_TEXT("Do it.")));
    assert_int_equal(named(&personas, "plain")->max_steps, BL_UNLIMITED);
    expect_tools(named(&personas, "text"), "read bash grep ");
    assert_non_null(named(&personas, "none")->tools);
    expect_tools(named(&personas, "none"), "");
    assert_false(named(&personas, "none")->synthesize);
}

static void a_later_persona_takes_the_place_of_an_earlier_one_of_its_name(void **state)
{
    static const char *const files[] = {"config/belay/agents/x.md", "work/.belay/agents/x.md",
                                        "work/a/.belay/agents/x.md", "work/a/b/.belay/agents/x.md"};
    struct folder *folder = *state;
    struct bl_list personas;

    folder_write(folder, ".belay/agents/x.md", BL_TEXT("---\ndescription: out\n---\nx"));
    folder_write(folder, "config/belay/agents/explore.md",
                 BL_TEXT("---\ndescription: Mine.\n---\nMine."));
    find(folder, "work/a/b", &personas);
    assert_int_equal(count_of(&personas), 3);
    assert_string_equal(named(&personas, "explore")->description, "Mine.");
    /* In the same position. */
    assert_ptr_equal(personas.next, &named(&personas, "explore")->link);
    for (size_t i = 0; i < BL_COUNT(files); i++) {
        char text[64];
        snprintf(text, sizeof text, "---\ndescription: from %zu\n---\nx", i);
        folder_write(folder, files[i], bl_text_from(text));
        find(folder, "work/a/b", &personas);
        assert_int_equal(count_of(&personas), 4);
        assert_string_equal(named(&personas, "x")->path, folder_path(folder, files[i]));
        assert_int_equal(named(&personas, "x")->description[5], '0' + (int)i);
    }
    find(folder, "work/a", &personas);
    assert_string_equal(named(&personas, "x")->description, "from 2");
    assert_true(bl_list_empty(&folder->notices));
}

/* ---- Errors ---------------------------------------------------------------------------------- */

#define FRONT(lines) "---\n" lines "\n---\nx\n"

static void every_mistake_is_a_notice_with_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *notice; /* after the file's name */
    } cases[] = {
        {"Just text.\n", ":1:1: missing front matter; begin the file with a line ---, then name: "
                         "and description:, then a line ---, then the text"},
        {"---\nname: x\n", ":1:1: the front matter is not closed; begin the file with a line ---, "
                           "then name: and description:, then a line ---, then the text"},
        {FRONT("- a"), ":1:1: the front matter is not a mapping; begin the file with a line ---, "
                       "then name: and description:, then a line ---, then the text"},
        {FRONT("description: D\ntool: [a]"),
         ":3:1: unknown member \"tool\" in a persona; did you mean \"tools\"?"},
        {FRONT("description: D\nname: Big Name"),
         ":3:7: name: expected 1 to 64 characters from a-z, 0-9 and -"},
        {FRONT("name: x"), ":2:1: description: missing; expected a string; describe in one line "
                           "when to use it: it is chosen by this"},
        {FRONT("description: ''"), ":2:14: description must not be empty"},
        {FRONT("description: \"a\\e[31mb\""), ":2:14: description contains a control character"},
        {FRONT("description: D\ntools: 7"),
         ":3:8: tools: expected a list of names, found a whole number"},
        {FRONT("description: D\ntools:\n- read\n- a b"),
         ":5:3: invalid tool name; for example, read, bash or mcp__server__*"},
        {FRONT("description: D\ntools: [read, Bash]"),
         ":3:15: unknown tool 'Bash'; did you mean 'bash'?"},
        {FRONT("description: D\ntools: [[]]"),
         ":3:9: invalid tool name; for example, read, bash or mcp__server__*"},
        {FRONT("description: D\nmax_steps: 0"),
         ":3:12: max_steps: expected a whole number from 1 to 1000000000"},
        {FRONT("description: D\nmax_budget_tokens: many"),
         ":3:20: max_budget_tokens: expected a whole number from 1 to 1000000000, found a string"},
        {FRONT("description: D\non_exhausted: sythesize"),
         ":3:15: on_exhausted: expected one of stop, synthesize; did you mean \"synthesize\"?"},
        {FRONT("description: D\ntimeout: 0"), ":3:10: timeout: expected a duration above zero such "
                                              "as 20ms, 90s or 1.5h (a number alone is seconds)"},
        {FRONT("description: D\nmodel:"), ":3:7: model: expected one line of text without control "
                                          "characters, found null; put quotes around it"},
        {FRONT("description: D\ndescription: D"), NULL},
        {FRONT("description: 'D"), NULL},
        {"---\ndescription: D\n---\n \n",
         ":2:1: a persona needs instructions; write them below the second line of dashes"},
    };
    struct folder *folder = *state;
    struct bl_list personas;

    folder_write(folder, "work/.belay/agents/good.md", BL_TEXT(FRONT("description: D")));
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char expected[512];
        folder_write(folder, "work/.belay/agents/bad.md", bl_text_from(cases[i].text));
        find(folder, "work", &personas);
        /* The others still work. */
        assert_int_equal(count_of(&personas), 4);
        assert_non_null(named(&personas, "good"));
        if (cases[i].notice == NULL) {
            assert_int_equal(count_of(&folder->notices), 1);
            bl_list_init(&folder->notices);
            continue;
        }
        snprintf(expected, sizeof expected, "work/.belay/agents/bad.md%s", cases[i].notice);
        folder_expect_notice(folder, expected);
    }
}

static void unreadable_personas_are_notices(void **state)
{
    static char large[256 * 1024 + 1];
    struct folder *folder = *state;
    struct bl_list personas;

    memset(large, '-', sizeof large);
    folder_write(folder, "work/.belay/agents/a.md", (struct bl_text){large, sizeof large});
    find(folder, "work", &personas);
    folder_expect_notice(folder, "work/.belay/agents/a.md is larger than 256 KiB");
    folder_write(folder, "work/.belay/agents/a.md", BL_TEXT("---\nname: \xff\n---\nx"));
    find(folder, "work", &personas);
    folder_expect_notice(folder, "work/.belay/agents/a.md is not valid UTF-8");
    unlink(folder_path(folder, "work/.belay/agents/a.md"));
    folder_make(folder, "work/.belay/agents/a.md");
    find(folder, "work", &personas);
    folder_expect_notice(folder, "cannot read work/.belay/agents/a.md: is a directory");
    rmdir(folder_path(folder, "work/.belay/agents/a.md"));
    /* A FIFO without a writer must not block. */
    assert_int_equal(mkfifo(folder_path(folder, "work/.belay/agents/a.md"), 0600), 0);
    find(folder, "work", &personas);
    folder_expect_notice(folder, "cannot read work/.belay/agents/a.md: not a regular file");
    unlink(folder_path(folder, "work/.belay/agents/a.md"));
    folder_write(folder, "work/.belay/agents/a\nb.md", BL_TEXT(FRONT("description: D")));
    find(folder, "work", &personas);
    folder_expect_notice(folder,
                         "work/.belay/agents contains a name that cannot be shown: skipped");
    assert_int_equal(count_of(&personas), 3);
}

static void hidden_and_other_files_are_ignored(void **state)
{
    struct folder *folder = *state;
    struct bl_list personas;

    folder_write(folder, "work/.belay/agents/.hidden.md", BL_TEXT("broken"));
    folder_write(folder, "work/.belay/agents/notes.txt", BL_TEXT("broken"));
    folder_write(folder, "work/.belay/agents/README", BL_TEXT("broken"));
    find(folder, "work", &personas);
    assert_int_equal(count_of(&personas), 3);
    assert_true(bl_list_empty(&folder->notices));
    /* A file in place of the folder is ignored. */
    folder_write(folder, "work/a/.belay/agents", BL_TEXT(""));
    find(folder, "work/a", &personas);
    assert_true(bl_list_empty(&folder->notices));
}

static void personas_are_limited_to_256(void **state)
{
    struct folder *folder = *state;
    struct bl_list personas;

    for (unsigned i = 0; i < 254; i++) {
        char name[64];
        snprintf(name, sizeof name, "work/.belay/agents/p%03u.md", i);
        folder_write(folder, name, BL_TEXT(FRONT("description: D")));
    }
    find(folder, "work", &personas);
    assert_int_equal(count_of(&personas), 256);
    folder_expect_notice(
        folder, "more than 256 personas: work/.belay/agents/p253.md and later ones are skipped");
    assert_non_null(named(&personas, "p252"));
    assert_null(named(&personas, "p253"));
}

SUITE(persona, IN_FOLDER(explore_worker_and_review_are_built_in),
      IN_FOLDER(a_markdown_file_is_a_persona_with_its_own_instructions_tools_model_and_limits),
      IN_FOLDER(a_persona_defaults_to_its_files_name_and_all_tools),
      IN_FOLDER(a_later_persona_takes_the_place_of_an_earlier_one_of_its_name),
      IN_FOLDER(every_mistake_is_a_notice_with_its_place),
      IN_FOLDER(unreadable_personas_are_notices), IN_FOLDER(hidden_and_other_files_are_ignored),
      IN_FOLDER(personas_are_limited_to_256));
