/* Who plays: an agent of ours or any command, as one phase of a turn; and what they are told. */
#ifndef BELAY_FEATURE_SEAT_H
#define BELAY_FEATURE_SEAT_H

#include "feature/verdict/verdict.h"

#define SEAT_OUTPUT_MAX ((size_t)1 << 20) /* of what it printed that is kept */

/* What all seats of a run share. Embedded by the feature. */
struct seat_house {
    struct bl_store *store;
    struct bl_project *project;
    const char *repository; /* of the user: where a Coach's instructions come from */
    const char *git_folder; /* read-only in a sandbox */
    struct bl_list running; /* struct seat_run_handle: who can be hurried */
    bool hurried;
    struct bl_activities *activities; /* NULL: not listed */
};

void seat_house_init(struct seat_house *house, struct bl_store *store, struct bl_project *project,
                     const char *repository, const char *git_folder,
                     struct bl_activities *activities);
/* Whether a command in a sandbox has the network: by the rules of the user's configuration, or else
 * as `open` says. A rule that denies it wins. */
bool seat_network(const struct seat_house *house, bool open);
/* Secrets that these rules show to commands in a sandbox. In the arena; end in NULL. */
const char *const *seat_shown(const struct seat_house *house, struct bl_arena *arena);
/* Skips the graces of all seats and verifications, now and later. */
void seat_house_hurry(struct seat_house *house);

/* For verification too: a command that can be hurried while it is linked. */
struct seat_run_handle {
    struct bl_list link;
    struct bl_command_control control;
    struct bl_toolbox *toolbox; /* NULL: none */
};

struct seat_order {
    const struct bl_seat *seat;
    bool coach;
    const char *feature;
    const char *task;
    uint32_t attempt;
    uint32_t turn;
    struct bl_text prompt;
    const char *directory;    /* where it works */
    const char *result_path;  /* BELAY_RESULT: outside of the directory, in a folder that exists */
    uint64_t deadline_ns;     /* of the loop's clock, for BELAY_DEADLINE_MS; BL_NEVER: none */
    const char *session;      /* of an agent: that it goes on with; NULL: a new one */
    struct bl_budget *budget; /* of tokens, that an agent draws from; NULL: none */
    struct bl_ledger *ledger; /* of cost, the same; NULL: none */
    /* A sign of life: "output", "model", "tool bash", with the tokens so far (0: not known). */
    void (*active)(void *context, const char *what, uint64_t tokens);
    /* What it prints or says, as it comes. */
    void (*output)(void *context, struct bl_text bytes);
    void *context;
};

enum seat_end {
    SEAT_ENDED,     /* by itself; see exit_code */
    SEAT_STOPPED,   /* with its scope; nothing of it runs */
    SEAT_FAILED,    /* an agent whose run came to an error, a budget or its steps */
    SEAT_UNSTARTED, /* it cannot start: `error` */
};

/* In the arena. */
struct seat_outcome {
    enum seat_end end;
    int exit_code;         /* of a command, 128 + signal; of an agent 0 or 1 */
    bool over_budget;      /* SEAT_FAILED: of tokens or cost */
    struct bl_text text;   /* what it printed or answered: valid UTF-8, bounded */
    struct bl_text result; /* its result's bytes; empty: none. Also of one that was stopped, when
                              the file was whole by then */
    bool usage_known;
    struct bl_spent spent;
    char session[72];      /* of an agent */
    uint32_t survivors;    /* of a command: counted, or BL_SURVIVORS_UNKNOWN */
    struct bl_error error; /* SEAT_FAILED, SEAT_UNSTARTED */
};

/* Runs it in the running fiber and its scope, as units of the receipt above. */
void seat_run(struct seat_house *house, const struct seat_order *order, struct bl_arena *arena,
              struct seat_outcome *ret_outcome);

/* ---- seat_command.c, seat_agent.c: seat_run, by kind. The outcome is empty when they begin. -- */

void seat_command_run(struct seat_house *house, const struct seat_order *order,
                      struct bl_arena *arena, struct seat_outcome *outcome);
void seat_agent_run(struct seat_house *house, const struct seat_order *order,
                    struct bl_arena *arena, struct seat_outcome *outcome);
/* The same text as valid UTF-8 without NUL: U+FFFD stands for what is neither. */
struct bl_text seat_valid_text(struct bl_arena *arena, struct bl_text text);

/* ---- Prompts --------------------------------------------------------------------------------- */

/* What a Player is told. Texts may be empty, strings NULL. */
struct player_brief {
    const struct bl_plan *plan;
    const struct bl_plan_task *task;
    uint32_t turn;           /* n */
    uint32_t turns_max;      /* of m, counted ones */
    uint64_t left_ns;        /* BL_NEVER: no deadline */
    struct bl_text feedback; /* word for word */
    uint32_t feedback_turn;
    struct bl_text
        cut_off; /* after a stop: what was cut off, in a sentence; what was said so far */
    const char *const *dirty_files; /* uncommitted, end in NULL */
    size_t dirty_count;             /* of all */
    struct bl_text merge;           /* of a merge turn: what conflicts, or the gate's output */
    bool verified_by_us;            /* there are verify commands */
    bool command;                   /* it is a command: told how to give its result */
};

struct bl_text player_prompt(struct bl_arena *arena, const struct player_brief *brief);

struct verify_outcome;

struct coach_brief {
    const struct bl_plan *plan;
    const struct bl_plan_task *task;
    uint32_t turn;
    uint32_t turns_max;
    struct bl_text diff;
    const char *base_commit;
    const char *head_commit;
    const struct verify_outcome *verify;
    const struct bl_list *issues; /* belay's own findings: verify, claims */
    const struct player_result *result;
    struct bl_text player_text; /* quoted as data */
    int player_exit;
    struct bl_text last_verdict; /* JSON; empty: none */
    struct bl_text refused;      /* why the last try was not taken; empty: the first */
    uint64_t left_ns;
    bool command;
};

struct bl_text coach_prompt(struct bl_arena *arena, const struct coach_brief *brief);

#endif
