/* Permission questions: who asks, who answers, and the effect of a stop. */
#include "helpers.h"

#include <limits.h>
#include <stdio.h>

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

/* The user in these tests. */
struct somebody {
    struct bl_asker asker;
    enum bl_reply reply;
    struct bl_answer answer; /* its other members */
    uint64_t after_ns;       /* BL_NEVER: no answer */
    size_t after_asked;      /* number of agents that must have asked, or wait to ask */
    const struct rig *rig;
    unsigned asked;
    unsigned at_once;
    unsigned at_once_max;
    char rule[128]; /* of the last question */
    char text[256];
    bool of_a_child;
};

static int answer(void *context, const struct bl_question *question, struct bl_answer *ret_answer)
{
    struct somebody *somebody = context;

    somebody->asked++;
    if (++somebody->at_once > somebody->at_once_max)
        somebody->at_once_max = somebody->at_once;
    bl_text_into(somebody->rule, sizeof somebody->rule,
                 question->rule.size > 0 ? question->rule.data : "");
    bl_text_into(somebody->text, sizeof somebody->text, question->text.data);
    somebody->of_a_child |= question->agent != NULL;
    CHECK(question->id[0] != '\0' && question->input != NULL);
    int code = bl_sleep(somebody->after_ns == BL_NEVER ? BL_NEVER / 2 : somebody->after_ns);
    while (code == 0 && rig_told(somebody->rig, BL_EVENT_PERMISSION_ASKED) < somebody->after_asked)
        code = bl_sleep(MS);
    somebody->at_once--;
    *ret_answer = somebody->answer;
    ret_answer->reply = somebody->reply;
    return code;
}

static void ask(struct rig *rig, struct somebody *somebody, enum bl_reply reply, uint64_t after_ns)
{
    *somebody = (struct somebody){.asker = {.ask = answer, .context = somebody},
                                  .rig = rig,
                                  .reply = reply,
                                  .after_ns = after_ns};
    bl_permissions_set_mode(rig->permissions, BL_PERMISSION_ASK);
    rig->options.asker = &somebody->asker;
}

#define TOUCH       "replies:\n  - {tools: [{name: bash, input: {command: touch made}}]}\n  - say: done\n"
#define TASK(agent) "{name: task, input: {agent: " agent ", prompt: x}}"

RIG(call_is_asked_about_and_runs_when_allowed, TOUCH)
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_YES, MS);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(rig_has_file(rig, "made"));
    CHECK_EQUAL(somebody.asked, 1);
    CHECK(somebody.text[0] != '\0');
    CHECK_EQUAL(rig_told(rig, BL_EVENT_PERMISSION_ASKED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "\"answer\":\"allowed\""), 1);
}

RIG(refusal_is_a_result_and_a_record_in_the_turn_of_the_agent, TOUCH)
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_NO, MS);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "made"));
    CHECK(has(rig_turn(rig)->json, "\"permission_denials\":[{\"tool_name\":\"bash\",\"reason\":"
                                   "\"the user said no\"}]"));
    CHECK(has(rig_export(rig, "rig"), "Not permitted: the user said no"));
}

#define ABSENT  "{name: edit, input: {path: note, old_string: absent, new_string: y}}"
#define PRESENT "{name: edit, input: {path: note, old_string: text, new_string: y}}"

RIG(edit_that_cannot_be_made_is_refused_without_a_question,
    "replies:\n"
    "  - {tools: [{name: write, input: {path: note, content: text}}]}\n"
    "  - {tools: [" ABSENT "]}\n"
    "  - {tools: [{name: edit, input: {path: gone, old_string: a, new_string: b}}]}\n"
    "  - {tools: [" PRESENT "]}\n"
    "  - say: done\n")
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_YES, MS);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(somebody.asked, 2);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"tool_ended\"", "\"status\":\"error\""), 2);
    CHECK(!has(rig_turn(rig)->json, "\"tool_name\":"));
    CHECK(has(rig_export(rig, "rig"), "old_string"));
    CHECK(bl_text_equal(rig_file(rig, "note"), BL_TEXT("y")));
}

static void change_the_file(struct rig *rig, const struct bl_event *event)
{
    char path[PATH_MAX];

    if (event->type != BL_EVENT_TOOL_STARTED)
        return;
    snprintf(path, sizeof path, "%s/note", rig->options.directory);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs("absent", file) >= 0);
    fclose(file);
}

RIG(edit_that_fails_its_check_is_not_made_when_the_file_changes,
    "replies: [{tools: [" ABSENT "]}, {say: done}]\n")
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_YES, MS);
    rig->on_event = change_the_file;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(somebody.asked, 0);
    CHECK(has(rig_export(rig, "rig"), "was changed by another program"));
    CHECK(bl_text_equal(rig_file(rig, "note"), BL_TEXT("absent")));
}

static void stop_when_asked(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_PERMISSION_ASKED)
        bl_scope_stop(&rig->scope, BL_STOP_USER, "test");
}

