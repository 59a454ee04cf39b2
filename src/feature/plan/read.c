#include "plan.h"

#include <stdio.h>

#define PROBLEMS_MAX    1000u
#define SUGGESTIONS_MAX 3u
/* Each suggestion compares all names, so their number is limited. */
#define SUGGESTED_MAX 100u
#define SHOWN_MAX     80u
#define MESSAGE_MAX   ((size_t)64 * 1024)

void plan_loader_init(struct plan_loader *loader, const struct bl_plan_options *options,
                      struct bl_arena *told)
{
    *loader = (struct plan_loader){.options = options, .told = told};
    loader->plan = bl_zalloc(sizeof *loader->plan);
    loader->arena = &loader->plan->arena;
    bl_arena_init(loader->arena);
    bl_list_init(&loader->plan->warnings);
    bl_list_init(&loader->errors);
    bl_map_init(&loader->seen);
    bl_map_init(&loader->ids);
}

void plan_loader_done(struct plan_loader *loader)
{
    bl_map_done(&loader->seen);
    bl_map_done(&loader->ids);
}

/* ---- Problems -------------------------------------------------------------------------------- */

static const char *escaped(struct bl_arena *arena, struct bl_text text)
{
    BL_AUTO_BUFFER(out, 2 * MESSAGE_MAX);

    plan_escape(&out, text.size > MESSAGE_MAX ? bl_utf8_cut(text, MESSAGE_MAX) : text);
    return bl_arena_text(arena, bl_buffer_text(&out)).data;
}

static void plan_read_note(struct plan_loader *loader, const char *file, uint32_t line,
                           const char *code, struct bl_text message)
{
    bool warning = code[0] == 'W';
    struct bl_arena *arena = warning ? loader->arena : loader->told;
    char head[32];
    struct bl_buffer key;

    if (loader->problem_count > PROBLEMS_MAX)
        return;
    snprintf(head, sizeof head, ":%u:%s:", line, code);
    bl_buffer_init(&key, 2 * MESSAGE_MAX);
    bl_buffer_printf(&key, "%s%s", file, head);
    bl_buffer_append(&key, message);
    bool known = bl_map_has(&loader->seen, bl_buffer_text(&key));
    if (!known)
        bl_map_set(&loader->seen, bl_buffer_text(&key), loader, NULL);
    bl_buffer_done(&key);
    if (known)
        return;
    struct bl_plan_problem *problem = bl_arena_zalloc(arena, sizeof *problem);
    if (++loader->problem_count > PROBLEMS_MAX) {
        message = BL_TEXT("more than 1000 problems; the rest is omitted");
        line = 0;
    }
    problem->file = escaped(arena, bl_text_from(file));
    problem->line = line;
    problem->code = warning ? "W" : bl_arena_text(arena, bl_text_from(code)).data;
    problem->message = escaped(arena, message);
    bl_list_push_back(warning ? &loader->plan->warnings : &loader->errors, &problem->link);
}

static BL_PRINTF(5, 0) void note_format(struct plan_loader *loader, const char *file, uint32_t line,
                                        const char *code, const char *format, va_list arguments)
{
    BL_AUTO_BUFFER(message, 2 * MESSAGE_MAX);

    bl_buffer_vprintf(&message, format, arguments);
    plan_read_note(loader, file, line, code, bl_buffer_text(&message));
}

void plan_fault_line(struct plan_loader *loader, const char *file, uint32_t line, const char *code,
                     const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    note_format(loader, file, line, code, format, arguments);
    va_end(arguments);
}

void plan_fault(struct plan_loader *loader, const struct plan_file *file,
                const struct bl_json *node, const char *code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    note_format(loader, file->name, plan_line(file, node), code, format, arguments);
    va_end(arguments);
}

void plan_warn(struct plan_loader *loader, const struct plan_file *file, const struct bl_json *node,
               const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    note_format(loader, file->name, plan_line(file, node), "W", format, arguments);
    va_end(arguments);
}

