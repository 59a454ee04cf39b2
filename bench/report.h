/* Measuring and reporting for all benchmarks: the baseline in the same run, alternating with Belay;
 * medians; and one JSON object per line on standard output:
 *     {"name":…,"value":…,"unit":…,"baseline":…,"baseline_value":…,"ratio":…}
 * where ratio says how many times better than the baseline Belay is. */
#ifndef BELAY_BENCH_REPORT_H
#define BELAY_BENCH_REPORT_H

#include <stddef.h>

#define REPORT_ROUNDS 15

/* Processor time of this thread, so that other work on the machine does not count. */
double report_processor_ns(void);
double report_wall_ns(void);
/* Sorts `values`. */
double report_median(double *values, size_t count);
/* Smaller values are better. */
void report_line(const char *name, double value, const char *unit, const char *baseline,
                 double baseline_value);
_Noreturn void report_die(const char *what);

#endif
