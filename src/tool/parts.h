/* What the files of this room share. */
#ifndef BELAY_TOOL_PARTS_H
#define BELAY_TOOL_PARTS_H

#include <belay/tool.h>

/* ---- Permissions ----------------------------------------------------------------------------- */

/* What is asked of the permissions. */
struct permission_question {
    const char *tool;
    struct bl_text subject; /* what a rule's pattern is about: the command */
    bool command;           /* the subject is one for a shell, which may hold several */
    bool reads;             /* it changes nothing, and starts nothing */
    bool sandboxed;
};

/* True; or false with the reason, and what to do. */
bool permission_decide(const struct bl_permissions *permissions,
                       const struct permission_question *question, char *ret_reason,
                       size_t reason_size);
enum bl_permission_mode permission_mode(const struct bl_permissions *permissions);
/* The sandbox's network was opened, and not denied. */
bool permission_network(const struct bl_permissions *permissions);

/* ---- Patterns and commands ------------------------------------------------------------------- */

/* The whole text fits: `*` stands for any bytes, also none; " *" at the end for nothing, too. */
bool glob_match(struct bl_text glob, struct bl_text text);

/* A command as a shell would take it apart. */
struct command_parts {
    const char *complex;   /* what a pattern cannot look into; NULL: nothing of that kind */
    struct bl_text *parts; /* simple commands, blanks squeezed, without comments and redirections
                              that write nothing */
    size_t count;
};

/* In the arena. */
void command_split(struct bl_arena *arena, struct bl_text command, struct command_parts *ret_parts);
/* True when something that the command seems to run fits the pattern: itself, its parts, what is
 * inside quotes and substitutions. Rather too often than not often enough. */
bool command_mentions(struct bl_arena *arena, struct bl_text command,
                      const struct command_parts *parts, struct bl_text glob);

/* ---- Tools ----------------------------------------------------------------------------------- */

/* A call under way that can be hurried. */
struct tool_running {
    struct bl_list link;
    struct bl_command_control control;
};

struct tool_entry {
    const char *name;
    const char *subject; /* the member of the input that rules are about */
    bool command;        /* it is one for a shell */
    bool reads;
    const char *schema;
    const char *(*describe)(const struct bl_toolbox *toolbox);
    /* What the schema cannot say; NULL: it fits. Static. */
    const char *(*check)(const struct bl_json *input);
    int (*call)(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                struct bl_tool_result *ret_result, struct bl_error *error);
};

extern const struct tool_entry tool_bash;

#define TOOL_COUNT 1

struct bl_toolbox {
    struct bl_tools tools;
    const char *workspace;
    const struct bl_permissions *permissions;
    enum bl_mechanism container;
    enum bl_sandbox sandbox; /* wanted; in force once it is settled */
    bool sandbox_settled;
    bool network;
    bool hurry; /* also those to come */
    uint32_t grace_ms;
    size_t output_max;
    const char *shell;         /* bash, or sh */
    const char *const *hidden; /* variables that commands do not get; ends in NULL; may be NULL */
    struct bl_list running;
    struct bl_tool_offer offers[TOOL_COUNT];
    struct bl_json_schema *schemas[TOOL_COUNT];
};

/* A shell that is in PATH. */
const char *tool_shell_find(void);

/* ---- Output ---------------------------------------------------------------------------------- */

/* Makes valid UTF-8 of bytes that come in pieces: a sequence that is cut by the end of a piece
 * waits for the next, a byte that belongs to none becomes U+FFFD. Embedded by its owner. */
struct output_filter {
    char held[4];
    size_t held_size;
};

/* Appends to `out`, which has no maximum that this could reach. */
void output_filter_add(struct output_filter *filter, struct bl_text bytes, struct bl_buffer *out);
void output_filter_end(struct output_filter *filter, struct bl_buffer *out);

#endif
