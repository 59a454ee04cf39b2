/* Declarations shared by the files of this room. */
#ifndef BELAY_TOOL_PARTS_H
#define BELAY_TOOL_PARTS_H

#include <stdatomic.h>

#include <belay/tool.h>

#include "tool/tool.h"

/* ---- Permissions ----------------------------------------------------------------------------- */

/* Kind of the subject of a question, which a rule's pattern is compared with. */
enum tool_subject {
    SUBJECT_NONE,
    SUBJECT_COMMAND, /* for a shell; may hold several commands */
    SUBJECT_PATH,    /* of a file: one star stays within a folder, two stars do not */
    SUBJECT_HOST,    /* of an address: a name, or the text of an IP address */
};

/* A question to the permissions. */
struct permission_question {
    const char *tool;
    const char *also; /* another tool whose denials apply as well; NULL if there is none */
    enum tool_subject kind;
    struct bl_text subject; /* for a path: relative to the workspace if it is below it */
    struct bl_text other; /* the absolute path; for a host, with its port; empty if there is none */
    bool reads;           /* changes nothing, and starts nothing */
    bool contained;       /* its effects stay in the workspace or in the sandbox */
    const char *guarded;  /* why only a rule with a pattern allows it; NULL for a plain file */
};

/* Returns allowed; denied, with the reason and what to do; or ask, with the question. */
enum bl_permit permission_decide(const struct bl_permissions *permissions,
                                 const struct permission_question *question, char *ret_reason,
                                 size_t reason_size);
/* Returns the rules that allow this and little else, ignoring denials: "bash(git commit *)",
 * "edit(src/a.c)"; in the arena; ends in NULL. Empty if it cannot be expressed as rules. */
const char *const *permission_rules(struct bl_arena *arena,
                                    const struct permission_question *question);
/* Returns the rules that would allow it now, or else the whole tool. Empty if no rule would. */
const char *const *permission_rules_allowing(const struct bl_permissions *permissions,
                                             struct bl_arena *arena,
                                             const struct permission_question *question);
/* The patterns of all rules that deny something to a tool, copied for a thread. */
struct permission_denials {
    struct bl_text *globs;
    size_t count;
};
struct permission_denials permission_denials(const struct bl_permissions *permissions,
                                             const char *tool, struct bl_arena *arena);
bool permission_denials_have(const struct permission_denials *denials, struct bl_text path,
                             struct bl_text absolute);
/* Returns whether the parentheses are balanced, as a rule requires. */
bool permission_balanced(struct bl_text text);
/* Returns whether a rule allows that host by name, without a star: then it may be in a private
 * network. */
bool permission_names_host(const struct bl_permissions *permissions,
                           const struct permission_question *question);
/* Returns whether the sandbox's network is opened and not denied. */
bool permission_network(const struct bl_permissions *permissions);

/* ---- Patterns and commands ------------------------------------------------------------------- */

/* Matches the whole text: `*` stands for any bytes or none; " *" at the end also for nothing. */
bool glob_match(struct bl_text glob, struct bl_text text);
/* The same for paths: `*` stays within a folder, `**` does not; as the whole name of a folder, `**`
 * stands for any number of folders, including none. A trailing slash, or a slash and two stars,
 * means a folder and everything in it. */
bool glob_match_path(struct bl_text glob, struct bl_text path);

/* The same for hosts, in lower case, with or without a port; the pattern is case-insensitive. */
bool glob_match_host(struct bl_text glob, struct bl_text host, struct bl_text with_port);

/* A command, split as a shell would split it. */
struct command_parts {
    const char *complex; /* syntax that a pattern cannot inspect; NULL if there is none */
    bool opaque;         /* even the starts of its commands are unclear */
    /* simple commands, lines joined, blanks squeezed, without comments and redirections */
    struct bl_text *parts;
    size_t count;
};

