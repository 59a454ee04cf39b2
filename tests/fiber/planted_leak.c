/* Memory lost inside a fiber: a build with the leak check must end with an error here. */
#include <stdio.h>

#include <belay/fiber.h>

static void *volatile lost;

static int lose(void *argument)
{
    (void)argument;
    lost = bl_alloc(1000);
    lost = NULL;
    return 0;
}

int main(void)
{
    struct bl_loop *loop;
    if (bl_loop_new(NULL, &loop, NULL) != 0)
        return 0;
    int result = bl_loop_run(loop, "test", lose, NULL);
    bl_loop_free(loop);
    printf("lost 1000 bytes\n");
    return result;
}
