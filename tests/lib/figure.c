#include "figure.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite.h"

#define FIGURE_WIDE          10
#define FIGURE_WIDE_LEAST_MS (SUITE_SANITIZED ? 30000.0 : 10000.0)
#define FIGURE_EARLY_MS      1.5 /* timers and timestamps have milliseconds */
#define FIGURE_LINE_SIZE     512

bool figure_taking(void)
{
    return getenv("BELAY_FIGURES") != NULL;
}

double figure_wide_ms(double promised_ms)
{
    double wide_ms = promised_ms * FIGURE_WIDE;
    return wide_ms > FIGURE_WIDE_LEAST_MS ? wide_ms : FIGURE_WIDE_LEAST_MS;
}

/* One write, so that the lines of several processes do not mix. */
static void figure_record(const char *name, double measured, double low, double high,
                          const char *unit)
{
    char line[FIGURE_LINE_SIZE];
    const char *path = getenv("BELAY_FIGURES");
    if (path == NULL)
        return;
    int size =
        snprintf(line, sizeof line, "%s\t%.3f\t%.3f\t%.3f\t%s\n", name, measured, low, high, unit);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    bool written =
        file >= 0 && size > 0 && size < (int)sizeof line && write(file, line, (size_t)size) == size;
    if (file >= 0)
        close(file);
    if (!written)
        fprintf(stderr, "cannot record the figure '%s' in %s\n", name, path);
}

bool figure_between(const char *name, double measured_ms, double low_ms, double high_ms)
{
    double most_ms = low_ms + figure_wide_ms(high_ms - low_ms);

    figure_record(name, measured_ms, low_ms, high_ms, "ms");
    bool early = measured_ms < low_ms - FIGURE_EARLY_MS;
    if (early)
        fprintf(stderr, "%s: %.1f ms, too early (promised: %g to %g ms)\n", name, measured_ms,
                low_ms, high_ms);
    else if (measured_ms > most_ms)
        fprintf(stderr, "%s: %.1f ms, more than %g ms (promised: %g ms)\n", name, measured_ms,
                most_ms, high_ms);
    return !early && measured_ms <= most_ms;
}

bool figure_at_most(const char *name, double measured_ms, double promised_ms)
{
    return figure_between(name, measured_ms, 0, promised_ms);
}

bool figure_since(const char *name, uint64_t since_ns, double promised_ms)
{
    uint64_t took_ns = bl_clock_now_ns(&bl_clock_system) - since_ns;

    return figure_at_most(name, (double)took_ns / BL_NS_PER_MS, promised_ms);
}

bool figure_amount(const char *name, double measured, double promised, const char *unit)
{
    figure_record(name, measured, 0, promised, unit);
    if (measured > promised)
        fprintf(stderr, "%s: %g %s (promised: at most %g)\n", name, measured, unit, promised);
    return measured <= promised;
}

/* Returns a value of /proc/self/status, given its name with the colon. */
static double figure_status_kib(const char *name)
{
    char line[256];
    double kib = -1;

    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtod(line + strlen(name), NULL);
    }
    if (file != NULL)
        fclose(file);
    return kib;
}

/* Returns freed memory to the system first, because it would hide the same amount of growth. */
double figure_memory_kib(void)
{
    malloc_trim(0);
    /* From now on, VmHWM is the peak. */
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool cleared = file >= 0 && write(file, "5", 1) == 1;
    if (file >= 0)
        close(file);
    return cleared ? figure_status_kib("VmRSS:") : -1;
}

bool figure_growth(const char *name, double since_kib, double promised_mib)
{
    double grown_kib = figure_status_kib("VmHWM:") - since_kib;

    if (SUITE_SANITIZED)
        return true;
    return since_kib > 0 && figure_amount(name, grown_kib, promised_mib * 1024, "KiB");
}

static int figure_compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

    return one < other ? -1 : one > other;
}

double figure_p99_ms(uint64_t *times_ns, size_t count)
{
    qsort(times_ns, count, sizeof *times_ns, figure_compare);
    return (double)times_ns[count - 1 - count / 100] / BL_NS_PER_MS;
}
