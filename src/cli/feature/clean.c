/* `belay feature clean`: what is done with goes, and why the rest stays is said. */
#include "feature.h"

#include <inttypes.h>
#include <stdio.h>

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

/* "12 KiB". */
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
    bl_buffer_append(out, !item->removed ? BL_TEXT("kept     ")
                          : dry_run      ? BL_TEXT("would go ")
                                         : BL_TEXT("removed  "));
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
    struct bl_buffer out;

    bl_buffer_init(&out, TEXT_MAX);
    BL_LIST_EACH (link, &cleaning->items)
        feature_clean_put_item(&out, BL_CONTAINER(link, struct bl_clean_item, link),
                               options->dry_run);
    if (count == 0)
        bl_buffer_printf(&out, "%s has no worktree and no branch: nothing to remove.\n",
                         cleaning->work.id);
    else
        bl_buffer_printf(&out, "%zu of %zu %s.\n", cleaning->removed, count,
                         options->dry_run ? "would be removed" : "removed");
    int exit_code = cli_print(options->call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

static void clean_payload(struct bl_json_writer *writer, const void *context)
{
    const struct cleaning *cleaning = context;
    const struct feature_work *work = &cleaning->work;

    bl_json_put_string(writer, "feature", work->id);
    bl_json_put_boolean(writer, "dry_run", work->options->dry_run);
    bl_json_put_uint64(writer, "removed", cleaning->removed);
    bl_json_put_uint64(writer, "kept", cleaning->kept);
    bl_json_write_key(writer, BL_TEXT("items"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &cleaning->items) {
        const struct bl_clean_item *item = BL_CONTAINER(link, struct bl_clean_item, link);
        bl_json_write_object(writer);
        bl_json_put_string(writer, "task", item->task);
        bl_json_put_string(writer, "branch", branch_of(item));
        bl_json_put_string(writer, "worktree", item->worktree);
        bl_json_put_boolean(writer, "removed", item->removed);
        bl_json_put_string(writer, "reason", item->removed ? NULL : item->reason);
        bl_json_put_uint64(writer, "bytes", item->bytes);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    if (work->error.code != 0)
        cli_error_payload(writer, &work->error);
}

/* What was removed before something failed is named, too. */
static int tell_failure(struct cleaning *cleaning)
{
    const struct cli_call *call = cleaning->work.options->call;
    const struct bl_error *error = &cleaning->work.error;
    int exit_code = cli_error_exit_code(error);

    if (cleaning->removed == 0)
        return cli_fail(call, error, exit_code);
    if (call->format != CLI_FORMAT_TEXT)
        return cli_envelope_print(call, exit_code, clean_payload, cleaning);
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
        exit_code = cli_envelope_print(options->call, CLI_EXIT_OK, clean_payload, &cleaning);
    feature_work_done(&cleaning.work);
    return exit_code;
}
