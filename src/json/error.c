#include <belay/record.h>

/* The message of a struct bl_error is not empty, and its texts were truncated when it was filled.
 */
#define BL_RECORD_STRUCT struct bl_error
static const struct bl_member error_members[] = {
    BL_MEMBER_ENUM("kind", kind, &bl_error_kinds, .about = "Category of the error; a closed set."),
    BL_MEMBER_WORD("operation", operation, .nullable = true, .cut = true,
                   .about = "Operation that failed."),
    BL_MEMBER_WORD("target", target, .nullable = true, .cut = true,
                   .about = "Target of the operation: a path, an option, an address."),
    BL_MEMBER_BOOLEAN("retryable", retryable,
                      .about = "True when the same call may succeed later."),
    BL_MEMBER_WORD("message", message, .least = 1, .cut = true,
                   .about = "Message for people, one line."),
    BL_MEMBER_WORD("hint", hint, .nullable = true, .cut = true, .about = "Suggested next step."),
    BL_MEMBER_WORD("code", name, .optional = true, .least = 1, .cut = true,
                   .about = "More specific than kind, if available: commit_unknown, "
                            "overloaded, refusal, …"),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

const struct bl_record bl_error_record =
    BL_RECORD("error", struct bl_error, error_members, .closed = true,
              .about = "The error object of an envelope.");
