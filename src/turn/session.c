#include "parts.h"

void bl_session_init(struct bl_session *session, const char *id)
{
    *session = (struct bl_session){0};
    bl_text_into(session->id, sizeof session->id, id);
    bl_list_init(&session->turns);
}

void bl_session_done(struct bl_session *session)
{
    bl_session_drop(session, session->turns_in_context, NULL);
    bl_turn_record_free(session->summary);
    session->summary = NULL;
}

struct bl_turn_record *bl_turn_record_new(void)
{
    struct bl_turn_record *record = bl_alloc(sizeof *record);

    bl_list_init(&record->link);
    bl_arena_init(&record->arena);
    bl_list_init(&record->messages);
    return record;
}

void bl_turn_record_free(struct bl_turn_record *record)
{
    if (record == NULL)
        return;
    bl_list_remove(&record->link);
    bl_arena_done(&record->arena);
    bl_free(record);
}

void bl_session_add(struct bl_session *session, struct bl_turn_record *record)
{
    bl_list_push_back(&session->turns, &record->link);
    session->turns_in_context++;
}

void bl_session_drop(struct bl_session *session, uint64_t count, struct bl_turn_record *summary)
{
    if (summary != NULL) {
        bl_turn_record_free(session->summary);
        session->summary = summary;
    }
    for (; count > 0 && !bl_list_empty(&session->turns); count--) {
        bl_turn_record_free(BL_CONTAINER(session->turns.next, struct bl_turn_record, link));
        session->turns_in_context--;
    }
}

static bool session_id_fits(struct bl_text text)
{
    return text.size > 0 && strlen(text.data) == text.size &&
           bl_session_id_check(text.data, NULL) == 0;
}

const struct bl_form bl_session_id_form = {"an id of 1 to 64 characters from a-z, 0-9 and -",
                                           "^[a-z0-9-]{1,64}$", session_id_fits};

int bl_session_id_check(const char *id, struct bl_error *error)
{
    size_t size = strnlen(id, 65);
    size_t good = 0;
    char shown[80];

    while (good < size && ((id[good] >= 'a' && id[good] <= 'z') ||
                           (id[good] >= '0' && id[good] <= '9') || id[good] == '-'))
        good++;
    if (size >= 1 && size <= 64 && good == size)
        return 0;
    bl_text_into(shown, sizeof shown, id);
    if (size == 0)
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "name a session", shown,
                     "a session id cannot be empty");
    else if (good == size)
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "name a session", shown,
                     "a session id has at most 64 characters");
    else
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "name a session", shown,
                     "'%s' is not a session id: character %zu is not allowed", shown, good + 1);
    bl_error_hint(error, "use 1 to 64 characters from a-z, 0-9 and -");
    return BL_EINVAL;
}
