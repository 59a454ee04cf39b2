#include "plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Shared by the tests of plans ------------------------------------------------------------ */

void plans_make(struct place *place)
{
    const char *temporary = getenv("TMPDIR");
    char path[200];

    snprintf(path, sizeof path, "%s/belay-plan-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(path));
    char *real = realpath(path, NULL);
    assert_non_null(real);
    bl_text_into(place->root, sizeof place->root, real);
    free(real);
    snprintf(place->repository, sizeof place->repository, "%s/repo", place->root);
    place_write(place, ".git/HEAD", "ref: refs/heads/main\n");
    plans_task(place, "A", "");
    plans_task(place, "B", "");
}

void plans_task(const struct place *place, const char *id, const char *front)
{
    char path[128], text[4096];

    snprintf(path, sizeof path, "tasks/%s.md", id);
    snprintf(text, sizeof text,
             "---\nid: %s\ntitle: Task %s\n%s---\nDo it.\n\n## Acceptance Criteria\n- [ ] done\n",
             id, id, front);
    place_write(place, path, text);
}

void plans_load(const struct place *place, const struct bl_plan_options *options,
                struct loaded *loaded)
{
    struct bl_plan_options plain = {.name = "FEAT-A", .directory = place->repository};

    *loaded = (struct loaded){0};
    bl_arena_init(&loaded->arena);
    bl_list_init(&loaded->problems);
    bl_buffer_init(&loaded->text, (size_t)1 << 24);
    loaded->code = bl_plan_load(&loaded->arena, options != NULL ? options : &plain, &loaded->plan,
                                &loaded->problems, &loaded->error);
    if (loaded->code == 0)
        assert_true(bl_list_empty(&loaded->problems));
    if (loaded->code == BL_EINVAL)
        assert_false(bl_list_empty(&loaded->problems));
    const struct bl_list *list = loaded->code == 0 ? &loaded->plan->warnings : &loaded->problems;
    BL_LIST_EACH (link, list) {
        assert_int_equal(
            bl_plan_problem_text(BL_CONTAINER(link, struct bl_plan_problem, link), &loaded->text),
            0);
        bl_buffer_append_byte(&loaded->text, '\n');
    }
    bl_buffer_append_byte(&loaded->text, '\0');
    loaded->text.size--;
}

void plans_done(struct loaded *loaded)
{
    bl_plan_free(loaded->plan);
    bl_buffer_done(&loaded->text);
    bl_arena_done(&loaded->arena);
}

void plans_accept(const struct place *place, const char *yaml, struct loaded *loaded)
{
    place_write(place, PLAN_FILE, yaml);
    plans_load(place, NULL, loaded);
    if (loaded->code != 0)
        fail_msg("it is refused: %s%s", loaded->text.data, loaded->error.message);
}

void plans_expect(const struct place *place, const char *yaml, const char *expected)
{
    struct loaded loaded;

    place_write(place, PLAN_FILE, yaml);
    plans_load(place, NULL, &loaded);
    if (strcmp(loaded.text.data, expected) != 0)
        fail_msg("expected:\n%s\nfound:\n%s\nfor:\n%s", expected, loaded.text.data, yaml);
    plans_done(&loaded);
}

void expect_in(struct bl_text text, const char *part)
{
    if (bl_text_find(text, bl_text_from(part)) < 0)
        fail_msg("'%s' is not in:\n" BL_TEXT_FORMAT, part, BL_TEXT_ARG(text));
}

/* ---- E01: files ------------------------------------------------------------------------------ */

static void E01_broken_yaml_has_line_and_column(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(&place, "id: FEAT-A\nname: [a\ntasks: 3\n",
                 PLAN_FILE ":3: E01 line 3, column 6: not well-formed: expected ',' or ']', found "
                           "':'\n");
    plans_expect(&place, "",
                 PLAN_FILE ": E01 the file is empty; a plan needs an id, a name and tasks\n");
    plans_expect(&place, "- a\n- b\n",
                 PLAN_FILE ":1: E01 expected one YAML mapping, found a list\n");
    plans_expect(&place, "a: b\n---\nc: d\n",
                 PLAN_FILE ":2: E01 line 2, column 1: not well-formed: expected the end: only one "
                           "document is allowed, found '-'\n");
    plans_expect(&place, "{\"id\": \"FEAT-A\",\n \"name\": \"x\" \"y\"}\n",
                 PLAN_FILE ":2: E01 line 2, column 14: not well-formed: expected ',' or '}', "
                           "found '\"'\n");
    place_done(&place);
}

static void E01_all_duplicate_keys_are_reported(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(&place, PLAN_HEAD "name: Again\nbelay:\n  limits: {turns: 1, turns: 2}\nid: X\n",
                 PLAN_FILE ":6: E01 duplicate key 'name' (first used in line 2)\n" PLAN_FILE
                           ":8: E01 duplicate key 'turns' (first used in line 8)\n" PLAN_FILE
                           ":9: E01 duplicate key 'id' (first used in line 1)\n");
    place_done(&place);
}

static void E01_depth_and_aliases_are_limited(void **state BL_UNUSED)
{
    struct place place;
    struct bl_buffer yaml;

    plans_make(&place);
    bl_buffer_init(&yaml, 1 << 16);
    bl_buffer_append(&yaml, BL_TEXT(PLAN_HEAD "x: "));
    for (int i = 0; i < 31; i++)
        bl_buffer_append_byte(&yaml, '[');
    for (int i = 0; i < 31; i++)
        bl_buffer_append_byte(&yaml, ']');
    bl_buffer_append(&yaml, BL_TEXT("\n\0"));
    plans_expect(&place, yaml.data, "");
    bl_buffer_clear(&yaml);
    bl_buffer_append(&yaml, BL_TEXT(PLAN_HEAD "x: "));
    for (int i = 0; i < 32; i++)
        bl_buffer_append_byte(&yaml, '[');
    for (int i = 0; i < 32; i++)
        bl_buffer_append_byte(&yaml, ']');
    bl_buffer_append(&yaml, BL_TEXT("\n\0"));
    plans_expect(&place, yaml.data,
                 PLAN_FILE ":6: E01 line 6, column 35: nested deeper than 32: expected fewer "
                           "nested containers, found '['\n");
    bl_buffer_clear(&yaml);
    bl_buffer_append(&yaml, BL_TEXT(PLAN_HEAD "x: &x 1\ny: [*x"));
    for (int i = 1; i < 100; i++)
        bl_buffer_append(&yaml, BL_TEXT(", *x"));
    size_t whole = yaml.size;
    bl_buffer_append(&yaml, BL_TEXT("]\n\0"));
    plans_expect(&place, yaml.data, "");
    yaml.size = whole;
    bl_buffer_append(&yaml, BL_TEXT(",\n *x]\n\0"));
    plans_expect(&place, yaml.data,
                 PLAN_FILE ":8: E01 line 8, column 2: more than 100 aliases: expected fewer "
                           "aliases, found '*'\n");
    bl_buffer_done(&yaml);
    place_done(&place);
}

static void write_bytes(const struct place *place, const char *path, char byte, size_t size)
{
    char full[1024];

    snprintf(full, sizeof full, "%s/%s", place->repository, path);
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++)
        putc(byte, file);
    assert_int_equal(fclose(file), 0);
}

