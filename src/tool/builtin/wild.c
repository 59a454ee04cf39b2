/* Wildcard patterns for names, in the syntax of Git's rules and of models. */
#include "search.h"

#define ALTERNATIVES_MAX 256u
#define DEPTH_MAX        16u

/* ---- Classes --------------------------------------------------------------------------------- */

static bool between(unsigned char byte, unsigned char first, unsigned char last)
{
    return byte >= first && byte <= last;
}

/* Returns 1 if the byte is in that named class (ASCII only), 0 if it is not, or -1 if there is no
 * such class. */
static int named_class(struct bl_text name, unsigned char byte)
{
    bool lower = between(byte, 'a', 'z'), upper = between(byte, 'A', 'Z');
    bool digit = between(byte, '0', '9'), graph = between(byte, 0x21, 0x7E);
    const struct {
        const char *name;
        bool holds;
    } classes[] = {
        {"alnum", lower || upper || digit},
        {"alpha", lower || upper},
        {"blank", byte == ' ' || byte == '\t'},
        {"cntrl", byte < 0x20 || byte == 0x7F},
        {"digit", digit},
        {"graph", graph},
        {"lower", lower},
        {"print", graph || byte == ' '},
        {"punct", graph && !lower && !upper && !digit},
        {"space", byte == ' ' || between(byte, '\t', '\r')},
        {"upper", upper},
        {"xdigit", digit || between(byte, 'a', 'f') || between(byte, 'A', 'F')},
    };
    for (size_t i = 0; i < BL_COUNT(classes); i++)
        if (bl_text_equal(name, bl_text_from(classes[i].name)))
            return classes[i].holds;
    return -1;
}

/* The state while reading a class. */
struct class_reader {
    const char *at;
    const char *end;
    unsigned char byte;
    /* the previous member, which a range may begin with; 0 if there is none */
    unsigned char before;
    bool holds;
};

/* Reads one member of a class. Returns false if the class is malformed. */
static bool wild_read_member(struct class_reader *reader)
{
    const char *at = reader->at, *end = reader->end;
    unsigned char first = (unsigned char)*at;
    if (first == '-' && reader->before != 0 && end - at > 1 && at[1] != ']') {
        at++;
        if (*at == '\\' && ++at == end)
            return false;
        reader->holds |= between(reader->byte, reader->before, (unsigned char)*at);
        reader->before = 0;
    } else if (first == '[' && end - at > 1 && at[1] == ':') {
        const char *close = memchr(at + 2, ']', (size_t)(end - at - 2));
        if (close == NULL)
            return false;
        if (close - at >= 3 && close[-1] == ':') {
            struct bl_text name = {at + 2, (size_t)(close - at - 3)};
            int holds = named_class(name, reader->byte);
            if (holds < 0)
                return false;
            reader->holds |= holds == 1;
            reader->before = 0;
            at = close;
        } else {
            reader->holds |= reader->byte == '[';
            reader->before = '[';
        }
    } else {
        if (first == '\\' && ++at == end)
            return false;
        reader->before = (unsigned char)*at;
        reader->holds |= reader->byte == reader->before;
    }
    reader->at = at + 1;
    return true;
}

/* Matches the class whose `[` is before `at`. Returns the position after its `]`, or NULL if it is
 * malformed. */
static const char *match_class(const char *at, const char *end, unsigned char byte, bool *ret_holds)
{
    struct class_reader reader = {.at = at, .end = end, .byte = byte};
    bool negated = at < end && (*at == '!' || *at == '^');
    reader.at += negated;
    /* A bracket in first position is a member. */
    do {
        if (reader.at == end || !wild_read_member(&reader))
            return NULL;
    } while (reader.at < end && *reader.at != ']');
    if (reader.at == end)
        return NULL;
    *ret_holds = reader.holds != negated;
    return reader.at + 1;
}

/* ---- Matching -------------------------------------------------------------------------------- */

