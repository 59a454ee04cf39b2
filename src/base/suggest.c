#include <assert.h>

#include <belay/base.h>

#define WORD_MAX     64u
#define DISTANCE_MAX 2u

static unsigned suggest_smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned bl_text_distance(struct bl_text a, struct bl_text b)
{
    unsigned rows[3][WORD_MAX + 1]; /* two rows back, one row back, this one */

    if (a.size > WORD_MAX || b.size > WORD_MAX)
        return WORD_MAX;
    for (unsigned j = 0; j <= b.size; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a.size; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b.size; j++) {
            unsigned change = a.data[i - 1] == b.data[j - 1] ? 0 : 1;
            unsigned best = suggest_smaller(above[j] + 1, row[j - 1] + 1);
            best = suggest_smaller(best, above[j - 1] + change);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1])
                best = suggest_smaller(best, two_above[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a.size % 3][b.size];
}

void bl_suggestion_init(struct bl_suggestion *suggestion, const char *word)
{
    assert(word != NULL);
    *suggestion = (struct bl_suggestion){.word = word, .distance = DISTANCE_MAX + 1};
}

/* A prefix match, either way round, is the closest; then the fewest edits. Edits may change at most
 * half of the longer word, or every short word would be close to every other. */
void bl_suggestion_offer(struct bl_suggestion *suggestion, const char *name)
{
    struct bl_text word = bl_text_from(suggestion->word);
    struct bl_text text = bl_text_from(name);
    unsigned distance;

    if (word.size == 0 || suggestion->distance == 0)
        return;
    if (bl_text_starts_with(text, word) || bl_text_starts_with(word, text)) {
        distance = 0;
    } else {
        distance = bl_text_distance(word, text);
        size_t longer = word.size > text.size ? word.size : text.size;
        if ((size_t)distance * 2 > longer)
            return;
    }
    if (distance >= suggestion->distance)
        return;
    suggestion->best = name;
    suggestion->distance = distance;
}
