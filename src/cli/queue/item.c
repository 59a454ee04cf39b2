#include "queue.h"

#include <stdlib.h>

#define LABEL_LETTERS    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-"
#define LABEL_KEY_MOST   64u
#define LABEL_VALUE_MOST 200u

/* ---- Forms ----------------------------------------------------------------------------------- */

static bool label_fits(struct bl_text text)
{
    struct bl_text value = text, key;
    bool fits = bl_text_find(text, BL_TEXT("=")) > 0 && bl_text_split(&value, '=', &key) &&
                key.size <= LABEL_KEY_MOST && value.size <= LABEL_VALUE_MOST &&
                bl_utf8_valid(value);

    for (size_t i = 0; fits && i < key.size; i++)
        fits = memchr(LABEL_LETTERS, key.data[i], sizeof LABEL_LETTERS - 1) != NULL;
    for (size_t i = 0; fits && i < value.size; i++)
        fits = (unsigned char)value.data[i] >= 0x20 && value.data[i] != 0x7f;
    return fits;
}

static bool time_fits(struct bl_text text)
{
    int64_t wall_ns;

    return bl_time_parse(text, &wall_ns);
}

static bool trace_fits(struct bl_text text)
{
    static const char form[] = "00-00000000000000000000000000000000-0000000000000000-00";
    bool fits = text.size == sizeof form - 1;

    for (size_t i = 0; fits && i < text.size; i++)
        fits = form[i] == '-' ? text.data[i] == '-'
                              : memchr("0123456789abcdef", text.data[i], 16) != NULL;
    return fits;
}

static bool directory_fits(struct bl_text text)
{
    return text.size > 0 && text.size < 4096 && text.data[0] == '/' &&
           memchr(text.data, '\0', text.size) == NULL;
}

const struct bl_form queue_label_form = {
    "KEY=VALUE, with a key of 1 to 64 of the characters A-Z a-z 0-9 . _ / - and a value of at most "
    "200",
    "^[A-Za-z0-9._/-]{1,64}=[^\\x00-\\x1f\\x7f]{0,200}$", label_fits};
const struct bl_form queue_time_form = {"a time in UTC, such as 2026-11-20T03:00:00Z", NULL,
                                        time_fits};
/* The database checks it. */
static const struct bl_form start_form = {"a time such as 2026-11-20T03:00:00Z",
                                          "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}("
                                          "\\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$",
                                          NULL};
const struct bl_form queue_trace_form = {"a traceparent of W3C Trace Context, such as "
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                         "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
                                         trace_fits};
const struct bl_form queue_directory_form = {"an absolute path", "^/", directory_fits};
static const struct bl_form pool_form = {"1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'",
                                         "^[A-Za-z0-9._-]{1,64}$", NULL};

