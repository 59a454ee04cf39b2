#include <stdio.h>

#include "view.h"

#define PARTS_MAX       10u
#define PART_SIZE       64u
#define PHASE_WIDTH_MIN 12u
#define SEPARATOR       BL_TEXT(" · ")
#define SEPARATOR_WIDTH 3u

/* The parts, in the order of the line. */
struct part {
    char text[PART_SIZE];
    unsigned weight; /* the lowest is dropped first; 0: not shown */
    struct text_style style;
};

struct line {
    struct part parts[PARTS_MAX];
    size_t count;
};

static const struct text_style dim = {.dim = true};

static void status_add_part(struct line *line, unsigned weight, const struct text_style *style,
                            const char *format, ...) BL_PRINTF(4, 5);

static void status_add_part(struct line *line, unsigned weight, const struct text_style *style,
                            const char *format, ...)
{
    struct part *part = &line->parts[line->count++];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(part->text, sizeof part->text, format, arguments);
    va_end(arguments);
    /* Cut a name that is too long, between characters. */
    if (size >= (int)sizeof part->text)
        part->text[bl_utf8_cut(bl_text_from(part->text), sizeof part->text - 1).size] = '\0';
    part->weight = weight;
    part->style = *style;
}

bool chat_cost_text(const struct bl_spent *spent, char out[32])
{
    bool none = spent->cost_usd <= 0;

    if (none && (!spent->cost_unknown || bl_usage_total(&spent->usage) == 0))
        return false;
    if (none)
        bl_text_into(out, 32, "cost unknown");
    else
        snprintf(out, 32, spent->cost_usd < 1 ? "$%.3f%s" : "$%.2f%s", spent->cost_usd,
                 spent->cost_unknown ? "+" : "");
    return true;
}

static void add_cost(struct line *line, const struct bl_spent *spent)
{
    char cost[32];

    if (chat_cost_text(spent, cost))
        status_add_part(line, 60, &dim, "%s", cost);
}

static void add_context(struct line *line, const struct status *status)
{
    static const struct text_style short_of = {.colour = TEXT_YELLOW};
    uint64_t max = status->context_max, used = status->context_used;

    if (max == 0 || used == 0)
        return;
    unsigned left = used < max ? (unsigned)((double)(max - used) * 100 / (double)max) : 0;
    status_add_part(line, left < 20 ? 85 : 55, left < 20 ? &short_of : &dim, "%u%% context left",
                    left);
}

static void add_deadline(struct line *line, uint64_t left_ns)
{
    static const struct text_style urgent = {.colour = TEXT_YELLOW};
    char left[32];

    if (left_ns == BL_NEVER)
        return;
    /* Whole seconds: faster changes would only flicker. */
    uint64_t shown_ns = left_ns - left_ns % BL_NS_PER_S;
    bl_duration_format(shown_ns > INT64_MAX ? INT64_MAX : (int64_t)shown_ns, left);
    status_add_part(line, 90, left_ns < 30 * BL_NS_PER_S ? &urgent : &dim, "%s left", left);
}

static void status_add_count(struct line *line, unsigned weight, unsigned count, const char *noun)
{
    if (count > 0)
        status_add_part(line, weight, &dim, "%u %s%s", count, noun, count == 1 ? "" : "s");
}

static void status_add_parts(struct line *line, const struct status *status)
{
    static const struct text_style warning = {.colour = TEXT_YELLOW},
                                   planning = {.colour = TEXT_CYAN};
    char tokens[32];

    add_deadline(line, status->deadline_left_ns);
    status_add_count(line, 70, status->agents, "agent");
    status_add_count(line, 65, status->jobs, "job");
    if (status->model != NULL)
        status_add_part(line, 80, &dim, "%s", status->model);
    if (bl_usage_total(&status->usage) > 0)
        status_add_part(line, 50, &dim, "%s", chat_tokens(bl_usage_total(&status->usage), tokens));
    add_context(line, status);
    add_cost(line, &status->spent);
    bool open = status->mode != NULL && strcmp(status->mode, "yolo") == 0;
    bool plan = status->mode != NULL && strcmp(status->mode, "plan") == 0;
    if (status->mode != NULL)
        status_add_part(line, open || plan ? 75 : 40,
                        open   ? &warning
                        : plan ? &planning
                               : &dim,
                        "%s", status->mode);
    if (status->sandbox != NULL)
        status_add_part(line, 30, &dim, "sandbox %s", status->sandbox);
}

