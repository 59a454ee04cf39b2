/* Writes docs/schemas from the tables of records.
 *
 * The files of the cell protocol are whole: one for each message, which may refer to each other.
 * Any other schema refers to nothing outside of it, so that many files hold the same records under
 * $defs. Each such definition, and each file that is about one record, is written from its table;
 * what the files say besides (which envelope a command has) stays as it is. A definition that only
 * such parts referred to is dropped with them.
 *
 *     write_schemas [--check] docs/schemas */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <belay/feature.h>

#include "cell/codec/codec.h"
#include "cli/answers.h"
#include "cli/queue/queue.h"
#include "model/script/cassette.h"

#define SCHEMA_MAX  ((size_t)4 << 20)
#define ENTRIES_MAX 256u
#define REFERENCE   "#/$defs/"

static const struct {
    const struct bl_record *record;
    const char *file; /* that is about it; NULL: none */
} described[] = {
    {&bl_error_record, "error"},
    {&bl_receipt_record, "receipt"},
    {&bl_usage_record, NULL},
    {&bl_spent_record, NULL},
    {&bl_turn_result_record, "turn-result"},
    {&bl_event_record, "event"},
    {&bl_checkpoint_record, "feature-checkpoint"},
    {&bl_feature_event_record, "feature-event"},
    {&cell_listening_record, "cell-serve"},
    {&cli_envelope_record, "envelope"},
    {&bl_store_line_record, "session-line"},
    {&queue_item_record, "item"},
    {&cassette_head_record, NULL}, /* of cassette-line */
    {&cassette_exchange_record, NULL},
    {&script_listening_record, NULL}, /* of script-serve */
    {&bl_script_served_record, NULL},
};

/* Each gives the file of its record's name. */
static const struct cli_answer *const answers[] = {
    &bootstrap_answer,
    &run_answer,
    &cancel_answer,
    &cell_create_answer,
    &cell_list_answer,
    &cell_observe_answer,
    &cell_release_answer,
    &cell_run_answer,
    &cell_terminate_answer,
    &doctor_answer,
    &commands_answer,
    &mcp_list_answer,
    &doctor_provider_answer,
    &feature_answer,
    &feature_cancel_answer,
    &feature_clean_answer,
    &feature_extend_answer,
    &feature_list_answer,
    &feature_logs_answer,
    &feature_new_answer,
    &feature_pause_answer,
    &feature_report_answer,
    &feature_status_all_answer,
    &feature_validate_answer,
    &fleet_init_answer,
    &fleet_list_answer,
    &fleet_status_answer,
    &hold_answer,
    &inject_answer,
    &ps_answer,
    &route_answer,
    &session_delete_answer,
    &session_export_answer,
    &session_list_answer,
    &session_made_answer,
    &session_move_answer,
    &session_show_answer,
    &submit_answer,
    &tool_answer,
    &tools_answer,
    &watch_answer,
};

#define HEAD_MAX 8u

/* A definition, or a member of the schema itself. */
struct entry {
    struct bl_text name;
    const struct bl_json *value;
    bool wanted;
};

struct entries {
    struct entry all[ENTRIES_MAX];
    size_t count;
};

struct schema {
    struct bl_arena *arena;
    struct entries generated; /* definitions from tables, whether the file has them or not */
    struct entries members;   /* of the file */
    struct entries definitions;
};

static void schemas_fail(const char *path, const char *message)
{
    fprintf(stderr, "write_schemas: %s: %s\n", path, message);
    exit(1);
}

static const struct bl_json *schemas_read(struct bl_arena *arena, struct bl_text text,
                                          const char *path)
{
    const struct bl_json *value;
    if (bl_json_read(arena, text, NULL, &value, NULL) != 0 || !bl_json_is(value, BL_JSON_OBJECT))
        schemas_fail(path, "not a JSON object");
    return value;
}

static void schemas_describe(struct bl_buffer *out, const struct bl_record *record, uint32_t indent)
{
    struct bl_json_writer writer;

    bl_buffer_init(out, SCHEMA_MAX);
    bl_json_writer_init(&writer, out);
    bl_json_writer_indent(&writer, indent);
    bl_record_schema(&writer, record);
    if (bl_json_writer_done(&writer) != 0)
        schemas_fail(record->name, "cannot be described");
}

