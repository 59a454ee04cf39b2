/* Promised times, measured by the tests of their lines.
 *
 *     assert_true(figure_at_most("C5 terminate of an endless loop", took_ms, 70));
 *
 * An ordinary run shares its machine with everything else: it fails at figure_wide_ms(), which
 * catches what hangs. The promise itself is held against the median of several runs by
 * `make figures`, one test at a time on the plain build: under BELAY_FIGURES=FILE each figure is
 * appended to FILE and judged there. tests/figures lists the tests that take figures. */
#ifndef BELAY_TESTS_FIGURE_H
#define BELAY_TESTS_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `name`: the line's id, a space, and what was measured; the same in every run, without a tab.
 * Says on standard error what was too much. */
bool figure_at_most(const char *name, double measured_ms, double promised_ms);

/* A window. `low_ms` holds in every run: nothing may happen too early. */
bool figure_between(const char *name, double measured_ms, double low_ms, double high_ms);

/* For what is counted in another unit, KiB for instance, and does not depend on the machine's pace:
 * held exactly in every run, and recorded. */
bool figure_amount(const char *name, double measured, double promised, const char *unit);

/* How much more memory this process has had since `figure_memory_kib`, at its peak. Held exactly in
 * every run but those with sanitizers, which have memory of their own. */
double figure_memory_kib(void);
bool figure_growth(const char *name, double since_kib, double promised_mib);

/* `figure_at_most` for the time since a bl_now_ns() of real time. */
bool figure_since(const char *name, uint64_t since_ns, double promised_ms);

/* What all but a hundredth of these times were not above, in ms: the worst of fewer than 100. Sorts
 * them. */
double figure_p99_ms(uint64_t *times_ns, size_t count);

/* Figures are being taken: a test may repeat what it measures more often. */
bool figure_taking(void);

/* The limit of an ordinary run: ten times the promise, and 10 s at least (30 s with sanitizers). */
double figure_wide_ms(double promised_ms);

#endif
