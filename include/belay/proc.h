/* proc: processes that can be stopped, with proof that they have stopped.
 *
 * Each process is started by a warden, a small Belay process that holds the command's whole process
 * tree. The warden watches a lifeline: when Belay dies, the warden kills the tree and exits. On a
 * stop it sends a signal, waits for the grace period, sends SIGKILL to the whole tree, and reports
 * when the container proves that no process is left.
 *
 * Promises: when bl_warden_wait has returned an end, or bl_warden_stop has returned, no process of
 * the tree is alive; otherwise `survivors` is their number or says that it could not be verified.
 * No process outlives Belay, however Belay ends. A command inherits descriptors 0, 1 and 2 only. */
#ifndef BELAY_PROC_H
#define BELAY_PROC_H

#include <sys/types.h>

#include <belay/fiber.h>

BL_PUBLIC_BEGIN

/* ---- Containers ------------------------------------------------------------------------------ */

/* The state of one container on this machine. BL_MECHANISM_NONE means `auto`: cgroup2 if it is
 * available, otherwise subreaper. */
struct bl_container_check {
    enum bl_mechanism mechanism;
    bool available;
    char detail[200]; /* how it works, or why it does not */
    char hint[200];   /* how to make it available; may be empty */
    bool untried;     /* the probe could not run: the result is unknown, and the next call probes
                         again */
    char version[64]; /* of the program that the container needs; empty if none is needed or it is
                         unknown */
};

/* Probes the container on the first call for each mechanism; later calls in this process return the
 * stored result. */
void bl_container_check(enum bl_mechanism mechanism, struct bl_container_check *ret_check);
/* Parses "auto", "pidns", "cgroup2" or "subreaper". BL_EINVAL: any other text; the hint lists the
 * choices. */
int bl_container_parse(const char *text, enum bl_mechanism *ret_mechanism, struct bl_error *error);

/* ---- Wardens --------------------------------------------------------------------------------- */

#define BL_GRACE_MS_DEFAULT 200

struct bl_warden_options {
    const char *const *arguments;   /* ends in NULL; the first is looked up in PATH */
    const char *const *environment; /* ends in NULL; NULL: this process's environment */
    const char *directory;          /* NULL: this process's directory */
    int input, output, error;       /* the command's 0, 1 and 2; -1: /dev/null */
    bool foreground;                /* keep the command in this session and process group, so that
                                       it has the terminal */
    bool terminal;                  /* the descriptors are the end of a pty: make it the controlling
                                       terminal */
    enum bl_mechanism container;    /* BL_MECHANISM_NONE: auto */
    uint32_t grace_ms;              /* between the first signal and SIGKILL */
    uint64_t memory_bytes;          /* 0: no additional limit */
    uint32_t processes_max;         /* 0: no additional limit */
    bool background;                /* keep processes left behind until the warden is stopped */
};

/* How a command and its process tree ended. */
struct bl_warden_end {
    enum {
        BL_END_EXITED,   /* status: the exit code */
        BL_END_SIGNALED, /* status: the signal, which Belay did not send */
        BL_END_STOPPED,  /* stopped by Belay or by the end of the lease; status of the command if it
                            is known */
        BL_END_LIMIT,    /* processes_max was exceeded, and the tree was killed */
        BL_END_LOST,     /* the warden was killed, and this process swept its tree. Without
                            bl_proc_adopt_orphans the sweep proves nothing, and `survivors` is
                            unknown */
    } how;
    int status;
    bool by_signal; /* status is a signal */
    bool core_dumped;
    bool lease_ended; /* the warden killed the tree because its lease ended (bl_wardens_lease). A
                         command that had exited before keeps its own `how` and `status` */
    enum bl_mechanism mechanism;
    uint32_t processes;   /* alive when the stop began */
    uint32_t left_behind; /* alive when the command had exited; stopped or kept since */
    uint32_t survivors;   /* the number alive, or BL_SURVIVORS_UNKNOWN if the proof failed */
    char unverified[BL_UNVERIFIED_SIZE]; /* why the proof failed; empty if it did not */
    int strongest_signal;                /* the last signal that was needed; 0: none */
};

struct bl_warden;

/* Starts a command. BL_ENOENT: not found (conventional exit code 127); BL_EACCES: not executable
 * (126); BL_ENOTSUP: the requested container is not available, and the hint says how to get it;
 * BL_EREFUSED: the lease has ended (bl_wardens_lease), and nothing was started. */
