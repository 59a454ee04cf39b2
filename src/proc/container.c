#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "parts.h"
#include "probe.h"

/* Results of the probes. They describe the machine, so the process has one store for them. The
 * result of a probe that could not run is not stored. */
static struct {
    pthread_mutex_t guard;
    bool known[BL_MECHANISM_PIDNS + 1];
    struct bl_container_check checks[BL_MECHANISM_PIDNS + 1];
    bool pidns_needs_user;
} memory = {.guard = PTHREAD_MUTEX_INITIALIZER};

void proc_check_answer(struct bl_container_check *check, bool available, const char *format, ...)
{
    va_list arguments;

    check->available = available;
    va_start(arguments, format);
    vsnprintf(check->detail, sizeof check->detail, format, arguments);
    va_end(arguments);
}

void proc_check_untried(struct bl_container_check *check, const char *format, ...)
{
    va_list arguments;

    check->untried = true;
    va_start(arguments, format);
    vsnprintf(check->detail, sizeof check->detail, format, arguments);
    va_end(arguments);
}

void proc_check_hint(struct bl_container_check *check, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(check->hint, sizeof check->hint, format, arguments);
    va_end(arguments);
}

void proc_subreaper_probe(struct bl_container_check *check)
{
    int is_subreaper = 0;

    if (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0) {
        proc_check_answer(check, true, "the warden adopts orphans and finds them in /proc");
        return;
    }
    proc_check_answer(check, false, "prctl: %s", strerror(errno));
    proc_check_hint(check, "use Linux 3.4 or later");
}

/* Returns the stored result, or probes. Called with the guard held, so that one thread probes and
 * the others wait for its result. */
static void ask_memory(enum bl_mechanism mechanism, struct bl_container_check *ret_check)
{
    struct bl_container_check *check = &memory.checks[mechanism];

    if (!memory.known[mechanism]) {
        *check = (struct bl_container_check){.mechanism = mechanism};
        if (mechanism == BL_MECHANISM_PIDNS)
            proc_pidns_probe(check, &memory.pidns_needs_user);
        else if (mechanism == BL_MECHANISM_CGROUP2)
            proc_cgroup_probe(check);
        else
            proc_subreaper_probe(check);
        memory.known[mechanism] = !check->untried;
    }
    *ret_check = *check;
}

/* For `auto` it returns the result of the container that would be used. */
void bl_container_check(enum bl_mechanism mechanism, struct bl_container_check *ret_check)
{
    pthread_mutex_lock(&memory.guard);
    if (mechanism != BL_MECHANISM_NONE) {
        ask_memory(mechanism, ret_check);
    } else {
        ask_memory(BL_MECHANISM_CGROUP2, ret_check);
        if (!ret_check->available)
            ask_memory(BL_MECHANISM_SUBREAPER, ret_check);
    }
    pthread_mutex_unlock(&memory.guard);
}

bool proc_container_needs_user(void)
{
    struct bl_container_check check;

    bl_container_check(BL_MECHANISM_PIDNS, &check);
    pthread_mutex_lock(&memory.guard);
    bool needed = memory.pidns_needs_user;
    pthread_mutex_unlock(&memory.guard);
    return needed;
}

int bl_container_parse(const char *text, enum bl_mechanism *ret_mechanism, struct bl_error *error)
{
    static const enum bl_mechanism choices[] = {BL_MECHANISM_PIDNS, BL_MECHANISM_CGROUP2,
                                                BL_MECHANISM_SUBREAPER};

    if (strcmp(text, "auto") == 0) {
        *ret_mechanism = BL_MECHANISM_NONE;
        return 0;
    }
    for (size_t i = 0; i < BL_COUNT(choices); i++) {
        if (strcmp(text, bl_mechanism_name(choices[i])) == 0) {
            *ret_mechanism = choices[i];
            return 0;
        }
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose a container", text,
                 "unknown container '%s'", text);
    bl_error_hint(error, "choose auto, pidns, cgroup2 or subreaper");
    return BL_EINVAL;
}

/* True if a probe has shown that cgroup2 does not work: checking the files alone can be too
 * optimistic. */
static bool cgroup_is_refuted(void)
{
    pthread_mutex_lock(&memory.guard);
    bool refuted =
        memory.known[BL_MECHANISM_CGROUP2] && !memory.checks[BL_MECHANISM_CGROUP2].available;
    pthread_mutex_unlock(&memory.guard);
    return refuted;
}

int proc_container_resolve(enum bl_mechanism wanted, enum bl_mechanism *ret_mechanism,
                           struct bl_error *error)
{
    struct bl_container_check check;

    if (wanted == BL_MECHANISM_NONE) {
        bool cgroup = !cgroup_is_refuted() && proc_cgroup_directory(NULL, 0);
        *ret_mechanism = cgroup ? BL_MECHANISM_CGROUP2 : BL_MECHANISM_SUBREAPER;
        return 0;
    }
    bl_container_check(wanted, &check);
    if (check.available) {
        *ret_mechanism = wanted;
        return 0;
    }
    const char *name = bl_mechanism_name(wanted);
    bl_error_set(error, BL_ENOTSUP, BL_KIND_RUNTIME, "choose a container", name,
                 "container %s is not available: %s", name, check.detail);
    if (check.hint[0] != '\0')
        bl_error_hint(error, "%s", check.hint);
    return BL_ENOTSUP;
}
