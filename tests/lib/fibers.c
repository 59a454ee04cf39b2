#include "fibers.h"

#include <stdio.h>
#include <unistd.h>

#include <uv.h>

static char first_failure[512];
static int failures;

bool check_that(bool holds, const char *text, const char *file, int line)
{
    suite_assertion();
    if (!holds && failures++ == 0)
        snprintf(first_failure, sizeof first_failure, "%s:%d: %s", file, line, text);
    return holds;
}

bool check_equal(long long a, long long b, const char *text, const char *file, int line)
{
    suite_assertion();
    if (a != b && failures++ == 0)
        snprintf(first_failure, sizeof first_failure, "%s:%d: %s: %lld, %lld", file, line, text, a,
                 b);
    return a == b;
}

static int run(const struct bl_loop_options *options, bl_fiber_main *main, void *argument)
{
    struct bl_loop *loop;
    failures = 0;
    /* Not with assertions, which would count as the test's own. */
    if (bl_loop_new(options, &loop, NULL) != 0)
        fail_msg("no loop");
    int result = bl_loop_run(loop, "test", main, argument);
    /* An abandoned thread that was released at the end has some time to end. */
    int busy = bl_loop_free(loop);
    for (unsigned i = 0; busy != 0 && i < 1000; i++) {
        usleep(10 * 1000);
        busy = bl_loop_free(loop);
    }
    if (busy != 0)
        fail_msg("the loop is busy after its run");
    if (failures > 0)
        fail_msg("%s", first_failure);
    return result;
}

int run_in_loop(bl_fiber_main *main, void *argument)
{
    return run(NULL, main, argument);
}

int run_in_virtual_loop(uint64_t seed, bl_fiber_main *main, void *argument)
{
    return run(&(struct bl_loop_options){.virtual_time = true, .seed = seed}, main, argument);
}

int run_in_role(bl_fiber_main *main, void *argument)
{
    struct bl_loop *loop;
    failures = 0;
    if (bl_loop_new(NULL, &loop, NULL) != 0)
        return 1;
    bl_loop_run(loop, "role", main, argument);
    bl_loop_free(loop);
    if (failures > 0)
        fprintf(stderr, "%s\n", first_failure);
    return failures;
}

struct turns {
    uv_prepare_t handle;
    unsigned count;
};

static void turns_add(uv_prepare_t *handle)
{
    BL_CONTAINER(handle, struct turns, handle)->count++;
}

static void turns_free(uv_handle_t *handle)
{
    bl_free(BL_CONTAINER((uv_prepare_t *)handle, struct turns, handle));
}

struct turns *turns_begin(void)
{
    struct turns *turns = bl_zalloc(sizeof *turns);
    uv_prepare_init(bl_loop_uv(bl_loop_current()), &turns->handle);
    uv_prepare_start(&turns->handle, turns_add);
    return turns;
}

unsigned turns_end(struct turns *turns)
{
    unsigned count = turns->count;
    uv_close((uv_handle_t *)&turns->handle, turns_free);
    return count;
}
