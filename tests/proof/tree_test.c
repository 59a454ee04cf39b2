/* Trees that do not attack: each is stopped and counted, and the result is never unverified. */
#include "proof.h"

#define PLAN static const struct proof_plan

/* ---- Finding 1: a process whose main thread has ended ---------------------------------------- */

PLAN finding_1_a_dead_leader_with_live_threads_is_killed = {TRIAL_DEADLINE, 0, {"dead-leader"}};
PLAN finding_1_a_dead_leader_below_the_command_is_killed = {
    TRIAL_DEADLINE, 0, {"child", "dead-leader"}};
PLAN finding_1_a_dead_leader_left_behind_is_counted_and_stopped = {
    TRIAL_OWN_END, PROOF_LEFT_BEHIND, {"leave", "dead-leader"}};
PLAN finding_1_a_dead_leader_does_not_outlive_belay = {
    TRIAL_KILL_BELAY, 0, {"child", "dead-leader"}};

/* ---- Finding 3: comets ----------------------------------------------------------------------- */

PLAN finding_3_comets_are_stopped_at_the_deadline = {TRIAL_DEADLINE, 0, {"comets", "60"}};
PLAN finding_3_a_comet_left_behind_is_counted_and_stopped = {
    TRIAL_OWN_END, PROOF_LEFT_BEHIND, {"leave", "comets", "1"}};
PLAN finding_3_comets_do_not_outlive_belay = {TRIAL_KILL_BELAY, 0, {"comets", "60"}};
PLAN finding_3_nothing_left_running_is_true_of_comets = {
    TRIAL_DEADLINE, PROOF_TEXT, {"comets", "60"}};

/* ---- Others ---------------------------------------------------------------------------------- */

PLAN storm_of_forks_is_stopped = {TRIAL_DEADLINE, 0, {"storm"}};
PLAN storm_of_forks_does_not_outlive_belay = {TRIAL_KILL_BELAY, 0, {"storm"}};
PLAN many_processes_are_stopped = {TRIAL_DEADLINE, 0, {"many", "300"}};

/* A process that became another user is beyond the reach of an ordinary user's warden, and is
 * counted. */
PLAN process_of_another_user_is_a_survivor = {
    TRIAL_SIGNAL, PROOF_MAY_SURVIVE | PROOF_SURVIVES | PROOF_SETUID_COPY, {"setuid-all"}};
PLAN process_of_another_user_left_behind_is_a_survivor = {
    TRIAL_OWN_END, PROOF_MAY_SURVIVE | PROOF_SURVIVES | PROOF_SETUID_COPY, {"leave", "setuid-all"}};
PLAN process_of_another_user_is_a_survivor_in_the_text = {TRIAL_SIGNAL,
                                                          PROOF_MAY_SURVIVE | PROOF_SURVIVES |
                                                              PROOF_SETUID_COPY | PROOF_TEXT,
                                                          {"setuid-all"}};

/* All kinds of trees in turn, each stopped as soon as it is running. */
static void each_tree_is_stopped(void **state)
{
    static const char *const trees[] = {
        "rest",    "ignore-signals", "session",        "daemon",    "namespaces",
        "stopped", "traced",         "vfork",          "subreaper", "thread-exec",
        "renamed", "clone-parent",   "no-exit-signal",
    };
    static struct trial trial;
    const struct proof_variant *variant = *state;
    unsigned long rounds = suite_rounds(1, 1000 / 6 + 1);

    trial_require(variant->container, variant->user);
    for (unsigned long i = 0; i < rounds * BL_COUNT(trees); i++) {
        struct proof_plan plan = {TRIAL_SIGNAL, 0, {trees[i % BL_COUNT(trees)]}};
        trial = (struct trial){.container = variant->container, .user = variant->user};
        trial.grace_ms = i % 2 == 0 ? 0 : 20;
        const char *wrong = proof_try(&trial, &plan);
        if (wrong != NULL) {
            trial_print(&trial);
            fail_msg("%s", wrong);
        }
    }
}

#define EACH_TREE(container, user)                                                                 \
    {                                                                                              \
        "each_tree_is_stopped_in_" #container "_as_" #user, each_tree_is_stopped, NULL, NULL,      \
            &(struct proof_variant)                                                                \
        {                                                                                          \
            NULL, #container, USER_##user, 6                                                       \
        }                                                                                          \
    }

SUITE(tree, EACH_TREE(pidns, root), EACH_TREE(cgroup2, root), EACH_TREE(subreaper, root),
      EACH_TREE(pidns, user), EACH_TREE(cgroup2, user), EACH_TREE(subreaper, user),
      PROOF_EVERYWHERE(finding_1_a_dead_leader_with_live_threads_is_killed),
      PROOF_EVERYWHERE(finding_1_a_dead_leader_below_the_command_is_killed),
      PROOF_EVERYWHERE(finding_1_a_dead_leader_left_behind_is_counted_and_stopped),
      PROOF_EVERYWHERE(finding_1_a_dead_leader_does_not_outlive_belay),
      PROOF_EVERYWHERE(finding_3_comets_are_stopped_at_the_deadline),
      PROOF_EVERYWHERE(finding_3_a_comet_left_behind_is_counted_and_stopped),
      PROOF_EVERYWHERE(finding_3_comets_do_not_outlive_belay),
      PROOF_EVERYWHERE(finding_3_nothing_left_running_is_true_of_comets),
      PROOF_EVERYWHERE(storm_of_forks_is_stopped),
      PROOF_EVERYWHERE(storm_of_forks_does_not_outlive_belay),
      PROOF_EVERYWHERE(many_processes_are_stopped),
      PROOF_IN(process_of_another_user_is_a_survivor, subreaper, user, 20),
      PROOF_IN(process_of_another_user_left_behind_is_a_survivor, subreaper, user, 20),
      PROOF_IN(process_of_another_user_is_a_survivor_in_the_text, subreaper, user, 20));
