/* What the files of this room share. */
#ifndef BELAY_TOOL_PARTS_H
#define BELAY_TOOL_PARTS_H

#include <stdatomic.h>

#include <belay/tool.h>

/* ---- Permissions ----------------------------------------------------------------------------- */

/* What the subject of a question is: what a rule's pattern is held against. */
enum tool_subject {
    SUBJECT_NONE,
    SUBJECT_COMMAND, /* for a shell, which may hold several */
    SUBJECT_PATH,    /* of a file: a star stays within a folder, two do not */
};

/* What is asked of the permissions. */
struct permission_question {
    const char *tool;
    const char *also; /* what is denied to this tool is denied to it, too; NULL: to none */
    enum tool_subject kind;
    struct bl_text subject; /* of a path: relative to the workspace where it is below it */
    struct bl_text other;   /* the same, absolute; empty: there is none */
    bool reads;             /* it changes nothing, and starts nothing */
    bool contained;         /* what it does stays in the workspace, or in the sandbox */
    const char *guarded;    /* why only a rule with a pattern allows it; NULL: it is a plain file */
};

/* Allowed; denied with the reason, and what to do; or to be asked, with the question. */
enum bl_permit permission_decide(const struct bl_permissions *permissions,
                                 const struct permission_question *question, char *ret_reason,
                                 size_t reason_size);
/* The patterns of all rules that deny something to a tool, copied for a thread. */
struct permission_denials {
    struct bl_text *globs;
    size_t count;
};
struct permission_denials permission_denials(const struct bl_permissions *permissions,
                                             const char *tool, struct bl_arena *arena);
bool permission_denials_have(const struct permission_denials *denials, struct bl_text path,
                             struct bl_text absolute);
/* Parentheses in pairs, as a rule has them. */
bool permission_balanced(struct bl_text text);
/* The sandbox's network was opened, and not denied. */
bool permission_network(const struct bl_permissions *permissions);

/* ---- Patterns and commands ------------------------------------------------------------------- */

/* The whole text fits: `*` stands for any bytes, also none; " *" at the end for nothing, too. */
bool glob_match(struct bl_text glob, struct bl_text text);
/* The same for paths: `*` stays within a folder, `**` does not, and as the whole name of a folder
 * it stands for any number of them, also none. What ends in a slash, or in a slash and two stars,
 * is a folder with all that is in it. */
bool glob_match_path(struct bl_text glob, struct bl_text path);

/* A command as a shell would take it apart. */
struct command_parts {
    const char *complex;   /* what a pattern cannot look into; NULL: nothing of that kind */
    bool opaque;           /* it is not even clear where the commands in it begin */
    struct bl_text *parts; /* simple commands, lines joined, blanks squeezed, without comments and
                              redirections */
    size_t count;
};

/* In the arena. */
void command_split(struct bl_arena *arena, struct bl_text command, struct command_parts *ret_parts);
/* What a star in an allowing pattern may stand for in a simple command. */
enum command_guard {
    COMMAND_GUARD_NONE,  /* for any argument */
    COMMAND_GUARD_NAMED, /* for arguments after the name of the command that the program runs */
    COMMAND_GUARD_WORD,  /* for arguments, not for the command's own name, which is not literal */
    COMMAND_GUARD_EXACT, /* for nothing: its arguments may be evaluated or run */
};

/* For a part of a command that is not complex. `alone`: there is no other part. */
enum command_guard command_guard(struct bl_arena *arena, struct bl_text part, bool alone);
/* Whether a pattern that fits the part may allow it. */
bool command_guard_lets(enum command_guard guard, struct bl_text part, struct bl_text glob);
/* What is guarded, for people: "a program that runs other commands". */
const char *command_guard_text(enum command_guard guard);
/* True when something that the command seems to run fits the pattern: itself, its parts, what is
 * inside quotes and substitutions. Rather too often than not often enough. */
bool command_mentions(struct bl_arena *arena, struct bl_text command,
                      const struct command_parts *parts, struct bl_text glob);
/* The pattern that allows the command, and others like it: "git commit *"; in the arena. Empty:
 * there is none that one could answer for. */
struct bl_text command_pattern(struct bl_arena *arena, struct bl_text command);

/* ---- Tools ----------------------------------------------------------------------------------- */

/* A call under way that can be hurried. */
struct tool_running {
    struct bl_list link;
    struct bl_command_control control;
};