/* In the arena. */
void command_split(struct bl_arena *arena, struct bl_text command, struct command_parts *ret_parts);
/* What a star in an allowing pattern may match in a simple command. */
enum command_guard {
    COMMAND_GUARD_NONE,  /* any argument */
    COMMAND_GUARD_NAMED, /* arguments after the name of the command that the program runs */
    COMMAND_GUARD_WORD,  /* arguments, but not the command's own name, which is not literal */
    COMMAND_GUARD_EXACT, /* nothing: its arguments may be evaluated or run */
};

/* For a part of a command that is not complex. `alone`: it is the only part. */
enum command_guard command_guard(struct bl_arena *arena, struct bl_text part, bool alone);
/* Returns whether a pattern that matches the part may allow it. */
bool command_guard_lets(enum command_guard guard, struct bl_text part, struct bl_text glob);
/* Describes the guard for users: "a program that runs other commands". */
const char *command_guard_text(enum command_guard guard);
/* Returns true if the pattern matches anything that the command seems to run: the command, its
 * parts, and the contents of quotes and substitutions. It errs on the side of matching. */
bool command_mentions(struct bl_arena *arena, struct bl_text command,
                      const struct command_parts *parts, struct bl_text glob);
/* Fills the patterns that allow the command and others like it: "git commit *"; in the arena.
 * Returns 0 if no pattern would be safe. */
#define COMMAND_PATTERNS_MAX 8
size_t command_patterns(struct bl_arena *arena, struct bl_text command,
                        struct bl_text ret_patterns[COMMAND_PATTERNS_MAX]);

/* ---- Tools ----------------------------------------------------------------------------------- */

/* A running call whose stop can be hurried. */
struct tool_running {
    struct bl_list link;
    struct bl_command_control control;
};

struct tool_entry {
    const char *name;
    enum tool_subject kind;
    size_t subject; /* offset in the input of the text that rules are about, if the kind has one */
    bool reads;     /* changes nothing, and starts nothing */
    bool parallel;  /* its calls may run in parallel with others of this kind */
    const struct bl_record *input;
    const char *description; /* NULL: see `describe` */
    const char *(*describe)(const struct bl_toolbox *toolbox);
    /* Checks what the table cannot express. Returns NULL if the input is valid, else a static text.
     * NULL if there is nothing to check. */
    const char *(*check)(const void *input);
    int (*call)(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                struct bl_tool_result *ret_result, struct bl_error *error);
    /* Returns whether the call would fail now. Changes nothing, and may wait. NULL if that cannot
     * be predicted. */
    bool (*fails)(struct bl_toolbox *toolbox, const struct bl_tool_call *call);
};

extern const struct tool_entry tool_bash;  /* bash.c, job.c */
extern const struct tool_entry tool_read;  /* read.c */
extern const struct tool_entry tool_write; /* write.c */
extern const struct tool_entry tool_edit;  /* edit.c */
extern const struct tool_entry tool_glob;  /* find.c */
extern const struct tool_entry tool_grep;  /* grep.c */
extern const struct tool_entry tool_ls;    /* ls.c */
extern const struct tool_entry tool_todo;  /* todo.c */
extern const struct tool_entry tool_fetch; /* web/fetch.c */

/* Fills the question about the host of a fetch call. Returns false if its address is invalid. */
bool tool_fetch_question(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                         struct bl_text address, struct permission_question *ret_question);

#define TOOL_COUNT 9

extern const struct tool_entry *const tool_entries[TOOL_COUNT]; /* toolbox.c */

/* Reads the input of a call by the tool's table, into the call's arena. Returns NULL if the tool
 * cannot run with it, and `*ret_text` says what is wrong. */
const void *tool_input_read(const struct tool_entry *entry, const struct bl_tool_call *call,
                            struct bl_text *ret_text);

/* name.c: returns whether a tool of the toolbox, the agent or an MCP server can have a name that
 * matches the pattern. `with_subject`: only tools whose rules may have patterns. */
