/* Attacks on the warden: the tree ends anyway, or the receipt reports what is unknown. */
#include "proof.h"

#define PLAN static const struct proof_plan

/* ---- Finding 2: a warden that cannot look ---------------------------------------------------- */

PLAN finding_2_a_warden_without_descriptors_does_not_report_zero = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-warden", "nofile", "daemon"}};
PLAN finding_2_a_warden_without_memory_does_not_report_zero = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-warden", "as", "many", "200"}};
PLAN finding_2_a_warden_without_processes_does_not_report_zero = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-warden", "nproc", "daemon"}};
PLAN finding_2_a_warden_without_stack_does_not_report_zero = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-warden", "stack", "daemon"}};
PLAN finding_2_a_warden_without_processor_time_does_not_report_zero = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-warden", "cpu", "daemon"}};
PLAN finding_2_a_warden_with_every_limit_at_zero_does_not_report_zero = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-warden", "all", "daemon"}};
PLAN finding_2_the_text_is_true_of_a_warden_without_descriptors = {
    TRIAL_DEADLINE, PROOF_ATTACK | PROOF_TEXT, {"limit-warden", "nofile", "daemon"}};
PLAN finding_2_a_warden_without_descriptors_stops_what_is_left_behind = {
    TRIAL_OWN_END,
    PROOF_ATTACK | PROOF_LEFT_BEHIND,
    {"limit-warden", "nofile", "leave", "session"}};
PLAN finding_2_a_limited_warden_lets_nothing_outlive_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK, {"limit-warden", "nofile", "daemon"}};
PLAN finding_2_an_empty_proc_proves_nothing = {
    TRIAL_DEADLINE, PROOF_ATTACK | PROOF_MAY_SURVIVE | PROOF_OWN_MOUNTS, {"hide-proc", "daemon"}};
PLAN finding_2_an_empty_proc_lets_nothing_outlive_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK | PROOF_OWN_MOUNTS, {"hide-proc", "daemon"}};
PLAN finding_2_a_hidden_process_of_another_effective_user_is_not_missed = {
    TRIAL_DEADLINE,
    PROOF_ATTACK | PROOF_MAY_SURVIVE | PROOF_HIDDEN_PIDS | PROOF_SETUID_COPY,
    {"setuid"}};
PLAN finding_2_a_hidden_process_of_another_user_is_not_missed = {
    TRIAL_DEADLINE,
    PROOF_ATTACK | PROOF_MAY_SURVIVE | PROOF_HIDDEN_PIDS | PROOF_SETUID_COPY,
    {"setuid-all"}};

/* ---- Finding 4: a forged end, and copied descriptors ----------------------------------------- */

PLAN finding_4_a_forged_end_is_not_believed = {
    TRIAL_DEADLINE, PROOF_ATTACK | PROOF_MAY_SURVIVE, {"forge", "session"}};
PLAN finding_4_copied_descriptors_do_not_hide_the_end_of_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK, {"copy", "session"}};
PLAN finding_4_copied_descriptors_do_not_delay_a_stop = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"copy", "session"}};

/* ---- Finding 6: a killed warden -------------------------------------------------------------- */

PLAN finding_6_the_tree_of_a_killed_warden_is_swept = {TRIAL_KILL_WARDEN, PROOF_ATTACK, {"daemon"}};
PLAN finding_6_a_comet_of_a_killed_warden_is_swept = {
    TRIAL_KILL_WARDEN, PROOF_ATTACK | PROOF_RACE, {"comets", "1"}};
PLAN finding_6_many_comets_of_a_killed_warden_are_swept = {
    TRIAL_KILL_WARDEN, PROOF_ATTACK, {"comets", "60"}};
PLAN finding_6_a_dead_leader_of_a_killed_warden_is_swept = {
    TRIAL_KILL_WARDEN, PROOF_ATTACK, {"child", "dead-leader"}};
PLAN finding_6_a_comet_that_kills_its_warden_is_swept = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"kill-warden", "comets", "1"}};

/* ---- Finding 7: a stopped or traced warden --------------------------------------------------- */

PLAN finding_7_a_stopped_warden_does_not_delay_the_deadline = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"stop-warden", "session"}};
PLAN finding_7_a_warden_stopped_again_and_again_does_not_delay_the_deadline = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"stop-warden-loop", "session"}};
PLAN finding_7_a_belay_without_descriptors_sees_that_its_warden_is_stopped = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"limit-belay", "stop-warden-loop", "session"}};
PLAN finding_7_a_stopped_warden_lets_nothing_outlive_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK, {"stop-warden", "session"}};
PLAN finding_7_a_warden_stopped_again_and_again_lets_nothing_outlive_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK, {"stop-warden-loop", "session"}};
PLAN finding_7_a_seized_warden_does_not_delay_the_deadline = {
    TRIAL_DEADLINE, PROOF_ATTACK | PROOF_MAY_SURVIVE, {"seize-warden", "session"}};
PLAN finding_7_an_attached_warden_does_not_delay_the_deadline = {
    TRIAL_DEADLINE, PROOF_ATTACK | PROOF_MAY_SURVIVE, {"attach-warden", "session"}};
PLAN finding_7_a_seized_warden_lets_nothing_outlive_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK, {"seize-warden", "session"}};
PLAN finding_7_an_ordinary_user_cannot_trace_its_warden = {
    TRIAL_SIGNAL, PROOF_ATTACK | PROOF_NOT_TRACED, {"seize-warden", "session"}};

/* ---- Finding 8: a tool that leaves its cgroup ------------------------------------------------ */

