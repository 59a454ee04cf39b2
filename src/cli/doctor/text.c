#include "doctor.h"

#include <belay/version.h>
#include <inttypes.h>
#include <stdio.h>

#define WIDTH     80u
#define NAME_AT   6u
#define DETAIL_AT 20u

/* A page of text. If it runs out of room, `failed` is set and stays set. */
struct page {
    struct bl_buffer *out;
    bool colour;
    int failed;
};

static BL_PRINTF(2, 3) void put(struct page *page, const char *format, ...)
{
    va_list arguments;

    if (page->failed != 0)
        return;
    va_start(arguments, format);
    page->failed = bl_buffer_vprintf(page->out, format, arguments);
    va_end(arguments);
}

/* Writes words from column DETAIL_AT on, with line breaks before column WIDTH. A word longer than a
 * line is not broken, so that a path can be copied. */
static void doctor_text_put_wrapped(struct page *page, const char *string)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX / 2);
    struct bl_text word;
    size_t column = DETAIL_AT;

    bl_text_show(&shown, bl_text_from(string), BL_SHOW_LINE);
    struct bl_text rest = bl_buffer_text(&shown);
    while (bl_text_split(&rest, ' ', &word)) {
        size_t width = bl_utf8_count(word);
        if (column > DETAIL_AT && column + 1 + width >= WIDTH) {
            put(page, "\n%*s", (int)DETAIL_AT, "");
            column = DETAIL_AT;
        } else if (column > DETAIL_AT) {
            put(page, " ");
            column++;
        }
        put(page, BL_TEXT_FORMAT, BL_TEXT_ARG(word));
        column += width;
    }
    put(page, "\n");
}

/* Writes a fact: a line without a mark. */
static BL_PRINTF(3, 4) void put_fact(struct page *page, const char *name, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(page, "%*s%-*s", (int)NAME_AT, "", (int)(DETAIL_AT - NAME_AT), name);
    doctor_text_put_wrapped(page, text);
}

static void put_check(struct page *page, const struct probe_check *check)
{
    static const char *const marks[] = {
        [PROBE_NO] = "no", [PROBE_OK] = "ok", [PROBE_UNTRIED] = "--"};
    static const char *const colours[] = {
        [PROBE_NO] = "31", [PROBE_OK] = "32", [PROBE_UNTRIED] = "33"};
    char text[sizeof check->detail + sizeof check->version + 8];

    if (page->colour)
        put(page, "  \x1b[%sm%s\x1b[0m  ", colours[check->state], marks[check->state]);
    else
        put(page, "  %s  ", marks[check->state]);
    put(page, "%-*s", (int)(DETAIL_AT - NAME_AT), check->name);
    /* Landlock's detail already contains its version. */
    bool apart = check->version[0] != '\0' && strstr(check->detail, check->version) == NULL;
    snprintf(text, sizeof text, "%s%s%s", apart ? check->version : "", apart ? ", " : "",
             check->detail);
    doctor_text_put_wrapped(page, text);
    if (check->hint[0] == '\0')
        return;
    put(page, "%*s", (int)DETAIL_AT, "");
    char hint[sizeof check->hint + 8];
    snprintf(hint, sizeof hint, "hint: %s", check->hint);
    doctor_text_put_wrapped(page, hint);
}

static void doctor_text_put_limit(struct page *page, const char *name,
                                  const struct probe_limit *limit)
{
    char texts[2][32];
    const uint64_t values[2] = {limit->soft, limit->hard};

    for (int i = 0; i < 2; i++) {
        if (values[i] == PROBE_UNLIMITED)
            snprintf(texts[i], sizeof texts[i], "unlimited");
        else
            snprintf(texts[i], sizeof texts[i], "%" PRIu64, values[i]);
    }
    put_fact(page, name, "%s (hard limit: %s)", texts[0], texts[1]);
}

static void doctor_text_put_number(struct page *page, const char *name, int64_t value,
                                   const char *what)
{
    if (value < 0)
        put_fact(page, name, "unknown (%s)", what);
    else
        put_fact(page, name, "%" PRId64 " (%s)", value, what);
}

static void put_system(struct page *page, const struct probe_system *system)
{
    put(page, "\nSystem\n");
    put_fact(page, "kernel", "%s", system->kernel);
    put_fact(page, "machine", "%s", system->machine);
    put_fact(page, "processors", "%u", system->processors);
    put_fact(page, "memory", "%.1f GiB", (double)system->memory_bytes / (1024.0 * 1024 * 1024));
    put_fact(page, "page", "%" PRIu64 " bytes", system->page_bytes);
}

static void put_runtime(struct page *page, const struct doctor_report *report)
{
    const struct probe_fibers *fibers = &report->fibers;
    const struct probe_limits *limits = &report->limits;

    put(page, "\nFibers\n");
    put_fact(page, "guard", "%s", fibers->guard);
    if (fibers->fibers_max > 0)
        put_fact(page, "maximum", "%" PRIu32, fibers->fibers_max);
    else
        put_fact(page, "maximum", "limited by memory only");
    put_fact(page, "stack", "%" PRIu64 " KiB", fibers->stack_bytes / 1024);

    put(page, "\nLibraries\n");
    for (size_t i = 0; i < PROBE_LIBRARIES; i++)
        put_fact(page, report->libraries[i].name, "%s (compiled with %s)",
                 report->libraries[i].running, report->libraries[i].compiled);

    put(page, "\nLimits\n");
    doctor_text_put_limit(page, "open files", &limits->open_files);
    doctor_text_put_limit(page, "processes", &limits->processes);
    doctor_text_put_number(page, "memory maps", limits->memory_maps, "vm.max_map_count");
    doctor_text_put_number(page, "overcommit", limits->memory_overcommit, "vm.overcommit_memory");
}

int doctor_write_text(struct bl_buffer *out, const struct doctor_report *report, bool colour)
{
    struct page page = {.out = out, .colour = colour};
    const char *container = doctor_default_container(report);

    put(&page, "belay " BELAY_VERSION "\n");
    put_system(&page, &report->system);
    put(&page,
        "\n"
        "Containment (default: %s)\n",
        container != NULL ? container : "none");
    put_check(&page, &report->pidns);
    put_check(&page, &report->cgroup2);
    put_check(&page, &report->subreaper);
    put(&page, "\nSandbox\n");
    put_check(&page, &report->bubblewrap);
    put_check(&page, &report->landlock);
    put_check(&page, &report->seccomp);
    put(&page, "\nCells\n");
    put_check(&page, &report->cells);
    if (report->database.check.name != NULL) {
        put(&page, "\nStore\n");
        put_check(&page, &report->database.check);
    }
    put_runtime(&page, report);
    return page.failed;
}
