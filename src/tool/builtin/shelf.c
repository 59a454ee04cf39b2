/* The first of many results in order, and the notes about searches. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "search.h"

void shelf_init(struct shelf *shelf, uint64_t weight_max, size_t bytes_max)
{
    *shelf = (struct shelf){.weight_max = weight_max, .bytes_max = bytes_max};
    pthread_mutex_init(&shelf->lock, NULL);
}

void shelf_done(struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        bl_free(shelf->items[i]);
    bl_free(shelf->items);
    pthread_mutex_destroy(&shelf->lock);
}

/* Negative if `a` comes first. */
static int shelf_compare(const struct shelf_item *a, const struct shelf_item *b)
{
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return bl_text_compare(a->path, b->path);
}

static void shelf_swap(struct shelf_item **a, struct shelf_item **b)
{
    struct shelf_item *kept = *a;
    *a = *b;
    *b = kept;
}

static void sink(struct shelf *shelf, size_t at)
{
    for (;;) {
        size_t last = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < shelf->count; child++)
            if (shelf_compare(shelf->items[child], shelf->items[last]) > 0)
                last = child;
        if (last == at)
            return;
        shelf_swap(&shelf->items[at], &shelf->items[last]);
        at = last;
    }
}

static size_t shelf_size_of(const struct shelf_item *item)
{
    return item->path.size + item->text.size + 1;
}

/* Returns whether the shelf would be full even without its last item. */
static bool last_is_surplus(const struct shelf *shelf)
{
    const struct shelf_item *last = shelf->items[0];
    return shelf->weight - last->weight >= shelf->weight_max ||
           shelf->bytes - shelf_size_of(last) >= shelf->bytes_max;
}

static bool wants(const struct shelf *shelf, const struct shelf_item *item)
{
    bool full = shelf->weight >= shelf->weight_max || shelf->bytes >= shelf->bytes_max;
    return !full || (shelf->count > 0 && shelf_compare(item, shelf->items[0]) < 0);
}

bool shelf_wants(struct shelf *shelf, int64_t rank, struct bl_text path)
{
    pthread_mutex_lock(&shelf->lock);
    bool wanted = wants(shelf, &(struct shelf_item){.rank = rank, .path = path});
    pthread_mutex_unlock(&shelf->lock);
    return wanted;
}

static struct shelf_item *shelf_copy(const struct shelf_item *item)
{
    struct shelf_item *copied = bl_alloc(sizeof *copied + item->path.size + item->text.size);
    char *bytes = (char *)(copied + 1);
    *copied = *item;
    memcpy(bytes, item->path.data, item->path.size);
    copied->path.data = bytes;
    if (item->text.size > 0)
        memcpy(bytes + item->path.size, item->text.data, item->text.size);
    copied->text.data = bytes + item->path.size;
    return copied;
}

static void shelf_push(struct shelf *shelf, struct shelf_item *item)
{
    if (shelf->count == shelf->capacity) {
        shelf->capacity = shelf->capacity == 0 ? 64 : 2 * shelf->capacity;
        shelf->items = bl_realloc(shelf->items, shelf->capacity * sizeof *shelf->items);
    }
    size_t at = shelf->count++;
    shelf->items[at] = item;
    for (; at > 0 && shelf_compare(shelf->items[at], shelf->items[(at - 1) / 2]) > 0;
         at = (at - 1) / 2)
        shelf_swap(&shelf->items[at], &shelf->items[(at - 1) / 2]);
    shelf->weight += item->weight;
    shelf->bytes += shelf_size_of(item);
}

static void drop_last(struct shelf *shelf)
{
    struct shelf_item *last = shelf->items[0];
    shelf->weight -= last->weight;
    shelf->bytes -= shelf_size_of(last);
    shelf->items[0] = shelf->items[--shelf->count];
    sink(shelf, 0);
    bl_free(last);
}

void shelf_add(struct shelf *shelf, const struct shelf_item *item)
{
    pthread_mutex_lock(&shelf->lock);
    if (wants(shelf, item)) {
        shelf_push(shelf, shelf_copy(item));
        while (last_is_surplus(shelf))
            drop_last(shelf);
    }
    pthread_mutex_unlock(&shelf->lock);
}

static int compare_items(const void *left, const void *right)
{
    return shelf_compare(*(struct shelf_item *const *)left, *(struct shelf_item *const *)right);
}

void shelf_sort(struct shelf *shelf)
{
    if (shelf->count > 0)
        qsort(shelf->items, shelf->count, sizeof(struct shelf_item *), compare_items);
}

/* ---- Output shared by glob and grep ---------------------------------------------------------- */

static void append_path(struct bl_buffer *out, struct bl_text path)
{
    size_t start = out->size;
    bl_buffer_append(out, path);
    for (size_t i = start; i < out->size; i++)
        if ((unsigned char)out->data[i] < ' ' || out->data[i] == 0x7F)
            out->data[i] = '?';
}

void search_print_path(struct bl_buffer *out, struct bl_text top, struct bl_text path,
                       const char *end)
{
    bool shows_top = top.size > 0 && !bl_text_equal(top, BL_TEXT("."));
    if (shows_top || path.size == 0)
        append_path(out, top);
    if (shows_top && path.size > 0 && top.data[top.size - 1] != '/')
        bl_buffer_append_byte(out, '/');
    append_path(out, path);
    bl_buffer_append(out, bl_text_from(end));
}

void search_print_unseen(struct bl_buffer *out, uint64_t folders, uint64_t rules)
{
    if (folders > 0)
        bl_buffer_printf(out, "[%" PRIu64 " %s not be read]\n", folders,
                         folders == 1 ? "folder could" : "folders could");
    if (rules > 0)
        bl_buffer_printf(out, "[%" PRIu64 " %s could not be read; %s rules were not applied]\n",
                         rules,
                         rules == 1 ? ".gitignore or .ignore file" : ".gitignore or .ignore files",
                         rules == 1 ? "its" : "their");
}

int search_fail_open(struct file_job *job, const struct tool_path *path, int code,
                     const char *no_folder)
{
    const char *shown = tool_path_show(&job->arena, path->shown);
    if (code == ENOTDIR && no_folder[0] != '\0')
        return file_job_fail(job, "'%s' is not a folder; %s.", shown, no_folder);
    return file_job_fail(job, "cannot open '%s': %s.", shown, strerrordesc_np(code));
}