static const struct bl_json *schemas_generate(struct bl_arena *arena,
                                              const struct bl_record *record)
{
    struct bl_buffer out;

    schemas_describe(&out, record, 0);
    const struct bl_json *value = schemas_read(arena, bl_buffer_text(&out), record->name);
    bl_buffer_done(&out);
    return value;
}

static bool schemas_is_one_of(struct bl_text name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (bl_text_equal(name, bl_text_from(*names)))
            return true;
    }
    return false;
}

static struct entry *schemas_find(struct entries *entries, struct bl_text name)
{
    for (size_t i = 0; i < entries->count; i++) {
        if (bl_text_equal(entries->all[i].name, name))
            return &entries->all[i];
    }
    return NULL;
}

static void schemas_put(struct entries *entries, struct bl_text name, const struct bl_json *value)
{
    if (schemas_find(entries, name) != NULL)
        return;
    if (entries->count == ENTRIES_MAX)
        schemas_fail(name.data, "too many definitions");
    entries->all[entries->count++] = (struct entry){.name = name, .value = value};
}

/* A record's own schema without what only a file has. */
static const struct bl_json *schemas_body(struct bl_arena *arena, const struct bl_json *generated)
{
    static const char *const of_files[] = {"$schema", "$id", "$defs", NULL};
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, SCHEMA_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    BL_JSON_MEMBERS (key, generated) {
        if (schemas_is_one_of(bl_json_text(key), of_files))
            continue;
        bl_json_write_key(&writer, bl_json_text(key));
        bl_json_write_value(&writer, key + 1);
    }
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) != 0)
        schemas_fail("a record", "too large");
    const struct bl_json *value = schemas_read(arena, bl_buffer_text(&out), "a record");
    bl_buffer_done(&out);
    return value;
}

/* Definitions of all records, and `*ret_own`, the one that the file is about. */
static void schemas_generate_all(struct schema *schema, const char *file,
                                 const struct bl_json **ret_own)
{
    *ret_own = NULL;
    for (size_t i = 0; i < BL_COUNT(described); i++) {
        const struct bl_json *generated = schemas_generate(schema->arena, described[i].record);
        const struct bl_json *body = schemas_body(schema->arena, generated);
        schemas_put(&schema->generated, bl_text_from(described[i].record->name), body);
        BL_JSON_MEMBERS (key, bl_json_get(generated, BL_TEXT("$defs")))
            schemas_put(&schema->generated, bl_json_text(key), key + 1);
        if (described[i].file != NULL && strcmp(described[i].file, file) == 0)
            *ret_own = body;
    }
}

/* Members and definitions in the order of the file; what is new comes last. */
static void schemas_collect(struct schema *schema, const struct bl_json *old,
                            const struct bl_json *own)
{
    static const char *const head[] = {"$schema", "$id", "title", NULL};

    BL_JSON_MEMBERS (key, old) {
        struct bl_text name = bl_json_text(key);
        if (!bl_text_equal(name, BL_TEXT("$defs")) &&
            (own == NULL || schemas_is_one_of(name, head)))
            schemas_put(&schema->members, name, key + 1);
    }
    BL_JSON_MEMBERS (key, own)
        schemas_put(&schema->members, bl_json_text(key), key + 1);
    BL_JSON_MEMBERS (key, bl_json_get(old, BL_TEXT("$defs"))) {
        const struct entry *entry = schemas_find(&schema->generated, bl_json_text(key));
        schemas_put(&schema->definitions, bl_json_text(key),
                    entry != NULL ? entry->value : key + 1);
    }
    for (size_t i = 0; i < schema->generated.count; i++)
        schemas_put(&schema->definitions, schema->generated.all[i].name,
                    schema->generated.all[i].value);
}

/* ---- What is referred to --------------------------------------------------------------------- */

static void schemas_want(struct entries *definitions, const struct bl_json *value, bool deep);

static void schemas_want_name(struct entries *definitions, struct bl_text name, bool deep)
{
    struct entry *entry = schemas_find(definitions, name);

    if (entry == NULL || entry->wanted)
        return;
    entry->wanted = true;
    if (deep)
        schemas_want(definitions, entry->value, true);
}

