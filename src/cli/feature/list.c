/* `belay feature list`: one line per feature, from the store. */
#include "feature.h"

#include <inttypes.h>

#include "cli/answers.h"
#include "cli/chat/view.h"

#define TEXT_MAX   ((size_t)16 * 1024 * 1024)
#define UNKNOWN    "–"
#define NAME_WIDTH 32u

/* A row of the list. */
struct item {
    const struct bl_store_feature_summary *summary;
    const struct bl_json *record; /* NULL: not readable */
    const char *state;
    int64_t done; /* negative: unknown */
    int64_t total;
    double age_s;
    struct bl_spent spent;
    bool spent_known;
    /* From the summary. */
    const char *id;
    const char *name;
    const char *repository;
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    const char *owner; /* NULL: no owner */
};

struct listing {
    struct bl_arena arena;
    const struct feature_options *options;
    struct item *items;
    size_t count;
    struct bl_error error;
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* Returns the state. If the runner died, the recorded state is outdated. */
static const char *feature_list_state_of(const struct item *item)
{
    static const char *const live[] = {"running", "draining", "paused"};
    const char *state = bl_json_text(bl_json_get(item->record, BL_TEXT("state"))).data;
    int life = item->summary->owner.life;

    for (size_t i = 0; i < BL_COUNT(live); i++) {
        if (state != NULL && strcmp(state, live[i]) == 0 && life != BL_OWNER_ALIVE &&
            life != BL_OWNER_OUT_OF_SIGHT)
            return "interrupted";
    }
    return state;
}

static void read_item(struct listing *listing, const struct bl_store_feature_summary *summary,
                      struct item *item)
{
    double cost;
    bool held =
        summary->owner.life == BL_OWNER_ALIVE || summary->owner.life == BL_OWNER_OUT_OF_SIGHT;

