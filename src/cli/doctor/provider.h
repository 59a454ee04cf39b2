/* The report of `belay doctor --provider`: one short call, made as a run makes it. */
#ifndef BELAY_CLI_DOCTOR_PROVIDER_H
#define BELAY_CLI_DOCTOR_PROVIDER_H

#include <belay/model.h>

#include "cli/cli.h"

struct doctor_provider {
    const char *name; /* this and the following: NULL if stopped before it was known */
    const char *api;
    const char *address; /* NULL also if there is none */
    const char *model;
    const char *key_source; /* source of the key, never the key; NULL also if there is no key */
    bool answered;
    uint64_t latency_ms;
    bool first_known;
    uint64_t first_ms; /* time to the first event of the answer */
    uint32_t retries;
    bool usage_known;
    bool estimated;
    struct bl_usage usage;
    bool cost_known;
    double cost_usd;
    struct bl_error error; /* code 0 if none */
};

/* Calls the given model (NULL for the configured one) and reports the result. Returns the exit code
 * of the process. */
int doctor_provider_run(struct cli_call *call, const char *provider, const char *model);

void doctor_provider_text(struct bl_buffer *out, const struct doctor_provider *report);

#endif