void plan_warn_line(struct plan_loader *loader, const char *file, uint32_t line, const char *format,
                    ...)
{
    va_list arguments;

    va_start(arguments, format);
    note_format(loader, file, line, "W", format, arguments);
    va_end(arguments);
}

uint32_t plan_line(const struct plan_file *file, const struct bl_json *node)
{
    return node != NULL ? bl_document_place(&file->document, node).line : 1;
}

/* ---- Suggestions ----------------------------------------------------------------------------- */

static bool is_chosen(const char *const *chosen, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(chosen[i], name) == 0)
            return true;
    }
    return false;
}

const char *plan_suggest(struct plan_loader *loader, const char *word, const char *const *names,
                         size_t count)
{
    const char *chosen[SUGGESTIONS_MAX];
    size_t found = 0;

    if (loader->suggestion_count >= SUGGESTED_MAX)
        return "";
    loader->suggestion_count++;
    while (found < SUGGESTIONS_MAX) {
        struct bl_suggestion suggestion;
        bl_suggestion_init(&suggestion, word);
        for (size_t i = 0; i < count; i++) {
            if (names[i][0] != '\0' && !is_chosen(chosen, found, names[i]))
                bl_suggestion_offer(&suggestion, names[i]);
        }
        if (suggestion.best == NULL)
            break;
        chosen[found++] = suggestion.best;
    }
    if (found == 0)
        return "";
    return bl_arena_printf(loader->arena, " Did you mean '%s'%s%s%s%s%s%s?", chosen[0],
                           found > 2 ? ", '" : "", found > 2 ? chosen[1] : "", found > 2 ? "'" : "",
                           found > 1 ? " or '" : "", found > 1 ? chosen[found - 1] : "",
                           found > 1 ? "'" : "")
        .data;
}

const char *plan_show(struct plan_loader *loader, struct bl_text text)
{
    struct bl_text start = bl_utf8_cut(text, SHOWN_MAX);

    return bl_arena_printf(loader->arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(start),
                           start.size < text.size ? "…" : "")
        .data;
}