/* Marks the definitions that a part of the schema refers to; `deep`: and those that they do. */
static void schemas_want(struct entries *definitions, const struct bl_json *value, bool deep)
{
    struct bl_text prefix = BL_TEXT(REFERENCE), text;

    BL_JSON_EACH (element, bl_json_is(value, BL_JSON_ARRAY) ? value : NULL)
        schemas_want(definitions, element, deep);
    BL_JSON_MEMBERS (key, value) {
        text = bl_json_text(key + 1);
        if (bl_text_equal(bl_json_text(key), BL_TEXT("$ref")) && bl_text_starts_with(text, prefix))
            schemas_want_name(definitions,
                              (struct bl_text){text.data + prefix.size, text.size - prefix.size},
                              deep);
        schemas_want(definitions, key + 1, deep);
    }
}

/* What the file itself does not refer to is there for others, who refer to it by its name. */
static void schemas_want_for_others(struct schema *schema, const struct bl_json *old)
{
    const struct bl_json *definitions = bl_json_get(old, BL_TEXT("$defs"));
    struct entries *before = bl_zalloc(sizeof *before);

    BL_JSON_MEMBERS (key, definitions)
        schemas_put(before, bl_json_text(key), key + 1);
    schemas_want(before, old, false);
    for (size_t i = 0; i < before->count; i++) {
        if (!before->all[i].wanted)
            schemas_want_name(&schema->definitions, before->all[i].name, true);
    }
    bl_free(before);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void schemas_write_entries(struct bl_json_writer *writer, const struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        if (!entries->all[i].wanted)
            continue;
        bl_json_write_key(writer, entries->all[i].name);
        bl_json_write_value(writer, entries->all[i].value);
    }
}

static void schemas_write(struct schema *schema, struct bl_buffer *out)
{
    struct bl_json_writer writer;
    bool any = false;

    for (size_t i = 0; i < schema->members.count; i++) {
        schema->members.all[i].wanted = true;
        schemas_want(&schema->definitions, schema->members.all[i].value, true);
    }
    for (size_t i = 0; i < schema->definitions.count; i++)
        any = any || schema->definitions.all[i].wanted;
    bl_json_writer_init(&writer, out);
    bl_json_writer_indent(&writer, 2);
    bl_json_write_object(&writer);
    schemas_write_entries(&writer, &schema->members);
    if (any) {
        bl_json_write_key(&writer, BL_TEXT("$defs"));
        bl_json_write_object(&writer);
        schemas_write_entries(&writer, &schema->definitions);
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) != 0)
        schemas_fail("a schema", "too large");
    bl_buffer_append_byte(out, '\n');
}

/* Puts `text` into the file, or says that it is stale; false: it was. */
static bool schemas_settle(int folder, const char *name, struct bl_text old, struct bl_text text,
                           bool check)
{
    bool same = bl_text_equal(old, text);

    if (!same && !check) {
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, text.data, text.size) != (ssize_t)text.size || close(fd) != 0)
            schemas_fail(name, strerror(errno));
    }
    if (!same)
        fprintf(stderr, "%s %s\n", name, check ? "is stale" : "written");
    return same;
}

/* Each of these returns false if the file was stale. */
static bool schemas_update(int folder, const char *name, bool check)
{
    struct bl_arena arena = {0};
    struct schema *schema = bl_zalloc(sizeof *schema);
    char *text = bl_alloc(SCHEMA_MAX), file[256];
    struct bl_buffer out;

    struct bl_text old = bl_file_read(folder, name, text, SCHEMA_MAX);
    snprintf(file, sizeof file, "%.*s", (int)(strlen(name) - strlen(".json")), name);
    schema->arena = &arena;
    const struct bl_json *value = schemas_read(&arena, old, name), *own;
    schemas_generate_all(schema, file, &own);
    schemas_collect(schema, value, own);
    schemas_want_for_others(schema, value);
    bl_buffer_init(&out, SCHEMA_MAX);
    schemas_write(schema, &out);
    bool same = schemas_settle(folder, name, old, bl_buffer_text(&out), check);
    bl_buffer_done(&out);
    bl_free(text);
    bl_free(schema);
    bl_arena_done(&arena);
    return same;
}

/* ---- Envelopes ------------------------------------------------------------------------------- */

