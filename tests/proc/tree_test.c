/* Reading process trees can fail, and reports it. Each test runs in a child whose limits and mounts
 * it changes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "proc/tree.h"

#define CHILD_LIMIT 3
#define SECOND_US   1000000

static pid_t child_that_waits(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CHILD_LIFE_S);
        for (;;)
            pause();
    }
    return child;
}

static void *wait_in_thread(void *argument)
{
    for (int i = 0; i < CHILD_LIFE_S; i++)
        pause();
    return argument;
}

static int judge_dead_leader(void)
{
    struct tree_view view;
    char state = '?';
    pthread_t thread;
    if (tree_view_open(&view) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CHILD_LIFE_S);
        pthread_create(&thread, NULL, wait_in_thread, NULL);
        pthread_exit(NULL);
    }
    for (int i = 0; i < 2000 && state != 'Z'; i++) {
        nap_ms(5);
        if (tree_life_of(&view, child, &state) != TREE_ALIVE)
            return 2;
    }
    if (state != 'Z' || tree_count_own(&view, 0, SECOND_US).living != 1)
        return 3;
    if (tree_kill_own(&view) != 1 || waitpid(child, NULL, 0) != child)
        return 4;
    return tree_count_own(&view, 0, SECOND_US).living == 0 ? 0 : 5;
}

static void finding_1_a_zombie_with_a_live_thread_is_alive(void **state)
{
    (void)state;
    run_in_child(judge_dead_leader);
}

static int judge_without_descriptors(void)
{
    struct tree_view view;
    struct tree tree = {0};
    if (tree_view_open(&view) != 0)
        return 1;
    for (int i = 0; i < CHILD_LIMIT; i++)
        child_that_waits();
    if (tree_count_own(&view, 0, SECOND_US).living != CHILD_LIMIT)
        return 2;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) != 0)
        return 3;
    /* Nothing below the children can be read, and that is reported; the children themselves are
     * found. */
    if (tree_count_own(&view, 0, SECOND_US).error != EMFILE)
        return 4;
    tree_add_own(&view, &tree);
    if (tree.count != CHILD_LIMIT || tree.error != 0)
        return 5;
    if (tree_life_of(&view, tree.pids[0], NULL) != TREE_UNKNOWN)
        return 6;
    if (tree_kill_own(&view) != CHILD_LIMIT)
        return 7;
    for (int i = 0; i < CHILD_LIMIT; i++)
        if (waitpid(-1, NULL, 0) < 0)
            return 8;
    return 0;
}

static void finding_2_a_look_without_descriptors_finds_children_and_says_no_more(void **state)
{
    (void)state;
    run_in_child(judge_without_descriptors);
}

static int judge_hidden_proc(void)
{
    struct tree_view view;
    if (tree_view_open(&view) != 0)
        return 1;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return EXIT_NO_MOUNTS;
    pid_t child = child_that_waits();
    if (mount("none", "/proc", "tmpfs", 0, NULL) != 0)
        return EXIT_NO_MOUNTS;
    struct tree_count count = tree_count_own(&view, 0, SECOND_US);
    kill(child, SIGKILL);
    return count.living == 1 && count.error == 0 ? 0 : 2;
}

static void finding_2_what_is_mounted_over_proc_later_hides_nothing(void **state)
{
    (void)state;
    run_in_child(judge_hidden_proc);
}

static int compare_searches(const void *left, const void *right)
{
    return *(const pid_t *)left - *(const pid_t *)right;
}

static int judge_search(void)
{
    struct tree_view view;
    struct tree listed = {0}, found = {0};
    if (tree_view_open(&view) != 0)
        return 1;
    for (int i = 0; i < CHILD_LIMIT; i++)
        child_that_waits();
    tree_add_own(&view, &listed);
    tree_search_children(&view, &found, getpid());
    if (found.count != CHILD_LIMIT || listed.count != CHILD_LIMIT || found.error != 0)
        return 2;
    qsort(found.pids, found.count, sizeof *found.pids, compare_searches);
    qsort(listed.pids, listed.count, sizeof *listed.pids, compare_searches);
    if (memcmp(found.pids, listed.pids, CHILD_LIMIT * sizeof *found.pids) != 0)
        return 3;
    /* A kernel without lists of children: the descendants of children are unknown. */
    close(view.children);
    view.children = -1;
    found.count = 0;
    tree_add_own(&view, &found);
    return found.count == CHILD_LIMIT ? 0 : 4;
}

static void finding_2_without_lists_of_children_they_are_searched_for(void **state)
{
    (void)state;
    run_in_child(judge_search);
}

/* On a busy machine the time can be up before any process was read. */
static int judge_without_time(void)
{
    struct tree_view view;
    if (tree_view_open(&view) != 0)
        return 1;
    pid_t except = child_that_waits();
    for (int i = 0; i < CHILD_LIMIT; i++)
        child_that_waits();
    struct tree_count count = tree_count_own(&view, except, 0);
    /* An earlier error does not make it continue forever either. */
    struct tree tree = {.until_us = 1, .error = EACCES};
    tree_push(&tree, getpid());
    tree_complete(&view, &tree);
    tree_kill_own(&view);
    if (count.error != ETIME || count.living != 0)
        return 2;
    if (count.unseen != CHILD_LIMIT)
        return 3;
    return tree.count == 1 && tree.error == EACCES ? 0 : 4;
}

static void scan_without_time_lists_some_processes_and_reports_that_it_is_incomplete(void **state)
{
    (void)state;
    run_in_child(judge_without_time);
}

SUITE(tree,
      cmocka_unit_test(scan_without_time_lists_some_processes_and_reports_that_it_is_incomplete),
      cmocka_unit_test(finding_1_a_zombie_with_a_live_thread_is_alive),
      cmocka_unit_test(finding_2_a_look_without_descriptors_finds_children_and_says_no_more),
      cmocka_unit_test(finding_2_what_is_mounted_over_proc_later_hides_nothing),
      cmocka_unit_test(finding_2_without_lists_of_children_they_are_searched_for));
