#include "helpers.h"

extern const struct suite cell_suite, aside_suite, damage_suite, denial_suite, faults_suite,
    feature_owner_suite, feature_suite, find_suite, task_suite, identity_suite, kill_suite,
    lane_suite, look_suite, nth_sync_suite, pg_crash_suite, pg_doubt_suite, power_cut_suite,
    row_suite, session_suite, sqlite_feature_suite, sqlite_hold_suite, sqlite_open_suite,
    sqlite_schema_suite, sqlite_suite, sqlite_turn_suite, sqlite_write_suite, store_suite,
    export_suite, import_suite, move_suite, pg_cell_suite, pg_task_suite, pg_hold_suite,
    pg_feature_suite, hold_suite, turn_suite, pg_look_suite, pg_move_suite, where_suite,
    bytes_suite, equal_suite, equal_found_suite, pg_silence_suite, pg_address_suite,
    pg_pooled_suite, pg_busy_suite, pg_queue_suite, pg_stop_suite, pg_offer_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {
        &cell_suite,        &identity_suite,       &lane_suite,         &sqlite_schema_suite,
        &sqlite_open_suite, &store_suite,          &session_suite,      &sqlite_hold_suite,
        &sqlite_suite,      &sqlite_turn_suite,    &sqlite_write_suite, &look_suite,
        &aside_suite,       &faults_suite,         &kill_suite,         &feature_owner_suite,
        &feature_suite,     &sqlite_feature_suite, &find_suite,         &power_cut_suite,
        &task_suite,        &damage_suite,         &denial_suite,       &nth_sync_suite,
        &row_suite,         &pg_doubt_suite,       &pg_crash_suite,     &export_suite,
        &import_suite,      &move_suite,           &pg_cell_suite,      &pg_task_suite,
        &pg_hold_suite,     &pg_feature_suite,     &hold_suite,         &turn_suite,
        &pg_look_suite,     &pg_move_suite,        &where_suite,        &bytes_suite,
        &equal_suite,       &equal_found_suite,    &pg_silence_suite,   &pg_address_suite,
        &pg_pooled_suite,   &pg_busy_suite,        &pg_queue_suite,     &pg_stop_suite,
        &pg_offer_suite};
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return role_main(argument_count, arguments);
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
