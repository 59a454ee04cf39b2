/* Design notes.
 *
 * A language is a row of a table: its comments, strings and words. One scanner handles all of them,
 * line by line and from left to right, and never goes back: the work is linear in the length of a
 * line. Constructs that need a parser (regular expressions, here documents) are plain text. Only
 * comments and strings continue in the next line. */
#include "term.h"

#define LINE_SCANNED_MAX ((size_t)4096) /* the rest of a longer line is plain */
#define WORD_MAX         24u
#define STRINGS_MAX      5u
#define OPEN_COMMENT     1u
#define OPEN_STRING      2u /* plus the row of the string */
#define OPEN_HUNK        1u /* of a diff */

enum {
    COMMENT_SPACED = 1 << 0, /* a comment mark is at the start or after a blank */
    QUOTE_SPACED = 1 << 1,   /* the same for a quote */
    CALLS = 1 << 2,          /* a word before a parenthesis is a function */
    VARIABLES = 1 << 3,      /* $name */
    DIRECTIVES = 1 << 4,     /* #include */
    DECORATORS = 1 << 5,     /* @name */
    KEY_STRINGS = 1 << 6,    /* "name": */
    KEY_WORDS = 1 << 7,      /* name: */
    DIFFERENCES = 1 << 8,
};

struct highlight_string {
    const char *open, *close;
    bool raw;       /* a backslash is an ordinary character */
    bool lines;     /* may continue in the next line */
    bool character; /* holds one character or an escape: otherwise the quote means something else */
};

struct highlight_language {
    const char *names; /* of fences, and file name extensions */
    const char *keywords;
    const char *values; /* types and constants */
    const char *comment;
    const char *comment_open, *comment_close;
    struct highlight_string strings[STRINGS_MAX];
    unsigned traits;
};

#define DOUBLE                                                                                     \
    {                                                                                              \
        .open = "\"", .close = "\""                                                                \
    }
#define SINGLE                                                                                     \
    {                                                                                              \
        .open = "'", .close = "'"                                                                  \
    }
#define CHARACTER                                                                                  \
    {                                                                                              \
        .open = "'", .close = "'", .character = true                                               \
    }

