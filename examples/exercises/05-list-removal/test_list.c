#include "list.h"

#include <stdio.h>
#include <string.h>

static int failed;

static bool is_old(const char *name)
{
    return strncmp(name, "old", 3) == 0;
}

static bool is_any(const char *name)
{
    return name != NULL;
}

static void expect(const struct list *list, const char *wanted)
{
    char names[128] = "";
    size_t used = 0;

    for (const struct item *item = list->first; item != NULL; item = item->next)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s ", item->name);
    if (strcmp(names, wanted) == 0)
        return;
    printf("'%s', expected '%s'\n", names, wanted);
    failed = 1;
}

static void expect_removed(size_t is, size_t wanted)
{
    if (is == wanted)
        return;
    printf("%zu removed, expected %zu\n", is, wanted);
    failed = 1;
}

int main(void)
{
    struct list list = {0};

    list_add(&list, "a");
    list_add(&list, "old-1");
    list_add(&list, "old-2");
    list_add(&list, "b");
    list_add(&list, "old-3");
    expect_removed(list_remove_if(&list, is_old), 3);
    expect(&list, "a b ");
    list_add(&list, "c");
    expect(&list, "a b c ");
    expect_removed(list_remove_if(&list, is_old), 0);
    expect_removed(list_remove_if(&list, is_any), 3);
    expect(&list, "");
    list_add(&list, "d");
    expect(&list, "d ");
    list_clear(&list);
    expect(&list, "");
    puts(failed ? "failed" : "passed");
    return failed;
}