struct tool_entry {
    const char *name;
    enum tool_subject kind;
    const char *subject; /* the member of the input that rules are about; NULL: none */
    bool reads;          /* it changes nothing, and starts nothing */
    bool parallel;       /* calls of it may run beside others of that kind */
    const char *schema;
    const char *description; /* NULL: see `describe` */
    const char *(*describe)(const struct bl_toolbox *toolbox);
    /* What the schema cannot say; NULL: it fits. Static. NULL: there is nothing of that kind. */
    const char *(*check)(const struct bl_json *input);
    int (*call)(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                struct bl_tool_result *ret_result, struct bl_error *error);
};

extern const struct tool_entry tool_bash;  /* bash.c, job.c */
extern const struct tool_entry tool_read;  /* read.c */
extern const struct tool_entry tool_write; /* write.c */
extern const struct tool_entry tool_edit;  /* edit.c */
extern const struct tool_entry tool_glob;  /* find.c */
extern const struct tool_entry tool_grep;  /* grep.c */
extern const struct tool_entry tool_ls;    /* ls.c */
extern const struct tool_entry tool_todo;  /* todo.c */

#define TOOL_COUNT 8

extern const struct tool_entry *const tool_entries[TOOL_COUNT]; /* toolbox.c */

/* name.c: a tool of the toolbox, the agent or an MCP server can have a name that fits the pattern;
 * `with_subject`: one that rules may have patterns about. */
bool tool_name_is_known(struct bl_text pattern, bool with_subject);
/* Suggests a name; `further` is one more that would do, or NULL. */
void tool_name_hint(struct bl_error *error, struct bl_text pattern, const char *further);

struct bl_toolbox {
    struct bl_tools tools;
    const char *workspace;
    const char *const *folders;
    const char *const *readable;
    struct bl_arena arena;        /* of what follows */
    struct tool_roots *roots;     /* these folders, pinned */
    struct bl_sandbox_pins *pins; /* the same for the sandbox; NULL: there is none */
    struct bl_permissions *permissions;
    enum bl_mechanism container;
    enum bl_mechanism container_given; /* before the sandbox had a say in it */
    enum bl_sandbox sandbox;           /* wanted; in force once it is settled */
    bool sandbox_settled;
    bool sandbox_chosen; /* asked for by name: then MCP servers have it, too */
    bool hurry;          /* also those to come */
    uint32_t grace_ms;
    uint32_t mcp_grace_ms;
    size_t output_max;
    const char *shell;          /* bash, or sh */
    const char *const *hidden;  /* variables that commands do not get; ends in NULL; may be NULL */
    const char *const *allowed; /* those that they get though they look like secrets */
    struct bl_list running;
    struct bl_list jobs;        /* in the background: struct job (job.c) */
    struct bl_nursery *nursery; /* of these; NULL: there can be none */
    struct bl_activities *activities;
    const char *session;
    uint64_t jobs_begun;
    struct bl_tool_offer offers[TOOL_COUNT];
    struct bl_json_schema *schemas[TOOL_COUNT];
    struct mcp_box *mcp;            /* MCP servers; NULL: none are named */
    struct bl_nursery *mcp_nursery; /* of their processes; NULL: they cannot be started */
    void (*notice)(void *context, struct bl_text text); /* NULL: nobody is told */
    void *notice_context;
    void (*notice_given)(void *context, struct bl_text text); /* by the options */
    void *notice_given_context;
};

/* ---- MCP servers (mcp.c) --------------------------------------------------------------------- */

struct mcp_tool;

/* Those of the list; without any there is nothing to do. */
void mcp_box_new(struct bl_toolbox *toolbox, const struct bl_list *entries, bool trusted);
void mcp_box_free(struct bl_toolbox *toolbox);
/* Between these they can be started; the end returns when nothing of them runs. */
void mcp_box_begin(struct bl_toolbox *toolbox);
void mcp_box_end(struct bl_toolbox *toolbox);
/* Orders the end of those that work on no call. */
void mcp_box_retire(struct bl_toolbox *toolbox);
void mcp_box_hurry(struct bl_toolbox *toolbox);
/* A tool of theirs by the name that the model knows; NULL: there is none. */
const struct mcp_tool *mcp_box_find(const struct bl_toolbox *toolbox, const char *name);
/* As a tool's call. */
int mcp_box_call(struct bl_toolbox *toolbox, const struct mcp_tool *tool,
                 const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                 struct bl_error *error);

/* A shell that is in PATH. */
const char *tool_shell_find(void);

/* ---- Commands -------------------------------------------------------------------------------- */

/* A command for the shell, with what all of them have: environment, container, grace, and the
 * sandbox. What points into the arena lives there. */
