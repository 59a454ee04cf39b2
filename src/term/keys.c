/* Design notes.
 *
 * A terminal sends characters, control characters, and sequences that begin with ESC. A user can
 * press Escape, too, and Alt with a key arrives as ESC and that key: so the starts of sequences
 * that a user can type (ESC, ESC [, ESC O, …) are sequences only if the rest follows at once.
 * Anything longer cannot be typed, and the rest is awaited however slow the line is; a control
 * character ends it, so that Ctrl+C is never swallowed.
 *
 * All decisions depend on bytes, never on which of them arrived together: however a stream is
 * split, the keys are the same. */
#include "term.h"

#define ESCAPE            '\x1B'
#define SEQUENCE_SIZE_MAX 64
/* Memory of a larger paste is freed. */
#define PASTE_KEEP_MAX ((size_t)256 * 1024)

static const struct bl_text paste_end = {"\x1B[201~", 6};
static const struct bl_text replacement = {"\xEF\xBF\xBD", 3};

enum {
    SHIFT = 1,
    ALT = 2,
    CONTROL = 4,
    OTHERS = 8 + 16 + 32, /* super, hyper, meta */
};

enum step {
    STEP_KEY,   /* a key is complete */
    STEP_AGAIN, /* input was consumed that is not a key */
    STEP_WAIT,  /* more bytes are needed */
};

/* A sequence that begins with ESC [ or ESC O. */
struct sequence {
    size_t size;
    char final;  /* 0 if it was interrupted */
    char marker; /* '?', '<', …; 0 for none */
    unsigned count;
    unsigned values[4];
    unsigned parts[4]; /* values after a colon */
};

void keys_init(struct keys *keys)
{
    *keys = (struct keys){.state = KEYS_PLAIN};
    bl_buffer_init(&keys->input, SIZE_MAX / 2);
    bl_buffer_init(&keys->paste, KEYS_PASTE_MAX);
}

void keys_done(struct keys *keys)
{
    bl_buffer_done(&keys->input);
    bl_buffer_done(&keys->paste);
}

void keys_add(struct keys *keys, struct bl_text bytes)
{
    bl_buffer_consume(&keys->input, keys->taken);
    keys->taken = 0;
    bl_buffer_append(&keys->input, bytes);
}

static struct bl_text rest_of(const struct keys *keys)
{
    return (struct bl_text){keys->input.size == 0 ? NULL : keys->input.data + keys->taken,
                            keys->input.size - keys->taken};
}

static bool keys_is_control(char byte)
{
    return (unsigned char)byte < 0x20 || byte == 0x7F;
}

/* ---- Control characters and Alt -------------------------------------------------------------- */

struct known_key {
    uint32_t code;
    enum key_type type;
    enum key_type by_word; /* with Alt or Ctrl, if they make a difference */
};

static const struct known_key controls[] = {
    {0x01, KEY_HOME, 0},      {0x02, KEY_LEFT, 0},       {0x03, KEY_INTERRUPT, 0},
    {0x04, KEY_EOF, 0},       {0x05, KEY_END, 0},        {0x06, KEY_RIGHT, 0},
    {0x08, KEY_BACKSPACE, 0}, {0x09, KEY_TAB, 0},        {0x0A, KEY_NEWLINE, 0},
    {0x07, KEY_EDITOR, 0},    {0x1F, KEY_UNDO, 0},       {0x0B, KEY_KILL_END, 0},
    {0x0C, KEY_CLEAR, 0},     {0x0F, KEY_EXPAND, 0},     {0x0D, KEY_ENTER, 0},
    {0x0E, KEY_DOWN, 0},      {0x10, KEY_UP, 0},         {0x12, KEY_SEARCH, 0},
    {0x14, KEY_TRANSPOSE, 0}, {0x15, KEY_KILL_START, 0}, {0x16, KEY_IMAGE, 0},
    {0x17, KEY_KILL_WORD, 0}, {0x19, KEY_YANK, 0},       {0x1A, KEY_SUSPEND, 0},
    {0x1B, KEY_ESCAPE, 0},    {0x7F, KEY_BACKSPACE, 0},
};

