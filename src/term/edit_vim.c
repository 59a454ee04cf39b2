/* vim keys for the input line: normal mode. In insert mode all keys but Escape have their usual
 * effect. */
#include "term.h"

#define COUNT_MAX 1000u

/* The target of a motion. */
struct vim_motion {
    size_t to;
    bool inclusive; /* includes the character at the target */
    bool lines;     /* whole lines, from the current one to the target's */
};

static unsigned vim_count(const struct edit_vim *vim)
{
    unsigned first = vim->operator_count > 0 ? vim->operator_count : 1;
    unsigned second = vim->count > 0 ? vim->count : 1;

    return first * second < COUNT_MAX ? first * second : COUNT_MAX;
}

static void vim_forget(struct edit_vim *vim)
{
    vim->operator_ = 0;
    vim->pending = 0;
    vim->count = vim->operator_count = 0;
}

static void vim_insert_mode(struct edit_line *line)
{
    vim_forget(&line->vim);
    line->vim.normal = false;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static size_t vim_line_start(struct bl_text text, size_t at)
{
    while (at > 0 && text.data[at - 1] != '\n')
        at--;
    return at;
}

static size_t vim_line_end(struct bl_text text, size_t at)
{
    while (at < text.size && text.data[at] != '\n')
        at++;
    return at;
}

static size_t vim_first_word(struct bl_text text, size_t at)
{
    at = vim_line_start(text, at);
    while (at < text.size && (text.data[at] == ' ' || text.data[at] == '\t'))
        at++;
    return at;
}

/* Keeps the cursor on a character, if the line has any. */
static void vim_clamp(struct edit_line *line)
{
    struct bl_text text = edit_line_text(line);

    if (line->cursor > text.size)
        line->cursor = text.size;
    if (line->cursor == vim_line_end(text, line->cursor) &&
        line->cursor > vim_line_start(text, line->cursor))
        line->cursor = edit_text_previous(text, line->cursor);
}

enum vim_class {
    VIM_BLANK,
    VIM_WORD,
    VIM_SIGN,
};

static enum vim_class vim_class(struct bl_text text, size_t at, bool big)
{
    unsigned char byte = (unsigned char)text.data[at];
    bool letter = byte >= 0x80 || byte == '_' || (byte >= '0' && byte <= '9') ||
                  ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');

    if (byte == ' ' || byte == '\t' || byte == '\n')
        return VIM_BLANK;
    return letter || big ? VIM_WORD : VIM_SIGN;
}

static size_t vim_word_next(struct bl_text text, size_t at, bool big)
{
    if (at == text.size)
        return at;
    enum vim_class from = vim_class(text, at, big);
    while (at < text.size && from != VIM_BLANK && vim_class(text, at, big) == from)
        at = edit_text_next(text, at);
    while (at < text.size && vim_class(text, at, big) == VIM_BLANK)
        at = edit_text_next(text, at);
    return at;
}

static size_t vim_word_end(struct bl_text text, size_t at, bool big)
{
    if (at < text.size)
        at = edit_text_next(text, at);
    while (at < text.size && vim_class(text, at, big) == VIM_BLANK)
        at = edit_text_next(text, at);
    if (at == text.size)
        return text.size > 0 ? edit_text_previous(text, text.size) : 0;
    enum vim_class of = vim_class(text, at, big);
    for (size_t next = edit_text_next(text, at);
         next < text.size && vim_class(text, next, big) == of; next = edit_text_next(text, at))
        at = next;
    return at;
}

static bool vim_ends_word(struct bl_text text, size_t at, bool big)
{
    size_t next = edit_text_next(text, at);

    return next >= text.size || vim_class(text, next, big) != vim_class(text, at, big);
}

static size_t vim_word_back(struct bl_text text, size_t at, bool big)
{
    while (at > 0 && vim_class(text, edit_text_previous(text, at), big) == VIM_BLANK)
        at = edit_text_previous(text, at);
    if (at == 0)
        return 0;
    enum vim_class of = vim_class(text, edit_text_previous(text, at), big);
    while (at > 0 && vim_class(text, edit_text_previous(text, at), big) == of)
        at = edit_text_previous(text, at);
    return at;
}

/* f, F, t, T in the line. Returns false if the character is not found. */
static bool vim_find(const struct edit_line *line, char kind, char wanted, unsigned count,
                     struct vim_motion *ret_motion)
{
    struct bl_text text = edit_line_text(line);
    size_t at = line->cursor, start = vim_line_start(text, at), end = vim_line_end(text, at);
    bool forward = kind == 'f' || kind == 't';

    while (count > 0) {
        if (forward ? at + 1 >= end : at == start)
            return false;
        at = forward ? at + 1 : at - 1;
        count -= text.data[at] == wanted;
    }
    if (kind == 't')
        at = edit_text_previous(text, at);
    if (kind == 'T')
        at = edit_text_next(text, at);
    *ret_motion = (struct vim_motion){.to = at, .inclusive = forward};
    return true;
}

/* ---- Motions --------------------------------------------------------------------------------- */

static size_t vim_line_move(struct bl_text text, size_t at, bool up)
{
    size_t start = vim_line_start(text, at), end = vim_line_end(text, at);
    size_t column = text_width((struct bl_text){text.data + start, at - start});

    if (up ? start == 0 : end == text.size)
        return at;
    size_t to = up ? vim_line_start(text, start - 1) : end + 1;
    struct bl_text there = {text.data + to, vim_line_end(text, to) - to};
    return to + text_cut_width(there, column).size;
}

static size_t vim_step(struct bl_text text, size_t at, char letter)
{
    bool big = letter == 'W' || letter == 'B' || letter == 'E';

    switch (letter) {
    case 'h': return at > vim_line_start(text, at) ? edit_text_previous(text, at) : at;
    case 'l': return at < vim_line_end(text, at) ? edit_text_next(text, at) : at;
    case 'j':
    case 'k': return vim_line_move(text, at, letter == 'k');
    case 'w':
    case 'W': return vim_word_next(text, at, big);
    case 'b':
    case 'B': return vim_word_back(text, at, big);
    default: return vim_word_end(text, at, big);
    }
}

/* Returns false if the letter is not a motion. */
static bool vim_motion(struct edit_line *line, char letter, struct vim_motion *ret_motion)
{
    struct edit_vim *vim = &line->vim;
    struct bl_text text = edit_line_text(line);
    struct vim_motion motion = {.to = line->cursor};
    unsigned count = vim_count(vim);

    switch (letter) {
    case '0': motion.to = vim_line_start(text, line->cursor); break;
    case '^': motion.to = vim_first_word(text, line->cursor); break;
    case '$': motion.to = vim_line_end(text, line->cursor); break;
    case 'G':
        motion.to = vim_line_start(text, text.size);
        motion.lines = true;
        break;
    case ';':
    case ',': {
        bool forward = vim->found_kind == 'f' || vim->found_kind == 't';
        char other = forward ? (char)(vim->found_kind - 0x20) : (char)(vim->found_kind | 0x20);
        if (vim->found_kind == 0 ||
            !vim_find(line, letter == ';' ? vim->found_kind : other, vim->found, count, &motion))
            motion.to = line->cursor;
        break;
    }
    default:
        if (strchr("hljkwWbBeE", letter) == NULL)
            return false;
        motion.lines = letter == 'j' || letter == 'k';
        motion.inclusive = letter == 'e' || letter == 'E';
        while (count-- > 0)
            motion.to = vim_step(text, motion.to, letter);
    }
    *ret_motion = motion;
    return true;
}

/* ---- Operators ------------------------------------------------------------------------------- */

static void vim_keep(struct edit_line *line, size_t from, size_t to, bool lines)
{
    struct bl_text text = edit_line_text(line);

    bl_buffer_clear(&line->killed);
    bl_buffer_append(&line->killed, (struct bl_text){text.data + from, to - from});
    line->vim.kept_lines = lines;
}

static void vim_operate_lines(struct edit_line *line, size_t from, size_t to)
{
    struct bl_text text = edit_line_text(line);
    char operator_ = line->vim.operator_;

    from = vim_line_start(text, from);
    to = vim_line_end(text, to);
    vim_keep(line, from, to, true);
    if (operator_ == 'd') {
        if (to < text.size)
            to++;
        else if (from > 0)
            from--;
    }
    if (operator_ != 'y')
        edit_line_remove(line, from, to);
    if (operator_ == 'd')
        line->cursor = vim_line_start(edit_line_text(line), line->cursor);
}

static void vim_operate(struct edit_line *line, const struct vim_motion *motion)
{
    struct bl_text text = edit_line_text(line);
    char operator_ = line->vim.operator_;
    size_t from = motion->to < line->cursor ? motion->to : line->cursor;
    size_t to = motion->to < line->cursor ? line->cursor : motion->to;

    if (motion->lines) {
        vim_operate_lines(line, from, to);
    } else {
        if (motion->inclusive && to < text.size)
            to = edit_text_next(text, to);
        vim_keep(line, from, to, false);
        if (operator_ != 'y')
            edit_line_remove(line, from, to);
        else
            line->cursor = from;
    }
    vim_forget(&line->vim);
    if (operator_ == 'c')
        line->vim.normal = false;
    else
        vim_clamp(line);
}

static void vim_go(struct edit_line *line, char letter, struct vim_motion motion)
{
    struct bl_text text = edit_line_text(line);

    if (line->vim.operator_ == 0) {
        line->cursor = motion.to;
        vim_forget(&line->vim);
        vim_clamp(line);
        return;
    }
    bool word = letter == 'w' || letter == 'W';
    /* Changing a word keeps the blank after it; a word never extends into the next line. */
    if (word && line->vim.operator_ == 'c' && line->cursor < text.size &&
        vim_class(text, line->cursor, true) != VIM_BLANK) {
        size_t end = line->cursor;
        unsigned words = vim_count(&line->vim) - vim_ends_word(text, end, letter == 'W');
        while (words-- > 0)
            end = vim_word_end(text, end, letter == 'W');
        motion = (struct vim_motion){.to = end, .inclusive = true};
    } else if (word && motion.to > vim_line_end(text, line->cursor) && vim_count(&line->vim) == 1) {
        motion.to = vim_line_end(text, line->cursor);
    }
    vim_operate(line, &motion);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void vim_put(struct edit_line *line, bool before)
{
    struct bl_text text = edit_line_text(line), kept = bl_buffer_text(&line->killed);
    size_t end = vim_line_end(text, line->cursor);

    if (kept.size == 0 && !line->vim.kept_lines)
        return;
    for (unsigned i = vim_count(&line->vim); i > 0; i--) {
        if (!line->vim.kept_lines) {
            if (!before && i == vim_count(&line->vim) && line->cursor < end)
                line->cursor = edit_text_next(text, line->cursor);
            edit_line_insert(line, kept);
            continue;
        }
        text = edit_line_text(line);
        line->cursor =
            before ? vim_line_start(text, line->cursor) : vim_line_end(text, line->cursor);
        size_t at = line->cursor;
        edit_line_insert(line, before ? kept : BL_TEXT("\n"));
        edit_line_insert(line, before ? BL_TEXT("\n") : kept);
        line->cursor = before ? at : at + 1;
    }
    if (!line->vim.kept_lines && line->cursor > 0)
        line->cursor = edit_text_previous(edit_line_text(line), line->cursor);
}

static void vim_replace(struct edit_line *line, struct bl_text with)
{
    for (unsigned i = vim_count(&line->vim); i > 0; i--) {
        struct bl_text text = edit_line_text(line);
        if (line->cursor >= vim_line_end(text, line->cursor))
            break;
        edit_line_remove(line, line->cursor, edit_text_next(text, line->cursor));
        edit_line_insert(line, with);
    }
    if (line->cursor > 0)
        line->cursor = edit_text_previous(edit_line_text(line), line->cursor);
}

static void vim_toggle(struct edit_line *line)
{
    for (unsigned i = vim_count(&line->vim); i > 0; i--) {
        if (line->cursor >= vim_line_end(edit_line_text(line), line->cursor))
            break;
        char *byte = line->text.data + line->cursor;
        if ((*byte | 0x20) >= 'a' && (*byte | 0x20) <= 'z')
            *byte ^= 0x20;
        line->cursor = edit_text_next(edit_line_text(line), line->cursor);
    }
}

static void vim_join(struct edit_line *line)
{
    size_t end = vim_line_end(edit_line_text(line), line->cursor);

    if (end == edit_line_text(line).size)
        return;
    edit_line_remove(line, end, vim_first_word(edit_line_text(line), end + 1));
    line->cursor = end;
    edit_line_insert(line, BL_TEXT(" "));
    line->cursor = end;
}

/* Commands that lead to insert mode. */
static bool vim_begin_insert(struct edit_line *line, char letter)
{
    struct bl_text text = edit_line_text(line);
    size_t at = line->cursor;

    switch (letter) {
    case 'i': break;
    case 'a': at = at < vim_line_end(text, at) ? edit_text_next(text, at) : at; break;
    case 'I': at = vim_first_word(text, at); break;
    case 'A':
    case 'o': at = vim_line_end(text, at); break;
    case 'O': at = vim_line_start(text, at); break;
    default: return false;
    }
    line->cursor = at;
    if (letter == 'o' || letter == 'O')
        edit_line_insert(line, BL_TEXT("\n"));
    if (letter == 'O')
        line->cursor = at;
    vim_insert_mode(line);
    return true;
}

/* Commands that combine an operator and its motion in one letter. */
static bool vim_shorthand(struct edit_line *line, char letter)
{
    static const char *const meanings[] = {"xdl", "Xdh", "scl", "Dd$", "Cc$", "Scc", "Yyy"};
    struct vim_motion motion = {.to = line->cursor, .lines = true};

    for (size_t i = 0; i < BL_COUNT(meanings); i++) {
        if (meanings[i][0] != letter)
            continue;
        line->vim.operator_ = meanings[i][1];
        if (meanings[i][2] == meanings[i][1] || vim_motion(line, meanings[i][2], &motion))
            vim_operate(line, &motion);
        return true;
    }
    return false;
}

static void vim_command(struct edit_line *line, char letter)
{
    switch (letter) {
    case 'p':
    case 'P': vim_put(line, letter == 'P'); break;
    case '~': vim_toggle(line); break;
    case 'J': vim_join(line); break;
    default: break;
    }
    vim_forget(&line->vim);
    vim_clamp(line);
}

/* iw and aw: the word, or the text between words; for aw, with the blanks after it. */
static void vim_take_object(struct edit_line *line, char kind, bool big)
{
    struct bl_text text = edit_line_text(line);
    struct vim_motion motion = {.to = line->cursor};

    if (line->cursor < text.size && text.data[line->cursor] != '\n') {
        enum vim_class of = vim_class(text, line->cursor, big);
        size_t start = vim_line_start(text, line->cursor), end = vim_line_end(text, line->cursor);
        while (line->cursor > start &&
               vim_class(text, edit_text_previous(text, line->cursor), big) == of)
            line->cursor = edit_text_previous(text, line->cursor);
        while (motion.to < end && vim_class(text, motion.to, big) == of)
            motion.to = edit_text_next(text, motion.to);
        while (kind == 'a' && motion.to < end && vim_class(text, motion.to, big) == VIM_BLANK)
            motion.to = edit_text_next(text, motion.to);
    }
    vim_operate(line, &motion);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Handles the character awaited after f, t, F, T, r and g. */
static void vim_take_pending(struct edit_line *line, struct bl_text character)
{
    struct edit_vim *vim = &line->vim;
    struct vim_motion motion = {0};
    char pending = vim->pending;

    vim->pending = 0;
    if (pending == 'r') {
        vim_replace(line, character);
        vim_forget(vim);
    } else if (pending == 'g' && character.data[0] == 'g') {
        motion.lines = true;
        vim_go(line, 'g', motion);
    } else if ((pending == 'i' || pending == 'a') && (character.data[0] | 0x20) == 'w') {
        vim_take_object(line, pending, character.data[0] == 'W');
    } else if (strchr("gia", pending) == NULL && character.size == 1) {
        vim->found_kind = pending;
        vim->found = character.data[0];
        if (vim_find(line, pending, vim->found, vim_count(vim), &motion))
            vim_go(line, pending, motion);
        else
            vim_forget(vim);
    } else {
        vim_forget(vim);
    }
}

static void vim_take_operator(struct edit_line *line, char letter)
{
    struct edit_vim *vim = &line->vim;
    struct vim_motion motion = {.to = line->cursor, .lines = true};

    if (vim->operator_ == 0) {
        vim->operator_ = letter;
        vim->operator_count = vim->count;
        vim->count = 0;
        return;
    }
    for (unsigned i = vim_count(vim); i > 1; i--)
        motion.to = vim_line_move(edit_line_text(line), motion.to, false);
    if (vim->operator_ == letter)
        vim_operate(line, &motion);
    else
        vim_forget(vim);
}

static void vim_take_letter(struct edit_line *line, struct bl_text character)
{
    struct edit_vim *vim = &line->vim;
    char letter = character.size == 1 ? character.data[0] : 0;
    struct vim_motion motion;

    if (vim->pending != 0) {
        vim_take_pending(line, character);
    } else if (letter >= '0' && letter <= '9' && (letter != '0' || vim->count > 0)) {
        vim->count =
            vim->count < COUNT_MAX ? vim->count * 10 + (unsigned)(letter - '0') : COUNT_MAX;
    } else if (letter == 'd' || letter == 'c' || letter == 'y') {
        vim_take_operator(line, letter);
    } else if (letter != 0 && strchr("fFtTg", letter) != NULL) {
        vim->pending = letter;
    } else if (letter != 0 && vim_motion(line, letter, &motion)) {
        vim_go(line, letter, motion);
    } else if (vim->operator_ != 0 && (letter == 'i' || letter == 'a')) {
        vim->pending = letter;
    } else if (letter == 0 || vim->operator_ != 0) {
        vim_forget(vim);
    } else if (letter == 'r') {
        vim->pending = letter;
    } else if (!vim_begin_insert(line, letter) && !vim_shorthand(line, letter)) {
        vim_command(line, letter);
    }
}

bool edit_vim_waits(const struct edit_line *line)
{
    const struct edit_vim *vim = &line->vim;

    return vim->on && (!vim->normal || vim->operator_ != 0 || vim->pending != 0 || vim->count > 0);
}

enum edit_vim_result edit_vim_key(struct edit_line *line, const struct key *key)
{
    struct edit_vim *vim = &line->vim;

    if (!vim->on)
        return EDIT_VIM_NONE;
    if (key->type == KEY_ESCAPE) {
        bool was_normal = vim->normal;
        vim_forget(vim);
        vim->normal = true;
        if (!was_normal && line->cursor > vim_line_start(edit_line_text(line), line->cursor))
            line->cursor = edit_text_previous(edit_line_text(line), line->cursor);
        return EDIT_VIM_DONE;
    }
    if (!vim->normal)
        return EDIT_VIM_NONE;
    if (key->type == KEY_SEARCH)
        return EDIT_VIM_REDO;
    if (key->type != KEY_TEXT)
        return EDIT_VIM_NONE;
    if (key->text.size == 1 && key->text.data[0] == 'u' && vim->pending == 0 && vim->operator_ == 0)
        return EDIT_VIM_UNDO;
    vim_take_letter(line, key->text);
    return EDIT_VIM_DONE;
}
