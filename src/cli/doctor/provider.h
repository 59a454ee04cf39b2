/* What `belay doctor --provider` finds out: one short call, the way that a run makes it. */
#ifndef BELAY_CLI_DOCTOR_PROVIDER_H
#define BELAY_CLI_DOCTOR_PROVIDER_H

#include <belay/model.h>

#include "cli/cli.h"

struct doctor_provider {
    const char *name; /* NULL: it was stopped before it was known; as the others */
    const char *api;
    const char *address; /* NULL: it has none */
    const char *model;
    const char *key_source; /* where the key is from, never the key; NULL: there is none */
    bool answered;
    uint64_t latency_ms;
    bool first_known;
    uint64_t first_ms; /* to the first event of the answer */
    uint32_t retries;
    bool usage_known;
    bool estimated;
    struct bl_usage usage;
    bool cost_known;
    double cost_usd;
    struct bl_error error; /* code 0: none */
};

/* Calls the model that these choose (NULL: as configured), and says what happened. Returns the exit
 * code of the process. */
int doctor_provider_run(struct cli_call *call, const char *provider, const char *model);

void doctor_provider_text(struct bl_buffer *out, const struct doctor_provider *report);

#endif