int bl_warden_start(const struct bl_warden_options *options, struct bl_warden **ret_warden,
                    struct bl_error *error);
/* Waits for the end of the command and its tree (with `background`: of the command only). If the
 * caller is stopped, the command continues to run; call bl_warden_stop. Later calls return the same
 * end. */
int bl_warden_wait(struct bl_warden *warden, struct bl_warden_end *ret_end);
/* Stops the tree: sends `signal` (0: SIGTERM) and SIGCONT to it, waits up to `grace_ms`, sends
 * SIGKILL and waits for the proof. It is shielded, and returns when no process is left or the proof
 * has failed. A second call with grace 0 during a stop ends the grace period. If the tree has
 * ended, only fills in `*ret_end`. */
void bl_warden_stop(struct bl_warden *warden, int signal, uint32_t grace_ms,
                    struct bl_warden_end *ret_end);
/* Sends a signal to the command only. */
void bl_warden_signal(struct bl_warden *warden, int signal);
pid_t bl_warden_pid(const struct bl_warden *warden); /* the pid of the command in this PID
                                                        namespace */
/* Stops the remaining processes without a grace period, and frees the warden. NULL is allowed. */
void bl_warden_free(struct bl_warden *warden);

/* Sets the time until which the wardens of this process may hold their trees, in nanoseconds on
 * CLOCK_BOOTTIME, which includes suspended time; 0: no limit (the default). It applies to all living
 * wardens and to those started later, and replaces the time set before. At that time each warden
 * kills its tree without a grace period, even if this process is stopped or cut off by then;
 * `lease_ended` in the end of the command says so.
 *
 * For the heartbeat of a process whose work another one takes over when its lease ends. It never
 * waits. A warden that does not read its messages is told with a later call, when it does. */
void bl_wardens_lease(uint64_t until_ns);

/* Finds a helper program of Belay: the absolute path in the environment variable `variable`, or the
 * file beside this program, or the installed file. */
void bl_program_find(const char *name, const char *variable, char *out, size_t size);

/* Makes this process a subreaper, so that the tree of a killed warden is reparented to it and
 * swept. The setting is process-wide, so a program calls this itself, and only if all its children
 * are wardens. If SIGCHLD is ignored, it is reset to its default. */
int bl_proc_adopt_orphans(void);

/* Makes this process non-dumpable, so that a tool of the same user can neither trace it nor copy
 * its descriptors. It then leaves no core dumps. This setting is process-wide, too. Wardens are
 * recorded in a file in the runtime folder. From the first warden on, a guard process ensures that
 * the wardens end with this process even if they are attacked. On error the process is
 * non-dumpable, and has neither records nor a guard. */
int bl_proc_protect(struct bl_error *error);
/* Ends the guard and removes the file, when the program exits. */
void bl_proc_protect_end(void);

/* The end of the processes of another Belay process, which was killed. */
struct bl_wardens_end {
    enum bl_mechanism mechanism; /* the weakest one used; none if no process was started */
    uint32_t processes;          /* number stopped by its wardens */
    uint32_t survivors;          /* the number alive, or BL_SURVIVORS_UNKNOWN */
    char unverified[BL_UNVERIFIED_SIZE];
};

/* Finds the wardens of the process with this pid and start time (in clock ticks since boot) by its
 * records, waits for those that are still working, kills what they have not killed, and returns
 * what was proved. Blocks for a few seconds at most; may be called in any thread. Later calls
 * return the same result. */
void bl_wardens_settle(int64_t pid, int64_t started, struct bl_wardens_end *ret_end);

/* ---- Running a command ----------------------------------------------------------------------- */

/* The output of a command: its head and its tail, and the size of the middle. Embedded by its
 * owner. */
struct bl_capture {
    size_t limit; /* bytes kept: half for the head, half for the tail */
    struct bl_buffer head;
    struct bl_buffer tail; /* a ring buffer when it is full */
    size_t tail_start;
    uint64_t total;
};

void bl_capture_init(struct bl_capture *capture, size_t limit);
void bl_capture_done(struct bl_capture *capture);
void bl_capture_add(struct bl_capture *capture, struct bl_text bytes);
/* Appends the head, "\n…N bytes left out…\n" if bytes were left out, and the tail. The bytes are
 * unchanged, and may be invalid UTF-8. */
