#include "scenes.h"

#include <stdio.h>
#include <stdlib.h>

const char *scene_file(const char *path)
{
    struct bl_text text = suite_read_file(stage_path(path));
    const char *kept = stage_keep(text);
    bl_free((void *)text.data);
    return kept;
}

void scene_expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in: %.4000s", part, text);
}

void scene_expect_none(const char *text, const char *part)
{
    const char *found = strstr(text, part);
    if (found != NULL)
        fail_msg("'%s' is there: %.400s", part, found);
}

const char *scene_shell(const char *command)
{
    struct bl_buffer text;
    char part[4096];
    bl_buffer_init(&text, (size_t)16 << 20);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    for (size_t size; (size = fread(part, 1, sizeof part, pipe)) > 0;)
        bl_buffer_append(&text, (struct bl_text){part, size});
    int status = pclose(pipe);
    if (status != 0)
        fail_msg("'%s' gave status %d", command, status);
    const char *kept = stage_keep(bl_buffer_text(&text));
    bl_buffer_done(&text);
    return kept;
}

size_t scene_files(const char *pattern)
{
    const char *count = scene_shell(stage_printf("ls -d %s 2>/dev/null | wc -l", pattern));
    return strtoul(count, NULL, 10);
}

const char *scene_player(const char *before)
{
    return field_player("player", stage_printf("cp \"$BELAY_RESULT.prompt\" "
                                               "%s/\"$BELAY_TASK-$BELAY_TURN.prompt\"\n%s",
                                               stage_path("seats"), before));
}

const char *scene_coach(const char *name, const char *lines)
{
    return field_seat(name, stage_printf(". %s\n%s\n", field_verdict(), lines));
}

void scene_one(const char *player, const char *coach, const char *limits, const char *more)
{
    field_task("A", "");
    field_plan(stage_printf("tasks: [{id: A, file_path: tasks/A.md}]\n"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {%s min_turn_budget: 0s}\n%s",
                            player, coach, limits, more));
    field_commit();
}

void scene_many(const char *const *ids, const char *player, const char *limits)
{
    const char *tasks = "";
    size_t count = 0;
    for (; ids[count] != NULL; count++)
        tasks =
            stage_printf("%s  - {id: %s, file_path: tasks/%s.md}\n", tasks, ids[count], ids[count]);
    field_plan(stage_printf("tasks:\n%sbelay:\n  player: {command: %s}\n"
                            "  coach: {command: ['false']}\n"
                            "  limits: {parallel: %zu, %s min_turn_budget: 0s}\n",
                            tasks, player, count, limits));
    field_commit();
}

const char *scene_own_coach(const char *coach)
{
    return stage_printf("belay:\n  coach: {command: %s}\n", coach);
}

void scene_schemas(const struct held *held)
{
    const char *line = stage_output(held);
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *kept = stage_keep((struct bl_text){line, (size_t)(end - line)});
        runner_check_schema(end[1] == '\0' ? "feature" : "feature-event", kept);
    }
}

const struct bl_json *scene_run(struct held *held, const char *verb, int exit_code)
{
    FEATURE_START(held, verb, "FEAT");
    const struct bl_json *envelope = field_end_of(held, exit_code);
    scene_schemas(held);
    return envelope;
}

void scene_row(const struct bl_json *envelope, const char *task, const char *state,
               const char *decision)
{
    const struct bl_json *row = field_row(envelope, task);
    assert_string_equal(stage_text_at(row, "/state"), state);
    assert_string_equal(stage_text_at(row, "/decision"), decision);
}

void scene_turn(const struct held *held, const char *task, size_t turn, const char *decision)
{
    const struct bl_json *event = field_event(held, "task_turn_ended", task, turn - 1);
    assert_non_null(event);
    assert_int_equal(stage_number_at(event, "/turn"), turn);
    assert_string_equal(stage_text_at(event, "/decision"), decision);
}

const char *scene_agent(const char *name, const char *yaml, const char *more)
{
    const char *path = stage_path(stage_printf("seats/%s.yaml", name));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(yaml, 1, strlen(yaml), file), strlen(yaml));
    assert_int_equal(fclose(file), 0);
    return stage_printf("{provider: script, model: %s%s}", path, more);
}