static const struct highlight_language languages[] = {
    {.names = "c h cc cpp cxx hh hpp hxx c++ objc m",
     .keywords = "alignas alignof asm auto break case catch class const constexpr continue default "
                 "delete do else enum explicit export extern for friend goto if inline mutable "
                 "namespace new noexcept operator override private protected public register "
                 "restrict return sizeof static static_assert struct switch template this throw "
                 "try typedef typename typeof union using virtual volatile while",
     .values = "NULL true false nullptr void bool char short int long float double signed unsigned "
               "size_t ssize_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t "
               "intptr_t uintptr_t ptrdiff_t pid_t off_t FILE",
     .comment = "//",
     .comment_open = "/*",
     .comment_close = "*/",
     .strings = {DOUBLE, CHARACTER},
     .traits = CALLS | DIRECTIVES},
    {.names = "python py pyi python3 py3",
     .keywords = "and as assert async await break case class continue def del elif else except "
                 "finally for from global if import in is lambda match nonlocal not or pass raise "
                 "return try while with yield",
     .values = "None True False self cls int str float bool list dict set tuple bytes object "
               "Exception",
     .comment = "#",
     .strings =
         {{"\"\"\"", "\"\"\"", .lines = true}, {"'''", "'''", .lines = true}, DOUBLE, SINGLE},
     .traits = CALLS | DECORATORS},
    {.names = "javascript js jsx mjs cjs typescript ts tsx node",
     .keywords = "abstract as async await break case catch class const continue debugger declare "
                 "default delete do else enum export extends finally for from function get if "
                 "implements import in instanceof interface keyof let namespace new of private "
                 "protected public readonly return satisfies set static super switch throw try "
                 "type typeof var void while with yield",
     .values = "null undefined true false this NaN Infinity any boolean never number object string "
               "unknown Array Map Promise Set",
     .comment = "//",
     .comment_open = "/*",
     .comment_close = "*/",
     .strings = {{"`", "`", .lines = true}, DOUBLE, SINGLE},
     .traits = CALLS | DECORATORS},
    {.names = "go golang",
     .keywords = "break case chan const continue default defer else fallthrough for func go goto "
                 "if import interface map package range return select struct switch type var",
     .values = "nil true false iota any bool byte complex64 complex128 error float32 float64 int "
               "int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr",
     .comment = "//",
     .comment_open = "/*",
     .comment_close = "*/",
     .strings = {{"`", "`", .raw = true, .lines = true}, DOUBLE, CHARACTER},
     .traits = CALLS},
    {.names = "rust rs",
     .keywords = "as async await break const continue crate dyn else enum extern fn for if impl in "
                 "let loop match mod move mut pub ref return static struct super trait type union "
                 "unsafe use where while",
     .values = "true false self Self None Some Ok Err bool char f32 f64 i8 i16 i32 i64 i128 isize "
               "str u8 u16 u32 u64 u128 usize Box Option Result String Vec",
     .comment = "//",
     .comment_open = "/*",
     .comment_close = "*/",
     .strings = {{"\"", "\"", .lines = true}, CHARACTER},
     .traits = CALLS},
    {.names = "sh bash zsh shell ksh",
     .keywords = "case do done elif else esac export fi for function if in local readonly return "
                 "set shift then trap unset until while",
     .values = "cd echo eval exec exit printf read source test true false",
     .comment = "#",
     .strings = {{"\"", "\"", .lines = true}, {"'", "'", .raw = true, .lines = true}},
     .traits = COMMENT_SPACED | VARIABLES},
    {.names = "json jsonc json5 jsonl ndjson",
     .values = "true false null",
     .comment = "//",
     .strings = {DOUBLE},
     .traits = KEY_STRINGS},
    {.names = "yaml yml toml ini conf cfg",
     .values = "true false null yes no on off",
     .comment = "#",
     .strings = {DOUBLE, {"'", "'", .raw = true}},
     .traits = COMMENT_SPACED | QUOTE_SPACED | KEY_WORDS},
    {.names = "diff patch", .traits = DIFFERENCES},
    {.names = "text txt plain plaintext output console log md markdown csv none"},
};

/* The rules that most languages share, for a language without its own row. */
static const struct highlight_language other = {
    .keywords = "abstract and begin break case catch class const continue def do else elsif elseif "
                "end enum export extends final finally for foreach from fun func function if "
                "implements import in include interface let match module namespace new not or "
                "override package private protected public return static struct switch then throw "
                "trait try type unless until use using val var when while with yield",
    .values = "true false null nil none None self this void int string bool boolean float double "
              "char",
    .comment = "//",
    .comment_open = "/*",
    .comment_close = "*/",
    .strings = {DOUBLE},
    .traits = CALLS,
};

static const struct text_style plain = {0}, keyword_style = {.colour = TEXT_MAGENTA},
                               value_style = {.colour = TEXT_CYAN},
                               string_style = {.colour = TEXT_GREEN}, comment_style = {.dim = true},
                               number_style = {.colour = TEXT_YELLOW},
                               name_style = {.colour = TEXT_BLUE}, header_style = {.bold = true};

/* ---- Choice of a language -------------------------------------------------------------------- */

/* Returns whether the word is in a list separated by blanks. */
static bool highlight_is_among(const char *words, struct bl_text word)
{
    struct bl_text rest = bl_text_from(words != NULL ? words : ""), each;

    if (word.size == 0 || word.size > WORD_MAX)
        return false;
    while (bl_text_split(&rest, ' ', &each)) {
        if (bl_text_equal(each, word))
            return true;
    }
    return false;
}

/* "Python" and "src/a.py" become "python" and "py". */
static struct bl_text short_name(struct bl_text name, char out[WORD_MAX])
{
    size_t size = 0;

