/* Refusals of every form of storage: code, kind, name, text and hint. */
#include <stdio.h>

#include "form.h"

/* ---- Not found ---- */

void store_suggestion_init(struct store_suggestion *self, const char *word)
{
    self->best[0] = '\0';
    bl_suggestion_init(&self->suggestion, word);
}

void store_suggestion_offer(struct store_suggestion *self, const char *id)
{
    unsigned before = self->suggestion.distance;
    bl_suggestion_offer(&self->suggestion, id);
    /* The form may leave the row of the id. */
    if (self->suggestion.distance < before)
        bl_text_into(self->best, sizeof self->best, id);
}

static void refuse_suggest(const struct store_suggestion *self, const char *otherwise,
                           struct bl_error *error)
{
    if (self->best[0] != '\0')
        bl_error_hint(error, "did you mean %s?", self->best);
    else
        bl_error_hint(error, "%s", otherwise);
}

int store_refuse_missing_session(const char *id, const char *where,
                                 const struct store_suggestion *suggestion, struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "find the session", id,
                 "there is no session %s in %s", id, where);
    refuse_suggest(suggestion, "'belay session list' shows the sessions of this store", error);
    return BL_ENOENT;
}

int store_refuse_missing_feature(const char *id, const char *repository, const char *where,
                                 const struct store_suggestion *suggestion, struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, "find the feature", id,
                 "no feature %.64s of %.200s in %.200s", id, repository, where);
    refuse_suggest(suggestion, "'belay feature list' shows the features that were run", error);
    return BL_ENOENT;
}

int store_refuse_missing_checkpoint(const char *session, const char *name, struct bl_error *error)
{
    return bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "read the checkpoint", name,
                        "session %s has no checkpoint %s", session, name);
}

int store_refuse_no_newest(const char *directory, struct bl_error *error)
{
    bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "find the session", directory,
                 "no session to continue in %s", directory);
    bl_error_hint(error, "start one, or choose one from 'belay session list'");
    return BL_ENOENT;
}

/* ---- Holding ---- */

static bool request_names_other(const struct store_hold *hold)
{
    return hold->options.id != NULL && strcmp(hold->options.id, hold->id) != 0;
}

int store_request_check(const struct store_hold *hold, struct bl_text prompt,
                        struct bl_error *error)
{
    if (request_names_other(hold) || !bl_text_equal(prompt, hold->options.prompt))
        return store_refuse_request(hold, error);
    return 0;
}

int store_refuse_request(const struct store_hold *hold, struct bl_error *error)
{
    const struct bl_store_hold_options *options = &hold->options;
    if (request_names_other(hold))
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "submit", options->request_id,
                     "request %s was made for session %s, not %s", options->request_id, hold->id,
                     options->id);
    else
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "submit", options->request_id,
                     "request %s was made with another prompt", options->request_id);
    bl_error_hint(error, "use a new id for each request; the same id repeats the same work");
    return BL_EINVAL;
}

int store_refuse_held_session(const struct store_hold *hold, const struct store_lease *lease,
                              struct bl_error *error)
{
    char holder[480];

    store_identity_holder(&hold->claimant.self, &lease->holder, lease->since_wall_ns, holder,
                          sizeof holder);
    bl_error_set(
        error, BL_EBUSY, BL_KIND_SESSION, "open the session", hold->id, "%s %s is held by %.340s",
        hold->options.newest ? "the newest session of this folder," : "session", hold->id, holder);
    bl_error_hint(error,
                  "wait until it is released: 'belay ps' shows what it does, and 'belay "
                  "cancel %s' stops its running work",
                  hold->id);
    return BL_EBUSY;
}

int store_refuse_held_feature(const struct store_feature_hold *hold, struct bl_error *error)
{
    const struct store_identity *self = &hold->claimant.self;
    const struct bl_store_owner *owner = &hold->owner;
    const char *id = hold->options.id;
    bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "hold the feature", id,
                 "feature %s is held by %s", id, owner->text);
    if (owner->life == BL_OWNER_OUT_OF_SIGHT)
        bl_error_hint(error, "it is on another host or in another PID namespace: stop it there, or "
                             "wait until its lease "
                             "expires, 30 s after its last write");
    else if (owner->pid == self->pid && owner->pid_started == self->started)
        bl_error_hint(error,
                      "this process holds it: wait until it is done, or stop it with 'belay "
                      "feature cancel %s'",
                      id);
    else
        bl_error_hint(error,
                      "wait until it is done, stop it with 'belay feature cancel %s', or "
                      "end it and continue with --take-over",
                      id);
    return BL_EBUSY;
}

int store_refuse_damaged(const struct store_hold *hold, struct bl_text what, struct bl_error *error)
{
    bl_error_set(error, BL_EPARSE, BL_KIND_SESSION, "open the session", hold->id,
                 BL_TEXT_FORMAT " of session %s cannot be read: its messages are damaged",
                 BL_TEXT_ARG(what), hold->id);
    bl_error_hint(error, "start another session; 'belay session show %s' still shows this one",
                  hold->id);
    return BL_EPARSE;
}

/* ---- Writing under another epoch ---- */

