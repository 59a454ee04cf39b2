#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double report_processor_ns(void)
{
    return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

double report_wall_ns(void)
{
    return now_ns(CLOCK_MONOTONIC);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double report_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

void report_line(const char *name, double value, const char *unit, const char *baseline,
                 double baseline_value)
{
    printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"baseline\":\"%s\","
           "\"baseline_value\":%.2f,\"ratio\":%.2f}\n",
           name, value, unit, baseline, baseline_value, baseline_value / value);
    fflush(stdout);
}

_Noreturn void report_die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}