int tool_command_prepare(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                         struct bl_text text, struct bl_command *ret_command,
                         struct bl_error *error);
/* The arguments that run these in the toolbox's sandbox; in the arena. */
int tool_sandbox_wrap(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                      const char *const *arguments, const char *const **ret_arguments,
                      struct bl_error *error);
/* bl_sandbox_pins_sweep, after a command. */
const char *tool_sandbox_sweep(const struct bl_toolbox *toolbox);
/* A failure that is the model's to mend: the workspace is gone, say. */
bool tool_command_refused(int code, const struct bl_error *error);
/* How it ended, in a line that ends in LF; nothing after success. Stopped by us: the caller's to
 * say. Returns how many bytes. */
size_t tool_command_note(const struct bl_warden_end *end, char *out, size_t size);
/* "stopped after 2.5 s: user (SIGINT)", by what stopped the scope. As above. */
size_t tool_stop_note(const struct bl_scope *scope, uint64_t started_ns, char *out, size_t size);

/* So long from now. */
uint64_t tool_deadline_ns(int64_t timeout_ms);

/* job.c: a command in the background; what is new of it, or its stop. Calls of bash. */
int job_begin(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
              struct bl_tool_result *ret_result, struct bl_error *error);
int job_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
             struct bl_tool_result *ret_result, struct bl_error *error);

/* ---- Paths ----------------------------------------------------------------------------------- */

enum path_use {
    PATH_READ,
    PATH_WRITE,
};

/* Where a path of a tool's input leads, with every link followed. In the arena. */
struct tool_path {
    struct bl_text shown;      /* relative to the workspace where it is below it, else absolute */
    struct bl_text absolute;   /* its last part need not exist, when it is to be written */
    const struct bl_pin *root; /* the folder that holds it: the workspace, or a further one */
};

/* Resolves a path as the model gave it, against the workspace. Blocks as files do. False: it leads
 * out of all folders that may be used so, is no path, or a loop; `*ret_text` says what is wrong,
 * for the model. */
bool tool_path_resolve(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                       struct bl_text given, enum path_use use, struct tool_path *ret_path,
                       struct bl_text *ret_text);

/* Where paths may lead: folders as they were at the start. Lists end in one without a path. */
struct tool_roots {
    struct bl_pin workspace;
    struct bl_pin *folders;
    struct bl_pin *readable;
};

/* In the arena; its descriptors are closed by tool_roots_done. */
struct tool_roots *tool_roots_new(struct bl_arena *arena, const char *workspace,
                                  const char *const *folders, const char *const *readable);
void tool_roots_done(struct tool_roots *roots);
/* A copy that needs no toolbox, for a thread that may outlive it. In the arena. */
struct tool_roots tool_roots_copy(const struct bl_toolbox *toolbox, struct bl_arena *arena);
/* As tool_path_resolve. */
bool tool_roots_resolve(const struct tool_roots *roots, struct bl_arena *arena,
                        struct bl_text given, enum path_use use, struct tool_path *ret_path,
                        struct bl_text *ret_text);
/* Opens it, from a descriptor of its root on, and follows no link: one that was put into its way
 * since it was resolved is ELOOP. A root that was replaced is ESTALE. A descriptor, or -errno.
 * Without O_CREAT. */
int tool_path_open(const struct tool_path *path, int flags);
/* The same where the system cannot do that in one call: part by part. */
int tool_path_open_parts(int root, const char *below, int flags);
/* Of any bytes: valid UTF-8 without control characters, not long. In the arena. */
const char *tool_path_show(struct bl_arena *arena, struct bl_text bytes);

/* ---- Work on threads ------------------------------------------------------------------------- */

/* Blocking work of a tool. Everything that `run` touches belongs to the payload, which is on the
 * heap: nothing of the call, its arena, a stack, or the toolbox, because a thread that hangs in the
 * system (a dead network drive) is left behind when the call is stopped. */
struct tool_job {
    /* On a thread. Looks at `*stopped` as often as it can, and then returns BL_ECANCELED at once,
     * with all undone; else 0. What is finished stays finished, also after a stop. */
    int (*run)(void *payload, const atomic_bool *stopped);
    void (*drop)(void *payload); /* frees it */
    void *payload;
    bool abandoned; /* set when it returns: it was stopped, did not answer, and may still run */
};

/* Runs it, in the running fiber and the call's scope, as a unit of its receipt. 0: `run` returned
 * 0, and the payload is the caller's again. BL_ECANCELED or BL_ETIMEDOUT: stopped; BL_ETHREADS: no
 * thread to be had; the payload is dropped, or will be. */
