/* The size of a request, and the number of turns that leave. */
#include "stage.h"

/* Bytes: above FULL, turns leave until at most FREE is used. */
#define WIDE 4000u
#define FULL 12800u
#define FREE 8000u

/* Runs a turn that the store refuses, so that the next one has the same session; `system` pads the
 * request to `bytes` bytes. */
static void ask_with(struct stage *stage, size_t bytes, size_t taken)
{
    static const char pad[FULL + 1];

    stage->line_count = stage->line_next = stage->requests = 0;
    stage->commit_code = BL_ENOSPC;
    stage->engine.system = (struct bl_text){pad, bytes - taken};
    stage_line(stage, (struct line){.say = "in short"});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_ERROR);
}

/* Returns the bytes that the stage adds: "next", and names and schemas of its tools. */
static size_t stage_bytes(const struct stage *stage)
{
    size_t bytes = strlen("next");

    for (size_t i = 0; i < stage->tools.offer_count; i++)
        bytes += stage->tools.offers[i].schema.size + strlen(stage->tools.offers[i].description);
    return bytes;
}

SCENE(everything_sent_takes_room)
{
    size_t taken = stage_bytes(stage) + 2 * STAGE_EACH_BYTES - 6400 + 300 + 100;
    struct bl_turn_record *summary = bl_turn_record_new();
    struct bl_message *message =
        bl_message_add(&summary->arena, &summary->messages, BL_ROLE_ASSISTANT);
    static const char schema[100];

    /* Only one image: two would exceed the room. */
    stage_add_turn_of_each(stage);
    stage_add_turn(stage, STAGE_EACH_BYTES - 6400);
    bl_block_add(&summary->arena, message, BL_BLOCK_TEXT)->text =
        (struct bl_text){bl_arena_zalloc(&summary->arena, 300), 300};
    bl_session_drop(&stage->session, 0, summary);
    stage->engine.schema_text = (struct bl_text){schema, sizeof schema};
    stage->model.input_tokens_max = WIDE;
    ask_with(stage, FULL, taken);
    CHECK_EQUAL(stage->requests, 1);
    CHECK_EQUAL(stage->turns_skipped, 0);
    ask_with(stage, FULL + 1, taken);
    CHECK_EQUAL(stage->requests, 2);
    CHECK_EQUAL(stage->turns_skipped, 1);
    /* If the model's limit is unknown, nothing leaves. */
    stage->model.input_tokens_max = 0;
    ask_with(stage, FULL + 1, taken);
    CHECK_EQUAL(stage->requests, 1);
    return 0;
}

SCENE(turns_leave_until_half_of_the_room_is_free_and_at_least_every_other)
{
    const struct {
        size_t turns[6]; /* bytes of each */
        size_t rest;
        uint64_t leave;
    } rows[] = {
        {{3000, 3000, 3000, 3000}, FREE - 6000, 2},
        {{3000, 3000, 3000, 3000}, FREE - 6000 + 1, 3},
        {{9000, 1000, 1000, 1000}, 2000, 2},
        {{9000, 800, 800, 800, 800}, 2000, 3},
        {{9000, 800, 800, 800, 800, 800}, 2000, 3},
        {{1000, 1000, 9000}, 2000, 3},
        {{1000}, FULL, 1},
    };

    stage->model.input_tokens_max = WIDE;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        size_t bytes = rows[i].rest, taken = stage_bytes(stage);
        bl_session_drop(&stage->session, BL_UNLIMITED, NULL);
        for (size_t turn = 0; turn < 6 && rows[i].turns[turn] > 0; turn++) {
            stage_add_turn(stage, rows[i].turns[turn]);
            bytes += rows[i].turns[turn];
        }
        ask_with(stage, rows[i].rest, taken);
        CHECK(bytes > FULL);
        CHECK_EQUAL(stage->requests, 2);
        CHECK_EQUAL(stage->turns_skipped, rows[i].leave);
    }
    return 0;
}

static int print_much(struct stage *stage BL_UNUSED, const struct bl_tool_call *call,
                      struct bl_tool_result *result, struct bl_error *error BL_UNUSED)
{
    static char printed[FULL];
    int64_t bytes = 0;

    CHECK(bl_json_int64(bl_json_get(call->input, BL_TEXT("bytes")), &bytes));
    memset(printed, 'x', sizeof printed);
    result->text = (struct bl_text){printed, (size_t)bytes};
    return 0;
}

static void note_skipped(struct stage *stage, const struct bl_event *event)
{
    uint64_t *seen = stage->extra;

    if (event->type == BL_EVENT_USAGE)
        seen[stage->requests - 1] = stage->turns_skipped;
}

SCENE(turn_that_grows_makes_room_again)
{
    static const size_t turns[] = {9000, 800, 800, 6000, 800, 800};

    for (size_t i = 0; i < BL_COUNT(turns); i++)
        stage_add_turn(stage, turns[i]);
    stage->model.input_tokens_max = WIDE;
    stage->on_call = print_much;
    stage_line(stage, (struct line){.say = "three in short"});
    stage_line(stage, (struct line){.tool = "work", .input = "{\"bytes\":5300}"});
    stage_line(stage, (struct line){.say = "five in short"});
    stage_line(stage, (struct line){.tool = "work", .input = "{\"bytes\":7000}"});
    stage_line(stage, (struct line){.say = "all in short"});
    stage_line(stage, (struct line){.tool = "work", .input = "{\"bytes\":9000}"});
    /* No turn is left that could leave. */
    stage_line(stage, (struct line){.say = "ok"});
    static const uint64_t skipped[] = {0, 3, 0, 5, 0, 6, 6};
    static uint64_t seen[BL_COUNT(skipped)];
    stage->extra = seen;
    stage->on_event = note_skipped;
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->requests, 7);
    for (size_t i = 0; i < BL_COUNT(skipped); i++)
        CHECK_EQUAL(seen[i], skipped[i]);
    CHECK_EQUAL(stage->turns_dropped, 6);
    CHECK(has(bl_text_from(stage->stored_summary), "all in short"));
    CHECK_EQUAL(stage->session.turns_in_context, 1);
    return 0;
}

SUITE(room, cmocka_unit_test(everything_sent_takes_room),
      cmocka_unit_test(turns_leave_until_half_of_the_room_is_free_and_at_least_every_other),
      cmocka_unit_test(turn_that_grows_makes_room_again));