RIG(pending_question_is_answered_cancelled_by_a_stop_of_the_agent, TOUCH)
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_YES, BL_NEVER);
    rig->on_event = stop_when_asked;
    rig->options.limits.keep = true;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK(rig->result.run.cancel_observed);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "\"answer\":\"cancelled\""),
                1);
    CHECK(!rig_has_file(rig, "made"));
    CHECK_EQUAL(somebody.at_once, 0);
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 1);
    rig->on_event = NULL;
    somebody.after_ns = 0;
    rig_script(rig, TOUCH);
    CHECK_EQUAL(rig_run(rig, "again"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(rig_has_file(rig, "made"));
}

RIG(question_has_a_deadline_and_no_one_there_means_no, TOUCH)
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_YES, BL_NEVER);
    somebody.asker.limit_ns = 20 * MS;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "made"));
    CHECK(has(rig_turn(rig)->json, "\"reason\":\"the question was not answered in time\""));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "\"answer\":\"denied\""), 1);
    CHECK_EQUAL(rig->result.run.receipt.size, 0);
}

RIG(without_a_user_the_call_is_refused, TOUCH)
{
    bl_permissions_set_mode(rig->permissions, BL_PERMISSION_ASK);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!rig_has_file(rig, "made"));
    CHECK(has(rig_turn(rig)->json, "no user can be asked here"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_PERMISSION_ASKED), 0);
}

/* Three children with the same question. */
static void three_children(struct rig *rig)
{
    rig_persona(rig, "one", TOUCH);
    rig_persona(rig, "two", TOUCH);
    rig_persona(rig, "three", TOUCH);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
}

#define THREE                                                                                      \
    "replies:\n  - {tools: [" TASK("one") ", " TASK("two") ", " TASK("three") "]}\n  - say: "      \
                                                                              "done\n"

RIG(one_question_at_a_time, THREE)
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_YES, 5 * MS);
    three_children(rig);
    CHECK_EQUAL(somebody.asked, 3);
    CHECK_EQUAL(somebody.at_once_max, 1);
    CHECK(somebody.of_a_child);
}

RIG(always_is_a_rule_and_answers_those_that_wait, THREE)
{
    struct somebody somebody;
    bool allow = false;

    ask(rig, &somebody, BL_REPLY_ALWAYS, 0);
    somebody.after_asked = 3;
    three_children(rig);
    CHECK_EQUAL(somebody.asked, 1);
    CHECK_EQUAL(strcmp(bl_permissions_rule(rig->permissions, 0, &allow), somebody.rule), 0);
    CHECK(allow);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "\"answer\":\"allowed\""), 3);
    /* Also in the next run. */
    rig_script(rig, TOUCH);
    CHECK_EQUAL(rig_run(rig, "again"), 0);
    CHECK_EQUAL(somebody.asked, 1);
    CHECK(bl_list_empty(&rig_turn(rig)->denials));
}

static void become_read_only(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_PERMISSION_ASKED && rig_told(rig, BL_EVENT_PERMISSION_ASKED) == 3)
        bl_permissions_set_mode(rig->permissions, BL_PERMISSION_READ_ONLY);
}

RIG(waiting_questions_follow_rules_set_meanwhile, THREE)
{
    struct somebody somebody;

    ask(rig, &somebody, BL_REPLY_NO, 0);
    somebody.after_asked = 3;
    rig->on_event = become_read_only;
    three_children(rig);
    CHECK_EQUAL(somebody.asked, 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "read-only"), 2);
}

RIG(rule_denies_a_sub_agent, "replies:\n  - {tools: [" TASK("one") "]}\n  - say: done\n")
{
    CHECK_EQUAL(bl_permissions_add(rig->permissions, false, "task(one)", &rig->error), 0);
    rig_persona(rig, "one", TOUCH);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_SUBAGENT_STARTED), 0);
    CHECK(!bl_list_empty(&rig_turn(rig)->denials));
}

SUITE(ask, cmocka_unit_test(call_is_asked_about_and_runs_when_allowed),
      cmocka_unit_test(refusal_is_a_result_and_a_record_in_the_turn_of_the_agent),
      cmocka_unit_test(edit_that_cannot_be_made_is_refused_without_a_question),
      cmocka_unit_test(edit_that_fails_its_check_is_not_made_when_the_file_changes),
      cmocka_unit_test(pending_question_is_answered_cancelled_by_a_stop_of_the_agent),
      cmocka_unit_test(question_has_a_deadline_and_no_one_there_means_no),
      cmocka_unit_test(without_a_user_the_call_is_refused),
      cmocka_unit_test(one_question_at_a_time),
      cmocka_unit_test(always_is_a_rule_and_answers_those_that_wait),
      cmocka_unit_test(waiting_questions_follow_rules_set_meanwhile),
      cmocka_unit_test(rule_denies_a_sub_agent));