bool tool_name_is_known(struct bl_text pattern, bool with_subject);
/* Suggests a name; `further` is an additional candidate, or NULL. */
void tool_name_hint(struct bl_error *error, struct bl_text pattern, const char *further);

struct bl_toolbox {
    struct bl_tools tools;
    const char *workspace;
    const char *const *folders;
    const char *const *readable;
    struct bl_arena arena;        /* for the fields below */
    struct tool_roots *roots;     /* the folders above, pinned */
    struct bl_sandbox_pins *pins; /* the same for the sandbox; NULL without a sandbox */
    struct bl_permissions *permissions;
    enum bl_mechanism container;
    enum bl_mechanism container_given; /* before the sandbox changed it */
    enum bl_sandbox sandbox;           /* requested; in force once it is settled */
    bool sandbox_settled;
    bool sandbox_tried;  /* because of the mode auto */
    bool sandbox_chosen; /* requested explicitly: then MCP servers run in it, too */
    bool hurry;          /* also for calls to come */
    uint32_t grace_ms;
    uint32_t mcp_grace_ms;
    size_t output_max;
    const char *shell;            /* bash, or sh */
    const char *const *hidden;    /* variables withheld from commands; ends in NULL; may be NULL */
    const char *const *allowed;   /* variables passed to commands although they look like secrets */
    const char *const *variables; /* added to those of commands and servers; may be NULL */
    struct bl_list running;
    struct bl_list jobs;        /* background commands: struct job (job.c) */
    struct bl_nursery *nursery; /* of the jobs; NULL if there can be none */
    struct bl_activities *activities;
    const char *session;
    uint64_t jobs_begun;
    void (*job_stopped)(void *context, const char *job, struct bl_text receipt, bool told);
    void *job_stopped_context; /* for `job_stopped`, which may be NULL */
    struct bl_tool_offer offers[TOOL_COUNT];
    struct bl_json_schema *schemas[TOOL_COUNT];
    struct mcp_box *mcp;            /* MCP servers; NULL if none are configured */
    struct bl_nursery *mcp_nursery; /* of their processes; NULL if they cannot be started */
    void (*notice)(void *context, struct bl_text text); /* may be NULL */
    void *notice_context;
    void (*notice_given)(void *context, struct bl_text text); /* from the options */
    void *notice_given_context;
};

/* ---- MCP servers (mcp.c) --------------------------------------------------------------------- */

struct mcp_tool;

/* Takes the servers of the list; does nothing if it is empty. */
void mcp_box_new(struct bl_toolbox *toolbox, const struct bl_list *entries, bool trusted);
void mcp_box_free(struct bl_toolbox *toolbox);
/* Servers can be started between these two calls; mcp_box_end returns when none of them is
 * running. */
void mcp_box_begin(struct bl_toolbox *toolbox);
void mcp_box_end(struct bl_toolbox *toolbox);
/* Starts to stop the servers that have no call in progress. */
void mcp_box_retire(struct bl_toolbox *toolbox);
void mcp_box_hurry(struct bl_toolbox *toolbox);
/* Finds a server's tool by the name that the model uses; NULL if there is none. */
const struct mcp_tool *mcp_box_find(const struct bl_toolbox *toolbox, const char *name);
/* Has the contract of a tool's `call`. */
int mcp_box_call(struct bl_toolbox *toolbox, const struct mcp_tool *tool,
                 const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                 struct bl_error *error);

/* Returns a shell found in PATH. */
const char *tool_shell_find(void);

/* ---- Commands -------------------------------------------------------------------------------- */

/* Prepares a command for the shell with the common settings: environment, container, grace period
 * and sandbox. Memory that it points to is in the arena. */
int tool_command_prepare(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                         struct bl_text text, struct bl_command *ret_command,
                         struct bl_error *error);
/* Wraps the arguments so that they run in the toolbox's sandbox; in the arena. */
int tool_sandbox_wrap(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                      const char *const *arguments, const char *const **ret_arguments,
                      struct bl_error *error);
