/* A seat with real parts: processes in wardens, the script model, a store, a repository. */
#ifndef BELAY_TESTS_FEATURE_SEAT_RIG_H
#define BELAY_TESTS_FEATURE_SEAT_RIG_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

#define MS        BL_NS_PER_MS
#define LONG_NS   (60 * BL_NS_PER_S)
#define HEARD_MAX ((size_t)1 << 20)

struct rig {
    struct place place;
    bool stored;   /* uses a store */
    char task[40]; /* unique, to recognize its processes */
    char git_folder[340];
    char results[300];
    char result_path[340];
    struct bl_project project;
    struct bl_store *store;
    struct bl_activities activities;
    struct seat_house house;
    struct bl_seat seat;
    struct seat_order order;
    struct bl_arena arena;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct seat_outcome outcome;
    struct bl_buffer heard; /* the start of the output */
    uint64_t heard_size;
    unsigned alive;
    char doing[256]; /* all activity reported, without repetitions */
    uint64_t tokens;
    const char *trigger; /* calls `on_trigger` once when this text arrives */
    void (*on_trigger)(struct rig *rig);
    const char *command[16];
};

static inline void rig_alive(void *context, const char *what, uint64_t tokens)
{
    struct rig *rig = context;
    size_t size = strlen(rig->doing), last = strlen(what);

    rig->alive++;
    rig->tokens = tokens > rig->tokens ? tokens : rig->tokens;
    bool same = size >= last + 1 && strncmp(rig->doing + size - last - 1, what, last) == 0;
    if (!same)
        snprintf(rig->doing + size, sizeof rig->doing - size, "%s,", what);
}

static inline void rig_hear(void *context, struct bl_text bytes)
{
    struct rig *rig = context;

    rig->heard_size += bytes.size;
    bl_buffer_append(&rig->heard, bytes);
    if (rig->trigger != NULL &&
        bl_text_find(bl_buffer_text(&rig->heard), bl_text_from(rig->trigger)) >= 0) {
        rig->trigger = NULL;
        rig->on_trigger(rig);
    }
}

static inline void rig_stop(struct rig *rig)
{
    bl_scope_stop(&rig->scope, BL_STOP_USER, "test");
}

static inline void rig_stop_on(struct rig *rig, const char *heard)
{
    rig->trigger = heard;
    rig->on_trigger = rig_stop;
}

static inline const char *rig_variable(const char *name BL_UNUSED)
{
    return NULL;
}

/* In a fiber, after the place is made. */
static inline void rig_begin(struct rig *rig)
{
    struct bl_config_options options = {.directory = rig->place.repository,
                                        .variable = rig_variable};
    struct bl_error *error = bl_zalloc(sizeof *error);
    char path[340];

    bl_arena_init(&rig->arena);
    bl_buffer_init(&rig->heard, HEARD_MAX);
    bl_activities_init(&rig->activities);
    snprintf(rig->task, sizeof rig->task, "TASK-%d-%llu", (int)getpid(),
             (unsigned long long)bl_now_ns());
    snprintf(rig->git_folder, sizeof rig->git_folder, "%s/.git", rig->place.repository);
    snprintf(rig->results, sizeof rig->results, "%s/results", rig->place.root);
    CHECK_EQUAL(mkdir(rig->results, 0700), 0);
    snprintf(rig->result_path, sizeof rig->result_path, "%s/result.json", rig->results);
    snprintf(path, sizeof path, "%s/sessions.db", rig->place.root);
    struct bl_project *project = &rig->project;
    bl_project_init(project);
    bl_personas_find(&project->arena, rig->place.repository, &project->personas, &project->notices);
    if (!CHECK_EQUAL(bl_config_read(&options, &project->config, error), 0) ||
        (rig->stored && !CHECK_EQUAL(bl_store_open(path, &rig->store, error), 0)))
        print_error("%s\n", error->message);
    bl_free(error);
    seat_house_init(&rig->house, rig->store, project, rig->place.repository, rig->git_folder,
                    &rig->activities);
    rig->seat = (struct bl_seat){.kind = BL_SEAT_COMMAND, .grace_ns = 2 * BL_NS_PER_S};
    rig->order = (struct seat_order){
        .seat = &rig->seat,
        .feature = "FEAT-1",
        .task = rig->task,
        .attempt = 2,
        .turn = 3,
        .prompt = BL_TEXT("the prompt\n"),
        .directory = rig->place.repository,
        .result_path = rig->result_path,
        .deadline_ns = BL_NEVER,
        .active = rig_alive,
        .output = rig_hear,
        .context = rig,
    };
    bl_scope_init(&rig->scope, bl_scope_current());
    bl_receipt_open(&rig->receipt, &rig->scope, "scope_1");
}

