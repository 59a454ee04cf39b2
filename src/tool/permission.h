/* Permissions as they are kept: a mode, and rules in the order in which they were given. */
#ifndef BELAY_TOOL_PERMISSION_H
#define BELAY_TOOL_PERMISSION_H

#include "parts.h"

/* The name in a rule that opens the sandbox's network. */
#define PERMISSION_NETWORK "network"

struct rule {
    struct rule *next;
    bool allow;
    bool has_glob;
    struct bl_text tool; /* may hold stars */
    struct bl_text glob;
    const char *text;
};

struct bl_permissions {
    enum bl_permission_mode mode;
    struct bl_arena arena;
    struct rule *first;
    struct rule **last; /* where the next rule is added */
};

#endif