/* Returns the environment of commands and MCP servers, in the arena. */
const char *const *tool_environment(const struct bl_toolbox *toolbox, struct bl_arena *arena);
/* Calls bl_sandbox_pins_sweep after a command. */
const char *tool_sandbox_sweep(const struct bl_toolbox *toolbox);
/* Returns whether the model can fix the failure: for example, the workspace does not exist. */
bool tool_command_refused(int code, const struct bl_error *error);
/* Writes how the command ended, as one line that ends in LF; nothing after success. If we stopped
 * it, the caller must report that. Returns the number of bytes. */
size_t tool_command_note(const struct bl_warden_end *end, char *out, size_t size);
/* Writes "stopped after 2.5 s: user (SIGINT)", from the stop of the scope. Returns the number of
 * bytes. */
size_t tool_stop_note(const struct bl_scope *scope, uint64_t started_ns, char *out, size_t size);

/* Returns the deadline that is `timeout_ms` from now. */
uint64_t tool_deadline_ns(int64_t timeout_ms);
/* Formats a timeout with bl_duration_format. */
void tool_timeout_format(int64_t timeout_ms, char out[32]);

/* job.c: starts a background command; reads its new output, or stops it. Calls of bash. */
int job_begin(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
              const struct tool_bash_input *input, struct bl_tool_result *ret_result,
              struct bl_error *error);
int job_call(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
             const struct tool_bash_input *input, struct bl_tool_result *ret_result);

/* ---- Paths ----------------------------------------------------------------------------------- */

enum path_use {
    PATH_READ,
    PATH_WRITE,
};

/* The target of a path in a tool's input, with every link followed. In the arena. */
struct tool_path {
    struct bl_text shown;      /* relative to the workspace if it is below it, else absolute */
    struct bl_text absolute;   /* for writing, its last part need not exist */
    const struct bl_pin *root; /* the folder that holds it: the workspace, or an additional one */
};

/* Resolves a path given by the model, relative to the workspace. Blocks on file I/O. Returns false
 * if it leads out of all folders that may be used in this way, is not a valid path, or is a loop of
 * links; `*ret_text` says what is wrong, for the model. */
bool tool_path_resolve(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                       struct bl_text given, enum path_use use, struct tool_path *ret_path,
                       struct bl_text *ret_text);

/* The folders that paths may lead to, as they were at the start. Lists end in an entry without a
 * path. */
struct tool_roots {
    struct bl_pin workspace;
    struct bl_pin *folders;
    struct bl_pin *readable;
};

/* In the arena; tool_roots_done closes its descriptors. */
struct tool_roots *tool_roots_new(struct bl_arena *arena, const char *workspace,
                                  const char *const *folders, const char *const *readable);
void tool_roots_done(struct tool_roots *roots);
/* Returns a copy that does not depend on the toolbox, for a thread that may outlive it. In the
 * arena. */
struct tool_roots tool_roots_copy(const struct bl_toolbox *toolbox, struct bl_arena *arena);
/* Does the same as tool_path_resolve. */
bool tool_roots_resolve(const struct tool_roots *roots, struct bl_arena *arena,
                        struct bl_text given, enum path_use use, struct tool_path *ret_path,
                        struct bl_text *ret_text);
/* Opens it from a descriptor of its root and follows no link: a link created since the path was
 * resolved gives ELOOP. A replaced root gives ESTALE. Returns a descriptor, or -errno. Without
 * O_CREAT. */
int tool_path_open(const struct tool_path *path, int flags);
/* The same part by part, for systems that cannot do it in one call. */
int tool_path_open_parts(int root, const char *below, int flags);
/* Makes any bytes printable: valid UTF-8 without control characters, shortened. In the arena. */
const char *tool_path_show(struct bl_arena *arena, struct bl_text bytes);

/* ---- Work on threads ------------------------------------------------------------------------- */