static void E01_sizes_are_limited(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    place_write(&place, PLAN_FILE, PLAN_HEAD);
    write_bytes(&place, PLAN_FILE, '#', ((size_t)1 << 20) + 1);
    plans_load(&place, NULL, &loaded);
    assert_string_equal(loaded.text.data, PLAN_FILE ":1: E01 the file is larger than 1024 KiB\n");
    plans_done(&loaded);
    write_bytes(&place, "tasks/A.md", '#', (size_t)256 * 1024 + 1);
    plans_expect(&place, PLAN_HEAD, "tasks/A.md:1: E01 the file is larger than 256 KiB\n");
    place_done(&place);
}

static void E01_only_UTF_8_is_read(void **state BL_UNUSED)
{
    struct place place;

    plans_make(&place);
    plans_expect(&place, "id: FEAT-A\nname: \xff\n",
                 PLAN_FILE ":2: E01 the file is not UTF-8: byte 0xff at offset 17\n");
    place_write(&place, "tasks/B.md", "---\nid: B\n---\n\xc3(\n");
    plans_expect(&place, PLAN_HEAD,
                 "tasks/B.md:4: E01 the file is not UTF-8: byte 0xc3 at offset 14\n");
    place_done(&place);
}

static void E01_only_regular_files_are_read(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    char path[512];

    plans_make(&place);
    place_write(&place, ".belay/features/x", "");
    snprintf(path, sizeof path, "%s/" PLAN_FILE, place.repository);
    assert_int_equal(mkfifo(path, 0600), 0);
    plans_load(&place, NULL, &loaded);
    assert_string_equal(loaded.text.data,
                        PLAN_FILE ":1: E01 the file cannot be read: not a regular file\n");
    assert_int_equal(loaded.error.kind, BL_KIND_USAGE);
    plans_done(&loaded);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/tasks/A.md", place.repository);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    plans_expect(&place, PLAN_HEAD,
                 "tasks/A.md:1: E01 the file cannot be read: not a regular file\n");
    place_done(&place);
}

