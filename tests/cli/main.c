#include "suite.h"

extern const struct suite arguments_suite, command_suite, doctor_suite, doctor_json_suite,
    doctor_text_suite, envelope_suite, help_suite, output_suite, probe_cgroup_suite,
    probe_child_suite, probe_containment_suite, probe_program_suite, probe_sandbox_suite,
    probe_system_suite, suggest_suite;

SUITE_MAIN(&arguments_suite, &command_suite, &doctor_suite, &doctor_json_suite, &doctor_text_suite,
           &envelope_suite, &help_suite, &output_suite, &probe_cgroup_suite, &probe_child_suite,
           &probe_containment_suite, &probe_program_suite, &probe_sandbox_suite,
           &probe_system_suite, &suggest_suite)
