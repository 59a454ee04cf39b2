#include <belay/proc.h>

#include <strings.h>
#include <unistd.h>

/* In an entry "NAME=value" the name ends at the first '='. */
static bool name_of(const char *entry, struct bl_text *ret_name)
{
    const char *equals = strchr(entry, '=');

    if (equals == NULL || equals == entry)
        return false;
    *ret_name = (struct bl_text){entry, (size_t)(equals - entry)};
    return true;
}

/* Letters count alike: `openai_api_key` is as secret as its big sister. */
static bool same_letters(struct bl_text a, struct bl_text b)
{
    return a.size == b.size && strncasecmp(a.data, b.data, a.size) == 0;
}

/* API_KEY, TOKEN, SECRET, or something that ends in one of these after an underscore. */
static bool looks_secret(struct bl_text name)
{
    static const struct bl_text endings[] = {BL_TEXT("_API_KEY"), BL_TEXT("_TOKEN"),
                                             BL_TEXT("_SECRET")};

    for (size_t i = 0; i < BL_COUNT(endings); i++) {
        struct bl_text ending = endings[i];
        if (name.size >= ending.size) {
            struct bl_text end = {name.data + name.size - ending.size, ending.size};
            if (same_letters(end, ending))
                return true;
        }
        if (same_letters(name, (struct bl_text){ending.data + 1, ending.size - 1}))
            return true;
    }
    return false;
}

static bool is_named_secret(const char *const *names, struct bl_text name)
{
    for (; names != NULL && *names != NULL; names++)
        if (same_letters(name, bl_text_from(*names)))
            return true;
    return false;
}

/* To the letter: what lets a secret through is not guessed. */
static bool is_allowed(const char *const *names, struct bl_text name)
{
    for (; names != NULL && *names != NULL; names++)
        if (bl_text_equal(name, bl_text_from(*names)))
            return true;
    return false;
}

/* Entries without a name or without '=' are dropped: nobody could say whether they are secret. The
 * others keep their order, doubles included. */
const char *const *bl_environment_scrub(struct bl_arena *arena, const char *const *environment,
                                        const char *const *secrets, const char *const *allow)
{
    size_t count = 0;
    size_t kept = 0;

    if (environment == NULL)
        environment = (const char *const *)environ;
    while (environment != NULL && environment[count] != NULL)
        count++;
    const char **result = bl_arena_alloc(arena, (count + 1) * sizeof *result);
    for (size_t i = 0; i < count; i++) {
        struct bl_text name;
        if (!name_of(environment[i], &name))
            continue;
        if ((looks_secret(name) || is_named_secret(secrets, name)) && !is_allowed(allow, name))
            continue;
        result[kept++] = bl_arena_text(arena, bl_text_from(environment[i])).data;
    }
    result[kept] = NULL;
    return result;
}