static void scalars_are_read_by_the_type_of_their_key(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    place_write(&place, "tasks/A.md", "---\ntitle: t\n---\n");
    plans_accept(&place,
                 "id: 2024\nname: 1.10\ndescription: true\ntasks:\n"
                 "  - {id: 007, file_path: tasks/A.md, name: off, complexity: \"4\"}\n"
                 "belay:\n"
                 "  player: {command: [sleep, 60], sandbox: off, grace: 1.5}\n"
                 "  verify: {required: no, commands: [true]}\n"
                 "  limits: {task_timeout: 45m, drain: 7, timeout_multiplier: .5}\n",
                 &loaded);
    const struct bl_plan_task *task = &loaded.plan->tasks[0];
    assert_string_equal(loaded.plan->id, "2024");
    assert_string_equal(loaded.plan->name, "1.10");
    assert_string_equal(loaded.plan->description, "true");
    assert_string_equal(task->id, "007");
    assert_string_equal(task->name, "off");
    assert_int_equal(task->complexity, 4);
    assert_string_equal(task->player.command[1], "60");
    assert_null(task->player.command[2]);
    assert_int_equal(task->player.sandbox, BL_SANDBOX_OFF);
    assert_true(task->player.sandbox_chosen);
    assert_int_equal(task->player.grace_ns, 1500 * BL_NS_PER_MS);
    assert_false(task->verify.required);
    assert_string_equal(task->verify.commands[0], "true");
    assert_int_equal(task->deadline_ns, 1350 * BL_NS_PER_S);
    assert_int_equal(loaded.plan->limits.drain_ns, 7 * BL_NS_PER_S);
    plans_done(&loaded);
    place_done(&place);
}

static void plan_may_be_JSON(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;

    plans_make(&place);
    plans_accept(&place,
                 "{\"id\": \"FEAT-A\", \"name\": \"n\", \"tasks\": [\n"
                 "\t{\"id\": \"A\", \"file_path\": \"tasks/A.md\", \"complexity\": 3}],\n"
                 "\t\"belay\": {\"player\": {\"command\": [\"sleep\", 60], \"sandbox\": false},\n"
                 "\t\"limits\": {\"task_timeout\": 90, \"max_budget_usd\": 0.5}}}\n",
                 &loaded);
    const struct bl_plan_task *task = &loaded.plan->tasks[0];
    assert_int_equal(task->complexity, 3);
    assert_string_equal(task->player.command[1], "60");
    assert_int_equal(task->player.sandbox, BL_SANDBOX_OFF);
    assert_int_equal(task->deadline_ns, 90 * BL_NS_PER_S);
    assert_true(loaded.plan->limits.max_budget_usd > 0.49);
    plans_done(&loaded);
    plans_expect(&place,
                 "{\"id\": \"FEAT-A\", \"name\": \"n\",\n \"id\": \"FEAT-A\", \"tasks\": "
                 "[{\"id\": \"A\", \"file_path\": \"tasks/A.md\"}]}",
                 PLAN_FILE ":2: E01 duplicate key 'id' (first used in line 1)\n");
    place_done(&place);
}

static void problems_are_bounded_and_reported_once(void **state BL_UNUSED)
{
    struct place place;
    struct loaded loaded;
    struct bl_buffer yaml;
    size_t count = 0;

    plans_make(&place);
    bl_buffer_init(&yaml, 1 << 20);
    bl_buffer_append(&yaml, BL_TEXT(PLAN_HEAD "belay:\n"));
    for (int i = 0; i < 3000; i++)
        bl_buffer_printf(&yaml, "  wrong%d: 1\n", i);
    bl_buffer_append_byte(&yaml, '\0');
    place_write(&place, PLAN_FILE, yaml.data);
    plans_load(&place, NULL, &loaded);
    assert_int_equal(loaded.code, BL_EINVAL);
    BL_LIST_EACH (link, &loaded.problems)
        count++;
    assert_int_equal(count, 1001);
    expect_in(bl_buffer_text(&loaded.text), "the rest is omitted");
    plans_done(&loaded);
    bl_buffer_done(&yaml);
    /* Two aliases of one wrong mapping are one error, at the line of the mapping. */
    plans_expect(&place, "x: &x {max_steps: 0}\n" PLAN_HEAD "belay:\n  player: *x\n  coach: *x\n",
                 PLAN_FILE
                 ":1: E07 max_steps: expected a whole number from 1 to 1000000000, found 0\n");
    place_done(&place);
}

SUITE(plan_read, cmocka_unit_test(E01_broken_yaml_has_line_and_column),
      cmocka_unit_test(E01_all_duplicate_keys_are_reported),
      cmocka_unit_test(E01_depth_and_aliases_are_limited), cmocka_unit_test(E01_sizes_are_limited),
      cmocka_unit_test(E01_only_UTF_8_is_read), cmocka_unit_test(E01_only_regular_files_are_read),
      cmocka_unit_test(scalars_are_read_by_the_type_of_their_key),
      cmocka_unit_test(plan_may_be_JSON), cmocka_unit_test(problems_are_bounded_and_reported_once));
