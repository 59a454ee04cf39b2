/* The parts of `belay fleet`: its subcommands and their JSON (fleet.c), and the text (text.c). */
#ifndef BELAY_CLI_FLEET_H
#define BELAY_CLI_FLEET_H

#include <belay/store.h>

#include "cli/cli.h"

#define FLEET_LIST_DEFAULT 100
#define FLEET_LIST_MOST    10000

enum fleet_verb {
    FLEET_INIT,
    FLEET_STATUS,
    FLEET_LIST,
};

/* The command line and the results. */
struct fleet_work {
    const struct cli_call *call;
    struct bl_arena arena;
    enum fleet_verb verb;
    const char *where;         /* --store; NULL if none is named */
    bool plan;                 /* --plan */
    bool ended;                /* --ended */
    enum bl_fleet_state state; /* --state; likewise the next */
    bool chosen;
    const char *pool;
    const char *key;
    const char *after;
    uint32_t limit;
    const char *shown; /* the store without passwords; NULL if none is named */
    bool created;      /* init: it was not there before */
    const char *sql;   /* init with --plan */
    struct bl_store_fleet fleet;
    struct bl_list items; /* struct bl_fleet_view */
    const char *next;     /* the last of them, if there may be more */
    struct bl_error error;
};

/* Record of a struct bl_fleet_view, without its bodies. */
extern const struct bl_record fleet_item_record;
/* Lists the items of the fleet that shares a store. */
int fleet_items_read(struct bl_store *store, const struct bl_fleet_list *list,
                     struct bl_arena *arena, struct bl_list *ret_items, struct bl_error *error);
/* Appends a table of items; nothing if there are none. */
void fleet_items_text(struct bl_buffer *out, const struct bl_list *items);

/* Write the text for people. */
void fleet_init_text(struct bl_buffer *out, const struct fleet_work *work);
void fleet_status_text(struct bl_buffer *out, const struct fleet_work *work);
void fleet_list_text(struct bl_buffer *out, const struct fleet_work *work);

#endif
