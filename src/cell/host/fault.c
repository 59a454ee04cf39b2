#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "host.h"

static const char *const point_names[] = {
#define POINT_NAME(name, text) text,
    CELL_FAULT_TABLE(POINT_NAME)
#undef POINT_NAME
};

#if BELAY_FAULTS

static bool parse_point(struct bl_text name, size_t *ret_point)
{
    for (size_t i = 0; i < BL_COUNT(point_names); i++) {
        if (bl_text_equal(name, bl_text_from(point_names[i]))) {
            *ret_point = i;
            return true;
        }
    }
    return false;
}

static bool parse_count(struct bl_text text, uint64_t *ret_count)
{
    int64_t value;

    if (bl_text_to_int64(text, &value) != 0 || value < 0)
        return false;
    *ret_count = (uint64_t)value;
    return true;
}

static bool cut_at(struct bl_text text, char at, struct bl_text *ret_before,
                   struct bl_text *ret_after)
{
    const char *found = text.size > 0 ? memchr(text.data, at, text.size) : NULL;

    *ret_before = text;
    *ret_after = (struct bl_text){0};
    if (found == NULL)
        return false;
    ret_before->size = (size_t)(found - text.data);
    *ret_after = (struct bl_text){found + 1, text.size - ret_before->size - 1};
    return true;
}

static bool parse_action(struct bl_text text, struct cell_fault_rule *rule)
{
    struct bl_text action, number, name, delay;

    if (cut_at(text, '@', &action, &number) && !parse_count(number, &rule->only))
        return false;
    if (cut_at(action, ':', &name, &delay)) {
        rule->what = CELL_RULE_DELAY;
        return bl_text_equal(name, BL_TEXT("delay")) && parse_count(delay, &rule->delay_ms);
    }
    if (bl_text_equal(action, BL_TEXT("kill")))
        rule->what = CELL_RULE_KILL;
    else if (bl_text_equal(action, BL_TEXT("drop")))
        rule->what = CELL_RULE_DROP;
    else if (bl_text_equal(action, BL_TEXT("fail")))
        rule->what = CELL_RULE_FAIL;
    return rule->what != CELL_RULE_NONE;
}

int cell_faults_parse(struct cell_faults *faults, const char *text, struct bl_error *error)
{
    struct bl_text rest = bl_text_from(text != NULL ? text : "");

    *faults = (struct cell_faults){0};
    while (rest.size > 0) {
        struct bl_text one, name, action;
        struct cell_fault_rule rule = {.what = CELL_RULE_NONE};
        size_t point;
        cut_at(rest, ',', &one, &rest);
        if (!cut_at(one, '=', &name, &action) || !parse_point(name, &point) ||
            !parse_action(action, &rule))
            return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read BELAY_FAULT", text,
                                "invalid value '" BL_TEXT_FORMAT
                                "' for BELAY_FAULT (expected POINT=kill|drop|fail|delay:MS[@N])",
                                BL_TEXT_ARG(one));
        faults->rules[point] = rule;
    }
    return 0;
}

enum cell_fault_action cell_fault_hit(struct bl_cell_host *host, enum cell_fault_point point)
{
    struct cell_fault_rule *rule = &host->faults.rules[point];
    struct bl_scope shield;

    if (rule->what == CELL_RULE_NONE || (++rule->seen != rule->only && rule->only != 0))
        return CELL_GO_ON;
    switch (rule->what) {
    case CELL_RULE_KILL: kill(getpid(), SIGKILL); break;
    case CELL_RULE_DROP: return CELL_DROP;
    case CELL_RULE_FAIL: return CELL_FAIL;
    case CELL_RULE_DELAY:
        bl_shield_begin(&shield, rule->delay_ms * BL_NS_PER_MS + BL_NS_PER_S);
        bl_sleep(rule->delay_ms * BL_NS_PER_MS);
        bl_shield_end(&shield);
        break;
    case CELL_RULE_NONE: break;
    }
    return CELL_GO_ON;
}

#else

int cell_faults_parse(struct cell_faults *faults, const char *text, struct bl_error *error)
{
    (void)text, (void)error, (void)point_names;
    *faults = (struct cell_faults){0};
    return 0;
}

enum cell_fault_action cell_fault_hit(struct bl_cell_host *host, enum cell_fault_point point)
{
    (void)host, (void)point;
    return CELL_GO_ON;
}

#endif