/* The state of a match, and where it can resume after a failure: after the last star, which then
 * takes one byte more, or else after the last two stars, which then take one folder more. Earlier
 * stars are not tried again: whatever they could take in addition, the later ones can take, too. */
struct matcher {
    const char *pattern;
    const char *pattern_start;
    const char *pattern_end;
    const char *text;
    const char *text_start;
    const char *text_end;
    unsigned flags;
    const char *star; /* the pattern after it; NULL for none */
    const char *star_text;
    const char *deep;
    const char *deep_text;
};

/* Returns whether the next byte is the dot of a hidden name, which no wildcard matches. */
static bool at_hidden(const struct matcher *matcher, const char *text)
{
    return (matcher->flags & WILD_NO_HIDDEN) && text < matcher->text_end && *text == '.' &&
           (text == matcher->text_start || text[-1] == '/');
}

/* Matches one byte of text with one item other than a star. */
static bool match_one(struct matcher *matcher)
{
    const char *at = matcher->pattern;
    if (at == matcher->pattern_end || matcher->text == matcher->text_end)
        return false;
    bool slash = *matcher->text == '/' && (matcher->flags & WILD_PATH), holds = true;
    if (*at == '?') {
        holds = !slash && !at_hidden(matcher, matcher->text);
        at++;
    } else if (*at == '[') {
        at = match_class(at + 1, matcher->pattern_end, (unsigned char)*matcher->text, &holds);
        if (at == NULL || slash || at_hidden(matcher, matcher->text))
            return false;
    } else {
        if (*at == '\\' && ++at == matcher->pattern_end)
            return false;
        holds = *at++ == *matcher->text;
    }
    if (holds) {
        matcher->pattern = at;
        matcher->text++;
    }
    return holds;
}

/* Extends the last two stars by one folder. */
static bool go_deeper(struct matcher *matcher)
{
    if (matcher->deep == NULL || at_hidden(matcher, matcher->deep_text))
        return false;
    const char *slash =
        memchr(matcher->deep_text, '/', (size_t)(matcher->text_end - matcher->deep_text));
    if (slash == NULL)
        return false;
    matcher->deep_text = slash + 1;
    matcher->text = slash + 1;
    matcher->pattern = matcher->deep;
    matcher->star = NULL;
    return true;
}

static bool wild_go_back(struct matcher *matcher)
{
    if (matcher->star != NULL && matcher->star_text < matcher->text_end &&
        (*matcher->star_text != '/' || !(matcher->flags & WILD_PATH))) {
        matcher->text = ++matcher->star_text;
        matcher->pattern = matcher->star;
        return true;
    }
    return go_deeper(matcher);
}

/* Returns whether no part of the remaining text is hidden. */
static bool rest_is_plain(const struct matcher *matcher)
{
    for (const char *at = matcher->text; at < matcher->text_end; at++)
        if (at_hidden(matcher, at))
            return false;
    return true;
}

/* Handles stars. Returns 1 to continue, 0 if this attempt fails, 2 if the whole remaining text
 * matches. */
static int take_stars(struct matcher *matcher)
{
    const char *first = matcher->pattern, *at = first, *end = matcher->pattern_end;
    while (at < end && *at == '*')
        at++;
    bool escaped_slash = end - at >= 2 && at[0] == '\\' && at[1] == '/';
    bool deep = (matcher->flags & WILD_PATH) && at - first >= 2 &&
                (first == matcher->pattern_start || first[-1] == '/') &&
                (at == end || *at == '/' || escaped_slash);
    if (deep && at == end)
        return rest_is_plain(matcher) ? 2 : 0;
    if (!deep) {
        if (at_hidden(matcher, matcher->text))
            return 0;
        matcher->star = matcher->pattern = at;
        matcher->star_text = matcher->text;
        return 1;
    }
    matcher->star = NULL;
    matcher->deep = at + 1 + escaped_slash;
    matcher->deep_text = matcher->text;
    matcher->pattern = matcher->deep;
    /* With an escaped slash, at least one folder is taken. */
    return escaped_slash ? go_deeper(matcher) : 1;
}