    *item = (struct item){
        .summary = summary,
        .done = -1,
        .total = -1,
        .id = summary->id,
        .name = summary->name,
        .repository = summary->repository,
        .created_wall_ns = summary->created_wall_ns,
        .updated_wall_ns = summary->updated_wall_ns,
        .owner = held ? summary->owner.text : NULL,
    };
    if (bl_json_read(&listing->arena, summary->record, NULL, &item->record, NULL) != 0)
        item->record = NULL;
    item->state = feature_list_state_of(item);
    bl_json_int64(bl_json_get(item->record, BL_TEXT("tasks_done")), &item->done);
    bl_json_int64(bl_json_get(item->record, BL_TEXT("tasks_total")), &item->total);
    item->age_s = (double)(bl_clock_wall_ns(&bl_clock_system) - summary->created_wall_ns) / 1e9;
    const struct bl_json *spent = bl_json_get(item->record, BL_TEXT("spent"));
    item->spent_known = bl_json_is(spent, BL_JSON_OBJECT);
    if (item->spent_known) {
        bl_record_take(NULL, &bl_spent_record, spent, &item->spent);
        item->spent.cost_unknown = !bl_json_double(bl_json_get(spent, BL_TEXT("cost_usd")), &cost);
    }
}

static int feature_list_load(struct listing *listing, struct bl_store *store)
{
    const struct feature_options *options = listing->options;
    const char *repository = NULL;
    struct bl_list summaries;
    size_t count = 0;

    int code = 0;
    if (!options->all)
        code =
            bl_plan_repository(&listing->arena, options->directory, &repository, &listing->error);
    if (code != 0 || store == NULL)
        return code;
    code = bl_store_feature_list(store, &listing->arena, repository, &summaries, &listing->error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &summaries)
        count++;
    listing->items = bl_arena_alloc(&listing->arena, (count + 1) * sizeof *listing->items);
    BL_LIST_EACH (link, &summaries)
        read_item(listing, BL_CONTAINER(link, struct bl_store_feature_summary, link),
                  &listing->items[listing->count++]);
    return 0;
}

static int feature_list_main(void *argument)
{
    struct listing *listing = argument;
    struct bl_store *store = NULL;

    int code = feature_store_open(listing->options, true, &store, &listing->error);
    if (code == BL_ENOENT) {
        listing->error = (struct bl_error){0};
        code = 0;
    }
    if (code == 0)
        code = feature_list_load(listing, store);
    bl_store_close(store);
    return code;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void end_cell(struct bl_buffer *out, size_t from, size_t width)
{
    struct bl_text cell = {out->data + from, out->size - from};

    for (size_t taken = text_width(cell); taken < width; taken++)
        bl_buffer_append_byte(out, ' ');
    bl_buffer_append(out, BL_TEXT("  "));
}

static void feature_list_put_cell(struct bl_buffer *out, const char *text, size_t width)
{
    size_t from = out->size;

    feature_put_safe(out, bl_text_from(text != NULL ? text : UNKNOWN));
    end_cell(out, from, width);
}

/* Puts a name, cut to its column. */
static void feature_list_put_name(struct bl_buffer *out, const char *name)
{
    struct bl_text text = bl_text_from(name != NULL ? name : UNKNOWN);
    size_t from = out->size;

    if (text_width(text) > NAME_WIDTH) {
        while (text_width(text) > NAME_WIDTH - 1)
            text = bl_utf8_cut(text, text.size - 1);
        feature_put_safe(out, text);
        bl_buffer_append(out, BL_TEXT("…"));
    } else {
        feature_put_safe(out, text);
    }
    end_cell(out, from, NAME_WIDTH);
}

static void feature_list_put_item(struct bl_buffer *out, const struct item *item, size_t id_width,
                                  bool all)
{
    size_t from;
    char span[16];

    feature_list_put_cell(out, item->summary->id, id_width);
    feature_list_put_name(out, item->summary->name);
    feature_list_put_cell(out, item->state, 11);
    from = out->size;
    if (item->done >= 0 && item->total >= 0)
        bl_buffer_printf(out, "%" PRId64 "/%" PRId64, item->done, item->total);
    else
        bl_buffer_append(out, BL_TEXT(UNKNOWN));
    end_cell(out, from, 7);
    feature_list_put_cell(out, feature_span_text(item->age_s, span), 6);
    from = out->size;
    if (!item->spent_known || (item->spent.cost_unknown && !(item->spent.cost_usd > 0)))
        bl_buffer_append(out, BL_TEXT(UNKNOWN));
    else
        bl_buffer_printf(out, "$%.2f%s", item->spent.cost_usd, item->spent.cost_unknown ? "+" : "");
    if (all) {
        end_cell(out, from, 8);
        feature_put_safe(out, bl_text_from(item->summary->repository));
    }
    bl_buffer_append_byte(out, '\n');
}

static int feature_list_print_text(const struct listing *listing)
{
    bool all = listing->options->all;
    size_t id_width = 2;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    for (size_t i = 0; i < listing->count; i++) {
        size_t width = strlen(listing->items[i].summary->id);
        id_width = width > id_width ? width : id_width;
    }
    if (listing->count > 0)
        bl_buffer_printf(&out, "%-*s  %-*s  %-11s  %-7s  %-6s  %s%s\n", (int)id_width, "ID",
                         (int)NAME_WIDTH, "NAME", "STATE", "DONE", "AGE", "COST",
                         all ? "      REPOSITORY" : "");
    else
        bl_buffer_append(&out, all ? BL_TEXT("No features.\n")
                                   : BL_TEXT("No features in this repository; --all lists those "
                                             "of all repositories.\n"));
    for (size_t i = 0; i < listing->count; i++)
        feature_list_put_item(&out, &listing->items[i], id_width, all);
    return cli_print(listing->options->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

const struct bl_form cli_path_form = {"an absolute path", "^/", NULL};

#define BL_RECORD_STRUCT struct item
static const struct bl_member item_members[] = {
    BL_MEMBER_STRING("feature", id, .form = &cli_feature_id_form),
    BL_MEMBER_STRING("name", name, .nullable = true),
    BL_MEMBER_STRING("repository", repository, .form = &cli_path_form,
                     .about = "Top folder of its work tree."),
    BL_MEMBER_STRING("state", state, .nullable = true,
                     .about = "State as in status; null: no record."),
    BL_MEMBER_INTEGER("tasks_done", done, .nullable = true, .none = -1,
                      .about = "Tasks that are completed or deferred; null: not known."),
    BL_MEMBER_INTEGER("tasks_total", total, .nullable = true, .none = -1),
    BL_MEMBER_TIME("created_at", created_wall_ns),
    BL_MEMBER_TIME("updated_at", updated_wall_ns),
    BL_MEMBER_NUMBER("age_s", age_s, .least = INT64_MIN, .about = "Time since its first run."),
    BL_MEMBER_STRING("owner", owner, .nullable = true,
                     .about = "Process that runs it, and its host."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record, .nullable = true, BL_KNOWN(spent_known),
                     .about = "null: not known."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record item_record =
    BL_RECORD("listed_feature", struct item, item_members, .closed = true);
static const struct bl_member item_element = BL_ELEMENT(struct item, &item_record);

#define BL_RECORD_STRUCT struct listing
static const struct bl_member list_members[] = {
    BL_MEMBER_ARRAY("features", items, count, &item_element, .about = "Newest first."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer feature_list_answer = {
    BL_RECORD("feature-list", struct listing, list_members), .of = "feature list"};

int feature_list_command(const struct feature_options *options)
{
    struct listing listing = {.options = options};
    int exit_code;

    bl_arena_init(&listing.arena);
    if (cli_loop_run("feature list", feature_list_main, &listing, &listing.error) != 0)
        exit_code = cli_fail(options->call, &listing.error, cli_error_exit_code(&listing.error));
    else if (options->call->format == CLI_FORMAT_TEXT)
        exit_code = feature_list_print_text(&listing);
    else
        exit_code =
            cli_answer_print(options->call, CLI_EXIT_OK, &feature_list_answer.record, &listing);
    bl_arena_done(&listing.arena);
    return exit_code;
}