static const struct known_key with_alt[] = {
    {'b', KEY_WORD_LEFT, 0},  {'B', KEY_WORD_LEFT, 0},      {'f', KEY_WORD_RIGHT, 0},
    {'F', KEY_WORD_RIGHT, 0}, {'d', KEY_KILL_WORD_NEXT, 0}, {'D', KEY_KILL_WORD_NEXT, 0},
    {'\r', KEY_NEWLINE, 0},   {'\n', KEY_NEWLINE, 0},       {0x08, KEY_KILL_WORD, 0},
    {0x7F, KEY_KILL_WORD, 0}, {'r', KEY_REDO, 0},           {'R', KEY_REDO, 0},
};

/* CSI number ~ */
static const struct known_key numbered[] = {
    {1, KEY_HOME, 0},      {3, KEY_DELETE, KEY_KILL_WORD_NEXT},
    {4, KEY_END, 0},       {5, KEY_PAGE_UP, 0},
    {6, KEY_PAGE_DOWN, 0}, {7, KEY_HOME, 0},
    {8, KEY_END, 0},
};

/* CSI letter; rxvt sends lower case with Shift. */
static const struct known_key lettered[] = {
    {'A', KEY_UP, 0},
    {'a', KEY_UP, 0},
    {'B', KEY_DOWN, 0},
    {'b', KEY_DOWN, 0},
    {'C', KEY_RIGHT, KEY_WORD_RIGHT},
    {'c', KEY_RIGHT, KEY_WORD_RIGHT},
    {'D', KEY_LEFT, KEY_WORD_LEFT},
    {'d', KEY_LEFT, KEY_WORD_LEFT},
    {'F', KEY_END, 0},
    {'H', KEY_HOME, 0},
    {'Z', KEY_BACKTAB, 0},
};

#define FIND(table, code, modifiers) keys_find(table, BL_COUNT(table), code, modifiers)

