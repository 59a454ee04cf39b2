/* proc: processes that can be stopped, and proven to be.
 *
 * Every process is started by a warden, a tiny process of ours that holds the whole tree below it:
 * by its lifeline it dies with us, and the tree with it; told to stop, it climbs a ladder (a
 * signal, a grace, SIGKILL to all) and says when nothing is left, by the proof of its container.
 *
 * Promises: when bl_warden_wait has returned an end, or bl_warden_stop has returned, no process of
 * the tree is alive, or `survivors` says how many are, or that it could not be verified. Nothing
 * survives us, however we end. A command gets the descriptors 0, 1 and 2, and no other. */
#ifndef BELAY_PROC_H
#define BELAY_PROC_H

#include <sys/types.h>

#include <belay/fiber.h>

BL_PUBLIC_BEGIN

/* ---- Containers ------------------------------------------------------------------------------ */

/* BL_MECHANISM_NONE stands for `auto`: cgroup2 where it works, else subreaper. */
struct bl_container_check {
    enum bl_mechanism mechanism;
    bool available;
    char detail[200]; /* how, or why not */
    char hint[200];   /* what to do to get it; may be empty */
    bool untried; /* the probe itself could not be made: nothing is known; asked again next time */
    char version[64]; /* of the program that it needs; empty: none, or not known */
};

/* Tries it for real, once for each process and kind; later calls answer from memory. */
void bl_container_check(enum bl_mechanism mechanism, struct bl_container_check *ret_check);
/* "auto", "pidns", "cgroup2", "subreaper"; BL_EINVAL with the list in the hint. */
int bl_container_parse(const char *text, enum bl_mechanism *ret_mechanism, struct bl_error *error);

/* ---- Wardens --------------------------------------------------------------------------------- */

#define BL_GRACE_MS_DEFAULT 200

struct bl_warden_options {
    const char *const *arguments;   /* ends in NULL; the first is looked up in PATH */
    const char *const *environment; /* ends in NULL; NULL: ours */
    const char *directory;          /* NULL: ours */
    int input, output, error;       /* for its 0, 1 and 2; -1: /dev/null */
    bool terminal;                  /* these are the end of a pty: make it the controlling one */
    enum bl_mechanism container;    /* BL_MECHANISM_NONE: auto */
    uint32_t grace_ms;              /* between the signal and SIGKILL */
    uint64_t memory_bytes;          /* 0: no limit of ours */
    uint32_t processes_max;         /* 0: no limit of ours */
    bool background;                /* what it leaves behind is kept until the warden is stopped */
};

/* How a command ended, and its tree. */
struct bl_warden_end {
    enum {
        BL_END_EXITED,   /* status: its exit code */
        BL_END_SIGNALED, /* status: the signal, not ours */
        BL_END_STOPPED,  /* by us: status as of the command, if it came to that */
        BL_END_LIMIT,    /* processes_max was passed, and the tree killed */
        BL_END_LOST,     /* the warden itself was killed, and its tree swept by this process.
                            Without bl_proc_adopt_orphans that is no proof: `survivors` is
                            unknown */
    } how;
    int status;
    bool by_signal; /* of status */
    bool core_dumped;
    enum bl_mechanism mechanism;
    uint32_t processes;   /* alive when the stop began */
    uint32_t left_behind; /* alive when the command had ended by itself; stopped or kept since */
    uint32_t survivors;   /* counted, or BL_SURVIVORS_UNKNOWN: the proof failed */
    char unverified[BL_UNVERIFIED_SIZE]; /* why the proof failed; else empty */
    int strongest_signal;                /* that was needed; 0: none */
};

struct bl_warden;

/* Starts a command. BL_ENOENT: not found (exit code 127 by custom); BL_EACCES: not executable
 * (126); BL_ENOTSUP: the container that was asked for is not available, and the hint says how to
 * get it. */
int bl_warden_start(const struct bl_warden_options *options, struct bl_warden **ret_warden,
                    struct bl_error *error);
/* Waits for the end of the command and of its tree (with `background`: of the command). Stopped:
 * the command runs on; call bl_warden_stop. Asked again it answers the same. */
int bl_warden_wait(struct bl_warden *warden, struct bl_warden_end *ret_end);
/* Climbs the ladder: `signal` (0: SIGTERM) and SIGCONT to the tree, `grace_ms`, SIGKILL, proof.
 * Returns when nothing is left: no stop reaches it. A second call while one is under way, with
 * grace 0, cuts the grace short. On an ended tree it only answers. */
void bl_warden_stop(struct bl_warden *warden, int signal, uint32_t grace_ms,
                    struct bl_warden_end *ret_end);
/* Sends a signal to the command alone. */
void bl_warden_signal(struct bl_warden *warden, int signal);
pid_t bl_warden_pid(const struct bl_warden *warden); /* of the command, as seen from here */
/* Stops what is left without grace, and frees. NULL is fine. */
void bl_warden_free(struct bl_warden *warden);

/* Where a program of ours is: named by that variable (an absolute path), beside this program, or
 * where it was installed. */
