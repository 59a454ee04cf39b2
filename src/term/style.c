/* Design notes.
 *
 * There are eight named colours. On a dark background they are the terminal's own colours, which
 * its user has chosen. On a light background, its yellow and cyan are hard to read, so darker
 * colours replace them if the terminal has 256 colours. Background tints for added and removed
 * lines need 256 colours or more; otherwise the text itself is green or red. */
#include "term.h"

#define ESCAPE_SIZE_MAX 80u

struct palette {
    const char *colours[TEXT_GREY + 1];
    const char *tints[TEXT_REMOVED + 1]; /* "" if there are none */
};

enum depth {
    DEPTH_16,
    DEPTH_256,
    DEPTH_TRUE,
};

#define DARK_COLOURS                                                                               \
    {                                                                                              \
        "39", "31", "32", "33", "34", "35", "36", "90"                                             \
    }
#define LIGHT_COLOURS                                                                              \
    {                                                                                              \
        "39", "38;5;124", "38;5;28", "38;5;130", "38;5;25", "38;5;90", "38;5;23", "38;5;243"       \
    }

/* By background (dark, light) and depth. */
static const struct palette palettes[2][DEPTH_TRUE + 1] = {
    {
        {DARK_COLOURS, {"", "", ""}},
        {DARK_COLOURS, {"49", "48;5;22", "48;5;52"}},
        {DARK_COLOURS, {"49", "48;2;22;56;36", "48;2;66;28;32"}},
    },
    {
        {{"39", "31", "32", "35", "34", "35", "34", "90"}, {"", "", ""}},
        {LIGHT_COLOURS, {"49", "48;5;194", "48;5;224"}},
        {LIGHT_COLOURS, {"49", "48;2;218;245;224", "48;2;255;226;226"}},
    },
};

static const struct palette *palette = &palettes[0][DEPTH_16];

/* ---- Available colours ----------------------------------------------------------------------- */

static enum depth colour_depth(void)
{
    const char *term = bl_variable("TERM"), *colours = bl_variable("COLORTERM");

    if (colours != NULL && (strcmp(colours, "truecolor") == 0 || strcmp(colours, "24bit") == 0))
        return DEPTH_TRUE;
    bool many = term != NULL && bl_text_find(bl_text_from(term), BL_TEXT("256color")) >= 0;
    return many || colours != NULL ? DEPTH_256 : DEPTH_16;
}

void text_colours_for(bool light)
{
    palette = &palettes[light ? 1 : 0][colour_depth()];
}

/* "15;0", "0;default;15": the numbers of the text colour and, last, of the background. */
bool text_background_known(const char *variable, bool *ret_light)
{
    const char *last = variable != NULL ? strrchr(variable, ';') : NULL;
    int64_t number;

    if (last == NULL || bl_text_to_int64(bl_text_from(last + 1), &number) != 0 || number < 0 ||
        number > 15)
        return false;
    *ret_light = number == 7 || number > 8;
    return true;
}

static unsigned style_digit(char byte)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = byte != '\0' ? strchr(digits, byte) : NULL;

    return found != NULL ? (unsigned)(found - digits) % 16 : 16;
}

/* Returns the value as a share of the maximum for this number of hexadecimal digits, in
 * thousandths. */
static bool read_share(struct bl_text digits, unsigned *ret_share)
{
    unsigned value = 0, most = 0;

    if (digits.size == 0 || digits.size > 4)
        return false;
    for (size_t i = 0; i < digits.size; i++) {
        unsigned digit = style_digit(digits.data[i]);
        if (digit > 15)
            return false;
        value = value * 16 + digit;
        most = most * 16 + 15;
    }
    *ret_share = value * 1000 / most;
    return true;
}

bool text_background_told(struct bl_text reply, bool *ret_light)
{
    static const unsigned weights[] = {299, 587, 114};
    struct bl_text head, colour;
    unsigned sum = 0, share;

    if (!bl_text_split(&reply, ';', &head) || !bl_text_equal(head, BL_TEXT("11")) ||
        !bl_text_split(&reply, ':', &head) ||
        !(bl_text_equal(head, BL_TEXT("rgb")) || bl_text_equal(head, BL_TEXT("rgba"))))
        return false;
    for (size_t i = 0; i < BL_COUNT(weights); i++) {
        if (!bl_text_split(&reply, '/', &colour) || !read_share(colour, &share))
            return false;
        sum += weights[i] * share;
    }
    *ret_light = sum > 500 * 1000;
    return true;
}

/* ---- Escape sequences ------------------------------------------------------------------------ */

static bool style_equal(const struct text_style *a, const struct text_style *b)
{
    return a->bold == b->bold && a->dim == b->dim && a->italic == b->italic &&
           a->underline == b->underline && a->strike == b->strike && a->inverse == b->inverse &&
           a->colour == b->colour && a->tint == b->tint;
}

/* Returns whether an attribute of `from` must be removed. */
static bool style_loses(const struct text_style *from, const struct text_style *to)
{
    return (from->bold && !to->bold) || (from->dim && !to->dim) || (from->italic && !to->italic) ||
           (from->underline && !to->underline) || (from->strike && !to->strike) ||
           (from->inverse && !to->inverse) ||
           (from->colour != TEXT_COLOUR_NONE && to->colour == TEXT_COLOUR_NONE) ||
           (from->tint != TEXT_TINT_NONE && to->tint == TEXT_TINT_NONE);
}

static void add_code(char *codes, size_t *size, bool wanted, const char *code)
{
    if (!wanted)
        return;
    if (*size > 0)
        codes[(*size)++] = ';';
    for (; *code != '\0'; code++)
        codes[(*size)++] = *code;
}

/* Replaces a tint by a text colour if the terminal has no tints. */
static struct text_style without_tint(const struct text_style *style)
{
    struct text_style shown = *style;

    if (shown.tint == TEXT_TINT_NONE || palette->tints[shown.tint][0] != '\0')
        return shown;
    shown.colour = shown.tint == TEXT_ADDED ? TEXT_GREEN : TEXT_RED;
    shown.tint = TEXT_TINT_NONE;
    return shown;
}

void text_style_change(struct bl_buffer *out, struct text_style *from,
                       const struct text_style *wanted, bool colours)
{
    static const struct text_style none = {0};
    struct text_style to = without_tint(wanted);
    char codes[ESCAPE_SIZE_MAX];
    size_t size = 0;

    if (!colours || style_equal(from, &to))
        return;
    bool lost = style_loses(from, &to);
    const struct text_style *have = lost ? &none : from;
    add_code(codes, &size, lost, "0");
    add_code(codes, &size, to.bold && !have->bold, "1");
    add_code(codes, &size, to.dim && !have->dim, "2");
    add_code(codes, &size, to.italic && !have->italic, "3");
    add_code(codes, &size, to.underline && !have->underline, "4");
    add_code(codes, &size, to.inverse && !have->inverse, "7");
    add_code(codes, &size, to.strike && !have->strike, "9");
    add_code(codes, &size, to.colour != have->colour, palette->colours[to.colour]);
    add_code(codes, &size, to.tint != have->tint, palette->tints[to.tint]);
    bl_buffer_append(out, BL_TEXT("\x1b["));
    bl_buffer_append(out, (struct bl_text){codes, size});
    bl_buffer_append_byte(out, 'm');
    *from = to;
}
