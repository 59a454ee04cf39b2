/* Promised times, measured by the tests of their acceptance lines.
 *
 *     assert_true(figure_at_most("C5 terminate of an endless loop", took_ms, 70));
 *
 * An ordinary run shares its machine with other work: it fails at figure_wide_ms(), which detects
 * hangs. `make figures` compares the promise itself with the median of several runs, one test at a
 * time on the plain build: under BELAY_FIGURES=FILE each figure is appended to FILE and judged
 * there. tests/figures lists the tests that take figures. */
#ifndef BELAY_TESTS_FIGURE_H
#define BELAY_TESTS_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `name`: the line's id, a space, and what was measured; the same in every run, without a tab.
 * Prints a figure that exceeds its limit to standard error. */
bool figure_at_most(const char *name, double measured_ms, double promised_ms);

/* A range. `low_ms` applies in every run: nothing may happen too early. */
bool figure_between(const char *name, double measured_ms, double low_ms, double high_ms);

/* For figures in another unit, such as KiB, that do not depend on the machine's speed: checked
 * exactly in every run, and recorded. */
bool figure_amount(const char *name, double measured, double promised, const char *unit);

/* The peak growth of this process's memory since `figure_memory_kib`. Checked exactly in every run
 * except those with sanitizers, which use memory themselves. */
double figure_memory_kib(void);
bool figure_growth(const char *name, double since_kib, double promised_mib);

/* `figure_at_most` for the time since a bl_now_ns() of real time. */
bool figure_since(const char *name, uint64_t since_ns, double promised_ms);

/* The 99th percentile of these times, in ms; the maximum of fewer than 100. Sorts them. */
double figure_p99_ms(uint64_t *times_ns, size_t count);

/* True while figures are taken: a test may then repeat its measurement more often. */
bool figure_taking(void);

/* The limit of an ordinary run: ten times the promise, and at least 10 s (30 s with sanitizers). */
double figure_wide_ms(double promised_ms);

#endif