    for (size_t i = name.size; i-- > 0;) {
        if (name.data[i] != '/' && name.data[i] != '.')
            continue;
        name.data += i + 1;
        name.size -= i + 1;
        break;
    }
    for (; size < name.size && size < WORD_MAX && strchr(" ,:;{}", name.data[size]) == NULL;
         size++) {
        char byte = name.data[size];
        out[size] = (char)(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte);
    }
    return (struct bl_text){out, size};
}

void highlight_begin(struct highlight *highlight, struct bl_text name)
{
    char text[WORD_MAX];
    struct bl_text wanted = short_name(name, text);

    *highlight = (struct highlight){.language = wanted.size > 0 ? &other : NULL};
    for (size_t i = 0; i < BL_COUNT(languages); i++) {
        const struct highlight_language *row = &languages[i];
        if (highlight_is_among(row->names, wanted))
            highlight->language = row->values != NULL || row->traits != 0 ? row : NULL;
    }
}

/* ---- The scanner ----------------------------------------------------------------------------- */

struct highlight_scan {
    struct highlight *highlight;
    const struct highlight_language *language;
    struct bl_text line; /* the part of the line that is scanned */
    size_t at;
    size_t given; /* everything before it has been passed to `put` */
    highlight_put *put;
    void *context;
};

static void scan_give(struct highlight_scan *scan, size_t end, const struct text_style *style)
{
    if (end > scan->given)
        scan->put(scan->context, (struct bl_text){scan->line.data + scan->given, end - scan->given},
                  style);
    scan->given = end;
}

/* Gives the text from the current position to `end`. */
static void scan_take(struct highlight_scan *scan, size_t end, const struct text_style *style)
{
    scan_give(scan, scan->at, &plain);
    scan_give(scan, end, style);
    scan->at = end;
}

static struct bl_text scan_rest(const struct highlight_scan *scan)
{
    return (struct bl_text){scan->line.data + scan->at, scan->line.size - scan->at};
}

static bool scan_stands(const struct highlight_scan *scan, const char *mark)
{
    return mark != NULL && bl_text_starts_with(scan_rest(scan), bl_text_from(mark));
}

static bool highlight_is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static bool highlight_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool highlight_is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (unsigned char)byte >= 0x80;
}

/* Returns whether the character before may precede an opening mark: a blank, or a bracket. */
static bool scan_is_apart(const struct highlight_scan *scan)
{
    return scan->at == 0 || strchr(" \t([{,:=;&|", scan->line.data[scan->at - 1]) != NULL;
}

static size_t scan_word_end(const struct highlight_scan *scan, size_t at)
{
    while (at < scan->line.size &&
           (highlight_is_letter(scan->line.data[at]) || highlight_is_digit(scan->line.data[at])))
        at++;
    return at;
}

/* Returns the position after `close`, or SIZE_MAX if it is not in this line. */
static size_t scan_find_close(const struct highlight_scan *scan, size_t at, const char *close,
                              bool raw)
{
    struct bl_text mark = bl_text_from(close);

    for (; at + mark.size <= scan->line.size; at++) {
        if (!raw && scan->line.data[at] == '\\')
            at++;
        else if (memcmp(scan->line.data + at, mark.data, mark.size) == 0)
            return at + mark.size;
    }
    return SIZE_MAX;
}

