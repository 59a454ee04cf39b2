#include "list.h"

#include <stdlib.h>
#include <string.h>

void list_add(struct list *list, const char *name)
{
    struct item *item = malloc(sizeof *item);

    if (item == NULL)
        abort();
    item->next = NULL;
    item->name = strdup(name);
    if (list->last != NULL)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
}

static void item_free(struct item *item)
{
    free(item->name);
    free(item);
}

size_t list_remove_if(struct list *list, bool (*unwanted)(const char *name))
{
    struct item *before = NULL;
    size_t removed = 0;

    for (struct item *item = list->first; item != NULL; item = item->next) {
        if (unwanted(item->name)) {
            if (before != NULL)
                before->next = item->next;
            else
                list->first = item->next;
            item_free(item);
            removed++;
        }
        before = item;
    }
    return removed;
}

void list_clear(struct list *list)
{
    for (struct item *item = list->first; item != NULL; item = item->next)
        item_free(item);
    list->first = list->last = NULL;
}
