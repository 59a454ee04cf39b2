/* A list of names, in the order in which they came. */
#ifndef LIST_H
#define LIST_H

#include <stdbool.h>
#include <stddef.h>

struct item {
    struct item *next;
    char *name;
};

struct list {
    struct item *first;
    struct item *last; /* NULL: the list is empty */
};

void list_add(struct list *list, const char *name);
/* Removes those for which `unwanted` says so; returns how many. */
size_t list_remove_if(struct list *list, bool (*unwanted)(const char *name));
void list_clear(struct list *list);

#endif
