/* Records written and read by their tables, compared with hand-written code. */
#include <stdio.h>
#include <string.h>

#include <belay/turn.h>

#include "report.h"

#define ROUNDS   REPORT_ROUNDS
#define ROUND_NS 20e6

struct subject {
    struct bl_event event;
    struct bl_buffer out;
    struct bl_arena arena;
    struct bl_text json; /* the input of reading */
    struct bl_spent spent;
};
typedef void step(struct subject *subject);

/* ---- Events ---------------------------------------------------------------------------------- */

static void event_by_table(struct subject *subject)
{
    struct bl_json_writer writer;

    bl_buffer_clear(&subject->out);
    bl_json_writer_init(&writer, &subject->out);
    bl_event_write(&writer, &subject->event);
    if (bl_json_writer_done(&writer) != 0)
        report_die("the table cannot write");
}

static void put_common(struct bl_json_writer *writer, const struct bl_event *event)
{
    char time[32];

    bl_time_format(event->wall_ns, time);
    bl_json_put_string(writer, "type", bl_event_type_name(event->type));
    bl_json_put_uint64(writer, "seq", event->seq);
    bl_json_put_string(writer, "time", time);
    bl_json_put_string(writer, "run", event->run);
    bl_json_put_string(writer, "session", event->session);
    bl_json_put_string(writer, "agent", event->agent);
    bl_json_put_string(writer, "turn", event->turn);
}

static void put_usage(struct bl_json_writer *writer, const struct bl_event *event)
{
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "input_tokens", event->usage->input_tokens);
    bl_json_put_uint64(writer, "output_tokens", event->usage->output_tokens);
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("spent"));
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "input_tokens", event->spent->usage.input_tokens);
    bl_json_put_uint64(writer, "output_tokens", event->spent->usage.output_tokens);
    bl_json_write_key(writer, BL_TEXT("cost_usd"));
    bl_json_write_double(writer, event->spent->cost_usd);
    bl_json_write_key(writer, BL_TEXT("cost_usd_max"));
    bl_json_write_double(writer, event->spent->cost_usd_max);
    bl_json_write_end(writer);
}

static void put_call(struct bl_json_writer *writer, const struct bl_event *event)
{
    bl_json_put_text(writer, "id", event->id);
    bl_json_put_text(writer, "name", event->name);
    if (event->type == BL_EVENT_TOOL_ENDED) {
        bl_json_put_string(writer, "status", event->status);
        bl_json_put_uint64(writer, "ms", event->ms);
    }
    bl_json_put_json(writer, "input", event->json);
}

static void put_members(struct bl_json_writer *writer, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA) {
        bl_json_put_text(writer, "text", event->text);
    } else if (event->type == BL_EVENT_RUN_ENDED) {
        bl_json_put_text(writer, "stop_reason", event->name);
        bl_json_put_uint64(writer, "turns_completed", event->count);
        put_usage(writer, event);
    } else {
        put_call(writer, event);
    }
}

static void event_by_hand(struct subject *subject)
{
    struct bl_json_writer writer;

    bl_buffer_clear(&subject->out);
    bl_json_writer_init(&writer, &subject->out);
    bl_json_write_object(&writer);
    put_common(&writer, &subject->event);
    put_members(&writer, &subject->event);
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) != 0)
        report_die("by hand nothing can be written");
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static const struct bl_json *read_json(struct subject *subject)
{
    const struct bl_json *json;

    bl_arena_reset(&subject->arena);
    if (bl_json_read(&subject->arena, subject->json, NULL, &json, NULL) != 0)
        report_die("no JSON");
    return json;
}

static void read_by_table(struct subject *subject)
{
    struct bl_record_fault fault;
    const struct bl_json *json = read_json(subject);

    if (bl_record_read(&subject->arena, &bl_spent_record, json, &subject->spent, &fault) != 0)
        report_die(fault.message);
}

static bool read_count(const struct bl_json *object, struct bl_text name, uint64_t *ret_count)
{
    int64_t count;

    if (!bl_json_int64(bl_json_get(object, name), &count) || count < 0)
        return false;
    *ret_count = (uint64_t)count;
    return true;
}

