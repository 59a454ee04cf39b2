#include "suite.h"

extern const struct suite access_suite;
extern const struct suite canonical_suite;
extern const struct suite document_guard_suite;
extern const struct suite document_scalar_suite;
extern const struct suite document_suite;
extern const struct suite document_yaml_suite;
extern const struct suite number_suite;
extern const struct suite reader_suite;
extern const struct suite record_input_suite;
extern const struct suite record_suite;
extern const struct suite record_variant_suite;
extern const struct suite schema_problem_suite;
extern const struct suite schema_suite;
extern const struct suite source_suite;
extern const struct suite writer_suite;

SUITE_MAIN(&number_suite, &reader_suite, &writer_suite, &access_suite, &canonical_suite,
           &schema_suite, &schema_problem_suite, &document_scalar_suite, &document_yaml_suite,
           &document_suite, &document_guard_suite, &record_suite, &record_input_suite,
           &record_variant_suite, &source_suite)