static enum key_type keys_find(const struct known_key *known, size_t count, uint32_t code,
                               unsigned modifiers)
{
    for (size_t i = 0; i < count; i++) {
        if (known[i].code != code)
            continue;
        bool by_word = known[i].by_word != KEY_TEXT && (modifiers & (ALT | CONTROL)) != 0;
        return by_word ? known[i].by_word : known[i].type;
    }
    return KEY_UNKNOWN;
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static void take_parameter(struct sequence *sequence, bool *part, char byte)
{
    unsigned *value;

    if (byte == ';') {
        *part = false;
        if (sequence->count < BL_COUNT(sequence->values))
            sequence->count++;
        return;
    }
    if (byte == ':') {
        *part = true;
        return;
    }
    if (byte < '0' || byte > '9') {
        sequence->marker = byte;
        return;
    }
    if (sequence->count == BL_COUNT(sequence->values))
        return;
    value = *part ? &sequence->parts[sequence->count] : &sequence->values[sequence->count];
    if (*value < 0x110000)
        *value = *value * 10 + (unsigned)(byte - '0');
}

/* rxvt ends a key with Shift in a dollar sign; elsewhere a dollar sign is in the middle of a
 * sequence. */
static bool is_final(const struct sequence *sequence, char byte, char before)
{
    if (byte == '$')
        return sequence->marker == 0 && before >= '0' && before <= '9';
    return byte >= 0x40 && byte <= 0x7E;
}

/* Decodes the sequence at the start of `text`, whose first two bytes are its introducer. Returns
 * false if it is incomplete. */
static bool keys_scan_sequence(struct bl_text text, struct sequence *ret_sequence)
{
    struct sequence sequence = {0};
    bool part = false;
    size_t at = 2;

    /* The function keys of the Linux console: ESC [ [ A. */
    bool console = text.data[1] == '[' && text.size > 2 && text.data[2] == '[';
    if (console)
        at++;
    for (; at < text.size && at < SEQUENCE_SIZE_MAX; at++) {
        char byte = text.data[at];
        if (is_final(&sequence, byte, text.data[at - 1])) {
            sequence.final = byte;
            sequence.marker = console ? '[' : sequence.marker;
            at++;
            break;
        }
        if (byte < 0x20 || byte > 0x3F)
            break;
        if (byte >= 0x30)
            take_parameter(&sequence, &part, byte);
    }
    sequence.size = at;
    if (sequence.count < BL_COUNT(sequence.values))
        sequence.count++;
    *ret_sequence = sequence;
    return sequence.final != 0 || at < text.size || at == SEQUENCE_SIZE_MAX;
}

/* Returns modifiers as bits; they are sent as a number one higher. */
static unsigned modifiers_of(const struct sequence *sequence, unsigned index)
{
    unsigned value = index < sequence->count ? sequence->values[index] : 0;
    return value == 0 ? 0 : value - 1;
}

/* Returns the key of a character with modifiers, as kitty and xterm (modifyOtherKeys) send it. */
static enum key_type character_type(struct keys *keys, const struct sequence *sequence,
                                    uint32_t code, uint32_t shifted, unsigned modifiers,
                                    struct bl_text *ret_text)
{
    enum {
        KITTY_ENTER = 57414,
        KITTY_FIRST = 57344,
        KITTY_LAST = 63743,
        RELEASE = 3
    };
    unsigned pressed = modifiers & (SHIFT | ALT | CONTROL);

    if ((modifiers & OTHERS) != 0 || (sequence->final == 'u' && sequence->parts[1] == RELEASE))
        return KEY_UNKNOWN;
    if (code == '\r' || code == KITTY_ENTER)
        return pressed != 0 ? KEY_NEWLINE : KEY_ENTER;
    if (code == '\t')
        return pressed == SHIFT ? KEY_BACKTAB : pressed == 0 ? KEY_TAB : KEY_UNKNOWN;
    if (code == 0x7F || code == 0x08)
        return (pressed & (ALT | CONTROL)) != 0 ? KEY_KILL_WORD : KEY_BACKSPACE;
    if (code == (uint32_t)ESCAPE)
        return KEY_ESCAPE;
    if (pressed == CONTROL && code >= '@' && code < 0x7F)
        return FIND(controls, code & 0x1F, 0);
    if ((pressed & ~(unsigned)SHIFT) == ALT)
        return FIND(with_alt, code, 0);
    if (pressed == SHIFT && shifted != 0)
        code = shifted;
    else if (pressed == SHIFT && code >= 'a' && code <= 'z')
        code -= 'a' - 'A';
    if ((pressed & ~(unsigned)SHIFT) != 0 || code < 0x20 || (code >= 0x7F && code < 0xA0) ||
        (code >= KITTY_FIRST && code <= KITTY_LAST))
        return KEY_UNKNOWN;
    *ret_text = (struct bl_text){keys->typed, bl_utf8_encode(code, keys->typed)};
    return ret_text->size == 0 ? KEY_UNKNOWN : KEY_TEXT;
}

static enum key_type sequence_type(struct keys *keys, const struct sequence *sequence,
                                   char introducer, bool alt, struct bl_text *ret_text)
{
    unsigned number = sequence->values[0];
    unsigned modifiers = modifiers_of(sequence, 1) | (alt ? ALT : 0u);

    if (sequence->marker != 0)
        return KEY_UNKNOWN;
    switch (sequence->final) {
    case 'u':
        if (introducer == 'O')
            return KEY_UNKNOWN;
        return character_type(keys, sequence, number, sequence->parts[0], modifiers, ret_text);
    case '~':
        if (number == 27 && sequence->count == 3)
            return character_type(keys, sequence, sequence->values[2], 0, modifiers, ret_text);
        return FIND(numbered, number, modifiers);
    case '^':
    case '@': return FIND(numbered, number, modifiers | CONTROL);
    case '$': return FIND(numbered, number, modifiers);
    case 'M': return introducer == 'O' ? KEY_ENTER : KEY_UNKNOWN;
    default: break;
    }
    /* Ctrl+Right is CSI 5 C in old xterms, SS3 5 C in others, and SS3 c in rxvt. */
    if (sequence->count == 1)
        modifiers |= modifiers_of(sequence, 0);
    if (introducer == 'O' && sequence->final >= 'a' && sequence->final <= 'd')
        modifiers |= CONTROL;
    return FIND(lettered, (unsigned char)sequence->final, modifiers);
}

/* ---- Input that begins with ESC -------------------------------------------------------------- */

static enum step keys_emit(struct keys *keys, size_t size, enum key_type type, struct key *ret_key)
{
    keys->taken += size;
    *ret_key = (struct key){.type = type};
    return STEP_KEY;
}

static void begin_paste(struct keys *keys)
{
    keys->state = KEYS_PASTING;
    keys->paste_cut = false;
    keys->paste_after_cr = false;
}

/* X10 mouse reports are CSI M and three bytes. */
static bool is_mouse(const struct sequence *sequence, char introducer)
{
    return introducer == '[' && sequence->final == 'M' && sequence->size == 3;
}

/* `skip` is 1 if an ESC for Alt precedes the sequence. */
static enum step take_sequence(struct keys *keys, struct bl_text text, size_t skip,
                               struct key *ret_key)
{
    struct bl_text bytes = {text.data + skip, text.size - skip};
    struct sequence sequence;
    struct bl_text typed = {0};

    if (!keys_scan_sequence(bytes, &sequence))
        return STEP_WAIT;
    size_t size = skip + sequence.size;
    if (sequence.final == 0) {
        if (sequence.size == SEQUENCE_SIZE_MAX)
            keys->state = KEYS_IN_SEQUENCE;
        return keys_emit(keys, size, KEY_UNKNOWN, ret_key);
    }
    if (is_mouse(&sequence, bytes.data[1])) {
        for (size_t end = size + 3; size < end; size++) {
            if (size == text.size)
                return STEP_WAIT;
            if (keys_is_control(text.data[size]))
                break;
        }
        return keys_emit(keys, size, KEY_UNKNOWN, ret_key);
    }
    if (bytes.data[1] == '[' && sequence.final == '~' && sequence.marker == 0 &&
        sequence.values[0] == 200) {
        keys->taken += size;
        begin_paste(keys);
        return STEP_AGAIN;
    }
    if (sequence.marker == '?' && sequence.final == 'c')
        return keys_emit(keys, size, KEY_REPLY, ret_key);
    enum key_type type = sequence_type(keys, &sequence, bytes.data[1], skip > 0, &typed);
    keys_emit(keys, size, type, ret_key);
    ret_key->text = typed;
    return STEP_KEY;
}

static bool opens_string(char byte)
{
    return byte == ']' || byte == 'P' || byte == '_' || byte == '^' || byte == 'X';
}

/* Decodes ESC and a character: Alt. */
static enum step take_alt(struct keys *keys, struct bl_text text, struct key *ret_key)
{
    struct bl_text rest = {text.data + 1, text.size - 1};
    uint32_t character;
    bool cut;

    if (keys_is_control(rest.data[0])) {
        enum key_type type = FIND(with_alt, (unsigned char)rest.data[0], 0);
        if (type == KEY_UNKNOWN)
            return keys_emit(keys, 1, KEY_ESCAPE, ret_key);
        return keys_emit(keys, 2, type, ret_key);
    }
    size_t size = bl_utf8_decode(rest, &character);
    if (size == 0 && bl_utf8_valid_prefix(rest, &cut) == 0 && cut)
        return STEP_WAIT;
    return keys_emit(keys, 1 + (size == 0 ? 1 : size),
                     size == 0 ? KEY_UNKNOWN : FIND(with_alt, character, 0), ret_key);
}

static enum step keys_take_escape(struct keys *keys, struct bl_text text, bool may_wait,
                                  struct key *ret_key)
{
    if (text.size == 1)
        return may_wait || keys->expecting ? STEP_WAIT : keys_emit(keys, 1, KEY_ESCAPE, ret_key);
    char second = text.data[1];
    may_wait = may_wait || (keys->expecting && (second == '[' || second == ']'));
    if (second == ESCAPE) {
        /* rxvt sends Alt with an arrow as ESC and its sequence. */
        bool introduces = text.size > 2 && (text.data[2] == '[' || text.data[2] == 'O');
        bool alone = text.size == 2 || (text.size == 3 && introduces);
        if (alone && may_wait)
            return STEP_WAIT;
        if (alone || !introduces)
            return keys_emit(keys, 1, KEY_ESCAPE, ret_key);
        return take_sequence(keys, text, 1, ret_key);
    }
    bool introduced = second == '[' || second == 'O' || opens_string(second);
    if (introduced && text.size == 2)
        return may_wait ? STEP_WAIT : keys_emit(keys, 2, KEY_UNKNOWN, ret_key);
    if (!introduced)
        return take_alt(keys, text, ret_key);
    if (second == '[' || second == 'O')
        return take_sequence(keys, text, 0, ret_key);
    keys->state = KEYS_IN_STRING;
    keys->opener = second;
    keys->reply_size = 0;
    return keys_emit(keys, 2, KEY_UNKNOWN, ret_key);
}

/* ---- Skipped input --------------------------------------------------------------------------- */

static enum step skip_sequence(struct keys *keys, struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (byte >= 0x20 && byte <= 0x3F)
            continue;
        keys->taken += byte >= 0x40 && byte <= 0x7E ? i + 1 : i;
        keys->state = KEYS_PLAIN;
        return STEP_AGAIN;
    }
    keys->taken += text.size;
    return STEP_WAIT;
}

