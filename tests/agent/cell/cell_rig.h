/* An agent with cells: a model that follows a list, and the results of its calls. */
#ifndef BELAY_TESTS_CELL_RIG_H
#define BELAY_TESTS_CELL_RIG_H

#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

#define CAST_RESULTS_MAX 32u

/* One call, or one text. In an input, ' stands for ", $CELL for the newest cell's id, $FIRST for
 * the first one's. */
struct cast_step {
    const char *tool;
    const char *input;
    const char *say;
    bool more; /* the next step is in the same answer */
};

#define EXEC(source)                                                                               \
    {                                                                                              \
        .tool = "exec", .input = "{'source':'" source "'}"                                         \
    }
#define EXEC_WITH(source, more_members)                                                            \
    {                                                                                              \
        .tool = "exec", .input = "{'source':'" source "'," more_members "}"                        \
    }
#define WAIT(more_members)                                                                         \
    {                                                                                              \
        .tool = "wait", .input = "{'cell_id':'$CELL'" more_members "}"                             \
    }
#define SAY(text)                                                                                  \
    {                                                                                              \
        .say = text                                                                                \
    }

/* A command of the model that waits for a file. */
#define AWAIT(name)                                                                                \
    {                                                                                              \
        .tool = "bash", .input = "{'command':'while [ ! -e " name " ]; do sleep 0.01; done'}"      \
    }

struct cast {
    struct rig *rig;
    const struct cast_step *steps;
    size_t at;
    unsigned calls;
    char cell[72];
    char first[72];
    struct bl_text results[CAST_RESULTS_MAX]; /* of exec and wait, in order */
    bool errors[CAST_RESULTS_MAX];
    size_t count;
    struct bl_text newest; /* the user's newest text, in the newest request */
    void (*on_event)(struct cast *cast, const struct bl_event *event);
};

static inline struct bl_text cast_input(const struct cast *cast, const char *input)
{
    struct bl_buffer out;

    bl_buffer_init(&out, 1 << 20);
    for (; *input != '\0'; input++) {
        if (strncmp(input, "$CELL", 5) == 0 || strncmp(input, "$FIRST", 6) == 0) {
            bool newest = input[1] == 'C';
            bl_buffer_append(&out, bl_text_from(newest ? cast->cell : cast->first));
            input += newest ? 4 : 5;
        } else {
            bl_buffer_append_byte(&out, *input == '\'' ? '"' : *input);
        }
    }
    struct bl_text text = bl_arena_text(&cast->rig->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

static inline int cast_ask(struct cast *cast, const struct cast_step *step, uint32_t index,
                           struct bl_sink *sink)
{
    char id[32];
    struct bl_text input = cast_input(cast, step->input);

    snprintf(id, sizeof id, "call_%u", ++cast->calls);
    int code = sink->take(sink, &(struct bl_piece){.type = BL_PIECE_CALL_BEGIN,
                                                   .index = index,
                                                   .id = bl_text_from(id),
                                                   .name = bl_text_from(step->tool)});
    if (code == 0)
        code = sink->take(
            sink, &(struct bl_piece){.type = BL_PIECE_CALL_END, .index = index, .text = input});
    return code;
}

static inline int cast_call(void *context, const struct bl_request *request, struct bl_sink *sink,
                            struct bl_error *error BL_UNUSED)
{
    struct cast *cast = context;
    const struct cast_step *step = &cast->steps[cast->at];
    uint32_t index = 0;
    int code = 0;

    cast->newest = bl_arena_text(&cast->rig->arena, bl_request_newest_text(request));
    if (step->say != NULL)
        code = sink->take(
            sink, &(struct bl_piece){.type = BL_PIECE_TEXT, .text = bl_text_from(step->say)});
    for (bool more = step->say == NULL; more && code == 0; cast->at++) {
        more = cast->steps[cast->at].more;
        code = cast_ask(cast, &cast->steps[cast->at], index++, sink);
    }
    if (step->say != NULL)
        cast->at++;
    if (code == 0)
        code = sink->take(sink, &(struct bl_piece){.type = BL_PIECE_USAGE,
                                                   .usage = {.input_tokens = 1},
                                                   .cost_known = true});
    if (code == 0)
        code =
            sink->take(sink, &(struct bl_piece){.type = BL_PIECE_END,
                                                .end = step->say != NULL ? BL_ANSWER_END
                                                                         : BL_ANSWER_TOOL_CALLS});
    return code;
}

static inline uint64_t cast_estimate(void *context BL_UNUSED,
                                     const struct bl_request *request BL_UNUSED)
{
    return 1;
}

static inline void cast_event(struct rig *rig, const struct bl_event *event)
{
    struct cast *cast = rig->extra;

    if (event->type == BL_EVENT_CELL_CREATED) {
        bl_text_into(cast->cell, sizeof cast->cell, event->cell);
        if (cast->first[0] == '\0')
            bl_text_into(cast->first, sizeof cast->first, event->cell);
    }
    if (event->type == BL_EVENT_TOOL_ENDED && !event->nested && cast->count < CAST_RESULTS_MAX) {
        cast->errors[cast->count] = strcmp(event->status, "ok") != 0;
        cast->results[cast->count++] = bl_arena_text(&rig->arena, event->text);
    }
    if (cast->on_event != NULL)
        cast->on_event(cast, event);
}

/* Sets the model's steps from now on. */
static inline void cast_plays(struct cast *cast, const struct cast_step *steps)
{
    cast->steps = steps;
    cast->at = 0;
}

static inline void cast_init(struct cast *cast, struct rig *rig, const struct cast_step *steps)
{
    *cast = (struct cast){.rig = rig};
    cast_plays(cast, steps);
    rig->extra = cast;
    rig->on_event = cast_event;
    rig->model = (struct bl_model){.provider = "cast",
                                   .name = "cast",
                                   .context = cast,
                                   .estimate = cast_estimate,
                                   .call = cast_call};
}

static inline bool cast_has(const struct cast *cast, size_t index, const char *part)
{
    bool has = index < cast->count && bl_text_find(cast->results[index], bl_text_from(part)) >= 0;

    if (!has)
        print_error("result %zu lacks '%s': " BL_TEXT_FORMAT "\n", index, part,
                    BL_TEXT_ARG(index < cast->count ? cast->results[index] : BL_TEXT("(none)")));
    return has;
}

/* Make a file in the folder, and wait for one. */
static inline void cast_touch(const struct cast *cast, const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", cast->rig->folder, name);
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL))
        fclose(file);
}

static inline void cast_await(const struct cast *cast, const char *name)
{
    uint64_t until_ns = bl_now_ns() + 60 * BL_NS_PER_S;

    while (!rig_has_file(cast->rig, name) && CHECK(bl_now_ns() < until_ns))
        bl_sleep(5 * MS);
}

/* Defines a test on a rig whose model is a cast. */
#define CAST(name, ...)                                                                            \
    static void name##_cast(struct cast *cast, struct rig *rig);                                   \
    RIG(name, "replies: [{say: nothing}]\n")                                                       \
    {                                                                                              \
        static const struct cast_step steps[] = {__VA_ARGS__};                                     \
        struct cast *cast = bl_alloc(sizeof *cast);                                                \
        cast_init(cast, rig, steps);                                                               \
        name##_cast(cast, rig);                                                                    \
        rig_close(rig);                                                                            \
        bl_free(cast);                                                                             \
    }                                                                                              \
    static void name##_cast(struct cast *cast BL_UNUSED, struct rig *rig)

#endif
