/* hostile: plays process trees that are hard to hold, stop and count, and attacks on the warden.
 *
 *     hostile [PREFIX [ARGUMENT]]... TREE [ARGUMENT]
 *
 * Prefixes act and continue with the next word; a tree ends the line. The first process writes
 * "ready" to standard output when the whole tree is running and every attack has been made.
 *
 * Every process ends 20 seconds after the start of the first one, by a timer that sends SIGKILL, so
 * that a failed test leaves nothing behind for long. */
#ifndef BELAY_TESTS_PROOF_HOSTILE_H
#define BELAY_TESTS_PROOF_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOSTILE_EXIT_USAGE 64
#define HOSTILE_READY      "ready\n"
#define HOSTILE_ATTACK     "attack\n"    /* written before an attack on the warden */
#define HOSTILE_DEADLY     "deadly\n"    /* written before an attack that may end the warden */
#define HOSTILE_TAG        "HOSTILE_TAG" /* variable: a FIFO that the tree keeps open for reading */

/* ---- hostile.c ------------------------------------------------------------------------------- */

/* fork() whose child has the same time limit. If no process is available it retries for a while,
 * then ends this process. */
pid_t hostile_fork(void);
/* Sets the timer that ends this process; after a fork other than hostile_fork. */
void hostile_limit_life(void);
bool hostile_is_over(void); /* the time limit has passed */
/* Reports that this process is running. The first process waits for all others, and then writes
 * that it is ready. */
void hostile_stand(void);
_Noreturn void hostile_rest(void);                /* reports and sleeps */
_Noreturn void hostile_execute(const char *word); /* runs this program again, with one word */
void hostile_say(const char *line);
void hostile_nap_ms(unsigned ms);
long hostile_number(const char *text);
pid_t hostile_warden(void); /* the parent of the first process */

/* ---- hostile_tree.c: functions that become a tree -------------------------------------------- */

_Noreturn void tree_rest(const char *argument);
_Noreturn void tree_ignore_signals(const char *argument);
_Noreturn void tree_dead_leader(const char *argument);
_Noreturn void tree_comets(const char *argument); /* the given number of them */
_Noreturn void tree_storm(const char *argument);
_Noreturn void tree_many(const char *argument); /* the given number of them */
_Noreturn void tree_session(const char *argument);
_Noreturn void tree_daemon(const char *argument);
_Noreturn void tree_namespaces(const char *argument);
_Noreturn void tree_stopped(const char *argument);
_Noreturn void tree_traced(const char *argument);
_Noreturn void tree_subreaper(const char *argument);
_Noreturn void tree_thread_exec(const char *argument);
_Noreturn void tree_renamed(const char *argument);
_Noreturn void tree_vfork(const char *argument);
_Noreturn void tree_clone_parent(const char *argument);
_Noreturn void tree_no_exit_signal(const char *argument);
_Noreturn void tree_other_user(const char *argument); /* the real user stays, or "all" */
_Noreturn void tree_seed(const char *argument);       /* hostile_random.c: chosen by a number */
void tree_rename_to(const char *name);                /* renames this process and its argument */

/* ---- hostile_attack.c: functions that act and return ----------------------------------------- */

void attack_stop(const char *argument);
void attack_limit_belay(const char *argument);
void attack_stop_loop(const char *argument); /* a child that keeps stopping the warden */
void attack_kill(const char *argument);
void attack_limit(const char *argument); /* nofile, as, nproc, stack, cpu, or all */
void attack_seize(const char *argument);
void attack_attach(const char *argument);
void attack_forge(const char *argument);
void attack_copy(const char *argument);
void attack_leave_cgroup(const char *argument);
void attack_hide_proc(const char *argument);

#endif