/* The members of all envelopes, as this one has them. */
struct head {
    struct bl_member members[HEAD_MAX];
    struct bl_record record;
    char command[32];
    const char *names[2]; /* the command and the format */
    struct bl_names sets[2];
};

static void schemas_head(struct head *head, const struct cli_answer *answer, bool streamed,
                         const struct bl_numbers *exits)
{
    struct bl_member *to = head->members;

    snprintf(head->command, sizeof head->command, "%.*s", (int)strcspn(answer->of, " "),
             answer->of);
    head->names[0] = head->command;
    head->names[1] =
        bl_names_get(&cli_json_formats, streamed ? CLI_FORMAT_STREAM_JSON : CLI_FORMAT_JSON);
    for (size_t i = 0; i < BL_COUNT(head->sets); i++)
        head->sets[i] = (struct bl_names){&head->names[i], 1};
    for (const struct bl_member *from = cli_head_record.members; from->type != BL_TYPE_END;
         from++) {
        if (from->optional && !streamed)
            continue;
        *to = *from;
        to->optional = false;
        if (strcmp(from->name, "command") == 0)
            to->names = &head->sets[0];
        else if (strcmp(from->name, "output_format") == 0)
            to->names = &head->sets[1];
        else if (strcmp(from->name, "exit_code") == 0 && exits->count > 0)
            to->numbers = exits;
        to++;
    }
    head->record.members = head->members;
}

/* One form of the envelope: with the answer, or with an error in its place. */
struct form {
    struct head head;
    struct bl_member members[3];
    struct bl_record record;
};

static void schemas_form(struct form *form, struct bl_member *member,
                         const struct cli_answer *answer, bool streamed, bool failed)
{
    static const char *const names[2][2] = {{"answer", "failure"},
                                            {"streamed_answer", "streamed_failure"}};
    static const int64_t done[] = {CLI_EXIT_OK}, failing[] = {CLI_EXIT_FAILED, CLI_EXIT_USAGE};
    static const struct bl_numbers usual[] = {BL_NUMBERS(done), BL_NUMBERS(failing)};
    const struct bl_numbers *exits = failed ? answer->failures : answer->exits;

    schemas_head(&form->head, answer, streamed, exits != NULL ? exits : &usual[failed]);
    form->members[0] = (struct bl_member)BL_MEMBER_INCLUDE(&form->head.record);
    form->members[1] =
        (struct bl_member)BL_MEMBER_INCLUDE(!failed                   ? &answer->record
                                            : answer->failure != NULL ? answer->failure
                                                                      : &cli_failure_record);
    form->record = (struct bl_record){
        .name = names[streamed][failed], .members = form->members, .closed = true};
    *member = (struct bl_member)BL_MEMBER_GROUP(form->record.name, &form->record);
}

static void schemas_write_envelope(struct bl_json_writer *writer, const struct cli_answer *answer,
                                   const struct bl_member *forms, const struct bl_json *generated)
{
    char title[128];

    snprintf(title, sizeof title, "The envelope of belay %s", answer->of);
    bl_json_write_object(writer);
    BL_JSON_MEMBERS (key, generated) {
        if (bl_text_equal(bl_json_text(key), BL_TEXT("required"))) {
            bl_json_write_key(writer, BL_TEXT("oneOf"));
            bl_json_write_array(writer);
            for (; forms->type != BL_TYPE_END; forms++) {
                char reference[64];
                snprintf(reference, sizeof reference, REFERENCE "%s", forms->name);
                bl_json_write_object(writer);
                bl_json_put_string(writer, "$ref", reference);
                bl_json_write_end(writer);
            }
            bl_json_write_end(writer);
        } else if (!bl_text_equal(bl_json_text(key), BL_TEXT("properties"))) {
            bl_json_write_key(writer, bl_json_text(key));
            bl_json_write_value(writer, key + 1);
        }
        if (bl_text_equal(bl_json_text(key), BL_TEXT("$id")))
            bl_json_put_string(writer, "title", title);
    }
    bl_json_write_end(writer);
}