PLAN finding_8_a_tool_that_left_its_cgroup_is_killed = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"leave-cgroup", "session"}};
PLAN finding_8_a_child_that_left_its_cgroup_is_killed = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"child", "leave-cgroup", "daemon"}};
PLAN finding_8_comets_that_left_their_cgroup_are_killed = {
    TRIAL_DEADLINE, PROOF_ATTACK, {"leave-cgroup", "comets", "10"}};
PLAN finding_8_a_process_left_behind_outside_its_cgroup_is_counted_and_stopped = {
    TRIAL_OWN_END, PROOF_ATTACK | PROOF_LEFT_BEHIND, {"leave-cgroup", "leave", "session"}};
PLAN finding_8_a_tool_that_left_its_cgroup_does_not_outlive_belay = {
    TRIAL_KILL_BELAY, PROOF_ATTACK, {"leave-cgroup", "session"}};
PLAN finding_8_a_tool_that_left_its_cgroup_is_swept_with_a_killed_warden = {
    TRIAL_KILL_WARDEN, PROOF_ATTACK, {"leave-cgroup", "session"}};

#define PROOF_IN_CGROUP2(sentence)                                                                 \
    PROOF_IN(sentence, cgroup2, root, 2), PROOF_IN(sentence, cgroup2, user, 2)
/* Root sees and traces every process. */
#define PROOF_OF_USER(sentence)                                                                    \
    PROOF_IN(sentence, cgroup2, user, 2), PROOF_IN(sentence, subreaper, user, 2)
#define PROOF_OF_ROOT(sentence)                                                                    \
    PROOF_IN(sentence, pidns, root, 3), PROOF_IN(sentence, cgroup2, root, 3),                      \
        PROOF_IN(sentence, subreaper, root, 3)

SUITE(attack, PROOF_IN_REACH(finding_2_a_warden_without_descriptors_does_not_report_zero),
      PROOF_IN_REACH(finding_2_a_warden_without_memory_does_not_report_zero),
      PROOF_IN_REACH(finding_2_a_warden_without_processes_does_not_report_zero),
      PROOF_IN_REACH(finding_2_a_warden_without_stack_does_not_report_zero),
      PROOF_IN_REACH(finding_2_a_warden_without_processor_time_does_not_report_zero),
      PROOF_EVERYWHERE(finding_2_a_warden_with_every_limit_at_zero_does_not_report_zero),
      PROOF_IN_REACH(finding_2_the_text_is_true_of_a_warden_without_descriptors),
      PROOF_IN_REACH(finding_2_a_warden_without_descriptors_stops_what_is_left_behind),
      PROOF_IN_REACH(finding_2_a_limited_warden_lets_nothing_outlive_belay),
      PROOF_OF_ROOT(finding_2_an_empty_proc_proves_nothing),
      PROOF_OF_ROOT(finding_2_an_empty_proc_lets_nothing_outlive_belay),
      PROOF_OF_USER(finding_2_a_hidden_process_of_another_effective_user_is_not_missed),
      PROOF_OF_USER(finding_2_a_hidden_process_of_another_user_is_not_missed),
      PROOF_EVERYWHERE(finding_4_a_forged_end_is_not_believed),
      PROOF_EVERYWHERE(finding_4_copied_descriptors_do_not_hide_the_end_of_belay),
      PROOF_IN_REACH(finding_4_copied_descriptors_do_not_delay_a_stop),
      PROOF_EVERYWHERE(finding_6_the_tree_of_a_killed_warden_is_swept),
      PROOF_EVERYWHERE(finding_6_a_comet_of_a_killed_warden_is_swept),
      PROOF_EVERYWHERE(finding_6_many_comets_of_a_killed_warden_are_swept),
      PROOF_EVERYWHERE(finding_6_a_dead_leader_of_a_killed_warden_is_swept),
      PROOF_IN_REACH(finding_6_a_comet_that_kills_its_warden_is_swept),
      PROOF_EVERYWHERE(finding_7_a_stopped_warden_does_not_delay_the_deadline),
      PROOF_IN_REACH(finding_7_a_warden_stopped_again_and_again_does_not_delay_the_deadline),
      PROOF_IN_REACH(finding_7_a_belay_without_descriptors_sees_that_its_warden_is_stopped),
      PROOF_EVERYWHERE(finding_7_a_stopped_warden_lets_nothing_outlive_belay),
      PROOF_IN_REACH(finding_7_a_warden_stopped_again_and_again_lets_nothing_outlive_belay),
      PROOF_EVERYWHERE(finding_7_a_seized_warden_does_not_delay_the_deadline),
      PROOF_IN_REACH(finding_7_an_attached_warden_does_not_delay_the_deadline),
      PROOF_IN_REACH(finding_7_a_seized_warden_lets_nothing_outlive_belay),
      PROOF_OF_USER(finding_7_an_ordinary_user_cannot_trace_its_warden),
      PROOF_IN_CGROUP2(finding_8_a_tool_that_left_its_cgroup_is_killed),
      PROOF_IN_CGROUP2(finding_8_a_child_that_left_its_cgroup_is_killed),
      PROOF_IN_CGROUP2(finding_8_comets_that_left_their_cgroup_are_killed),
      PROOF_IN_CGROUP2(finding_8_a_process_left_behind_outside_its_cgroup_is_counted_and_stopped),
      PROOF_IN_CGROUP2(finding_8_a_tool_that_left_its_cgroup_does_not_outlive_belay),
      PROOF_IN_CGROUP2(finding_8_a_tool_that_left_its_cgroup_is_swept_with_a_killed_warden));