const char *plan_show_value(struct plan_loader *loader, const struct bl_json *value)
{
    struct bl_text text;

    if (!plan_scalar(loader, value, &text))
        return bl_value_type(value);
    return bl_arena_printf(loader->arena, "'%s'", plan_show(loader, text)).data;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static uint32_t plan_read_line_at(struct bl_text text, size_t offset)
{
    uint32_t line = 1;

    for (size_t i = 0; i < offset; i++)
        line += text.data[i] == '\n';
    return line;
}

const struct bl_plan_source *plan_source(const struct plan_loader *loader, const char *path)
{
    for (size_t i = 0; i < loader->options->source_count; i++) {
        if (strcmp(loader->options->sources[i].path, path) == 0)
            return &loader->options->sources[i];
    }
    return NULL;
}

static int plan_read_text(struct plan_loader *loader, const char *path, size_t size_max,
                          struct bl_text *ret_text, const char **ret_why)
{
    const struct bl_plan_source *unwritten = plan_source(loader, path);
    struct bl_buffer source;

    if (unwritten != NULL) {
        *ret_text = bl_arena_text(loader->arena, unwritten->text);
        return unwritten->text.size <= size_max ? 0 : BL_ELIMIT;
    }
    int code = bl_file_load(path, size_max, &source, ret_why);
    if (code == 0)
        *ret_text = bl_arena_text(loader->arena, bl_buffer_text(&source));
    bl_buffer_done(&source);
    return code;
}

bool plan_file_load(struct plan_loader *loader, const char *path, size_t size_max,
                    struct plan_file *file)
{
    const char *why = "";
    int code = plan_read_text(loader, path, size_max, &file->text, &why);

    if (code == BL_ELIMIT) {
        plan_fault_line(loader, file->name, 1, "E01", "the file is larger than %zu KiB",
                        size_max / 1024);
        return false;
    }
    if (code != 0) {
        plan_fault_line(loader, file->name, 1, "E01", "the file cannot be read: %s", why);
        return false;
    }
    size_t valid = bl_utf8_valid_prefix(file->text, NULL);
    if (valid < file->text.size) {
        plan_fault_line(loader, file->name, plan_read_line_at(file->text, valid), "E01",
                        "the file is not UTF-8: byte 0x%02x at offset %zu",
                        (unsigned char)file->text.data[valid], valid);
        return false;
    }
    return true;
}

/* Adds an error for each duplicate key in a mapping, with the line of the first one. */
static void find_duplicates(struct plan_loader *loader, const struct plan_file *file)
{
    const struct bl_document *document = &file->document;

    for (size_t i = 0; i < document->count; i++) {
        const struct bl_json *object = document->root + i;
        if (object->type != BL_JSON_OBJECT || object->size < 2)
            continue;
        struct bl_map keys;
        bl_map_init(&keys);
        BL_JSON_MEMBERS (key, object) {
            const struct bl_json *first = bl_map_get(&keys, bl_json_text(key));
            if (first == NULL)
                bl_map_set(&keys, bl_json_text(key), (void *)key, NULL);
            else
                plan_fault(loader, file, key, "E01", "duplicate key '%s' (first used in line %u)",
                           plan_show(loader, bl_json_text(key)), plan_line(file, first));
        }
        bl_map_done(&keys);
    }
}

bool plan_file_parse(struct plan_loader *loader, struct plan_file *file, struct bl_text yaml)
{
    const struct bl_json_limits limits = {
        .size_max = PLAN_SIZE_MAX,
        .depth_max = PLAN_DEPTH_MAX,
        .aliases_max = PLAN_ALIASES_MAX,
        .keep_scalars = true,
        .keep_duplicates = true,
    };
    struct bl_json_fault fault;
    int code = bl_document_read(loader->arena, yaml, &limits, &file->document, &fault);

    if (code != 0) {
        const char *what = "not well-formed";
        if (code == BL_ELIMIT)
            what = strcmp(fault.expected, "fewer aliases") == 0 ? "more than 100 aliases"
                   : strcmp(fault.expected, "fewer nested containers") == 0
                       ? "nested deeper than 32"
                       : "over its limit";
        plan_fault_line(loader, file->name, fault.line, "E01",
                        "line %u, column %u: %s: expected %s, found %s", fault.line, fault.column,
                        what, fault.expected, fault.found);
        return false;
    }
    if (file == &loader->file && bl_json_is(file->document.root, BL_JSON_NULL)) {
        plan_fault_line(loader, file->name, 0, "E01",
                        "the file is empty; a plan needs an id, a name and tasks");
        return false;
    }
    if (!bl_json_is(file->document.root, BL_JSON_OBJECT)) {
        plan_fault(loader, file, file->document.root, "E01", "expected one YAML mapping, found %s",
                   bl_value_type(file->document.root));
        return false;
    }
    find_duplicates(loader, file);
    return true;
}

/* ---- Values ---------------------------------------------------------------------------------- */

const struct bl_json *plan_member(const struct bl_json *mapping, const char *name)
{
    const struct bl_json *value = bl_json_get(mapping, bl_text_from(name));

    return value != NULL && value->type != BL_JSON_NULL ? value - 1 : NULL;
}

bool plan_scalar(struct plan_loader *loader, const struct bl_json *value, struct bl_text *ret_text)
{
    char number[32];
    double real;

    switch (bl_json_type(value)) {
    case BL_JSON_STRING: *ret_text = bl_json_text(value); return true;
    case BL_JSON_BOOLEAN: *ret_text = bl_text_from(value->boolean ? "true" : "false"); return true;
    case BL_JSON_INTEGER:
        *ret_text = bl_arena_printf(loader->arena, "%lld", (long long)value->integer);
        return true;
    case BL_JSON_UNSIGNED:
    case BL_JSON_DOUBLE:
        if (!bl_json_double(value, &real))
            return false;
        bl_json_format_double(real, number);
        *ret_text = bl_arena_text(loader->arena, bl_text_from(number));
        return true;
    case BL_JSON_NULL:
    case BL_JSON_ARRAY:
    case BL_JSON_OBJECT:
    case BL_JSON_END: break;
    }
    return false;
}

bool plan_text(struct plan_loader *loader, const struct plan_file *file,
               const struct bl_json *value, const char *code, const char *name,
               const char **ret_text)
{
    struct bl_text text;

    if (!plan_scalar(loader, value, &text)) {
        plan_fault(loader, file, value, code, "%s: expected text, found %s", name,
                   bl_value_type(value));
        return false;
    }
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) {
        plan_fault(loader, file, value, code, "%s contains a NUL byte", name);
        return false;
    }
    *ret_text = text.size > 0 ? text.data : "";
    return true;
}