static inline void rig_end(struct rig *rig)
{
    bl_receipt_close(&rig->receipt);
    bl_scope_done(&rig->scope);
    CHECK(bl_list_empty(&rig->house.running));
    bl_store_close(rig->store);
    bl_project_done(&rig->project);
    bl_buffer_done(&rig->heard);
    bl_arena_done(&rig->arena);
}

/* Runs the seat in the rig's scope. */
static inline void rig_run(struct rig *rig)
{
    struct bl_scope *outer = bl_scope_enter(&rig->scope);

    seat_run(&rig->house, &rig->order, &rig->arena, &rig->outcome);
    bl_scope_enter(outer);
}

/* Returns the time of a run without a stop. */
static inline uint64_t rig_usual_ns(struct rig *rig)
{
    rig_run(rig);
    uint64_t start_ns = bl_now_ns();
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    return bl_now_ns() - start_ns;
}

/* Makes a new scope, for another stop. */
static inline void rig_fresh_scope(struct rig *rig)
{
    bl_receipt_close(&rig->receipt);
    bl_scope_done(&rig->scope);
    bl_scope_init(&rig->scope, bl_scope_current());
    bl_receipt_open(&rig->receipt, &rig->scope, "scope_1");
}

static inline void rig_words(struct rig *rig, const char *const *words)
{
    size_t count = 0;

    for (; words[count] != NULL; count++)
        rig->command[count] = words[count];
    rig->command[count] = NULL;
    rig->seat.command = rig->command;
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline void rig_shell(struct rig *rig, const char *script)
{
    rig_words(rig, WORDS("sh", "-c", script));
    rig_run(rig);
}

static inline bool has(struct bl_text text, const char *part)
{
    bool found = bl_text_find(text, bl_text_from(part)) >= 0;

    if (!found)
        print_error("'%s' is not in: " BL_TEXT_FORMAT "\n", part,
                    BL_TEXT_ARG(bl_utf8_cut(text, 4000)));
    return found;
}

/* Returns the receipt of the rig's stop; in the arena. */
static inline struct bl_text rig_receipt(struct rig *rig)
{
    struct bl_json_writer *writer = bl_alloc(sizeof *writer);
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX);
    bl_json_writer_init(writer, &out);
    CHECK(bl_receipt_ready(&rig->receipt));
    bl_receipt_write(&rig->receipt, writer);
    struct bl_text text = bl_arena_text(&rig->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    bl_free(writer);
    return text;
}

static inline bool rig_has_file(const struct rig *rig, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", rig->place.repository, name);
    return access(path, F_OK) == 0;
}

static inline void rig_write(const struct rig *rig, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", rig->place.root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    if (CHECK(fd >= 0)) {
        CHECK_EQUAL(write(fd, text, strlen(text)), strlen(text));
        close(fd);
    }
}

/* Returns whether the environment of a process has the rig's task. */
static inline bool is_of_task(const struct rig *rig, const char *process)
{
    char path[300], mark[64];
    char *data = bl_alloc(64 * 1024);

    snprintf(path, sizeof path, "/proc/%s/environ", process);
    snprintf(mark, sizeof mark, "BELAY_TASK=%s", rig->task);
    struct bl_text text = bl_file_read(AT_FDCWD, path, data, 64 * 1024);
    bool found = bl_text_find(text, bl_text_from(mark)) >= 0;
    bl_free(data);
    return found;
}

static inline size_t rig_processes(const struct rig *rig)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    size_t count = 0;

    if (!CHECK(folder != NULL))
        return 0;
    while ((entry = readdir(folder)) != NULL)
        count +=
            entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && is_of_task(rig, entry->d_name);
    closedir(folder);
    return count;
}

/* Each test has its own rig. */
#define PLAY(name)        PLAY_WITH(name, false)
#define PLAY_STORED(name) PLAY_WITH(name, true)
#define PLAY_WITH(name, with_store)                                                                \
    static void name##_play(struct rig *rig);                                                      \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        rig_begin(argument);                                                                       \
        name##_play(argument);                                                                     \
        rig_end(argument);                                                                         \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state BL_UNUSED)                                                       \
    {                                                                                              \
        struct rig *rig = bl_zalloc(sizeof *rig);                                                  \
        rig->stored = with_store;                                                                  \
        place_make(&rig->place);                                                                   \
        run_in_loop(name##_main, rig);                                                             \
        place_done(&rig->place);                                                                   \
        bl_free(rig);                                                                              \
    }                                                                                              \
    static void name##_play(struct rig *rig)

#endif