/* Sets the error with the present holder; `lease` NULL: there is none any more. */
static int refuse_stale(const char *noun, const char *id, const struct store_lease *lease, int code,
                        struct bl_error *error)
{
    char holder[160], operation[48];
    snprintf(operation, sizeof operation, "write to the %s", noun);
    if (lease == NULL)
        return bl_error_set(error, code, BL_KIND_SESSION, operation, id, "%s %s has been deleted",
                            noun, id);
    store_identity_text(&lease->holder, lease->since_wall_ns, holder, sizeof holder);
    if (lease->held)
        return bl_error_set(error, code, BL_KIND_SESSION, operation, id, "%s %s is now held by %s",
                            noun, id, holder);
    return bl_error_set(error, code, BL_KIND_SESSION, operation, id,
                        "%s %s was held by another process meanwhile", noun, id);
}

int store_refuse_stale_session(const struct store_write *write, const struct store_lease *lease,
                               struct bl_error *error)
{
    int code = write->job.operation == STORE_RENEW ? BL_EBUSY : BL_ECLOSED;
    refuse_stale("session", write->id, lease, code, error);
    bl_error_hint(error, "open the session again to see what is in it");
    return code;
}

int store_refuse_stale_feature(const struct store_feature_write *write,
                               const struct store_lease *lease, struct bl_error *error)
{
    refuse_stale("feature", write->id, lease, BL_EBUSY, error);
    bl_error_name_set(error, "stale_write");
    bl_error_hint(error, "nothing was written; check with 'belay feature status %s'", write->id);
    return BL_EBUSY;
}

int store_refuse_gone_feature(const struct store_feature_write *write, struct bl_error *error)
{
    return bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, "write to the feature", write->id,
                        "feature %s is no longer in the store", write->id);
}

int store_refuse_ended_turn(const struct store_write *write, struct bl_error *error)
{
    return bl_error_set(error, BL_EEXIST, BL_KIND_SESSION, "commit", write->id,
                        "turn " BL_TEXT_FORMAT " of session %s is not running: it has already "
                        "ended",
                        BL_TEXT_ARG(write->settlement.turn_id), write->id);
}

/* ---- Import, fork, delete ---- */

int store_refuse_used_id(enum store_operation operation, const char *id, struct bl_error *error)
{
    bool import = operation == STORE_IMPORT;
    bl_error_set(error, BL_EEXIST, BL_KIND_SESSION, import ? "import" : "fork", id,
                 "session %s already exists", id);
    if (import)
        bl_error_hint(error, "choose another id");
    return BL_EEXIST;
}

int store_refuse_delete(const char *id, const char *held_id, const struct store_lease *lease,
                        struct bl_error *error)
{
    char holder[160];
    store_identity_text(&lease->holder, lease->since_wall_ns, holder, sizeof holder);
    if (strcmp(held_id, id) == 0)
        bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "delete", id, "session %s is held by %s", id,
                     holder);
    else
        bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "delete", id,
                     "session %s, a sub-agent of session %s, is held by %s", held_id, id, holder);
    bl_error_hint(error, "wait until it is done, or stop it: belay cancel %s", held_id);
    return BL_EBUSY;
}

/* ---- Cells ---- */

static const char *refuse_operation(const struct store_write *write)
{
    static const char *const names[] = {
        [STORE_CELL_ADMIT] = "admit the cell", [STORE_CELL_STARTED] = "note the worker of the cell",
        [STORE_CELL_YIELD] = "yield",          [STORE_CELL_END] = "end the cell",
        [STORE_CELL_BURY] = "bury the cell",
    };
    return names[write->job.operation];
}

int store_refuse_used_cell(const struct store_write *write, struct bl_text digest,
                           struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    bool same = bl_text_equal(digest, cell->digest);
    return bl_error_set(error, same ? BL_EEXIST : BL_EBUSY, BL_KIND_CELL, refuse_operation(write),
                        write->id, "cell " BL_TEXT_FORMAT " of session %s already exists%s",
                        BL_TEXT_ARG(cell->id), write->id, same ? "" : ", with other content");
}

int store_refuse_missing_cell(const struct store_write *write, struct bl_error *error)
{
    return bl_error_set(error, BL_ENOENT, BL_KIND_CELL, refuse_operation(write), write->id,
                        "session %s has no cell " BL_TEXT_FORMAT, write->id,
                        BL_TEXT_ARG(write->cell.record.id));
}

int store_refuse_ended_cell(const struct store_write *write, struct bl_text terminal,
                            struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    if (write->job.operation == STORE_CELL_BURY)
        return bl_error_set(error, BL_EBUSY, BL_KIND_CELL, refuse_operation(write), write->id,
                            "cell " BL_TEXT_FORMAT " of session %s has not ended",
                            BL_TEXT_ARG(cell->id), write->id);
    if (cell->terminal.size > 0 && bl_text_equal(terminal, cell->terminal))
        return 0;
    return bl_error_set(error, BL_EEXIST, BL_KIND_CELL, refuse_operation(write), write->id,
                        "cell " BL_TEXT_FORMAT " of session %s has already ended",
                        BL_TEXT_ARG(cell->id), write->id);
}

/* ---- Tasks ---- */

int store_refuse_existing_task(const char *id, struct bl_error *error)
{
    return bl_error_set(error, BL_EEXIST, BL_KIND_SESSION, "begin the task", id,
                        "task %.100s already exists", id);
}

int store_refuse_ended_task(const char *id, bool found, struct bl_error *error)
{
    return bl_error_set(error, found ? BL_EEXIST : BL_ENOENT, BL_KIND_SESSION, "end the task", id,
                        found ? "task %.100s has already ended" : "there is no task %.100s", id);
}
