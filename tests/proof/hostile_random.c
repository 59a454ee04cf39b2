/* Random trees: the seed alone determines their shape. */
#include "hostile.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PROCESSES_MAX 60u
#define WIDTH_MAX     5u
#define DEPTH_MAX     6u

static unsigned short chance[3]; /* of this process */

static unsigned random_below(unsigned limit)
{
    return (unsigned)((uint64_t)(uint32_t)jrand48(chance) * limit >> 32);
}

/* The first numbers of close seeds are close, too, so they are dropped. */
static void random_seed(uint32_t seed)
{
    chance[0] = (unsigned short)seed;
    chance[1] = (unsigned short)(seed >> 16);
    chance[2] = 0;
    for (int i = 0; i < 8; i++)
        jrand48(chance);
}

static void random_attack(void)
{
    static void (*const attacks[])(const char *argument) = {
        attack_stop, attack_stop_loop, attack_kill,         attack_seize,
        attack_copy, attack_forge,     attack_leave_cgroup, attack_attach,
    };
    static const char *const limits[] = {"nofile", "as", "nproc", "stack", "cpu", "all"};
    unsigned count = sizeof attacks / sizeof attacks[0];
    unsigned limit_count = sizeof limits / sizeof limits[0];
    unsigned choice = random_below(count + limit_count);
    if (choice < count)
        attacks[choice](NULL);
    else
        attack_limit(limits[choice - count]);
}

/* What a process does when its children have been started. Each tree may add a few processes. */
_Noreturn static void random_become(void)
{
    static void (*const trees[])(const char *argument) = {
        tree_rest,           tree_rest,        tree_rest,    tree_ignore_signals, tree_dead_leader,
        tree_comets,         tree_session,     tree_daemon,  tree_namespaces,     tree_stopped,
        tree_traced,         tree_subreaper,   tree_renamed, tree_vfork,          tree_clone_parent,
        tree_no_exit_signal, tree_thread_exec,
    };
    trees[random_below(sizeof trees / sizeof trees[0])]("1");
    hostile_rest();
}

/* How a child hides from its parent before it starts children itself. */
static void random_hide(void)
{
    switch (random_below(6)) {
    case 0: setsid(); break;
    case 1: prctl(PR_SET_CHILD_SUBREAPER, 1); break;
    case 2:
        if (hostile_fork() != 0)
            _exit(0);
        break;
    case 3: tree_rename_to("warden"); break;
    default: break;
    }
}

/* Starts children with a share of the processes each; a child continues in this loop as their
 * parent. */
_Noreturn static void random_grow(unsigned processes)
{
    unsigned left = processes - 1, depth = 0, width = 0;
    while (left > 0 && depth < DEPTH_MAX && width < WIDTH_MAX) {
        unsigned share = 1 + random_below(left);
        uint32_t seed = (uint32_t)jrand48(chance);
        left -= share;
        width++;
        if (hostile_fork() == 0) {
            random_seed(seed);
            random_hide();
            left = share - 1;
            depth++;
            width = 0;
        }
    }
    random_become();
}

void tree_seed(const char *argument)
{
    random_seed((uint32_t)hostile_number(argument));
    unsigned processes = 1 + random_below(PROCESSES_MAX / 2);
    bool attacks = random_below(3) == 0, leaves = random_below(6) == 0;
    uint32_t seed = (uint32_t)jrand48(chance);
    if (leaves && hostile_fork() != 0) {
        hostile_stand();
        _exit(0);
    }
    if (attacks)
        random_attack();
    random_seed(seed);
    random_grow(processes);
}