/* 'a', '\n', '\u{1F600}' */
static size_t scan_character_end(const struct highlight_scan *scan)
{
    struct bl_text rest = scan_rest(scan);
    uint32_t character;

    if (rest.size < 3)
        return SIZE_MAX;
    if (rest.data[1] == '\\') {
        size_t end = scan_find_close(scan, scan->at + 1, "'", false);
        return end != SIZE_MAX && end - scan->at <= WORD_MAX ? end : SIZE_MAX;
    }
    size_t size = bl_utf8_decode((struct bl_text){rest.data + 1, rest.size - 1}, &character);
    bool closed = size > 0 && size + 1 < rest.size && rest.data[size + 1] == '\'';
    return closed ? scan->at + size + 2 : SIZE_MAX;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void scan_comment(struct highlight_scan *scan, size_t from)
{
    size_t end = scan_find_close(scan, from, scan->language->comment_close, true);

    scan->highlight->open = end == SIZE_MAX ? OPEN_COMMENT : 0;
    scan_take(scan, end == SIZE_MAX ? scan->line.size : end, &comment_style);
}

/* Returns whether a colon follows, which makes it a key. */
static bool scan_is_key(const struct highlight_scan *scan, size_t end)
{
    while (end < scan->line.size && highlight_is_blank(scan->line.data[end]))
        end++;
    return end < scan->line.size && scan->line.data[end] == ':';
}

static void scan_string(struct highlight_scan *scan, unsigned row, size_t from)
{
    const struct highlight_string *string = &scan->language->strings[row];
    size_t end = scan_find_close(scan, from, string->close, string->raw);
    bool key =
        end != SIZE_MAX && (scan->language->traits & KEY_STRINGS) != 0 && scan_is_key(scan, end);

    scan->highlight->open = end == SIZE_MAX && string->lines ? OPEN_STRING + row : 0;
    scan_take(scan, end == SIZE_MAX ? scan->line.size : end, key ? &name_style : &string_style);
}

static bool scan_opens_string(struct highlight_scan *scan)
{
    const struct highlight_string *strings = scan->language->strings;

    for (unsigned row = 0; row < STRINGS_MAX && strings[row].open != NULL; row++) {
        if (!scan_stands(scan, strings[row].open))
            continue;
        if ((scan->language->traits & QUOTE_SPACED) != 0 && !scan_is_apart(scan))
            return false;
        if (!strings[row].character) {
            scan_string(scan, row, scan->at + strlen(strings[row].open));
            return true;
        }
        size_t end = scan_character_end(scan);
        if (end != SIZE_MAX)
            scan_take(scan, end, &string_style);
        return end != SIZE_MAX;
    }
    return false;
}

static void scan_word(struct highlight_scan *scan)
{
    size_t end = scan_word_end(scan, scan->at);
    struct bl_text word = {scan->line.data + scan->at, end - scan->at};
    bool called = (scan->language->traits & CALLS) != 0 && end < scan->line.size &&
                  scan->line.data[end] == '(';
    const struct text_style *style =
        highlight_is_among(scan->language->keywords, word) ? &keyword_style
        : highlight_is_among(scan->language->values, word) ? &value_style
        : called                                           ? &name_style
                                                           : NULL;

    if (style != NULL)
        scan_take(scan, end, style);
    scan->at = end;
}

/* 0x7F, 1_000, 2.5e3 */
static void scan_number(struct highlight_scan *scan)
{
    size_t end = scan->at;

    while (end < scan->line.size &&
           (highlight_is_digit(scan->line.data[end]) || highlight_is_letter(scan->line.data[end]) ||
            (scan->line.data[end] == '.' && end + 1 < scan->line.size &&
             highlight_is_digit(scan->line.data[end + 1]))))
        end++;
    scan_take(scan, end, &number_style);
}

/* $name, ${name}, $1, $? */
static void scan_variable(struct highlight_scan *scan)
{
    size_t from = scan->at + 1, end = scan_word_end(scan, from);

    if (from < scan->line.size && scan->line.data[from] == '{') {
        end = scan_find_close(scan, from, "}", true);
        end = end == SIZE_MAX ? scan->line.size : end;
    } else if (end == from && from < scan->line.size &&
               strchr("?#@*!$-", scan->line.data[from]) != NULL) {
        end = from + 1;
    }
    if (end > from)
        scan_take(scan, end, &value_style);
    else
        scan->at++;
}

static void scan_token(struct highlight_scan *scan)
{
    const struct highlight_language *language = scan->language;
    unsigned traits = language->traits;
    char byte = scan->line.data[scan->at];
    bool comment = (traits & COMMENT_SPACED) == 0 || scan->at == 0 ||
                   highlight_is_blank(scan->line.data[scan->at - 1]);

    if (comment && scan_stands(scan, language->comment))
        scan_take(scan, scan->line.size, &comment_style);
    else if (scan_stands(scan, language->comment_open))
        scan_comment(scan, scan->at + strlen(language->comment_open));
    else if (scan_opens_string(scan))
        return;
    else if ((traits & VARIABLES) != 0 && byte == '$')
        scan_variable(scan);
    else if ((traits & DECORATORS) != 0 && byte == '@')
        scan_take(scan, scan_word_end(scan, scan->at + 1), &name_style);
    else if (highlight_is_letter(byte))
        scan_word(scan);
    else if (highlight_is_digit(byte))
        scan_number(scan);
    else
        scan->at++;
}

/* ---- Constructs at the start of a line ------------------------------------------------------- */

static void scan_skip_blanks(struct highlight_scan *scan)
{
    while (scan->at < scan->line.size && highlight_is_blank(scan->line.data[scan->at]))
        scan->at++;
}

/* "name:" or "name =", perhaps after dashes. */
static void scan_key(struct highlight_scan *scan)
{
    while (scan_stands(scan, "- ")) {
        scan->at += 2;
        scan_skip_blanks(scan);
    }
    size_t end = scan->at;
    while (end < scan->line.size &&
           (highlight_is_letter(scan->line.data[end]) || highlight_is_digit(scan->line.data[end]) ||
            strchr("-./", scan->line.data[end]) != NULL))
        end++;
    bool colon = end < scan->line.size && scan->line.data[end] == ':' &&
                 (end + 1 == scan->line.size || highlight_is_blank(scan->line.data[end + 1]));
    struct bl_text rest =
        bl_text_trim((struct bl_text){scan->line.data + end, scan->line.size - end});
    if (end > scan->at && (colon || bl_text_starts_with(rest, BL_TEXT("="))))
        scan_take(scan, end, &name_style);
}

static void scan_difference(struct highlight_scan *scan)
{
    static const struct text_style added = {.tint = TEXT_ADDED}, removed = {.tint = TEXT_REMOVED},
                                   hunk = {.colour = TEXT_CYAN};
    char first = scan->line.size > 0 ? scan->line.data[0] : ' ';
    bool header = scan->highlight->open != OPEN_HUNK &&
                  (scan_stands(scan, "---") || scan_stands(scan, "+++"));

    if (scan_stands(scan, "@@")) {
        scan->highlight->open = OPEN_HUNK;
        scan_take(scan, scan->line.size, &hunk);
    } else if (header || scan_stands(scan, "diff ") || scan_stands(scan, "index ")) {
        scan->highlight->open = 0;
        scan_take(scan, scan->line.size, &header_style);
    } else {
        scan_take(scan, scan->line.size, first == '+' ? &added : first == '-' ? &removed : &plain);
    }
}

/* Continues a construct of an earlier line, and handles those that can only begin a line. */
static void scan_start(struct highlight_scan *scan)
{
    unsigned traits = scan->language->traits;

    if (scan->highlight->open == OPEN_COMMENT) {
        scan_comment(scan, 0);
        return;
    }
    if (scan->highlight->open >= OPEN_STRING) {
        scan_string(scan, scan->highlight->open - OPEN_STRING, 0);
        return;
    }
    scan_skip_blanks(scan);
    if ((traits & DIRECTIVES) != 0 && scan_stands(scan, "#"))
        scan_take(scan, scan_word_end(scan, scan->at + 1), &keyword_style);
    if ((traits & KEY_WORDS) != 0)
        scan_key(scan);
}

void highlight_line(struct highlight *highlight, struct bl_text line, highlight_put *put,
                    void *context)
{
    struct highlight_scan scan = {.highlight = highlight,
                                  .language = highlight->language,
                                  .line = bl_utf8_cut(line, LINE_SCANNED_MAX),
                                  .put = put,
                                  .context = context};

    if (scan.language == NULL) {
        scan.line.size = 0;
    } else if ((scan.language->traits & DIFFERENCES) != 0) {
        scan_difference(&scan);
    } else {
        scan_start(&scan);
        while (scan.at < scan.line.size)
            scan_token(&scan);
    }
    scan.line = line;
    scan_give(&scan, line.size, &plain);
}