/* Types a value by YAML's rules, also text that was kept as written. */
static const struct bl_json *typed(struct plan_loader *loader, const struct bl_json *value)
{
    const struct bl_json_limits limits = {.size_max = 64};
    struct bl_document document;

    if (!bl_json_is(value, BL_JSON_STRING))
        return value;
    int code = bl_document_read(loader->arena, bl_json_text(value), &limits, &document, NULL);
    return code == 0 ? document.root : NULL;
}

bool plan_integer(struct plan_loader *loader, const struct bl_json *value, int64_t *ret_integer)
{
    return bl_json_int64(typed(loader, value), ret_integer);
}

/* ---- Mappings -------------------------------------------------------------------------------- */

/* State while a mapping is read. */
struct reading {
    struct bl_source source;
    struct plan_loader *loader;
    const struct plan_file *file;
    const char *name; /* name of the record */
    const char *code;
};

static const char *code_of(const struct reading *reading, const struct bl_member *member)
{
    enum bl_member_type type = member != NULL ? member->type : BL_TYPE_END;

    if (type == BL_TYPE_INTEGER || type == BL_TYPE_NUMBER || type == BL_TYPE_DURATION)
        return "E07";
    if (type == BL_TYPE_END || type == BL_TYPE_BOOLEAN || type == BL_TYPE_ENUM ||
        member->names != NULL)
        return "E08";
    return reading->code;
}

static void plan_read_tell(struct bl_source *source, const struct bl_record_fault *fault)
{
    const struct reading *reading = BL_CONTAINER(source, struct reading, source);
    char text[700];

    /* Without a path the fault is about the mapping itself. */
    bool whole = fault->member != NULL && fault->path[0] == '\0';
    bl_record_fault_text(fault, text, sizeof text);
    if (fault->ignored)
        plan_warn(reading->loader, reading->file, fault->node, "%s", text);
    else
        plan_fault(reading->loader, reading->file, fault->node, code_of(reading, fault->member),
                   "%s%s%s", whole ? reading->name : "", whole ? ": " : "", text);
}

bool plan_record_read(struct plan_loader *loader, const struct plan_file *file,
                      const struct bl_record *record, const struct bl_json *mapping,
                      const char *code, void *into)
{
    struct reading reading = {
        .source = {.document = file->document,
                   .file = file->name,
                   .loose = true,
                   .tell = plan_read_tell},
        .loader = loader,
        .file = file,
        .name = record->name,
        .code = code,
    };

    return bl_source_read(&reading.source, loader->arena, record, mapping, into) == 0;
}

static bool plan_read_is_command(struct bl_text text)
{
    return bl_text_trim(text).size > 0;
}

const struct bl_form plan_form_command = {
    .expected = "a non-empty command",
    .fits = plan_read_is_command,
};
