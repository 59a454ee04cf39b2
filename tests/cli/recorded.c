#include "recorded.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct run run;
struct held held;

int recorded_begin(void **state)
{
    int code = stage_begin(state);
    assert_int_equal(mkdir(".git", 0700), 0);
    return code;
}

int recorded_end(void **state)
{
    held_end(&held);
    return stage_end(state);
}

void write_records(struct bl_store_feature *feature, const char *const *records,
                   const char *const *events)
{
    struct bl_row list[RECORDS_MAX];
    struct bl_text lines[RECORDS_MAX];
    struct bl_store_feature_write write = {.events = lines};
    struct bl_error error = {0};
    struct bl_list head;

    bl_list_init(&head);
    for (size_t i = 0; records != NULL && records[2 * i] != NULL; i++) {
        list[i].name = records[2 * i];
        list[i].json = bl_text_from(records[2 * i + 1]);
        bl_list_push_back(&head, &list[i].link);
    }
    for (; events != NULL && events[write.event_count] != NULL; write.event_count++)
        lines[write.event_count] = bl_text_from(events[write.event_count]);
    write.records = &head;
    if (!CHECK_EQUAL(bl_store_feature_write(feature, &write, &error), 0))
        fprintf(stderr, "%s\n", error.message);
}

static int write_main(void *argument)
{
    const struct written *written = argument;
    const char *path = stage_path("data/belay/sessions.db");
    struct bl_store_feature_options options = {
        .repository = written->repository != NULL ? written->repository : stage_path("work"),
        .id = written->id,
        .name = "Login \x1b[31m",
        .run_id = "run_1"};
    struct bl_store *store = NULL;
    struct bl_store_feature *feature = NULL;
    struct bl_store_owner owner;
    struct bl_error error = {0};

    if (!CHECK_EQUAL(bl_store_open(path, &store, &error), 0) ||
        !CHECK_EQUAL(bl_store_feature_hold(store, &options, &feature, &owner, &error), 0)) {
        fprintf(stderr, "%s\n", error.message);
        return BL_EIO;
    }
    write_records(feature, written->records, written->events);
    if (written->work != NULL)
        written->work(written, feature);
    bl_store_feature_release(feature);
    bl_store_close(store);
    return 0;
}

void put(struct written written)
{
    run_in_loop(write_main, &written);
}

/* Runs the program on a thread, while this process is the runner. */
struct beside {
    const char *const *words;
};

static void run_beside_main(void *payload)
{
    const struct beside *beside = payload;
    runner_run_with(&run, beside->words, NULL, RUN_KEEP);
}

void run_beside(const char *const *words)
{
    struct beside beside = {words};
    struct bl_work work = {.run = run_beside_main, .payload = &beside};
    bool abandoned;
    CHECK_EQUAL(bl_work_call(&work, &abandoned), 0);
}

const struct written recorded_login = {
    .id = "FEAT-A",
    .records =
        {"feature", FEATURE("FEAT-A", "failed", "1"), "task/TASK-1",
         ROW("TASK-1", "completed", "\"decision\":\"approved\",\"verified\":\"none\","),
         "task/TASK-2",
         ROW("TASK-2", "timed_out",
             "\"decision\":\"timeout\",\"attempt\":1,\"turn\":3,\"turns_max\":5,\"elapsed_s\":2400."
             "02,\"receipt\":\"rcp_1\",\"reason\":\"timeout\",\"checkpoint\":" CHECKPOINT ","),
         "task/TASK-3", ROW("TASK-3", "pending", ""), "wave/001",
         "{\"n\":1,\"state\":\"failed\",\"gate\":\"absent\",\"tasks\":[\"TASK-1\",\"TASK-2\"]}",
         "output/TASK-2/001/0001/player",
         "{\"task\":\"TASK-2\",\"attempt\":1,\"turn\":1,\"phase\":\"player\",\"text\":\"hello\\n"
         "  wor\\u001b[2Jld\\n\"}",
         "output/TASK-2/001/0001/coach-2",
         "{\"task\":\"TASK-2\",\"attempt\":1,\"turn\":1,\"phase\":\"coach-2\",\"text\":\"no\"}",
         "output/TASK-2/001/0002/verify",
         "{\"task\":\"TASK-2\",\"attempt\":1,\"turn\":2,\"phase\":\"verify\",\"text\":\"left\"}"},
    .events = {EVENT("feature_started", ",\"resumed\":false,\"already\":[]"),
               EVENT("phase_started", ",\"task\":\"TASK-2\",\"attempt\":1,\"turn\":1,\"phase\":"
                                      "\"player\""),
               EVENT("phase_ended", ",\"task\":\"TASK-2\",\"attempt\":1,\"turn\":1,\"phase\":"
                                    "\"player\",\"outcome\":\"ended\",\"ms\":12"),
               EVENT("phase_ended", ",\"task\":\"TASK-2\",\"attempt\":1,\"turn\":1,\"phase\":"
                                    "\"coach\",\"outcome\":\"ended\",\"ms\":7"),
               EVENT("feature_ended", ",\"state\":\"failed\",\"exit_code\":1")},
};
