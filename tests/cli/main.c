#include "suite.h"

extern const struct suite attach_suite, arguments_suite, bootstrap_report_suite, bootstrap_suite,
    cancel_suite, cell_host_suite, cell_suite, command_suite, complete_suite, doctor_json_suite,
    doctor_provider_suite, doctor_suite, doctor_text_suite, envelope_suite, escape_suite,
    feature_ask_suite, feature_options_suite, feature_show_suite, help_suite, hold_report_suite,
    hold_run_suite, hold_suite, loop_suite, mcp_token_suite, option_suite, option_table_suite,
    output_suite, probe_kernel_suite, probe_system_suite, ps_suite, route_suite, run_kill_suite,
    run_model_suite, run_options_suite, run_output_suite, run_prompt_suite, run_reader_suite,
    run_suite, run_work_suite, script_suite, secret_suite, session_file_suite, session_json_suite,
    session_suite, session_text_suite, signals_suite, stream_suite, tools_suite, watch_suite,
    debug_suite, log_suite, run_events_suite, timeout_suite, run_during_suite, run_size_suite,
    run_fetch_suite, init_suite, login_suite, config_suite, mcp_servers_suite, columns_suite,
    fleet_item_suite, fleet_suite, queue_suite, stops_elsewhere_suite;

SUITE_MAIN(&attach_suite, &arguments_suite, &bootstrap_report_suite, &bootstrap_suite,
           &cancel_suite, &cell_host_suite, &cell_suite, &command_suite, &complete_suite,
           &doctor_json_suite, &doctor_provider_suite, &doctor_suite, &doctor_text_suite,
           &envelope_suite, &escape_suite, &feature_ask_suite, &feature_options_suite,
           &feature_show_suite, &help_suite, &hold_report_suite, &hold_run_suite, &hold_suite,
           &loop_suite, &mcp_token_suite, &option_suite, &option_table_suite, &output_suite,
           &probe_kernel_suite, &probe_system_suite, &ps_suite, &route_suite, &run_kill_suite,
           &run_model_suite, &run_options_suite, &run_output_suite, &run_prompt_suite,
           &run_reader_suite, &run_suite, &run_work_suite, &script_suite, &secret_suite,
           &session_file_suite, &session_json_suite, &session_suite, &session_text_suite,
           &signals_suite, &stream_suite, &tools_suite, &watch_suite, &debug_suite, &log_suite,
           &run_events_suite, &timeout_suite, &run_during_suite, &run_size_suite, &run_fetch_suite,
           &init_suite, &login_suite, &config_suite, &mcp_servers_suite, &columns_suite,
           &fleet_item_suite, &fleet_suite, &queue_suite, &stops_elsewhere_suite)