/* ---- The line -------------------------------------------------------------------------------- */

static size_t parts_width(const struct line *line)
{
    size_t width = 0;

    for (size_t i = 0; i < line->count; i++) {
        if (line->parts[i].weight > 0)
            width += SEPARATOR_WIDTH + text_width(bl_text_from(line->parts[i].text));
    }
    return width;
}

static bool drop_lightest(struct line *line)
{
    struct part *lightest = NULL;

    for (size_t i = 0; i < line->count; i++) {
        struct part *part = &line->parts[i];
        if (part->weight > 0 && (lightest == NULL || part->weight < lightest->weight))
            lightest = part;
    }
    if (lightest == NULL)
        return false;
    lightest->weight = 0;
    return true;
}

static void end_without_feed(struct text_line *line)
{
    text_line_end(line);
    line->out->size--;
}

static const char *status_phase_of(const struct status *status)
{
    return status->stopping ? "stopping" : status->phase;
}

/* Writes and returns " 12 s", in whole seconds; empty for less than a second. */
static const char *phase_time(const struct status *status, char out[40])
{
    uint64_t whole_ns = status->phase_ns - status->phase_ns % BL_NS_PER_S;

    out[0] = '\0';
    if (whole_ns > 0 && whole_ns <= INT64_MAX) {
        out[0] = ' ';
        bl_duration_format((int64_t)whole_ns, out + 1);
    }
    return out;
}

static size_t phase_width(const struct status *status)
{
    const char *phase = status_phase_of(status);
    char time[40];

    return phase == NULL ? 0
                         : 2 + text_width(bl_text_from(phase)) + strlen(phase_time(status, time));
}

/* Appends the phase and its duration, in at most `columns`. Returns the width. */
static size_t add_phase(const struct status *status, size_t columns, bool colours,
                        struct bl_buffer *out)
{
    static const char *const signs[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    static const struct text_style moving = {.colour = TEXT_CYAN}, stopping = {.colour = TEXT_RED};
    const struct text_style *style = status->stopping ? &stopping : &moving;
    const char *phase = status_phase_of(status);
    struct text_line line;
    char time[40];

    if (phase == NULL)
        return 0;
    size_t time_width = strlen(phase_time(status, time)), from = out->size;
    if (time_width + PHASE_WIDTH_MIN > columns)
        time_width = 0;
    text_line_init(&line, out, columns - time_width, colours);
    text_line_add(&line, bl_text_from(signs[status->tick % BL_COUNT(signs)]), style);
    text_line_add(&line, BL_TEXT(" "), style);
    text_line_add(&line, bl_text_from(phase), style);
    end_without_feed(&line);
    if (time_width > 0)
        bl_buffer_append(out, bl_text_from(time));
    return text_line_width((struct bl_text){out->data + from, out->size - from});
}

void status_line(const struct status *status, size_t columns, bool colours, struct bl_buffer *out)
{
    struct line *line = bl_zalloc(sizeof *line);
    struct text_line written;
    size_t phase = phase_width(status);

    status_add_parts(line, status);
    /* A long phase makes room for the other parts, down to half of the line. */
    size_t reserved = phase > columns / 2 ? columns / 2 : phase;
    while (reserved + parts_width(line) > columns + (phase == 0 ? SEPARATOR_WIDTH : 0)) {
        if (!drop_lightest(line))
            break;
    }
    size_t rest = parts_width(line);
    size_t from = out->size;
    size_t taken = add_phase(status, rest < columns ? columns - rest : columns, colours, out);
    text_line_init(&written, out, columns > taken ? columns - taken : 1, colours);
    for (size_t i = 0; i < line->count && taken < columns; i++) {
        const struct part *part = &line->parts[i];
        if (part->weight == 0)
            continue;
        if (out->size > from)
            text_line_add(&written, SEPARATOR, &dim);
        text_line_add(&written, bl_text_from(part->text), &part->style);
    }
    end_without_feed(&written);
    bl_free(line);
}
