/* Runs a seat, an agent or a command, as one phase of a turn; and writes the prompts. */
#ifndef BELAY_FEATURE_SEAT_H
#define BELAY_FEATURE_SEAT_H

#include "feature/verdict/verdict.h"

#define SEAT_OUTPUT_MAX ((size_t)1 << 20) /* limit of the kept output */

/* Shared by all seats of a run. Embedded by the feature. */
struct seat_house {
    struct bl_store *store;
    struct bl_project *project;
    const char *repository; /* the user's: source of a Coach's instructions */
    const char *git_folder; /* read-only in a sandbox */
    struct bl_list running; /* struct seat_run_handle: seats and verifications that can be
                               hurried */
    bool hurried;
    struct bl_activities *activities; /* NULL: not listed */
};

void seat_house_init(struct seat_house *house, struct bl_store *store, struct bl_project *project,
                     const char *repository, const char *git_folder,
                     struct bl_activities *activities);
/* Returns whether a command in a sandbox has the network: by the rules of the user's configuration,
 * or else `open`. A rule that denies it wins. */
bool seat_network(const struct seat_house *house, bool open);
/* Returns the secrets that these rules show to commands in a sandbox. In the arena;
 * NULL-terminated. */
const char *const *seat_shown(const struct seat_house *house, struct bl_arena *arena);
/* Skips the grace periods of all seats and verifications, now and later. */
void seat_house_hurry(struct seat_house *house);

/* A running command that can be hurried, of a seat or of verification. */
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
    const char *directory;    /* working directory */
    const char *result_path;  /* BELAY_RESULT: outside the directory, in an existing folder */
    uint64_t deadline_ns;     /* on the loop's clock, for BELAY_DEADLINE_MS; BL_NEVER: none */
    const char *session;      /* session that an agent continues; NULL: a new one */
    struct bl_budget *budget; /* token budget of an agent; NULL: none */
    struct bl_ledger *ledger; /* cost ledger of an agent; NULL: none */
    /* Reports activity: "output", "model", "tool bash", with the tokens so far (0: unknown). */
    void (*active)(void *context, const char *what, uint64_t tokens);
    /* Receives the output as it arrives. */
    void (*output)(void *context, struct bl_text bytes);
    void *context;
};

enum seat_end {
    SEAT_ENDED,     /* ended normally; see exit_code */
    SEAT_STOPPED,   /* stopped with its scope; none of its processes runs */
    SEAT_FAILED,    /* an agent's run ended with an error, its budget or its steps */
    SEAT_UNSTARTED, /* could not start; see `error` */
};

/* In the arena. */
struct seat_outcome {
    enum seat_end end;
    int exit_code;         /* of a command, with 128 + signal; of an agent, 0 or 1 */
    bool over_budget;      /* SEAT_FAILED: the token or cost budget is used up */
    struct bl_text text;   /* the output or answer: valid UTF-8, bounded */
    struct bl_text result; /* the bytes of the result; empty: none. After a stop, only if the file
                              was complete by then */
    bool usage_known;
    struct bl_spent spent;
    char session[72];      /* of an agent */
    uint32_t survivors;    /* of a command: counted, or BL_SURVIVORS_UNKNOWN */
    struct bl_error error; /* SEAT_FAILED, SEAT_UNSTARTED */
};

/* Runs the seat in the current fiber and scope, as units of the scope's receipt. */
void seat_run(struct seat_house *house, const struct seat_order *order, struct bl_arena *arena,
              struct seat_outcome *ret_outcome);

/* ---- command.c, agent.c: seat_run for each kind. `outcome` must be empty. -------------------- */

void seat_command_run(struct seat_house *house, const struct seat_order *order,
                      struct bl_arena *arena, struct seat_outcome *outcome);
void seat_agent_run(struct seat_house *house, const struct seat_order *order,
                    struct bl_arena *arena, struct seat_outcome *outcome);
/* Returns the text as valid UTF-8 without NUL, with U+FFFD in place of anything else. */
struct bl_text seat_valid_text(struct bl_arena *arena, struct bl_text text);

/* ---- Prompts --------------------------------------------------------------------------------- */

/* The input of a Player's prompt. Texts may be empty, strings NULL. */
struct player_brief {
    const struct bl_plan *plan;
    const struct bl_plan_task *task;
    uint32_t turn;           /* n */
    uint32_t turns_max;      /* counted turns */
    uint64_t left_ns;        /* time left; BL_NEVER: no deadline */
    struct bl_text feedback; /* verbatim */
    uint32_t feedback_turn;
    struct bl_text
        cut_off; /* after a stop: a sentence about what was cut off, and the output so far */
    const char *const *dirty_files; /* uncommitted files, NULL-terminated */
    size_t dirty_count;             /* number of all uncommitted files */
    struct bl_text merge;           /* in a merge turn: the conflicts, or the output of the gate */
    bool verified_by_us;            /* the task has verify commands */
    bool command;                   /* the Player is a command: the prompt says how to return the
                                       result */
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
    const struct bl_list *issues; /* Belay's own findings: verification, claims */
    const struct player_result *result;
    struct bl_text player_text; /* quoted as data */
    int player_exit;
    struct bl_text last_verdict; /* the last verdict, JSON; empty: none */
    struct bl_text refused;      /* why the last verdict was invalid; empty: first try */
    uint64_t left_ns;
    bool command;
};

struct bl_text coach_prompt(struct bl_arena *arena, const struct coach_brief *brief);

#endif
