#include "suite.h"

extern const struct suite arguments_suite, command_suite, doctor_suite, doctor_json_suite,
    doctor_text_suite, envelope_suite, help_suite, hold_suite, hold_report_suite, hold_run_suite,
    output_suite, probe_kernel_suite, probe_system_suite, suggest_suite;

SUITE_MAIN(&arguments_suite, &command_suite, &doctor_suite, &doctor_json_suite, &doctor_text_suite,
           &envelope_suite, &help_suite, &hold_suite, &hold_report_suite, &hold_run_suite,
           &output_suite, &probe_kernel_suite, &probe_system_suite, &suggest_suite)