bool wild_match(struct bl_text pattern, struct bl_text text, unsigned flags)
{
    struct matcher matcher = {.pattern = pattern.data,
                              .pattern_start = pattern.data,
                              .pattern_end = pattern.data + pattern.size,
                              .text = text.data,
                              .text_start = text.data,
                              .text_end = text.data + text.size,
                              .flags = flags};
    while (matcher.text < matcher.text_end || matcher.pattern < matcher.pattern_end) {
        bool star = matcher.pattern < matcher.pattern_end && *matcher.pattern == '*';
        int taken = star ? take_stars(&matcher) : match_one(&matcher);
        if (taken == 2)
            return true;
        if (taken == 0 && !wild_go_back(&matcher))
            return false;
    }
    return true;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

/* Returns the offset after the item at `at`; an escape or a class is one item. Returns 0 for an
 * unterminated class. */
static size_t item_end(struct bl_text source, size_t at)
{
    bool holds;
    if (source.data[at] == '\\')
        return at + 2 < source.size ? at + 2 : source.size;
    if (source.data[at] != '[')
        return at + 1;
    const char *end = match_class(source.data + at + 1, source.data + source.size, 'x', &holds);
    return end == NULL ? 0 : (size_t)(end - source.data);
}

/* The state while expanding alternatives. */
struct expansion {
    struct bl_arena *arena;
    struct bl_text *texts;
    size_t count;
    const char *wrong;
};

/* The first `{` of the source outside of classes, its `}`, and the commas between them at that
 * level. find_braces returns false if there are none, or on an error. */
struct braces {
    size_t open;
    size_t close;
    size_t commas[ALTERNATIVES_MAX];
    size_t comma_count;
};

static bool find_braces(struct expansion *expansion, struct bl_text source, struct braces *braces)
{
    unsigned level = 0;
    braces->comma_count = 0;
    for (size_t at = 0; at < source.size;) {
        char byte = source.data[at];
        if (byte == '{' && level++ == 0)
            braces->open = at;
        if (byte == ',' && level == 1) {
            if (braces->comma_count == ALTERNATIVES_MAX) {
                expansion->wrong = "more than 256 alternatives";
                return false;
            }
            braces->commas[braces->comma_count++] = at;
        }
        if (byte == '}' && level > 0 && --level == 0) {
            braces->close = at;
            return true;
        }
        at = item_end(source, at);
        if (at == 0) {
            expansion->wrong = "'[' without ']'";
            return false;
        }
    }
    if (level > 0)
        expansion->wrong = "'{' without '}'";
    return false;
}

/* Expands all alternatives of the source, the first braces first. */
static void wild_expand(struct expansion *expansion, struct bl_text source, unsigned depth)
{
    if (depth > DEPTH_MAX)
        expansion->wrong = "too many braces";
    if (expansion->wrong != NULL)
        return;
    struct braces *braces = bl_arena_alloc(expansion->arena, sizeof *braces);
    if (!find_braces(expansion, source, braces)) {
        if (expansion->wrong == NULL && expansion->count == ALTERNATIVES_MAX)
            expansion->wrong = "more than 256 alternatives";
        if (expansion->wrong == NULL)
            expansion->texts[expansion->count++] = source;
        return;
    }
    size_t from = braces->open + 1;
    for (size_t i = 0; i <= braces->comma_count; i++) {
        size_t to = i < braces->comma_count ? braces->commas[i] : braces->close;
        struct bl_text one = bl_arena_printf(
            expansion->arena, BL_TEXT_FORMAT BL_TEXT_FORMAT BL_TEXT_FORMAT, (int)braces->open,
            source.data, (int)(to - from), source.data + from,
            (int)(source.size - braces->close - 1), source.data + braces->close + 1);
        wild_expand(expansion, one, depth + 1);
        from = to + 1;
    }
}

static bool wild_is_special(char byte)
{
    return byte == '*' || byte == '?' || byte == '[' || byte == '\\';
}

static void fill_pattern(struct wild_pattern *pattern, struct bl_text text)
{
    bool anchored = false;
    while (bl_text_starts_with(text, BL_TEXT("./")) || bl_text_starts_with(text, BL_TEXT("/"))) {
        size_t skip = text.data[0] == '/' ? 1 : 2;
        text = (struct bl_text){text.data + skip, text.size - skip};
        anchored = true;
    }
    *pattern = (struct wild_pattern){.text = text, .folder = {text.data, 0}};
    pattern->by_name = !anchored && memchr(text.data, '/', text.size) == NULL;
    pattern->depth_max = pattern->by_name ? SIZE_MAX : 0;
    for (size_t i = 0; i < text.size && !wild_is_special(text.data[i]); i++)
        if (text.data[i] == '/')
            pattern->folder.size = i + 1;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '/' && pattern->depth_max != SIZE_MAX)
            pattern->depth_max++;
    if (bl_text_find(text, BL_TEXT("**")) >= 0)
        pattern->depth_max = SIZE_MAX;
}