int bl_capture_text(const struct bl_capture *capture, struct bl_buffer *out);
uint64_t bl_capture_left_out(const struct bl_capture *capture);

/* Controls a command from outside the fiber that runs it. Zeroed and embedded by its owner; must
 * outlive the command. The fields are private. */
struct bl_command_control {
    struct bl_warden *running;  /* NULL if the command is not running */
    struct bl_warden *stopping; /* NULL if the command is not being stopped */
    bool hurry;
};

/* A command in a warden as one unit of work (kind, id, name), with captured output. */
struct bl_command {
    struct bl_warden_options options; /* input, output and error as needed; see `capture` */
    enum bl_unit_kind kind;
    const char *id;
    const char *name;
    struct bl_capture *capture; /* takes output and error; NULL: those of the options are used */
    struct bl_capture *error_capture; /* with `capture`: takes error; NULL: `capture` takes both */
    void (*on_output)(void *context, struct bl_text bytes); /* may be NULL */
    void (*on_started)(void *context);                      /* may be NULL */
    /* With options.background: called when the command has exited and processes are left behind;
     * bl_command_run then waits for them, too. NULL: they are stopped when the command exits. */
    void (*on_left)(void *context, const struct bl_warden_end *end);
    void *context;
    struct bl_command_control *control; /* may be NULL */
};

/* Runs the command until it ends or the scope of the running fiber is stopped. On a stop it stops
 * the process tree in a shield, and returns BL_ECANCELED or BL_ETIMEDOUT with `*ret_end` filled in.
 * A process left behind that holds the output open does not delay the return. */
int bl_command_run(const struct bl_command *command, struct bl_warden_end *ret_end,
                   struct bl_error *error);

/* Skips the grace period of the current stop, or of the next one. It neither starts a stop nor
 * waits. */
void bl_command_hurry(struct bl_command_control *control);

/* Returns the number of processes of a running command, from /proc; 0 if it is not running. */
uint32_t bl_command_processes(const struct bl_command_control *control);

/* Ends a unit whose work was done by a warden, with the result in `end`. For callers that use a
 * warden directly; bl_command_run calls it itself. */
void bl_command_unit_end(struct bl_unit *unit, const struct bl_warden_end *end);

/* ---- Environment and sandbox ----------------------------------------------------------------- */

/* Names of variables that are treated as secrets, in any case; ends in NULL. "*_TOKEN" matches
 * TOKEN and names that end in _TOKEN. "*_SECRET_*" matches SECRET and names that contain this word,
 * except names that end in _FILE, _DIR or _PATH, which hold a path. */
extern const char *const bl_environment_secrets[];
/* Copies an environment (NULL: this process's) without secrets: names that match the table above,
 * values that contain a URL with a password, and names in `secrets` (ends in NULL; may be NULL).
 * Names in `allow` are kept. The result ends in NULL and is in the arena. */
const char *const *bl_environment_scrub(struct bl_arena *arena, const char *const *environment,
                                        const char *const *secrets, const char *const *allow);
/* Returns an environment with further variables ("NAME=value"; ends in NULL; may be NULL), which
 * replace those of the same name. In the arena; the entries are not copied. */
const char *const *bl_environment_add(struct bl_arena *arena, const char *const *environment,
                                      const char *const *variables);

/* Removes the values of secrets from what /proc/PID/environ shows of this process. `environ` and
 * getenv(3) still return them. Call it once, first in main: earlier pointers into the environment
 * then point to overwritten memory. */
void bl_environment_hide(void);
/* The same for further names, when they become known; ends in NULL; may be NULL. Pointers from
 * getenv(3) stay valid. Does nothing before bl_environment_hide. */
void bl_environment_hide_named(const char *const *secrets);

enum bl_sandbox {
    BL_SANDBOX_OFF,
    BL_SANDBOX_WORKSPACE, /* root read-only; the workspace, further folders and a private /tmp
                             writable */
    BL_SANDBOX_READ_ONLY, /* everything read-only except a private /tmp */
};

