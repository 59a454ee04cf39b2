#include "stops.h"

bool stops_soak(void)
{
    return suite_rounds(0, 1) == 1;
}

unsigned long stops_limit_ms(unsigned attempt, unsigned long promised_ms)
{
    static const unsigned long limits[] = {400, 1500, 6000};
    if (attempt >= BL_COUNT(limits))
        fail_msg("it did not begin in time");
    if (stops_soak())
        return promised_ms << (2 * attempt);
    return limits[attempt] * (SUITE_SANITIZED ? 2 : 1);
}

void stops_start_over(struct held *held)
{
    held_end(held);
    field_end(NULL);
    field_begin(NULL);
}

/* ---- Scripts --------------------------------------------------------------------------------- */

const char *stops_say(const char *name)
{
    const char *path = stage_path(name);
    return stage_printf("echo $$ > %s-$BELAY_TASK.part && mv %s-$BELAY_TASK.part %s-$BELAY_TASK\n",
                        path, path, path);
}

const char *stops_wait_for(const char *name)
{
    return stage_printf("until [ -e %s ]; do sleep 0.02; done\n", stage_path(name));
}

const char *stops_stubborn(const char *name)
{
    return stage_printf("trap \"\" TERM INT HUP\n%swhile :; do sleep 0.05; done\n",
                        stops_say(name));
}

const char *stops_clock(void)
{
    return "now_us() { date +%s%6N; }\n"
           "until_us() {\n"
           "left=$(($1 - $(now_us)))\n"
           "[ $left -gt 0 ] && sleep $((left / 1000000)).$(printf %06d $((left % 1000000)))\n"
           "true\n"
           "}\n";
}

bool stops_there(const char *name)
{
    return stage_exists(stage_path(name));
}

void stops_own(const char *task, const char *yaml)
{
    field_task(task, stage_printf("belay:\n%s", yaml));
    field_commit();
}

/* ---- Records and events ---------------------------------------------------------------------- */

const char *stops_text(const struct bl_json *envelope, const char *task, const char *pointer)
{
    return stage_text_at(field_row(envelope, task), pointer);
}

const struct bl_json *stops_status(const char *task)
{
    const struct run *run = FEATURE_RUN(0, "status", stage_printf("FEAT/%s", task), "--json");
    return stage_answer(run, "feature", 0);
}

const char *stops_journal(const char *name)
{
    const struct run *run = FEATURE_RUN(0, "logs", name, "--output-format", "stream-json");
    return stage_keep(bl_text_from(run->out));
}

const struct bl_json *stops_cancel(const char *name)
{
    return stage_answer(FEATURE_RUN(0, "cancel", name, "--json"), "feature-cancel", 0);
}

void stops_checkpoint(const char *task, const char *phase, const char *marker, const char *reason)
{
    const struct bl_json *status = stops_status(task);
    assert_string_equal(stage_text_at(status, "/checkpoint/task"), task);
    assert_string_equal(stage_text_at(status, "/checkpoint/phase"), phase);
    assert_string_equal(stage_text_at(status, "/checkpoint/marker"), marker);
    assert_string_equal(stage_text_at(status, "/checkpoint/reason"), reason);
    assert_string_equal(stage_text_at(status, "/checkpoint/receipt"),
                        stops_text(status, task, "/receipt"));
}