/* Blocking work of a tool. Everything that `run` touches belongs to the payload, which is on the
 * heap: nothing of the call, its arena, a stack, or the toolbox, because a thread that hangs in the
 * kernel (a dead network drive) is left behind when the call is stopped. */
struct tool_job {
    /* Runs on a thread. Checks `*stopped` as often as it can; once it is set, undoes its work and
     * returns BL_ECANCELED at once. Otherwise returns 0. Work that is finished stays finished, even
     * after a stop. */
    int (*run)(void *payload, const atomic_bool *stopped);
    void (*drop)(void *payload); /* frees it */
    void *payload;
    bool abandoned; /* set on return: it was stopped, did not answer, and may still be running */
};

/* Runs the job in the running fiber and the call's scope, as a unit of its receipt. Returns 0 if
 * `run` returned 0: the payload is the caller's again. Returns BL_ECANCELED or BL_ETIMEDOUT if
 * stopped, BL_ETHREADS if no thread is available; the payload has been dropped, or will be. */
int tool_work(const struct bl_tool_call *call, struct tool_job *job);

/* ---- Files ----------------------------------------------------------------------------------- */

/* A call that works on files: the first member of its tool's payload. */
struct file_job {
    struct bl_arena arena; /* for all memory of the job */
    struct tool_roots roots;
    struct bl_text given;              /* the path of the input; "." if it has none */
    struct permission_denials denials; /* denials of reading */
    size_t output_max;
    struct bl_buffer out; /* the text of the result */
    bool is_error;
    struct bl_block *image; /* in the arena; NULL if the result has none */
};

/* Allocates the payload of one call: `size` zeroed bytes that begin with a struct file_job. */
void *file_job_new(size_t size, const struct bl_toolbox *toolbox);
/* Reads the input into a member of the payload, copied for the thread; `path` points into it. */
void file_job_read(struct file_job *job, const struct bl_tool_call *call,
                   const struct bl_record *record, void *into, const struct bl_text *path);
/* Runs and frees it. Returns what a tool's call returns; the result is valid UTF-8. `undone` is the
 * outcome that a stopped call reports: "nothing was changed". */
int file_job_call(struct file_job *job, int (*run)(void *payload, const atomic_bool *stopped),
                  const char *undone, const struct bl_tool_call *call,
                  struct bl_tool_result *ret_result, struct bl_error *error);
/* Makes the result an error with this text. Returns 0: the call is done. */
int file_job_fail(struct file_job *job, const char *format, ...) BL_PRINTF(2, 3);
/* Resolves the job's path; returns false if the job has failed. */
bool file_job_resolve(struct file_job *job, enum path_use use, struct tool_path *ret_path);
/* Returns "folder", "FIFO", … for a mode; "file" for a regular file. */
const char *file_kind(unsigned mode);
/* Formats a size for users and models: "1 byte", "2,345 bytes". */
const char *file_size_text(struct bl_arena *arena, uint64_t bytes);

struct stat;

/* Opens a regular file for reading. Returns a descriptor, or -1 if the job has failed. */
int file_open(struct file_job *job, const struct tool_path *path, struct stat *ret_status);
/* Reads the whole file, at most `size_max` bytes, into the arena. Returns false if the job has
 * failed or the call was stopped. */
bool file_load(struct file_job *job, const struct tool_path *path, size_t size_max,
               const atomic_bool *stopped, struct bl_text *ret_content, struct stat *ret_status);

/* Result of file_replace. */
struct file_replaced {
    bool existed;
    uint64_t size_before;
};

/* Replaces the content of the file, or creates it and missing folders, with a temporary file and a
 * rename. Keeps the file's mode. `expected` (may be NULL) is the file's status when it was read: if
 * it has changed since, the job fails. Returns 0 if done, or if the job has failed (is_error);
 * BL_ECANCELED if stopped, with nothing changed. */