const char *bl_sandbox_name(enum bl_sandbox sandbox);
extern const struct bl_names bl_sandbox_names;
int bl_sandbox_parse(const char *text, enum bl_sandbox *ret_sandbox, struct bl_error *error);
/* Tests bubblewrap once; returns the result as bl_container_check does. */
void bl_sandbox_check(struct bl_container_check *ret_check);
/* Returns the arguments that run `arguments` in the sandbox; in the arena. `folders` are as
 * writable as the workspace (end in NULL; may be NULL). BL_ENOTSUP: the sandbox is not available;
 * the hint says what to do. It never falls back to a weaker sandbox. */
int bl_sandbox_wrap(struct bl_arena *arena, enum bl_sandbox sandbox, const char *workspace,
                    const char *const *folders, bool network, const char *const *arguments,
                    const char *const **ret_arguments, struct bl_error *error);

/* The identity of a folder when it was pinned. The open descriptor keeps the kernel from reusing
 * its device and inode numbers. */
struct bl_pin {
    const char *path; /* without symbolic links; as given if it could not be pinned */
    uint64_t device;
    uint64_t inode; /* 0: it could not be pinned */
    int fd;         /* O_PATH; -1: none */
};

/* Pins a folder. Returns 0, or -errno if there is no such folder. The path is in the arena. */
int bl_pin_folder(struct bl_arena *arena, const char *folder, struct bl_pin *ret_pin);
void bl_pin_done(struct bl_pin *pin); /* closes the descriptor */
/* Opens the folder by its path (O_PATH). Returns a descriptor or -errno; -ESTALE: the folder was
 * replaced. */
int bl_pin_open(const struct bl_pin *pin);
/* Checks that the folder is unchanged. Returns 0 or -errno, as bl_pin_open does. */
int bl_pin_check(const struct bl_pin *pin);

/* The part of the machine that a command in a sandbox can see. Lists end in NULL, and may be NULL.
 *
 * In every view, the user's secret files, Belay's own folders, /run and the user's runtime folder
 * are hidden. Without network, every socket that has a path is hidden as well. In writable folders,
 * the settings and hooks of Git are read-only. A folder that is named here is visible with its
 * contents, except hidden paths below it. */
struct bl_sandbox_pins;

struct bl_sandbox_view {
    enum bl_sandbox sandbox;
    const char *workspace;
    const char *const *folders;  /* as writable as the workspace */
    const char *const *readable; /* visible and read-only; missing folders are skipped */
    const char *const *writable; /* writable even if the sandbox is read-only */
    const char *const *shown;    /* entries of bl_sandbox_secrets that are not hidden */
    bool network;
    const struct bl_sandbox_pins *pins; /* NULL: made for this command only */
};

/* Protects the writable folders of a view as they are now, for callers that run several commands in
 * them. Paths that appear later are not protected. Creates Belay's own folders where a command
 * could otherwise create them in a writable folder. */
struct bl_sandbox_pins *bl_sandbox_pins_new(const struct bl_sandbox_view *view);
void bl_sandbox_pins_free(struct bl_sandbox_pins *pins); /* NULL is allowed */
/* Removes a file `commondir` that a command has created in a Git directory of the view; call it
 * after the command. A repository has no such file, and Git would read its settings from the path
 * in it. No mount can keep a command from creating it. Returns the path of that directory, or NULL
 * if no file was found. */
const char *bl_sandbox_pins_sweep(const struct bl_sandbox_pins *pins);
/* Returns the paths that hold secrets of the user, whether they exist or not. In the arena; end in
 * NULL. */
const char *const *bl_sandbox_secrets(struct bl_arena *arena);
/* Returns a short reason why a sandbox with the writable folder `root` would not let a command
 * change `path` below it, or NULL if it would. Both paths are without symbolic links. Every
 * repository counts, including one that a sandbox cannot protect. */
const char *bl_sandbox_guarded(struct bl_arena *arena, const char *root, const char *path);

/* The same as bl_sandbox_wrap, with all options of a view. */
int bl_sandbox_wrap_view(struct bl_arena *arena, const struct bl_sandbox_view *view,
                         const char *const *arguments, const char *const **ret_arguments,
                         struct bl_error *error);
/* Returns the container for a command in a sandbox. A sandbox changes the command's view of the
 * machine anyway, so `auto` becomes pidns where that is available. */
enum bl_mechanism bl_sandbox_container(enum bl_mechanism wanted);

BL_PUBLIC_END

#endif