/* ---- The record ------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"run"};
static const struct bl_names kinds = BL_NAMES(kind_names);
static const char *const retry_names[] = {"error", "timeout"};
static const struct bl_names retry_ends = BL_NAMES(retry_names);

static const struct bl_member label_element = {
    .type = BL_TYPE_STRING, .size = sizeof(const char *), .form = &queue_label_form};
static const struct bl_member retry_element = {
    .type = BL_TYPE_STRING, .size = sizeof(const char *), .names = &retry_ends};

#define BL_RECORD_STRUCT struct queue_item
static const struct bl_member item_members[] = {
    BL_MEMBER_STRING("kind", kind, .optional = true, .names = &kinds, .about = "Default: run."),
    BL_MEMBER_EMBED(run, &bl_run_request_record),
    BL_MEMBER_STRING("pool", pool, .optional = true, .form = &pool_form,
                     .about = "Pool whose workers run it; default: main."),
    BL_MEMBER_STRINGS("labels", labels, .optional = true, .most = QUEUE_LABELS_MOST,
                      .element = &label_element, .about = "A worker must have all of them."),
    BL_MEMBER_STRING("key", key, .optional = true, .least = 1, .most = 200, .characters = true,
                     .about = "Items with different keys take turns; default: the submitter."),
    BL_MEMBER_NUMBER("weight", weight, .optional = true, .none = 0, .most = QUEUE_WEIGHT_MOST,
                     .about = "Share of its key, compared to others; default: 1."),
    BL_MEMBER_INTEGER("priority", priority, .optional = true, .least = -QUEUE_PRIORITY_MOST,
                      .most = QUEUE_PRIORITY_MOST, .about = "A higher one comes earlier."),
    BL_MEMBER_STRING("limit_key", limit_key, .optional = true, .least = 1, .most = 200,
                     .characters = true,
                     .about = "Items with this key run only as far as its limit allows."),
    BL_MEMBER_DURATION("delay", delay_ns, .optional = true, .or_string = true,
                       .about = "Seconds until it may start, or a duration such as 90s; not with "
                                "at."),
    BL_MEMBER_STRING("at", at, .optional = true, .form = &start_form,
                     .about = "Time when it may start."),
    BL_MEMBER_INTEGER("retry", retry, .optional = true, .none = QUEUE_RETRY_DEFAULT,
                      .most = QUEUE_RETRY_MOST, .about = "Number of retries; default: 3."),
    BL_MEMBER_DURATION("retry_delay", retry_delay_ns, .optional = true, BL_KNOWN(retry_delayed),
                       .most = 600 * BL_NS_PER_S,
                       .about =
                           "Seconds until the first retry; doubles up to 10 min; default: 10 s."),
    BL_MEMBER_STRINGS("retry_on", retry_on, .optional = true, .most = QUEUE_LABELS_MOST,
                      .element = &retry_element,
                      .about = "Ends that are retried; default: errors that a retry may fix."),
    BL_MEMBER_STRING("directory", directory, .optional = true, .form = &queue_directory_form,
                     .about = "Where it works, on the worker's machine; default: an empty "
                              "directory of its own, which is removed afterwards."),
    BL_MEMBER_STRING("trace_parent", trace_parent, .optional = true, .form = &queue_trace_form,
                     .about = "For tools, as TRACEPARENT."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static bool item_rule(const void *record, struct bl_record_fault *fault)
{
    const struct queue_item *item = record;

    if (item->delay_ns == 0 || item->at == NULL)
        return true;
    bl_text_into(fault->path, sizeof fault->path, "/at");
    bl_text_into(fault->message, sizeof fault->message, "not together with delay");
    return false;
}

const struct bl_record queue_item_record =
    BL_RECORD("item", struct queue_item, item_members, .closed = true, .rule = item_rule,
              .about = "Work for a queue, as belay submit writes it and belay.submit() takes it.");

int queue_item_read(struct bl_arena *arena, struct bl_text spec, struct queue_item *ret_item,
                    struct bl_error *error)
{
    static const char *const on_error[] = {"error", NULL};
    struct bl_json_limits limits = {.size_max = QUEUE_SPEC_MAX, .string_max = QUEUE_SPEC_MAX};
    struct bl_record_fault *fault = bl_arena_zalloc(arena, sizeof *fault);
    const struct bl_json *value;
    char text[640] = "it is not JSON";

    int code = bl_json_read(arena, spec, &limits, &value, NULL);
    if (code == 0) {
        code = bl_record_read(arena, &queue_item_record, value, ret_item, fault);
        bl_record_fault_text(fault, text, sizeof text);
    }
    if (code != 0)
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, "read the item", NULL,
                            "invalid item: %s", text);
    if (ret_item->kind == NULL)
        ret_item->kind = kind_names[0];
    if (ret_item->pool == NULL)
        ret_item->pool = QUEUE_POOL;
    if (!ret_item->retry_delayed)
        ret_item->retry_delay_ns = QUEUE_RETRY_NS;
    if (ret_item->retry_on == NULL || ret_item->retry_on[0] == NULL)
        ret_item->retry_on = on_error;
    return 0;
}

bool queue_item_may_retry(struct bl_text end)
{
    size_t value;

    return bl_names_find(&retry_ends, end, &value);
}

bool queue_item_retried(const struct queue_item *item, const char *end)
{
    for (const char *const *name = item->retry_on; *name != NULL; name++)
        if (strcmp(*name, end) == 0)
            return true;
    return false;
}

int queue_check_labels(const char *const *labels, size_t count, struct bl_error *error)
{
    if (count > QUEUE_LABELS_MOST)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--label",
                            "--label is given %zu times (at most %d)", count, QUEUE_LABELS_MOST);
    for (size_t i = 0; i < count; i++)
        if (!label_fits(bl_text_from(labels[i])))
            return cli_value_refuse("--label", labels[i], queue_label_form.expected, error);
    return 0;
}
