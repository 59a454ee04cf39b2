/* Recorded features without a run: the test writes their records to the store. */
#ifndef BELAY_TESTS_CLI_RECORDED_H
#define BELAY_TESTS_CLI_RECORDED_H

#include <belay/serve.h>
#include <belay/store.h>

#include "fibers.h"
#include "stage.h"

#define RECORDS_MAX 32u

/* Setup and teardown of a test: a stage whose work folder is a repository. */
int recorded_begin(void **state);
int recorded_end(void **state);
#define RECORDED(test) cmocka_unit_test_setup_teardown(test, recorded_begin, recorded_end)

/* Records, as alternating names and JSON, and events; both end in NULL. */
struct written {
    const char *repository; /* NULL for the work folder */
    const char *id;
    const char *records[RECORDS_MAX];
    const char *events[RECORDS_MAX];
    int (*work)(const struct written *written, struct bl_store_feature *feature);
};

/* Writes records, as alternating names and JSON, and events, under the lease of `feature`. */
void write_records(struct bl_store_feature *feature, const char *const *records,
                   const char *const *events);
/* Takes the lease of the feature, writes its records, and calls `work` in a fiber as its runner. */
void put(struct written written);

/* The result of the last program, and running a program beside the test. */
extern struct run run;
extern struct held held;

/* Runs the program to its end while other fibers run. Call in a fiber. */
void run_beside(const char *const *words);
#define RUN_BESIDE(...) run_beside((const char *const[]){__VA_ARGS__, NULL})

#define ROW(id, state, more)                                                                       \
    "{\"id\":\"" id "\",\"name\":\"The " id "\",\"wave\":1,\"state\":\"" state "\"," more          \
    "\"deadline_s\":2400,\"deadline_source\":\"default\",\"memory\":{\"secret\":1}}"
#define FEATURE(id, state, done)                                                                   \
    "{\"feature\":\"" id "\",\"name\":\"Login \\u001b[31m\",\"repository\":\"/r\","                \
    "\"run_id\":\"run_1\",\"state\":\"" state "\",\"started_at\":\"2026-11-15T10:00:00.000Z\","    \
    "\"ended_at\":null,\"exit_code\":-1,\"parallel\":2,\"result_branch\":\"belay/" id              \
    "/_result\",\"tasks_done\":" done ",\"tasks_total\":3,\"spent\":{\"input_tokens\":10,"         \
    "\"output_tokens\":5,\"total_tokens\":15,\"cost_usd\":0.25,\"cost_usd_max\":0.25}}"
#define EVENT(type, more)                                                                          \
    "{\"type\":\"" type "\",\"seq\":1,\"time\":\"2026-11-15T10:00:01.000Z\",\"run\":\"run_1\","    \
    "\"feature\":\"FEAT-A\"" more "}"
#define CHECKPOINT                                                                                 \
    "{\"schema\":1,\"feature\":\"FEAT-A\",\"task\":\"TASK-2\",\"attempt\":1,\"epoch\":1,\"turn\":" \
    "3,"                                                                                           \
    "\"phase\":\"player\",\"marker\":\"cancelled_mid_turn\",\"reason\":\"timeout\","               \
    "\"triggered_by\":\"timer\",\"requested_at\":\"2026-11-15T10:40:00.000Z\","                    \
    "\"observed_at\":\"2026-11-15T10:40:00.001Z\",\"elapsed_s\":2400.02,\"deadline_s\":2400,"      \
    "\"base_commit\":null,\"head_commit\":null,\"dirty\":true,\"dirty_files\":[\"src/a.c\","       \
    "\"b\\u0007.c\"],\"partial\":{\"player_text\":\"\",\"player_result\":null,\"verify\":null,"    \
    "\"verdict\":null},\"feedback_turn\":2,\"late_verdict\":null,\"spent\":{\"input_tokens\":1,"   \
    "\"output_tokens\":2,\"cost_usd\":null,\"cost_usd_max\":null},"                                \
    "\"receipt\":\"rcp_1\"}"
/* FEAT-A, which has failed: of three tasks, one completed, one timed out, one never started. */
extern const struct written recorded_login;

#endif