static void keep_reply(struct keys *keys, struct bl_text text)
{
    size_t room = sizeof keys->reply - keys->reply_size;
    size_t size = text.size < room ? text.size : room;

    memcpy(keys->reply + keys->reply_size, text.data, size);
    keys->reply_size += size;
}

/* Handles the end of a string: a report of the background, or an unrequested reply. */
static enum step end_string(struct keys *keys, struct key *ret_key)
{
    struct bl_text reply = {keys->reply, keys->reply_size};
    bool ascii = true;

    keys->state = KEYS_PLAIN;
    for (size_t i = 0; i < reply.size; i++)
        ascii = ascii && (unsigned char)reply.data[i] < 0x80;
    if (keys->opener != ']' || !ascii || !bl_text_starts_with(reply, BL_TEXT("11;")))
        return STEP_AGAIN;
    *ret_key = (struct key){.type = KEY_REPLY, .text = reply};
    return STEP_KEY;
}

/* Skips up to BEL or ESC \; any other control character is not part of the string. */
static enum step skip_string(struct keys *keys, struct bl_text text, bool may_wait,
                             struct key *ret_key)
{
    size_t size = 0;

    while (size < text.size && !keys_is_control(text.data[size]))
        size++;
    keep_reply(keys, (struct bl_text){text.data, size});
    keys->taken += size;
    if (size == text.size || (text.data[size] == ESCAPE && size + 1 == text.size)) {
        if (may_wait || keys->expecting)
            return STEP_WAIT;
    } else if (text.data[size] == '\a') {
        keys->taken += 1;
        return end_string(keys, ret_key);
    } else if (text.data[size] == ESCAPE && text.data[size + 1] == '\\') {
        keys->taken += 2;
        return end_string(keys, ret_key);
    }
    keys->state = KEYS_PLAIN;
    return STEP_AGAIN;
}

