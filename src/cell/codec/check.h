/* Checking JSON that came against tables of fields. A union is a list of variants; a field that
 * only another variant of it has is an error, one that none has is ignored. */
#ifndef BELAY_CELL_CODEC_CHECK_H
#define BELAY_CELL_CODEC_CHECK_H

#include "codec.h"

/* What does not fit, and where: a JSON pointer below what was given. */
struct codec_problem {
    char path[160];
    char message[200];
    size_t path_size;
};

struct codec_field;

typedef bool codec_check(struct codec_problem *problem, const struct codec_field *field,
                         const struct bl_json *value);

struct codec_field {
    const char *name; /* NULL: the end of a list */
    codec_check *check;
    uint64_t least, most;     /* of a number, bytes of a text, elements of an array */
    const char *const *names; /* of one of these, up to NULL */
    bool optional;
};

struct codec_variant {
    const char *name; /* NULL: the end of a list */
    const struct codec_field *fields;
};

void codec_problem_init(struct codec_problem *problem);
/* "PATH: what is wrong". */
void codec_problem_text(const struct codec_problem *problem, char *out, size_t out_size);
bool codec_fail(struct codec_problem *problem, const char *format, ...) BL_PRINTF(2, 3);
/* "must be EXPECTED, is …". */
bool codec_fail_value(struct codec_problem *problem, const struct bl_json *value,
                      const char *expected_format, ...) BL_PRINTF(3, 4);
/* Goes down to a member, or to an element where `name` is NULL; the way back is what it returns. */
size_t codec_enter(struct codec_problem *problem, const char *name, size_t index);
void codec_leave(struct codec_problem *problem, size_t path_size);

/* An object with these fields, and maybe others. */
bool codec_check_fields(struct codec_problem *problem, const struct codec_field *fields,
                        const struct bl_json *value);
/* An object that is one of these variants, as the text in its member `tag` says. */
bool codec_check_union(struct codec_problem *problem, const char *tag,
                       const struct codec_variant *variants, const struct bl_json *value,
                       const struct codec_variant **ret_variant);
/* None of its members is a field of other variants alone. */
bool codec_check_foreign(struct codec_problem *problem, const struct codec_variant *variants,
                         const struct codec_variant *own, const struct bl_json *object);

codec_check codec_is_any;
codec_check codec_is_boolean;
codec_check codec_is_number;  /* an integer from `least` to `most` */
codec_check codec_is_measure; /* any number from 0 on */
codec_check codec_is_text;    /* of `least` to `most` bytes; most 0: as long as it likes */
codec_check codec_is_label;   /* the same, without control characters, and not blank */
codec_check codec_is_name;    /* one of `names` */
codec_check codec_is_id;
codec_check codec_is_id_or_null;

bool codec_is_ok(struct codec_problem *problem, enum cell_operation operation,
                 const struct bl_json *value);
/* The members of `err`, taken over into `ret_fault`. */
bool codec_read_fault(struct codec_problem *problem, const struct bl_json *value,
                      struct bl_cell_fault *ret_fault);

/* All frames, those of clients first. They are one union: what a frame may not have is what others
 * have. */
enum codec_frame {
    CODEC_HELLO,
    CODEC_REQUEST,
    CODEC_CANCEL,
    CODEC_TOOL_RESULT,
    CODEC_NOTIFY_ACK,
    CODEC_READY,
    CODEC_REJECTED,
    CODEC_REPLY,
    CODEC_TOOL_CALL,
    CODEC_TOOL_CANCEL,
    CODEC_NOTIFY,
    CODEC_ENDED,
    CODEC_BYE,
};

extern const struct codec_variant codec_frames[];
extern const char *const codec_refusals[];
extern const char *const codec_stop_reasons[];

/* An integer that codec_is_number has let pass. */
uint64_t codec_number(const struct bl_json *object, const char *key);
/* The text of a member, with a NUL after it; NULL: it is none. */
const char *codec_string(const struct bl_json *object, const char *key);
const struct bl_json *codec_get(const struct bl_json *object, const char *key);
/* Cut at a character. */
void codec_copy(char *out, size_t out_size, struct bl_text text);
/* Where in `names` the text stands; it does. */
size_t codec_name_index(const char *const *names, struct bl_text text);

/* One frame's bytes as JSON. BL_EPARSE: broken, too deep, a key twice, or no object. */
int codec_frame_parse(struct bl_arena *arena, struct bl_text bytes, const struct bl_json **ret_root,
                      char *message, size_t message_size);
/* The bytes of that member's value, in `bytes`, from which `root` was read. */
struct bl_text codec_slice(struct bl_text bytes, const struct bl_json *root, const char *key);

/* Fields that many messages have. */
#define CODEC_SESSION_ID                                                                           \
    {                                                                                              \
        .name = "session_id", .check = codec_is_id                                                 \
    }
#define CODEC_CELL_ID                                                                              \
    {                                                                                              \
        .name = "cell_id", .check = codec_is_id                                                    \
    }

#endif