static bool read_cost(const struct bl_json *object, struct bl_text name, bool *ret_unknown,
                      double *ret_cost)
{
    const struct bl_json *cost = bl_json_get(object, name);

    *ret_unknown = bl_json_is(cost, BL_JSON_NULL);
    return *ret_unknown || (bl_json_double(cost, ret_cost) && *ret_cost >= 0);
}

static void read_by_hand(struct subject *subject)
{
    struct bl_spent *spent = &subject->spent;
    const struct bl_json *json = read_json(subject);

    *spent = (struct bl_spent){.cost_usd = 0};
    if (!bl_json_is(json, BL_JSON_OBJECT) || bl_json_size(json) != 4 ||
        !read_count(json, BL_TEXT("input_tokens"), &spent->usage.input_tokens) ||
        !read_count(json, BL_TEXT("output_tokens"), &spent->usage.output_tokens) ||
        !read_cost(json, BL_TEXT("cost_usd"), &spent->cost_unknown, &spent->cost_usd) ||
        !read_cost(json, BL_TEXT("cost_usd_max"), &spent->cost_unknown, &spent->cost_usd_max))
        report_die("by hand it cannot be read");
}

/* ---- In turns --------------------------------------------------------------------------------- */

static double measure_ns(step *run, struct subject *subject, unsigned times)
{
    double start_ns = report_processor_ns();
    for (unsigned i = 0; i < times; i++)
        run(subject);
    return (report_processor_ns() - start_ns) / times;
}

static void compare(const char *name, struct subject *subject, step *by_table, step *by_hand)
{
    step *const steps[] = {by_table, by_hand};
    double times[2][ROUNDS];
    unsigned repetitions[2];

    for (int i = 0; i < 2; i++)
        repetitions[i] = (unsigned)(ROUND_NS / measure_ns(steps[i], subject, 1000)) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++)
            times[i][round] = measure_ns(steps[i], subject, repetitions[i]);
    }
    report_line(name, report_median(times[0], ROUNDS), "ns", "by hand",
                report_median(times[1], ROUNDS));
}

static void compare_event(struct subject *subject)
{
    BL_AUTO_BUFFER(by_hand, 1u << 20);
    char name[64];

    event_by_hand(subject);
    bl_buffer_append(&by_hand, bl_buffer_text(&subject->out));
    event_by_table(subject);
    if (!bl_text_equal(bl_buffer_text(&by_hand), bl_buffer_text(&subject->out)))
        report_die("the table writes something else");
    snprintf(name, sizeof name, "record write %s", bl_event_type_name(subject->event.type));
    compare(name, subject, event_by_table, event_by_hand);
}

int main(void)
{
    struct bl_spent spent = {
        .usage = {48213, 1907}, .cost_usd = 0.173244, .cost_usd_max = 0.204117};
    struct subject subject = {.event = {.seq = 417,
                                        .wall_ns = 1763232607123456789,
                                        .run = "run_7kq2c4m5z6a",
                                        .session = "s-7hfkq2c4m5z6abw",
                                        .turn = "turn_7kq2c4m5z6a",
                                        .id = BL_TEXT("call_01ab23cd45ef"),
                                        .name = BL_TEXT("completed"),
                                        .text = BL_TEXT(" the linker does not"),
                                        .json = BL_TEXT("{\"path\":\"src/meson.build\"}"),
                                        .status = "completed",
                                        .ms = 312,
                                        .count = 7,
                                        .usage = &spent.usage,
                                        .spent = &spent}};
    static const enum bl_event_type types[] = {BL_EVENT_TEXT_DELTA, BL_EVENT_TOOL_REQUESTED,
                                               BL_EVENT_TOOL_ENDED, BL_EVENT_RUN_ENDED};

    bl_buffer_init(&subject.out, 1u << 20);
    for (size_t i = 0; i < BL_COUNT(types); i++) {
        subject.event.type = types[i];
        compare_event(&subject);
    }
    bl_arena_init(&subject.arena);
    subject.json = BL_TEXT("{\"input_tokens\":48213,\"output_tokens\":1907,"
                           "\"cost_usd\":0.173244,\"cost_usd_max\":0.204117}");
    compare("record read spent", &subject, read_by_table, read_by_hand);
    bl_arena_done(&subject.arena);
    bl_buffer_done(&subject.out);
    return 0;
}