/* ---- Pastes ---------------------------------------------------------------------------------- */

static void paste_append(struct keys *keys, struct bl_text text)
{
    struct bl_text fits = bl_utf8_cut(text, KEYS_PASTE_MAX - keys->paste.size);

    if (!keys->paste_cut)
        bl_buffer_append(&keys->paste, fits);
    keys->paste_cut = keys->paste_cut || fits.size < text.size;
}

/* Adds valid text; CR and CR LF become LF. */
static void paste_lines(struct keys *keys, struct bl_text text)
{
    while (text.size > 0) {
        if (keys->paste_after_cr && text.data[0] == '\n') {
            text.data++;
            text.size--;
        }
        keys->paste_after_cr = false;
        const char *end = text.size == 0 ? NULL : memchr(text.data, '\r', text.size);
        if (end == NULL) {
            paste_append(keys, text);
            return;
        }
        size_t size = (size_t)(end - text.data);
        paste_append(keys, (struct bl_text){text.data, size});
        paste_append(keys, BL_TEXT("\n"));
        keys->paste_after_cr = true;
        text.data += size + 1;
        text.size -= size + 1;
    }
}

/* Returns how many bytes were consumed: all, unless a character may continue in the next bytes. */
static size_t paste_bytes(struct keys *keys, struct bl_text text, bool may_go_on)
{
    size_t taken = 0;

    while (taken < text.size) {
        struct bl_text rest = {text.data + taken, text.size - taken};
        bool cut;
        size_t valid = bl_utf8_valid_prefix(rest, &cut);
        paste_lines(keys, (struct bl_text){rest.data, valid});
        taken += valid;
        if (taken == text.size || (cut && may_go_on))
            break;
        paste_lines(keys, replacement);
        taken++;
    }
    return taken;
}

