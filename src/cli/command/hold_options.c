/* The parts of timeout(1)'s command line that are not options: a duration in its own format before
 * the command, names of signals, and the name of the program. */
#include "hold.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* 24 days in milliseconds fit the int that poll(2) takes. */
#define GRACE_MS_MAX  ((uint32_t)24 * 86400 * 1000)
#define DURATION_FORM "a duration such as 5s, 2.5m, 1h or 1d"

bool hold_is_timeout(const char *name)
{
    const char *slash = strrchr(name, '/');

    return strcmp(slash != NULL ? slash + 1 : name, "timeout") == 0;
}

/* Parses a duration as timeout(1) does: a number and a letter; also `ms`. Infinity and values too
 * large become BL_NEVER; less than a nanosecond is rounded up to one. Returns false if the text is
 * not a duration. */
static bool hold_options_parse_duration(const char *text, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"ms", 0.001}};
    bool infinite = strncasecmp(text, "inf", 3) == 0;
    char *end;

    if (!isdigit((unsigned char)text[0]) && text[0] != '.' && !infinite)
        return false;
    double number = strtod(text, &end);
    if (end == text || isnan(number))
        return false;
    for (size_t i = 0; i < BL_COUNT(units); i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        double ns = ceil(number * units[i].seconds * (double)BL_NS_PER_S);
        *ret_ns = ns < (double)(INT64_MAX / 2) ? (uint64_t)ns : BL_NEVER;
        return true;
    }
    return false;
}

/* Parses "TERM", "SIGTERM", "term" or "15". Returns 0 if the text is not a signal. */
static int hold_options_parse_signal(const char *text)
{
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    char *end;

    long number = strtol(text, &end, 10);
    if (isdigit((unsigned char)text[0]) && *end == '\0')
        return number > 0 && number <= SIGRTMAX ? (int)number : 0;
    for (int i = 1; i < SIGRTMIN; i++) {
        const char *known = sigabbrev_np(i);
        if (known != NULL && strcasecmp(known, name) == 0)
            return i;
    }
    if (strcasecmp(name, "RTMIN") == 0)
        return SIGRTMIN;
    return strcasecmp(name, "RTMAX") == 0 ? SIGRTMAX : 0;
}

static int hold_options_settle_signal(struct hold_options *options, struct bl_error *error)
{
    options->signal = SIGTERM;
    if (options->signal_name == NULL)
        return 0;
    options->signal = hold_options_parse_signal(options->signal_name);
    options->killed_is_told = options->signal == SIGKILL;
    if (options->signal != 0)
        return 0;
    return cli_value_refuse("--signal", options->signal_name, "a signal such as TERM, INT or 9",
                            error);
}

static int hold_options_settle_grace(struct hold_options *options, struct bl_error *error)
{
    uint64_t ns;

    if (options->kill_after == NULL) {
        if (options->as_timeout && !options->graced)
            options->grace_ms = GRACE_MS_MAX;
        return 0;
    }
    if (options->graced) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--kill-after",
                     "--grace and --kill-after exclude each other");
        bl_error_hint(error, "both are the time from the signal to SIGKILL");
        return BL_EINVAL;
    }
    if (!hold_options_parse_duration(options->kill_after, &ns))
        return cli_value_refuse("--kill-after", options->kill_after, DURATION_FORM, error);
    uint64_t ms = ns / BL_NS_PER_MS + (ns % BL_NS_PER_MS != 0);
    options->grace_ms = ns == 0 || ms > GRACE_MS_MAX ? GRACE_MS_MAX : (uint32_t)ms;
    options->killed_is_told = true;
    return 0;
}

static int hold_options_miss(const char *name, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", name,
                 "missing argument %s", name);
    bl_error_hint(error, "'belay help hold' shows the usage");
    return BL_EINVAL;
}

/* Reads the deadline before the command. */
static int hold_options_settle_duration(struct cli_call *call, struct hold_options *options,
                                        struct bl_error *error)
{
    uint64_t ns;

    if (call->rest == NULL || (options->timed && !options->as_timeout))
        return 0;
    bool plain = strcmp(call->rest[-1], "--") == 0 && !options->as_timeout;
    if (plain || !hold_options_parse_duration(call->rest[0], &ns))
        return options->as_timeout
                   ? cli_value_refuse("DURATION", call->rest[0], DURATION_FORM, error)
                   : 0;
    if (call->rest[1] == NULL)
        return hold_options_miss("COMMAND", error);
    call->rest++;
    options->timed = ns != 0 && ns != BL_NEVER;
    options->timeout_ns = (int64_t)ns;
    return 0;
}

int hold_options_settle(struct cli_call *call, struct hold_options *options, struct bl_error *error)
{
    int code = hold_options_settle_signal(options, error);

    if (code == 0)
        code = hold_options_settle_grace(options, error);
    if (code == 0)
        code = hold_options_settle_duration(call, options, error);
    options->arguments = (const char *const *)call->rest;
    return code;
}
