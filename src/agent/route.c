/* Finds the commands and tools that a prompt mentions, by comparing its words with their names and
 * descriptions. */
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include <belay/agent.h>

#define WORDS_MAX     256u
#define WORD_SIZE_MIN 3u
#define SCORE_NAME    4u
#define SCORE_WORD    1u

/* Commands of the interactive prompt. */
static const struct {
    const char *name;
    const char *description;
} commands[] = {
    {"cancel", "stop a run, session, sub-agent, call, task, feature or cell"},
    {"compact", "summarize the oldest turns, which leave the context"},
    {"cost", "tokens used and money spent"},
    {"fork", "a new session with the turns of this one"},
    {"help", "explain the commands"},
    {"model", "choose another model or provider"},
    {"permissions", "which tools may run, and what they may do"},
    {"ps", "what is running now"},
    {"quit", "leave"},
    {"resume", "resume an earlier session"},
    {"sessions", "list sessions"},
    {"tools", "list the tools that the model is offered"},
};

static bool agent_route_is_word_byte(char byte)
{
    return isalnum((unsigned char)byte) || (byte & 0x80) != 0;
}

/* Takes the next word off the front of `*rest`, which may contain anything. */
static bool next_word(struct bl_text *rest, struct bl_text *ret_word)
{
    while (rest->size > 0 && !agent_route_is_word_byte(rest->data[0])) {
        rest->data++;
        rest->size--;
    }
    size_t size = 0;
    while (size < rest->size && agent_route_is_word_byte(rest->data[size]))
        size++;
    *ret_word = (struct bl_text){rest->data, size};
    rest->data += size;
    rest->size -= size;
    return size > 0;
}

/* Words that are too common to indicate a subject. Sorted. */
static const char *const common_words[] = {
    "a",     "about", "after", "all",  "also", "am",    "an",    "and",  "any",    "are",    "as",
    "at",    "be",    "been",  "but",  "by",   "can",   "could", "did",  "do",     "does",   "for",
    "from",  "get",   "had",   "has",  "have", "how",   "i",     "if",   "in",     "into",   "is",
    "it",    "its",   "just",  "let",  "may",  "me",    "more",  "my",   "no",     "not",    "now",
    "of",    "on",    "one",   "only", "or",   "other", "our",   "out",  "please", "should", "so",
    "some",  "such",  "than",  "that", "the",  "their", "them",  "then", "there",  "these",  "they",
    "this",  "those", "to",    "too",  "up",   "us",    "was",   "we",   "were",   "what",   "when",
    "where", "which", "who",   "why",  "will", "with",  "would", "you",  "your",
};

static int route_compare(const void *key, const void *row)
{
    const struct bl_text *word = key;
    const char *common = *(const char *const *)row;
    int order = strncasecmp(word->data, common, word->size);

    return order != 0 ? order : -(common[word->size] != '\0');
}

static bool route_is_common(struct bl_text word)
{
    return bsearch(&word, common_words, BL_COUNT(common_words), sizeof common_words[0],
                   route_compare) != NULL;
}

static bool equal_ignoring_case(struct bl_text a, struct bl_text b)
{
    return a.size == b.size && strncasecmp(a.data, b.data, a.size) == 0;
}

static bool agent_route_has_word(struct bl_text text, struct bl_text wanted)
{
    struct bl_text word;

    while (next_word(&text, &word)) {
        if (equal_ignoring_case(word, wanted))
            return true;
    }
    return false;
}

/* Returns the score: each distinct word of the prompt that is not common counts once, and more if
 * it is in the name. */
static uint32_t score_of(struct bl_text prompt, const char *name, const char *description)
{
    struct bl_text rest = prompt, word, before;
    uint32_t score = 0;

    for (size_t count = 0; count < WORDS_MAX && next_word(&rest, &word); count++) {
        before = (struct bl_text){prompt.data, (size_t)(word.data - prompt.data)};
        if (route_is_common(word) || agent_route_has_word(before, word))
            continue;
        if (agent_route_has_word(bl_text_from(name), word))
            score += SCORE_NAME;
        else if (word.size >= WORD_SIZE_MIN &&
                 agent_route_has_word(bl_text_from(description), word))
            score += SCORE_WORD;
    }
    return score;
}

/* Inserts a match: best first; of equals, the first offered. */
static void add_match(struct bl_arena *arena, struct bl_list *matches, const char *kind,
                      const char *name, uint32_t score)
{
    struct bl_list *position = matches->next;

    if (score == 0)
        return;
    while (position != matches &&
           BL_CONTAINER(position, struct bl_route_match, link)->score >= score)
        position = position->next;
    struct bl_route_match *match = bl_arena_alloc(arena, sizeof *match);
    *match = (struct bl_route_match){.kind = kind, .name = name, .score = score};
    bl_list_insert_before(position, &match->link);
}

void bl_route(struct bl_arena *arena, struct bl_text prompt, const struct bl_tools *tools,
              struct bl_list *ret_matches)
{
    bl_list_init(ret_matches);
    for (size_t i = 0; i < BL_COUNT(commands); i++)
        add_match(arena, ret_matches, "command", commands[i].name,
                  score_of(prompt, commands[i].name, commands[i].description));
    for (size_t i = 0; tools != NULL && i < tools->offer_count; i++)
        add_match(arena, ret_matches, "tool", tools->offers[i].name,
                  score_of(prompt, tools->offers[i].name, tools->offers[i].description));
}