void bl_program_find(const char *name, const char *variable, char *out, size_t size);

/* Process-wide, so the program switches it on: makes this process a subreaper, so that the tree of
 * a warden that was killed comes here and is swept. Only where every child is a warden. A SIGCHLD
 * that is ignored is set to its default. */
int bl_proc_adopt_orphans(void);

/* Process-wide as well. Makes this process not dumpable, so that a tool of the same user can
 * neither trace it nor copy its descriptors; there are no core dumps of it then. Its wardens are
 * recorded in a file in the runtime folder, and from the first of them on a guard process sees to
 * it that they end with this process, however they are attacked. On error it is not dumpable, and
 * has neither. */
int bl_proc_protect(struct bl_error *error);
/* At the end of the program: the guard and the file go. */
void bl_proc_protect_end(void);

/* What became of the processes of another belay, which has ended without a word. */
struct bl_wardens_end {
    enum bl_mechanism mechanism; /* the weakest; none: it had started no processes */
    uint32_t processes;          /* that its wardens stopped */
    uint32_t survivors;          /* counted, or BL_SURVIVORS_UNKNOWN */
    char unverified[BL_UNVERIFIED_SIZE];
};

/* Finds the wardens of the process that had this pid and start time (in clock ticks since boot) by
 * its records, waits for those that are still at work, kills what they have not, and says what was
 * proved. Blocks, for a few seconds at worst; for any thread. Asked again it answers the same. */
void bl_wardens_settle(int64_t pid, int64_t started, struct bl_wardens_end *ret_end);

/* ---- Running a command ----------------------------------------------------------------------- */

/* What a command has written: its head and its tail, with the middle counted. Embedded by its
 * owner. */
struct bl_capture {
    size_t limit; /* bytes kept of it; half for the head, half for the tail */
    struct bl_buffer head;
    struct bl_buffer tail; /* a ring once it is full */
    size_t tail_start;
    uint64_t total;
};

void bl_capture_init(struct bl_capture *capture, size_t limit);
void bl_capture_done(struct bl_capture *capture);
void bl_capture_add(struct bl_capture *capture, struct bl_text bytes);
/* Head, "\n…N bytes left out…\n" where something was, tail. Bytes as they came: maybe not UTF-8. */
int bl_capture_text(const struct bl_capture *capture, struct bl_buffer *out);
uint64_t bl_capture_left_out(const struct bl_capture *capture);

/* A hand on a command, for others than its own fiber. Zeroed and embedded by its owner; outlives
 * the command. The fields are the room's own. */
struct bl_command_control {
    struct bl_warden *running;  /* while it runs; else NULL */
    struct bl_warden *stopping; /* while it is being stopped; else NULL */
    bool hurry;
};

/* A command in a warden as one unit of work (kind, id, name), with its output captured. */
struct bl_command {
    struct bl_warden_options
        options; /* input, output and error as the caller wants; see `capture` */
    enum bl_unit_kind kind;
    const char *id;
    const char *name;
    struct bl_capture *capture; /* NULL: output and error are the options'; else both go here */
    struct bl_capture *error_capture; /* with `capture`: error goes here; NULL: there as well */
    void (*on_output)(void *context, struct bl_text bytes); /* NULL: nobody listens */
    void (*on_started)(void *context);                      /* the same */
    /* With options.background: the command itself has ended, and what it has left behind runs on;
     * bl_command_run then goes on until that has ended too. NULL: it is stopped with the command's
     * end. */
    void (*on_left)(void *context, const struct bl_warden_end *end);
    void *context;
    struct bl_command_control *control; /* NULL: none */
};

/* Runs it to its end, or to a stop of the running fiber's scope: then it climbs the ladder, in a
 * shield, and returns BL_ECANCELED or BL_ETIMEDOUT with `*ret_end` filled. An output that is held
 * open by somebody who was left behind does not hold it up. */
int bl_command_run(const struct bl_command *command, struct bl_warden_end *ret_end,
                   struct bl_error *error);

/* Skips the grace of the stop that is under way, or of one that comes later. Stops nothing by
 * itself, and does not wait. */
void bl_command_hurry(struct bl_command_control *control);

/* How many processes of it run now, by /proc; 0 when it does not run. */
uint32_t bl_command_processes(const struct bl_command_control *control);

/* Ends a unit whose work was a warden's, with what that came to. For those who hold a warden
 * themselves; bl_command_run does it. */
void bl_command_unit_end(struct bl_unit *unit, const struct bl_warden_end *end);

/* ---- Environment and sandbox ----------------------------------------------------------------- */

/* Names of variables that are taken for secrets, whatever their case; ends in NULL. "*_TOKEN" fits
 * TOKEN and names that end in _TOKEN; "*_SECRET_*" fits SECRET and names with that word anywhere,
 * except names that end in _FILE, _DIR or _PATH, which hold a path. */
extern const char *const bl_environment_secrets[];
/* Copies an environment (NULL: ours) without secrets: names that fit the table above, values that
 * hold a URL with a password, and names in `secrets` (ends in NULL; may be NULL). Names in `allow`
 * are kept. Ends in NULL; in the arena. */
