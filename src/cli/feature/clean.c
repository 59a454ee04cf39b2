/* `belay feature clean`: removes finished worktrees and branches, and lists why the others stay. */
#include "feature.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/answers.h"

#define TEXT_MAX ((size_t)16 * 1024 * 1024)

struct cleaning {
    struct feature_work work;
    struct bl_list items; /* struct bl_clean_item */
    size_t removed;
    size_t kept;
};

static const char *branch_of(const struct bl_clean_item *item)
{
    static const char heads[] = "refs/heads/";
    bool full = item->branch != NULL && strncmp(item->branch, heads, strlen(heads)) == 0;

    return full ? item->branch + strlen(heads) : item->branch;
}

static int clean_main(void *argument)
{
    struct cleaning *cleaning = argument;
    struct feature_work *work = &cleaning->work;

    int code = feature_work_open(work);
    if (code == 0)
        code = bl_feature_clean(work->store, &work->arena, work->repository, work->id,
                                work->options->dry_run, &cleaning->items, &work->error);
    feature_work_close(work);
    BL_LIST_EACH (link, &cleaning->items) {
        bool removed = BL_CONTAINER(link, struct bl_clean_item, link)->removed;
        cleaning->removed += removed;
        cleaning->kept += !removed;
    }
    return code;
}

/* Puts a size, such as "12 KiB". */
static void put_bytes(struct bl_buffer *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;

    for (; size >= 1024 && unit + 1 < BL_COUNT(units); unit++)
        size /= 1024;
    bl_buffer_printf(out, unit > 0 && size < 10 ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

static void feature_clean_put_item(struct bl_buffer *out, const struct bl_clean_item *item,
                                   bool dry_run)
{
    bl_buffer_append(out, !item->removed ? BL_TEXT("kept         ")
                          : dry_run      ? BL_TEXT("would remove ")
                                         : BL_TEXT("removed      "));
    feature_put_safe(out, bl_text_from(item->branch != NULL ? branch_of(item) : item->task));
    if (item->worktree != NULL) {
        bl_buffer_append(out, BL_TEXT(", "));
        feature_put_safe(out, bl_text_from(item->worktree));
        bl_buffer_append(out, BL_TEXT(" ("));
        put_bytes(out, item->bytes);
        bl_buffer_append_byte(out, ')');
    }
    if (!item->removed && item->reason != NULL) {
        bl_buffer_append(out, BL_TEXT(": "));
        feature_put_safe(out, bl_text_from(item->reason));
    }
    bl_buffer_append_byte(out, '\n');
}

static int feature_clean_print_text(const struct cleaning *cleaning)
{
    const struct feature_options *options = cleaning->work.options;
    size_t count = cleaning->removed + cleaning->kept;
    BL_AUTO_BUFFER(out, TEXT_MAX);

    BL_LIST_EACH (link, &cleaning->items)
        feature_clean_put_item(&out, BL_CONTAINER(link, struct bl_clean_item, link),
                               options->dry_run);
    if (count == 0)
        bl_buffer_printf(&out, "%s has no worktrees and no branches: nothing to remove.\n",
                         cleaning->work.id);
    else
        bl_buffer_printf(&out, "%zu of %zu %s.\n", cleaning->removed, count,
                         options->dry_run ? "would be removed" : "removed");
    return cli_print(options->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

struct clean_row {
    const char *task;
    const char *branch;
    const char *worktree;
    bool removed;
    const char *reason;
    uint64_t bytes;
};

struct clean_view {
    const char *feature;
    bool dry_run;
    uint64_t removed;
    uint64_t kept;
    struct clean_row *items;
    size_t item_count;
    const struct bl_error *error; /* NULL: none */
};

#define BL_RECORD_STRUCT struct clean_row
static const struct bl_member row_members[] = {
    BL_MEMBER_STRING("task", task, .nullable = true, .form = &cli_feature_id_form,
                     .about = "null: the result branch."),
    BL_MEMBER_STRING("branch", branch, .nullable = true),
    BL_MEMBER_STRING("worktree", worktree, .nullable = true),
    BL_MEMBER_BOOLEAN("removed", removed),
    BL_MEMBER_STRING("reason", reason, .nullable = true, .about = "Why it was kept."),
    BL_MEMBER_INTEGER("bytes", bytes, .about = "Size of the worktree."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record row_record =
    BL_RECORD("clean_item", struct clean_row, row_members, .closed = true);
static const struct bl_member row_element = BL_ELEMENT(struct clean_row, &row_record);

#define BL_RECORD_STRUCT struct clean_view
static const struct bl_member clean_members[] = {
    BL_MEMBER_STRING("feature", feature, .form = &cli_feature_id_form),
    BL_MEMBER_BOOLEAN("dry_run", dry_run, .about = "True: nothing was removed."),
    BL_MEMBER_INTEGER("removed", removed, .about = "In a dry run: items that would be removed."),
    BL_MEMBER_INTEGER("kept", kept),
    BL_MEMBER_ARRAY("items", items, item_count, &row_element),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true,
                      .about = "Why it failed after some items were removed."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer feature_clean_answer = {
    BL_RECORD("feature-clean", struct clean_view, clean_members), .of = "feature clean",
    .exits = &cli_exits_failing};

static int clean_print_json(struct cleaning *cleaning, int exit_code)
{
    struct feature_work *work = &cleaning->work;
    struct clean_view view = {.feature = work->id,
                              .dry_run = work->options->dry_run,
                              .removed = cleaning->removed,
                              .kept = cleaning->kept,
                              .error = work->error.code != 0 ? &work->error : NULL};

    view.items =
        bl_arena_alloc(&work->arena, (cleaning->removed + cleaning->kept) * sizeof *view.items);
    BL_LIST_EACH (link, &cleaning->items) {
        const struct bl_clean_item *item = BL_CONTAINER(link, struct bl_clean_item, link);
        view.items[view.item_count++] = (struct clean_row){
            item->task,
            branch_of(item),
            item->worktree,
            item->removed,
            item->removed ? NULL : item->reason,
            item->bytes,
        };
    }
    return cli_answer_print(work->options->call, exit_code, &feature_clean_answer.record, &view);
}

/* Reports a failure, with the items removed before it. */
static int tell_failure(struct cleaning *cleaning)
{
    const struct cli_call *call = cleaning->work.options->call;
    const struct bl_error *error = &cleaning->work.error;
    int exit_code = cli_error_exit_code(error);

    if (cleaning->removed == 0)
        return cli_fail(call, error, exit_code);
    if (call->format != CLI_FORMAT_TEXT)
        return clean_print_json(cleaning, exit_code);
    feature_clean_print_text(cleaning);
    return cli_fail(call, error, exit_code);
}

int feature_clean_command(const struct feature_options *options)
{
    struct cleaning cleaning = {0};
    struct bl_error *error = &cleaning.work.error;
    int exit_code;

    feature_work_init(&cleaning.work, options);
    bl_list_init(&cleaning.items);
    if (cli_loop_run("feature clean", clean_main, &cleaning, error) != 0)
        exit_code = tell_failure(&cleaning);
    else if (options->call->format == CLI_FORMAT_TEXT)
        exit_code = feature_clean_print_text(&cleaning);
    else
        exit_code = clean_print_json(&cleaning, CLI_EXIT_OK);
    feature_work_done(&cleaning.work);
    return exit_code;
}
