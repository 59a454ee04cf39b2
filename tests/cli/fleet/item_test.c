/* Items of a queue as records, and the directories of items. */
#include "cli/queue/queue.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fibers.h"
#include "stage.h"

/* ---- The record ------------------------------------------------------------------------------ */

static void item_without_details_gets_the_defaults(void **state)
{
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    struct queue_item item;

    (void)state;
    assert_int_equal(queue_item_read(&arena, BL_TEXT("{\"prompt\":\"hi\"}"), &item, &error), 0);
    assert_string_equal(item.kind, "run");
    assert_string_equal(item.pool, "main");
    assert_int_equal(item.retry, 3);
    assert_true(item.retry_delay_ns == 10 * BL_NS_PER_S);
    assert_true(queue_item_retried(&item, "error"));
    assert_false(queue_item_retried(&item, "timeout"));
    assert_false(item.run.timed);
    assert_null(item.directory);
}

static void item_is_read_as_it_was_written(void **state)
{
    static const char *const labels[] = {"gpu=yes", "zone=a b", NULL};
    static const char *const ends[] = {"timeout", NULL};
    const struct queue_item written = {
        .run = {.prompt = BL_TEXT("hi"),
                .timed = true,
                .timeout_ns = 90 * BL_NS_PER_S,
                .max_turns = 2,
                .max_steps = BL_UNLIMITED,
                .max_budget_usd = -1,
                .mode_chosen = true,
                .mode = BL_PERMISSION_READ_ONLY,
                .request_id = "r1"},
        .kind = "run",
        .pool = "gpu",
        .labels = labels,
        .key = "team",
        .weight = 0.5,
        .priority = -9,
        .limit_key = "l",
        .delay_ns = BL_NS_PER_S,
        .retry = 0,
        .retry_delayed = true,
        .retry_delay_ns = 0,
        .retry_on = ends,
        .directory = "/srv/x",
        .trace_parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    };
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    struct queue_item item;

    (void)state;
    struct bl_text text = bl_record_text(&arena, &queue_item_record, &written);
    if (queue_item_read(&arena, text, &item, &error) != 0)
        fail_msg("%s", error.message);
    assert_true(bl_record_equal(&queue_item_record, &written, &item));
    assert_int_equal(item.priority, -9);
    assert_int_equal(item.retry, 0);
    assert_true(item.retry_delay_ns == 0);
    assert_true(queue_item_retried(&item, "timeout"));
    assert_false(queue_item_retried(&item, "error"));
}

static void items_of_another_shape_are_refused(void **state)
{
    static const char *const specs[] = {
        "",
        "[]",
        "{}",
        "{\"prompt\":\"\"}",
        "{\"prompt\":\"hi\",\"unknown\":1}",
        "{\"prompt\":\"hi\",\"kind\":\"task\"}",
        "{\"prompt\":\"hi\",\"priority\":10}",
        "{\"prompt\":\"hi\",\"retry\":101}",
        "{\"prompt\":\"hi\",\"labels\":[\"gpu\"]}",
        "{\"prompt\":\"hi\",\"labels\":[\"=x\"]}",
        "{\"prompt\":\"hi\",\"retry_on\":[\"cancelled\"]}",
        "{\"prompt\":\"hi\",\"directory\":\"srv\"}",
        "{\"prompt\":\"hi\",\"trace_parent\":\"00-1-2-3\"}",
        "{\"prompt\":\"hi\",\"delay\":1,\"at\":\"2026-11-20T03:00:00Z\"}",
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(specs); i++) {
        BL_AUTO_ARENA(arena);
        struct bl_error error = {0};
        struct queue_item item;
        if (queue_item_read(&arena, bl_text_from(specs[i]), &item, &error) != BL_EPARSE)
            fail_msg("accepted: %s", specs[i]);
        assert_int_equal(error.kind, BL_KIND_PARSE);
    }
}

/* ---- Directories ----------------------------------------------------------------------------- */

static const char *folder;

static int make_and_remove_main(void *argument)
{
    struct queue_directory first, second;
    struct bl_error error = {0};

    (void)argument;
    CHECK_EQUAL(queue_directory_make(folder, &first, &error), 0);
    CHECK_EQUAL(queue_directory_make(folder, &second, &error), 0);
    CHECK(strcmp(first.path, second.path) != 0);
    CHECK_EQUAL(mkdir(stage_printf("%s/a", first.path), 0700), 0);
    CHECK_EQUAL(mkdir(stage_printf("%s/a/b", first.path), 0700), 0);
    CHECK_EQUAL(symlink("/", stage_printf("%s/a/root", first.path)), 0);
    CHECK_EQUAL(queue_directory_remove(&first, &error), 0);
    CHECK(!stage_exists(first.path));
    CHECK(stage_exists(second.path));
    return queue_directory_remove(&second, &error);
}

static void directory_of_an_item_is_removed_with_its_contents(void **state)
{
    (void)state;
    folder = stage_path("state/belay/items");
    assert_int_equal(run_in_loop(make_and_remove_main, NULL), 0);
    assert_true(stage_exists("/etc"));
}

static int clean_main(void *argument)
{
    struct queue_directory held;
    struct bl_error error = {0};

    (void)argument;
    CHECK_EQUAL(queue_directory_make(folder, &held, &error), 0);
    CHECK_EQUAL(mkdir(stage_printf("%s/left", folder), 0700), 0);
    CHECK_EQUAL(mkdir(stage_printf("%s/left/inner", folder), 0700), 0);
    queue_directory_clean(folder);
    CHECK(stage_exists(held.path));
    CHECK(!stage_exists(stage_printf("%s/left", folder)));
    return queue_directory_remove(&held, &error);
}

static void directories_that_killed_workers_left_are_removed(void **state)
{
    (void)state;
    folder = stage_path("state/belay/items");
    assert_int_equal(run_in_loop(clean_main, NULL), 0);
}

SUITE(fleet_item, cmocka_unit_test(item_without_details_gets_the_defaults),
      cmocka_unit_test(item_is_read_as_it_was_written),
      cmocka_unit_test(items_of_another_shape_are_refused),
      STAGED(directory_of_an_item_is_removed_with_its_contents),
      STAGED(directories_that_killed_workers_left_are_removed));