const char *const *bl_environment_scrub(struct bl_arena *arena, const char *const *environment,
                                        const char *const *secrets, const char *const *allow);

/* Removes the values of secrets from what /proc/PID/environ shows of this process. `environ` and
 * getenv(3) still have them. To be called once, first thing in main: pointers into the environment
 * from before point to overwritten memory afterwards. */
void bl_environment_hide(void);
/* The same for further names, once they are known; ends in NULL; may be NULL. Pointers from
 * getenv(3) stay valid. Does nothing before bl_environment_hide. */
void bl_environment_hide_named(const char *const *secrets);

enum bl_sandbox {
    BL_SANDBOX_OFF,
    BL_SANDBOX_WORKSPACE, /* root read-only, the workspace (and further folders) and a private /tmp
                             writable */
    BL_SANDBOX_READ_ONLY, /* everything read-only, a private /tmp */
};

const char *bl_sandbox_name(enum bl_sandbox sandbox);
extern const struct bl_names bl_sandbox_names;
int bl_sandbox_parse(const char *text, enum bl_sandbox *ret_sandbox, struct bl_error *error);
/* Tries bubblewrap for real, once; answers as bl_container_check does. */
void bl_sandbox_check(struct bl_container_check *ret_check);
/* The arguments that run `arguments` in the sandbox; in the arena. `folders` are as writable as the
 * workspace (end in NULL; may be NULL). BL_ENOTSUP: it is not available; the hint says what to do.
 * Never falls back. */
int bl_sandbox_wrap(struct bl_arena *arena, enum bl_sandbox sandbox, const char *workspace,
                    const char *const *folders, bool network, const char *const *arguments,
                    const char *const **ret_arguments, struct bl_error *error);

/* A folder as it was when it was pinned. The descriptor keeps its numbers from being given to
 * another. */
struct bl_pin {
    const char *path; /* without links; as it was given, when it could not be pinned */
    uint64_t device;
    uint64_t inode; /* 0: it could not be pinned */
    int fd;         /* O_PATH; -1: none */
};

/* 0, or -errno: there is no such folder. The path is in the arena. */
int bl_pin_folder(struct bl_arena *arena, const char *folder, struct bl_pin *ret_pin);
void bl_pin_done(struct bl_pin *pin); /* closes the descriptor */
/* Opens the folder by its path (O_PATH). A descriptor, or -errno; -ESTALE: it was replaced. */
int bl_pin_open(const struct bl_pin *pin);
/* 0, or -errno as above. */
int bl_pin_check(const struct bl_pin *pin);

/* What a command sees of the machine. Lists end in NULL, and may be NULL.
 *
 * Whatever the view: files that hold secrets of the user, belay's own folders, /run and the user's
 * runtime folder are hidden, and without network every socket of the machine that is known by a
 * path. In writable folders the settings and hooks of Git are read-only. A folder that is named
 * here is in sight with all that is in it, except for what is hidden further down. */
struct bl_sandbox_pins;

struct bl_sandbox_view {
    enum bl_sandbox sandbox;
    const char *workspace;
    const char *const *folders;  /* as writable as the workspace */
    const char *const *readable; /* in sight, and no more than that; those that are gone are not */
    const char *const *writable; /* in the sandbox read-only, too */
    const char *const *shown;    /* of bl_sandbox_secrets: these are not hidden */
    bool network;
    const struct bl_sandbox_pins *pins; /* NULL: made for this command alone */
};

/* What the protection of a view's writable folders was made for: for those who run several commands
 * in the same folders. What appears later is not protected. Makes belay's own folders where one of
 * these could otherwise make them. */
struct bl_sandbox_pins *bl_sandbox_pins_new(const struct bl_sandbox_view *view);
void bl_sandbox_pins_free(struct bl_sandbox_pins *pins); /* NULL is fine */
/* After a command: removes a file `commondir` that it made in a Git directory of the view. There is
 * none in a repository, and Git would read its settings from where the file says. No mount can keep
 * a command from making it. Returns the path of that directory; NULL: there was none. */
const char *bl_sandbox_pins_sweep(const struct bl_sandbox_pins *pins);
/* Paths that hold secrets of the user, whether they exist or not. In the arena; end in NULL. */
const char *const *bl_sandbox_secrets(struct bl_arena *arena);
/* Why a sandbox whose writable folder is `root` would not let a command change `path` in it, in a
 * few words; NULL: it would. Both without links. Any repository is meant, also one that a sandbox
 * cannot protect. */
const char *bl_sandbox_guarded(struct bl_arena *arena, const char *root, const char *path);

/* The same as bl_sandbox_wrap, which knows of no other folders. */
int bl_sandbox_wrap_view(struct bl_arena *arena, const struct bl_sandbox_view *view,
                         const char *const *arguments, const char *const **ret_arguments,
                         struct bl_error *error);
/* The container for a command in a sandbox, which changes its view of the machine anyway: `auto`
 * becomes pidns where that is available. */
enum bl_mechanism bl_sandbox_container(enum bl_mechanism wanted);

BL_PUBLIC_END

#endif
