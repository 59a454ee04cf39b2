/* A race between a fiber and a thread, planted among thousands of parked fibers: a build with the
 * thread sanitizer must end with an error here. Exits 0 if the race was not detected. */
#include <pthread.h>
#include <stdio.h>

#include <belay/fiber.h>

#define FIBERS 5000

static int shared;

static int park(void *argument)
{
    (void)argument;
    return bl_sleep(3600 * BL_NS_PER_S);
}

static int race_in_fiber(void *argument)
{
    (void)argument;
    shared++;
    return 0;
}

static void *race_in_thread(void *argument)
{
    shared++;
    return argument;
}

static int test_main(void *argument)
{
    struct bl_nursery nursery;
    pthread_t thread;
    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < FIBERS; i++)
        if (bl_nursery_spawn(&nursery, NULL, "parked", park, NULL, NULL) != 0)
            return 0;
    bl_sleep(BL_NS_PER_MS);
    pthread_create(&thread, NULL, race_in_thread, NULL);
    bl_nursery_spawn(&nursery, NULL, "racer", race_in_fiber, NULL, NULL);
    bl_sleep(10 * BL_NS_PER_MS);
    pthread_join(thread, NULL);
    bl_nursery_done(&nursery);
    return 0;
}

int main(void)
{
    struct bl_loop *loop;
    if (bl_loop_new(NULL, &loop, NULL) != 0)
        return 0;
    int result = bl_loop_run(loop, "test", test_main, NULL);
    bl_loop_free(loop);
    printf("nobody noticed; shared is %d\n", shared);
    return result;
}
