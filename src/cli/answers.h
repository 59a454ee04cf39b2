/* The JSON answers of the commands, as tables from which docs/schemas is also generated. Each is
 * defined in the file of its command. */
#ifndef BELAY_CLI_ANSWERS_H
#define BELAY_CLI_ANSWERS_H

#include "cli/cli.h"

extern const struct cli_answer bootstrap_answer, cancel_answer, commands_answer, doctor_answer,
    doctor_provider_answer, hold_answer, inject_answer, mcp_list_answer, ps_answer, route_answer,
    run_answer, tool_answer, tools_answer, watch_answer;
extern const struct cli_answer cell_run_answer, cell_create_answer, cell_observe_answer,
    cell_terminate_answer, cell_release_answer, cell_list_answer;
extern const struct cli_answer feature_answer, feature_cancel_answer, feature_clean_answer,
    feature_extend_answer, feature_status_all_answer, feature_list_answer, feature_logs_answer,
    feature_new_answer, feature_pause_answer, feature_report_answer, feature_validate_answer;
extern const struct cli_answer fleet_init_answer, fleet_list_answer, fleet_status_answer,
    submit_answer;
extern const struct cli_answer session_list_answer, session_show_answer, session_export_answer,
    session_made_answer, session_delete_answer, session_move_answer;

/* The id of a feature or a task. */
extern const struct bl_form cli_feature_id_form;
extern const struct bl_form cli_path_form; /* absolute */

/* The line that `belay cell serve --json` prints. */
extern const struct bl_record cell_listening_record;
/* The first line of `belay script serve --json`. */
extern const struct bl_record script_listening_record;

#endif