/* An envelope is one of its forms: as a record it would have them as members. */
static bool schemas_update_answer(int folder, const struct cli_answer *answer, bool check)
{
    struct form forms[4] = {0};
    struct bl_member members[5] = {0};
    struct bl_record record = answer->record;
    struct bl_arena arena = {0};
    char *text = bl_alloc(SCHEMA_MAX), path[256];
    struct bl_json_writer writer;
    struct bl_buffer out;
    size_t count = 0;

    for (int failed = 0; failed < 2; failed++) {
        for (int streamed = 0; streamed < 2; streamed++) {
            if (failed || answer->format == CLI_ANSWER_ANY ||
                streamed == (answer->format == CLI_ANSWER_STREAM)) {
                schemas_form(&forms[count], &members[count], answer, streamed, failed);
                count++;
            }
        }
    }
    record.members = members;
    bl_buffer_init(&out, SCHEMA_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_writer_indent(&writer, 2);
    schemas_write_envelope(&writer, answer, members, schemas_generate(&arena, &record));
    bl_buffer_append_byte(&out, '\n');
    snprintf(path, sizeof path, "%s.json", record.name);
    bool same = schemas_settle(folder, path, bl_file_read(folder, path, text, SCHEMA_MAX),
                               bl_buffer_text(&out), check);
    bl_buffer_done(&out);
    bl_free(text);
    bl_arena_done(&arena);
    return same;
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* "cell:hello" in cell/hello.json. */
static bool schemas_update_whole(int folder, const struct bl_record *record, bool check)
{
    char *text = bl_alloc(SCHEMA_MAX), path[256];
    struct bl_buffer out;

    snprintf(path, sizeof path, "%s.json", record->name);
    *strchr(path, ':') = '/';
    schemas_describe(&out, record, 2);
    bl_buffer_append_byte(&out, '\n');
    bool same = schemas_settle(folder, path, bl_file_read(folder, path, text, SCHEMA_MAX),
                               bl_buffer_text(&out), check);
    bl_buffer_done(&out);
    bl_free(text);
    return same;
}

static int schemas_is_schema(const struct dirent *entry)
{
    return bl_text_ends_with(bl_text_from(entry->d_name), BL_TEXT(".json"));
}

static bool schemas_is_answer(const char *file)
{
    for (size_t i = 0; i < BL_COUNT(answers); i++) {
        size_t size = strlen(answers[i]->record.name);
        if (strncmp(file, answers[i]->record.name, size) == 0 && strcmp(file + size, ".json") == 0)
            return true;
    }
    return false;
}

static bool schemas_update_folder(int folder, const char *path, bool check)
{
    struct dirent **files;
    bool fresh = true;

    for (size_t i = 0; i < BL_COUNT(answers); i++)
        fresh = schemas_update_answer(folder, answers[i], check) && fresh;
    int count = scandir(path, &files, schemas_is_schema, alphasort);
    if (count < 0)
        schemas_fail(path, strerror(errno));
    for (int i = 0; i < count; i++) {
        if (!schemas_is_answer(files[i]->d_name))
            fresh = schemas_update(folder, files[i]->d_name, check) && fresh;
        free(files[i]);
    }
    free(files);
    return fresh;
}

/* A file of the protocol that no table describes is stale, too. */
static bool schemas_update_protocol(int folder, bool check)
{
    struct dirent **files;
    size_t described_count = 0;
    bool fresh = true;

    for (; cell_schemas[described_count] != NULL; described_count++)
        fresh = schemas_update_whole(folder, cell_schemas[described_count], check) && fresh;
    for (size_t i = 0; i < cell_operations.count; i++, described_count++)
        fresh = schemas_update_whole(folder, cell_ok_records[i], check) && fresh;
    int count = scandirat(folder, "cell", &files, schemas_is_schema, NULL);
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    if (count != (int)described_count) {
        fprintf(stderr, "cell: %d files, but %zu tables\n", count, described_count);
        return false;
    }
    return fresh;
}

int main(int argc, char **argv)
{
    bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
    const char *path = argv[argc - 1];

    if (argc != 2 && !check)
        schemas_fail("usage", "write_schemas [--check] FOLDER");
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        schemas_fail(path, strerror(errno));
    bool fresh = schemas_update_protocol(folder, check);
    fresh = schemas_update_folder(folder, path, check) && fresh;
    close(folder);
    if (check && !fresh)
        fprintf(stderr, "Run 'ninja -C build schemas', and commit what it writes.\n");
    return check && !fresh;
}