/* ESC in a paste is part of it, unless it begins the end mark. */
static enum step take_paste(struct keys *keys, struct bl_text text, struct key *ret_key)
{
    const char *escape = text.size == 0 ? NULL : memchr(text.data, ESCAPE, text.size);
    size_t before = escape == NULL ? text.size : (size_t)(escape - text.data);
    size_t taken = paste_bytes(keys, (struct bl_text){text.data, before}, escape == NULL);

    keys->taken += taken;
    if (escape == NULL)
        return STEP_WAIT;
    struct bl_text rest = {escape, text.size - before};
    if (bl_text_starts_with(rest, paste_end)) {
        keys->taken += paste_end.size;
        keys->state = KEYS_PLAIN;
        keys->paste_given = true;
        *ret_key = (struct key){KEY_PASTE, bl_buffer_text(&keys->paste), keys->paste_cut};
        return STEP_KEY;
    }
    if (bl_text_starts_with(paste_end, rest))
        return STEP_WAIT;
    keys->taken += paste_bytes(keys, (struct bl_text){escape, 1}, false);
    return STEP_AGAIN;
}

static void forget_paste(struct keys *keys)
{
    if (!keys->paste_given)
        return;
    keys->paste_given = false;
    if (keys->paste.capacity > PASTE_KEEP_MAX) {
        bl_buffer_done(&keys->paste);
        bl_buffer_init(&keys->paste, KEYS_PASTE_MAX);
    }
    bl_buffer_clear(&keys->paste);
}

/* ---- The next key ---------------------------------------------------------------------------- */

/* Returns the size of the text characters at the start. */
static size_t text_size(struct bl_text text)
{
    size_t size = 0;

    while (size < text.size) {
        uint32_t character;
        if (keys_is_control(text.data[size]))
            break;
        size_t next =
            bl_utf8_decode((struct bl_text){text.data + size, text.size - size}, &character);
        if (next == 0 || (character >= 0x80 && character < 0xA0))
            break;
        size += next;
    }
    return size;
}

static enum step take_plain(struct keys *keys, struct bl_text text, bool may_wait,
                            struct key *ret_key)
{
    bool cut = false;

    if (text.size == 0)
        return STEP_WAIT;
    if (text.data[0] == ESCAPE)
        return keys_take_escape(keys, text, may_wait, ret_key);
    if (keys_is_control(text.data[0]))
        return keys_emit(keys, 1, FIND(controls, (unsigned char)text.data[0], 0), ret_key);
    size_t size = text_size(text);
    if (size > 0) {
        keys_emit(keys, size, KEY_TEXT, ret_key);
        ret_key->text = (struct bl_text){text.data, size};
        return STEP_KEY;
    }
    /* An 8-bit control character, an incomplete character, or an invalid byte. */
    if (bl_utf8_valid_prefix(text, &cut) > 0)
        return keys_emit(keys, 2, KEY_UNKNOWN, ret_key);
    if (cut)
        return STEP_WAIT;
    keys_emit(keys, 1, KEY_TEXT, ret_key);
    ret_key->text = replacement;
    return STEP_KEY;
}

bool keys_next(struct keys *keys, bool may_wait, struct key *ret_key)
{
    enum step step = STEP_AGAIN;

    forget_paste(keys);
    while (step == STEP_AGAIN) {
        struct bl_text text = rest_of(keys);
        switch (keys->state) {
        case KEYS_PASTING: step = take_paste(keys, text, ret_key); break;
        case KEYS_IN_SEQUENCE: step = skip_sequence(keys, text); break;
        case KEYS_IN_STRING: step = skip_string(keys, text, may_wait, ret_key); break;
        case KEYS_PLAIN: step = take_plain(keys, text, may_wait, ret_key); break;
        }
    }
    return step == STEP_KEY;
}

bool keys_pending(const struct keys *keys)
{
    struct bl_text text = rest_of(keys);

    if (keys->state == KEYS_IN_STRING)
        return true;
    if (keys->state != KEYS_PLAIN || text.size == 0 || text.data[0] != ESCAPE)
        return false;
    if (text.size == 1 || text.data[1] == ESCAPE)
        return text.size <= 3;
    return text.size == 2 &&
           (text.data[1] == '[' || text.data[1] == 'O' || opens_string(text.data[1]));
}
