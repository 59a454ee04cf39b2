#include "chat.h"

static bool named_entity(struct bl_text name, uint32_t *ret_character)
{
    static const struct {
        const char *name;
        uint32_t character;
    } entities[] = {{"amp", '&'},       {"lt", '<'},        {"gt", '>'},       {"quot", '"'},
                    {"apos", '\''},     {"nbsp", 0xa0},     {"copy", 0xa9},    {"reg", 0xae},
                    {"deg", 0xb0},      {"plusmn", 0xb1},   {"middot", 0xb7},  {"times", 0xd7},
                    {"divide", 0xf7},   {"euro", 0x20ac},   {"ndash", 0x2013}, {"mdash", 0x2014},
                    {"lsquo", 0x2018},  {"rsquo", 0x2019},  {"ldquo", 0x201c}, {"rdquo", 0x201d},
                    {"bull", 0x2022},   {"hellip", 0x2026}, {"trade", 0x2122}, {"larr", 0x2190},
                    {"rarr", 0x2192},   {"uarr", 0x2191},   {"darr", 0x2193},  {"le", 0x2264},
                    {"ge", 0x2265},     {"ne", 0x2260},     {"infin", 0x221e}, {"para", 0xb6},
                    {"hearts", 0x2665}, {"check", 0x2713},  {"lbrace", '{'},   {"rbrace", '}'},
                    {"lbrack", '['},    {"rbrack", ']'},    {"ast", '*'},      {"vert", '|'}};

    for (size_t i = 0; i < BL_COUNT(entities); i++) {
        if (bl_text_equal(name, bl_text_from(entities[i].name))) {
            *ret_character = entities[i].character;
            return true;
        }
    }
    return false;
}

struct bl_text markdown_entity(struct bl_text entity, char out[4])
{
    uint32_t character = 0;

    if (entity.size < 4 || entity.data[entity.size - 1] != ';')
        return entity;
    struct bl_text name = {entity.data + 1, entity.size - 2};
    if (name.data[0] == '#') {
        bool hexadecimal = name.data[1] == 'x' || name.data[1] == 'X';
        for (size_t i = hexadecimal ? 2 : 1; i < name.size && character <= 0x10ffff; i++) {
            uint32_t digit = (uint32_t)(unsigned char)name.data[i];
            digit = digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
            character = character * (hexadecimal ? 16 : 10) + digit;
        }
        character = character == 0 || character > 0x10ffff ? BL_UTF8_REPLACEMENT : character;
    } else if (!named_entity(name, &character)) {
        return entity;
    }
    size_t size = bl_utf8_encode(character, out);
    return size > 0 ? (struct bl_text){out, size} : BL_TEXT("\xEF\xBF\xBD");
}
