#include "proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TRIALS_FULL   1000u
#define DEADLINE_EACH 10u
#define TIMEOUT_MS    300u
#define PROMISE_MS    500u /* beyond deadline and grace period */
#define ATTACK_MS     250u /* the same, for attacks on the warden */
#define LIMIT_FACTOR  10u  /* limit of a test, in times of the promise */
#define TRIES         4    /* for a tree that does not start */
#define FAILED_STOP   125  /* exit code */

static const char *proof_check_text(const struct trial *trial)
{
    bool nothing = strstr(trial->err, "Nothing left running") != NULL;
    bool unverified = strstr(trial->err, "ould not verify: ") != NULL;
    bool counted = strstr(trial->err, "Still running: ") != NULL;
    char number[64];
    if (nothing && trial->left.tools > 0)
        return "a false 'Nothing left running'";
    snprintf(number, sizeof number, "Still running: %zu ", trial->left.tools);
    if (counted && observer_counts() && strstr(trial->err, number) == NULL)
        return "the text says another number than the observer";
    if (nothing + unverified + counted != 1)
        return "the text does not say one thing about what is left";
    if (unverified && trial->exit_code == 0)
        return "a stop that could not be verified has exit code 0";
    return NULL;
}

/* True if the envelope or text can report that a process is or may be alive. */
static bool proof_is_said(const struct trial *trial)
{
    return trial->reported || trial->text;
}

static const char *proof_check(const struct trial *trial, unsigned flags)
{
    if (trial->hung)
        return "it did not end in time";
    if (trial->reported && !trial->verified && (flags & PROOF_ATTACK) == 0)
        return "survivors is null, and nobody attacked the warden";
    if (trial->reported && trial->verified && trial->survivors < (int64_t)trial->left.tools)
        return "a false receipt: fewer survivors than the observer finds";
    if (trial->left.tools > 0 && ((flags & PROOF_MAY_SURVIVE) == 0 || !proof_is_said(trial)))
        return "processes are alive";
    if (trial->left.helpers > 0)
        return "a warden is alive";
    if ((flags & PROOF_SURVIVES) != 0 && trial->left.tools == 0)
        return "nothing survived";
    if ((flags & PROOF_SURVIVES) != 0 && trial->lost)
        return "the warden did not count them, belay did";
    if ((flags & PROOF_SURVIVES) != 0 && trial->exit_code != FAILED_STOP)
        return "a failed stop has another exit code";
    if ((flags & PROOF_SURVIVES) != 0 && trial->reported && observer_counts() &&
        trial->survivors != (int64_t)trial->left.tools)
        return "survivors are not those that the observer finds";
    if ((flags & PROOF_LEFT_BEHIND) != 0 && trial->verified && trial->left_behind == 0)
        return "left_behind is 0";
    if ((flags & PROOF_NOT_TRACED) != 0 && strstr(trial->out, "not traced\n") == NULL)
        return "the warden could be traced";
    return (flags & PROOF_TEXT) != 0 ? proof_check_text(trial) : NULL;
}

const char *proof_try(struct trial *trial, const struct proof_plan *plan)
{
    unsigned promise_ms =
        trial->grace_ms + ((plan->flags & PROOF_ATTACK) != 0 ? ATTACK_MS : PROMISE_MS);
    size_t count = 0;

    trial->stop = plan->stop;
    trial->timeout_ms = TIMEOUT_MS;
    trial->own_mounts = (plan->flags & (PROOF_OWN_MOUNTS | PROOF_HIDDEN_PIDS)) != 0;
    trial->hidden_pids = (plan->flags & PROOF_HIDDEN_PIDS) != 0;
    trial->text = (plan->flags & PROOF_TEXT) != 0;
    for (; plan->words[count] != NULL; count++)
        trial->words[count] = plan->words[count];
    if ((plan->flags & PROOF_SETUID_COPY) != 0)
        trial->words[count++] = trial_setuid_copy();
    trial->words[count] = NULL;
    /* The deadline may come before the tree is running, and the machine may be out of processes. */
    for (int i = 0; i < TRIES; i++, trial->timeout_ms *= 4) {
        unsigned deadline_ms = trial->stop == TRIAL_DEADLINE ? trial->timeout_ms : 0;
        if (i > 0)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        trial->limit_ms = LIMIT_FACTOR * (promise_ms + deadline_ms);
        trial_run(trial);
        if (trial->ready || trial->attacked)
            break;
    }
    if (!trial->ready && !trial->attacked)
        return "the tree did not stand";
    /* A warden that is killed at once has not reported the start of the command. */
    if (!trial->reported && !trial->text && !trial->hung && (plan->flags & PROOF_ATTACK) == 0 &&
        !trial->attacked && trial->stop != TRIAL_KILL_BELAY)
        return "there is no envelope of a command that was started";
    return proof_check(trial, plan->flags);
}

/* Returns the number of trials of a variant; more if a race decides. */
static unsigned long proof_count(const struct proof_variant *variant)
{
    const char *given = getenv("BELAY_PROOF_TRIALS");
    bool race = (variant->plan->flags & PROOF_RACE) != 0;
    unsigned long all = suite_rounds(0, SUITE_SANITIZED ? TRIALS_FULL / 10 : TRIALS_FULL);
    unsigned long share = all / variant->variants + 1, least = race ? 20 : 2;
    if (given != NULL)
        return strtoul(given, NULL, 10);
    return share > least ? share : least;
}

/* Requirements of the observer, the mounts and the copy beyond the container. */
static void proof_require(const struct proof_variant *variant)
{
    const unsigned of_root = PROOF_OWN_MOUNTS | PROOF_HIDDEN_PIDS | PROOF_SETUID_COPY;
    trial_require(variant->container, variant->user);
    if ((variant->plan->flags & of_root) != 0 && geteuid() != 0)
        suite_skip("needs root");
    if (variant->plan->stop == TRIAL_KILL_WARDEN && !observer_counts())
        suite_skip("needs a writable cgroup v1 hierarchy");
}

void proof_run(void **state)
{
    static const unsigned graces_ms[] = {0, 200};
    static struct trial trial;
    const struct proof_variant *variant = *state;
    unsigned long count = proof_count(variant), unverified = 0;
    double worst_ms = 0;

    proof_require(variant);
    for (unsigned long i = 0; i < count; i++) {
        struct proof_plan plan = *variant->plan;
        /* A deadline takes time, so most trials of the long form run without it. */
        if (plan.stop == TRIAL_DEADLINE && i % DEADLINE_EACH != 0)
            plan.stop = TRIAL_SIGNAL;
        trial = (struct trial){.container = variant->container,
                               .user = variant->user,
                               .grace_ms = graces_ms[(i + variant->user) % BL_COUNT(graces_ms)]};
        const char *wrong = proof_try(&trial, &plan);
        if (wrong != NULL) {
            trial_print(&trial);
            fail_msg("trial %lu: %s", i, wrong);
        }
        worst_ms = trial.stop_ms > worst_ms ? trial.stop_ms : worst_ms;
        unverified += trial.reported && !trial.verified;
    }
    print_message("  %lu trials, slowest stop %.0f ms, could not verify %lu\n", count, worst_ms,
                  unverified);
}