bool wild_set_read(struct bl_arena *arena, struct bl_text source, unsigned flags,
                   struct wild_set *ret_set, const char **ret_wrong)
{
    struct expansion expansion = {.arena = arena};
    expansion.texts = bl_arena_alloc(arena, ALTERNATIVES_MAX * sizeof *expansion.texts);
    wild_expand(&expansion, source, 0);
    *ret_wrong = expansion.wrong;
    if (expansion.wrong != NULL)
        return false;
    *ret_set = (struct wild_set){.count = expansion.count, .flags = flags};
    ret_set->patterns = bl_arena_alloc(arena, expansion.count * sizeof *ret_set->patterns);
    for (size_t i = 0; i < expansion.count; i++) {
        struct wild_pattern *pattern = &ret_set->patterns[i];
        fill_pattern(pattern, expansion.texts[i]);
        ret_set->names_hidden |= bl_text_starts_with(pattern->text, BL_TEXT(".")) ||
                                 bl_text_find(pattern->text, BL_TEXT("/.")) >= 0 ||
                                 bl_text_find(pattern->text, BL_TEXT("\\.")) >= 0;
    }
    return true;
}

bool wild_set_match(const struct wild_set *set, struct bl_text path, size_t name)
{
    struct bl_text last = {path.data + name, path.size - name};
    bool hides = (set->flags & WILD_NO_HIDDEN) != 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct wild_pattern *pattern = &set->patterns[i];
        /* In a hidden folder, a pattern without a slash matches nothing. */
        bool hidden_folder = hides && name > 0 &&
                             (path.data[0] == '.' ||
                              bl_text_find((struct bl_text){path.data, name}, BL_TEXT("/.")) >= 0);
        if (pattern->by_name ? !hidden_folder && wild_match(pattern->text, last, set->flags)
                             : wild_match(pattern->text, path, set->flags | WILD_PATH))
            return !set->negated;
    }
    return set->negated;
}

static size_t count_slashes(struct bl_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == '/';
    return count;
}

bool wild_set_enters(const struct wild_set *set, struct bl_text folder, size_t name)
{
    if (set->negated)
        return true;
    if ((set->flags & WILD_NO_HIDDEN) && !set->names_hidden && folder.data[name] == '.')
        return false;
    for (size_t i = 0; i < set->count; i++) {
        const struct wild_pattern *pattern = &set->patterns[i];
        /* The folder leads to the fixed start of the pattern, or is below it. */
        size_t size = pattern->folder.size < folder.size ? pattern->folder.size : folder.size;
        bool fits = memcmp(pattern->folder.data, folder.data, size) == 0 &&
                    (pattern->folder.size <= size || pattern->folder.data[size] == '/');
        if (fits && count_slashes(folder) < pattern->depth_max)
            return true;
    }
    return false;
}
