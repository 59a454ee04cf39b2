/* Random trees, in every container, as root and as an ordinary user: the receipt never reports
 * fewer survivors than the observer finds. BELAY_SEED_FROM and BELAY_SEED_COUNT choose the seeds,
 * so that the long form can be split, and a failure repeated. */
#include "hostile.h"
#include "proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SEEDS_SHORT 40u
#define SEEDS_FULL  10000u

static unsigned long property_number(const char *variable, unsigned long fallback)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoul(text, NULL, 10) : fallback;
}

/* The program chooses the shape of the tree; this test chooses where and how it is stopped. Returns
 * NULL, what is wrong, or "" if the environment is not available. */
static const char *property_try(struct trial *trial, unsigned long seed)
{
    static const char *const containers[] = {"pidns", "cgroup2", "subreaper"};
    static const unsigned graces_ms[] = {0, 0, 20, 50};
    static char number[24];
    struct proof_plan plan = {.words = {"seed", number}};
    struct bl_random random;

    bl_random_seed(&random, seed);
    snprintf(number, sizeof number, "%lu", seed);
    *trial = (struct trial){
        .container = containers[seed % BL_COUNT(containers)],
        .user = seed / BL_COUNT(containers) % 2 == 0 && geteuid() == 0 ? USER_root : USER_user,
        .grace_ms = graces_ms[bl_random_below(&random, BL_COUNT(graces_ms))]};
    plan.stop = bl_random_below(&random, 8) == 0 ? TRIAL_KILL_BELAY : TRIAL_SIGNAL;
    if (!trial_available(trial->container, trial->user))
        return "";
    const char *wrong = proof_try(trial, &plan);
    /* Only a tree that attacks may be unverified; it reports its attacks. */
    if (wrong != NULL && trial->attacked && !trial->hung && trial->reported && !trial->verified)
        wrong = NULL;
    /* Belay and its warden killed at the same time: no container except pidns can handle that. */
    if (plan.stop == TRIAL_KILL_BELAY && strstr(trial->out, HOSTILE_DEADLY) != NULL)
        wrong = NULL;
    return wrong;
}

static int property_compare(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static void receipts_are_true_of_random_trees(void **state)
{
    static struct trial trial;
    unsigned long from = property_number("BELAY_SEED_FROM", 1), failed = 0, unverified = 0;
    unsigned long count =
        property_number("BELAY_SEED_COUNT", suite_rounds(SEEDS_SHORT, SEEDS_FULL));
    double *stops_ms = bl_alloc((count + 1) * sizeof *stops_ms);
    size_t used = 0;

    (void)state;
    for (unsigned long seed = from; seed < from + count; seed++) {
        const char *wrong = property_try(&trial, seed);
        if (wrong != NULL && wrong[0] == '\0')
            continue;
        stops_ms[used++] = trial.stop_ms;
        unverified += trial.reported && !trial.verified;
        if (wrong == NULL)
            continue;
        failed++;
        print_message("seed %lu%s: %s\n", seed, trial.attacked ? " (attacks)" : "", wrong);
        trial_print(&trial);
    }
    qsort(stops_ms, used, sizeof *stops_ms, property_compare);
    if (used > 0)
        print_message("  %zu trees from seed %lu: %lu failed, could not verify %lu; stops: median "
                      "%.0f ms, slowest %.0f ms\n",
                      used, from, failed, unverified, stops_ms[used / 2], stops_ms[used - 1]);
    bl_free(stops_ms);
    assert_int_equal(failed, 0);
}

SUITE(property, cmocka_unit_test(receipts_are_true_of_random_trees));
