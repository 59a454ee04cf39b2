#include <belay/base.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>

const char *bl_error_name(int code)
{
    switch (code) {
    case 0: return "no error";
#define ERROR_NAME(name, value, text)                                                              \
    case value: return #name;
        BL_ERROR_TABLE(ERROR_NAME)
#undef ERROR_NAME
    default: return "unknown error";
    }
}

const char *bl_error_text(int code)
{
    switch (code) {
    case 0: return "no error";
#define ERROR_TEXT(name, value, text)                                                              \
    case value: return text;
        BL_ERROR_TABLE(ERROR_TEXT)
#undef ERROR_TEXT
    default: return "unknown error";
    }
}

static const char *const kind_names[] = {
#define KIND_NAME(name, text) [name] = text,
    BL_ERROR_KIND_TABLE(KIND_NAME)
#undef KIND_NAME
};
const struct bl_names bl_error_kinds = BL_NAMES(kind_names);

const char *bl_error_kind_name(enum bl_error_kind kind)
{
    const char *name = bl_names_get(&bl_error_kinds, kind);
    return name != NULL ? name : "unknown";
}

/* 0 stays 0; an errno without its own code becomes BL_ESYSTEM. */
int bl_error_from_errno(int system_errno)
{
    if (system_errno == INT_MIN)
        return BL_ESYSTEM;

    switch (system_errno < 0 ? -system_errno : system_errno) {
    case 0: return 0;
    case ECANCELED: return BL_ECANCELED;
    case ETIMEDOUT: return BL_ETIMEDOUT;
    case EINVAL: return BL_EINVAL;
    case ERANGE: return BL_ERANGE;
    case ENOMEM: return BL_ELIMIT;
    case ENOENT: return BL_ENOENT;
    case EEXIST: return BL_EEXIST;
    case EACCES:
    case EPERM: return BL_EACCES;
    case EBUSY: return BL_EBUSY;
    case EAGAIN: return BL_EAGAIN;
    case EMFILE:
    case ENFILE: return BL_EMFILE;
    case EIO: return BL_EIO;
    case ENOSPC:
    case EDQUOT: return BL_ENOSPC;
    case EPIPE: return BL_EPIPE;
    case ENOSYS:
    case EOPNOTSUPP: return BL_ENOTSUP;
    case ECHILD: return BL_ECHILD;
    default: return BL_ESYSTEM;
    }
}

/* Formats into `out`. Truncates before the first character that does not fit. */
static BL_PRINTF(3, 0) void set_formatted(char *out, size_t size, const char *format,
                                          va_list arguments)
{
    int length = vsnprintf(out, size, format, arguments);
    if (length < 0)
        out[0] = '\0';
    if (length >= 0 && (size_t)length >= size)
        out[bl_utf8_cut((struct bl_text){out, size - 1}, size - 1).size] = '\0';
}

/* `operation` and `target` may be NULL; without a format, the message is the table's description.
 */
int bl_error_set(struct bl_error *error, int code, enum bl_error_kind kind, const char *operation,
                 const char *target, const char *message_format, ...)
{
    assert(code != 0);
    if (error == NULL || error->code != 0)
        return code;

    error->code = code;
    error->kind = kind;
    error->retryable = false;
    error->hint[0] = '\0';
    bl_text_into(error->operation, sizeof error->operation, operation);
    bl_text_into(error->target, sizeof error->target, target);
    if (message_format == NULL) {
        bl_text_into(error->message, sizeof error->message, bl_error_text(code));
        return code;
    }
    va_list arguments;
    va_start(arguments, message_format);
    set_formatted(error->message, sizeof error->message, message_format, arguments);
    va_end(arguments);
    return code;
}

/* Keeps the first hint, like the first details. Does nothing without an error. */
void bl_error_hint(struct bl_error *error, const char *format, ...)
{
    if (error == NULL || error->code == 0 || error->hint[0] != '\0')
        return;
    va_list arguments;
    va_start(arguments, format);
    set_formatted(error->hint, sizeof error->hint, format, arguments);
    va_end(arguments);
}

void bl_error_name_set(struct bl_error *error, const char *name)
{
    if (error != NULL && error->code != 0)
        bl_text_into(error->name, sizeof error->name, name);
}