int file_replace(struct file_job *job, const struct tool_path *path, struct bl_text content,
                 const struct stat *expected, const atomic_bool *stopped,
                 struct file_replaced *ret_replaced);

/* Explains in the job's result why `old` is not in the content: the nearest text there, and where
 * the two differ (edit_miss.c). */
void edit_miss_explain(struct file_job *job, const char *shown, struct bl_text content,
                       struct bl_text old, const atomic_bool *stopped);
/* Returns the number, from 1, of the line that contains the offset. */
uint64_t edit_line_at(struct bl_text content, size_t offset);
/* Return the start of that line, and the start of the next one or the end of the content. */
size_t edit_line_start(struct bl_text content, size_t offset);
size_t edit_line_end(struct bl_text content, size_t offset);
/* Returns the line that contains the offset, without its line ending. */
struct bl_text edit_line(struct bl_text content, size_t offset);
/* At most 200 bytes of a line, valid UTF-8, in the arena. */
const char *edit_line_show(struct bl_arena *arena, struct bl_text line);

/* ---- Pages of text (page.c) ------------------------------------------------------------------ */

#define TEXT_PAGE_LINES 2000 /* default number of lines */

/* A range of lines of a text, with their numbers. The text comes in pieces. Embedded by its
 * owner. */
struct text_page {
    struct bl_arena *arena; /* for notes */
    struct bl_buffer *out;
    size_t output_max;
    int64_t offset;        /* the first line to show */
    int64_t limit;         /* number of lines */
    struct bl_buffer line; /* stored bytes of the current line */
    uint64_t line_size;    /* its full size, without its line ending */
    int64_t number;        /* of the current line, from 1 */
    int64_t next;          /* the first line after the page; 0 while the page is not full */
    uint64_t behind;       /* bytes added since the page was full */
    uint64_t lines_with_return;
    bool beyond_count; /* the rest is not even counted: no more need be added */
    bool broken;       /* part of the input was not valid text */
};

void text_page_init(struct text_page *page, struct bl_arena *arena, struct bl_buffer *out,
                    size_t output_max, int64_t offset, int64_t limit);
void text_page_done(struct text_page *page);
void text_page_add(struct text_page *page, struct bl_text bytes);
/* Ends the text. Returns true if its last line has no line ending. */
bool text_page_end(struct text_page *page);
/* Returns whether the last line of the text is on the page, or before it. */
bool text_page_is_last(const struct text_page *page);
/* Reports which lines were left out, and how to get them: "read again with offset 2001". */
void text_page_note(struct text_page *page, const char *noun, const char *verb, uint64_t size);

/* ---- Output ---------------------------------------------------------------------------------- */

/* Makes valid UTF-8 of bytes that come in pieces: a sequence cut by the end of a piece waits for
 * the next one; an invalid byte becomes U+FFFD. Embedded by its owner. */
struct output_filter {
    char held[4];
    size_t held_size;
};

/* Appends to `out`, whose maximum must be large enough. */
void output_filter_add(struct output_filter *filter, struct bl_text bytes, struct bl_buffer *out);
void output_filter_end(struct output_filter *filter, struct bl_buffer *out);

/* The output of a command as valid text of limited size. Embedded by its owner. */
struct output_text {
    struct output_filter filter;
    struct bl_buffer piece;
    struct bl_capture kept;
};

void output_text_init(struct output_text *output, size_t limit);
void output_text_done(struct output_text *output);
/* Returns the text that is complete so far, valid until the next call; may be empty. */
struct bl_text output_text_add(struct output_text *output, struct bl_text bytes);
/* Ends the output. Returns the text that was held back, valid until the next call. */
struct bl_text output_text_end(struct output_text *output);
/* Appends the stored output: head, a note of what was left out, tail. */
void output_text_write(const struct output_text *output, struct bl_buffer *out);
/* Discards the stored output and starts over. */
void output_text_forget(struct output_text *output);

#endif
