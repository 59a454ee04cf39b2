/* /permissions, and permanent rules. */
#include <stdio.h>

#include "cli/chat/state.h"

#define RULE_SHOWN_MAX BL_KEPT_RULE_SIZE_MAX

static const char *permissions_folder(const struct chat *chat)
{
    return chat->work.options->workspace.directory;
}

/* Returns where a rule is kept; empty if it is valid for this conversation only, or comes from the
 * configuration. */
static const char *permissions_kept(const struct bl_list *kept, const char *rule)
{
    const char *found = "";

    BL_LIST_EACH (link, kept) {
        const struct bl_kept_rule *each = BL_CONTAINER(link, struct bl_kept_rule, link);
        if (strcmp(each->rule, rule) == 0)
            found = each->project == NULL ? ", everywhere" : ", in this project";
    }
    return found;
}

static void permissions_show(struct chat *chat)
{
    const struct bl_permissions *rules = chat->work.workspace->permissions;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_list kept;
    BL_AUTO_ARENA(arena);
    bool allow;

    if (bl_kept_rules_read(&arena, permissions_folder(chat), &kept, error) != 0)
        chat_say_error(chat, error);
    chat_say_row(chat, "mode", "%s", bl_permission_mode_name(bl_permissions_mode(rules)));
    chat_say_row(chat, "sandbox", "%s",
                 bl_sandbox_name(bl_toolbox_sandbox(chat->work.workspace->toolbox)));
    for (size_t i = 0; bl_permissions_rule(rules, i, &allow) != NULL; i++) {
        const char *rule = bl_permissions_rule(rules, i, &allow);
        chat_say_row(chat, allow ? "allow" : "deny", "%s%s", rule,
                     allow ? permissions_kept(&kept, rule) : "");
    }
    bl_free(error);
}

static int permissions_remove(struct chat *chat, const char *rule, struct bl_error *error)
{
    struct bl_permissions *rules = chat->work.workspace->permissions;
    bool kept = false;

    int code = bl_kept_rule_remove(rule, permissions_folder(chat), &kept, error);
    if (code != 0)
        return code;
    bool allowed = bl_permissions_remove(rules, true, rule);
    bool denied = bl_permissions_remove(rules, false, rule);
    if (kept || allowed || denied)
        return 0;
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "remove a rule", rule, "there is no rule '%s'",
                 rule);
    bl_error_hint(error, "/permissions lists them");
    return BL_ENOENT;
}

static int permissions_change(struct chat *chat, struct bl_text argument, struct bl_error *error)
{
    struct bl_permissions *rules = chat->work.workspace->permissions;
    struct bl_text rest = argument, word;
    enum bl_permission_mode mode;
    BL_AUTO_ARENA(arena);

    bl_text_split(&rest, ' ', &word);
    const char *rule = bl_arena_text(&arena, bl_text_trim(rest)).data;
    if (bl_text_equal(word, BL_TEXT("allow")))
        return bl_permissions_add(rules, true, rule, error);
    if (bl_text_equal(word, BL_TEXT("deny")))
        return bl_permissions_add(rules, false, rule, error);
    if (bl_text_equal(word, BL_TEXT("remove")))
        return permissions_remove(chat, rule, error);
    int code = bl_permission_mode_parse(bl_arena_text(&arena, argument).data, &mode, error);
    if (code == 0)
        bl_permissions_set_mode(rules, mode);
    return code;
}

void chat_permissions(struct chat *chat, struct bl_text argument)
{
    struct bl_error *error = bl_zalloc(sizeof *error);

    if (argument.size > 0 && permissions_change(chat, argument, error) != 0)
        chat_say_error(chat, error);
    else
        permissions_show(chat);
    bl_free(error);
}

void chat_permissions_keep(struct chat *chat, struct bl_text rule, bool everywhere)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    const char *folder = everywhere ? NULL : permissions_folder(chat);
    BL_AUTO_ARENA(arena);

    if (bl_kept_rule_add(bl_arena_text(&arena, rule).data, folder, error) != 0)
        chat_say_error(chat, error);
    else
        chat_say(chat,
                 BL_TEXT_FORMAT " is allowed %s from now on; /permissions remove undoes this.",
                 BL_TEXT_ARG(rule), everywhere ? "everywhere" : "in this project");
    bl_free(error);
}
