#include <belay/record.h>

/* A struct bl_error has no empty message, and its texts are cut when it is filled. */
#define BL_RECORD_STRUCT struct bl_error
static const struct bl_member error_members[] = {
    BL_MEMBER_ENUM("kind", kind, &bl_error_kinds, .about = "What went wrong; a closed set."),
    BL_MEMBER_WORD("operation", operation, .nullable = true, .cut = true,
                   .about = "What was being done."),
    BL_MEMBER_WORD("target", target, .nullable = true, .cut = true,
                   .about = "What it was done to: a path, an option, an address."),
    BL_MEMBER_BOOLEAN("retryable", retryable,
                      .about = "True when the same call may succeed later."),
    BL_MEMBER_WORD("message", message, .least = 1, .cut = true, .about = "For people, one line."),
    BL_MEMBER_WORD("hint", hint, .nullable = true, .cut = true, .about = "What to do about it."),
    BL_MEMBER_WORD("code", name, .optional = true, .least = 1, .cut = true,
                   .about = "Finer than kind, where there is such a thing: commit_unknown, "
                            "overloaded, refusal, …"),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

const struct bl_record bl_error_record =
    BL_RECORD("error", struct bl_error, error_members, .closed = true,
              .about = "The error object of an envelope.");