int tool_work(const struct bl_tool_call *call, struct tool_job *job);

/* ---- Files ----------------------------------------------------------------------------------- */

/* A call that works on files: the first member of the payload of its tool. */
struct file_job {
    struct bl_arena arena; /* for all that it needs */
    struct tool_roots roots;
    struct bl_text given;              /* the path of the input; "." without one */
    struct permission_denials denials; /* of reading */
    size_t output_max;
    struct bl_buffer out; /* the text of the result */
    bool is_error;
};

/* `size` bytes, zeroed, that begin with a struct file_job: the payload of one call. */
void *file_job_new(size_t size, const struct bl_toolbox *toolbox, const struct bl_tool_call *call);
/* A text of the input, copied for the thread. */
struct bl_text file_job_text(struct file_job *job, const struct bl_tool_call *call,
                             const char *member);
/* Runs and frees it. Returns as a tool's call does; the result is valid UTF-8. `undone` is what a
 * stopped call says has become of it: "nothing was changed". */
int file_job_call(struct file_job *job, int (*run)(void *payload, const atomic_bool *stopped),
                  const char *undone, const struct bl_tool_call *call,
                  struct bl_tool_result *ret_result, struct bl_error *error);
/* The result is an error of these words. Returns 0: the call is done. */
int file_job_fail(struct file_job *job, const char *format, ...) BL_PRINTF(2, 3);
/* Resolves the job's path; false: it has failed. */
bool file_job_resolve(struct file_job *job, enum path_use use, struct tool_path *ret_path);
/* "folder", "FIFO", … of a mode; "file" of a regular one. */
const char *file_kind(unsigned mode);
/* For people and models: "1 byte", "2,345 bytes". */
const char *file_size_text(struct bl_arena *arena, uint64_t bytes);

struct stat;

/* Opens a regular file to read. A descriptor, or -1: the job has failed. */
int file_open(struct file_job *job, const struct tool_path *path, struct stat *ret_status);
/* All of it, which is at most `size_max`, into the arena. True; false: the job has failed, or the
 * call was stopped. */
bool file_load(struct file_job *job, const struct tool_path *path, size_t size_max,
               const atomic_bool *stopped, struct bl_text *ret_content, struct stat *ret_status);

/* What file_replace did. */
struct file_replaced {
    bool existed;
    uint64_t size_before;
};

/* Puts that content in place of the file, or makes it, with missing folders: by a temporary file
 * and a rename. Keeps its mode. `expected` (may be NULL) is what the file was like when it was
 * read: it fails if it is not so any more. 0: done, or the job has failed (is_error); BL_ECANCELED:
 * stopped, and all is as before. */
int file_replace(struct file_job *job, const struct tool_path *path, struct bl_text content,
                 const struct stat *expected, const atomic_bool *stopped,
                 struct file_replaced *ret_replaced);

/* Says in the job's result why `old` is not in the content: what is nearest to it there, and where
 * they differ (edit_miss.c). */
void edit_miss_explain(struct file_job *job, const char *shown, struct bl_text content,
                       struct bl_text old, const atomic_bool *stopped);
/* The number of the line, from 1, that the offset is in. */
uint64_t edit_line_at(struct bl_text content, size_t offset);
/* Where that line begins, and where the next one does, or the content ends. */
size_t edit_line_start(struct bl_text content, size_t offset);
size_t edit_line_end(struct bl_text content, size_t offset);
/* The line that the offset is in, without its end. */
struct bl_text edit_line(struct bl_text content, size_t offset);
/* At most 200 bytes of a line, valid UTF-8, in the arena. */
const char *edit_line_show(struct bl_arena *arena, struct bl_text line);

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

/* What a command prints, as valid text, and bounded. Embedded by its owner. */
struct output_text {
    struct output_filter filter;
    struct bl_buffer piece;
    struct bl_capture kept;
};

void output_text_init(struct output_text *output, size_t limit);
void output_text_done(struct output_text *output);
/* Returns what of it can be told now, valid until the next call; may be empty. */
struct bl_text output_text_add(struct output_text *output, struct bl_text bytes);
/* No more comes: the same for what was held back. */
struct bl_text output_text_end(struct output_text *output);
/* Appends what is kept: head, what was left out, tail. */
void output_text_write(const struct output_text *output, struct bl_buffer *out);
/* Forgets what is kept; what comes next begins anew. */
void output_text_forget(struct output_text *output);

#endif
