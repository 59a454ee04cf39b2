#include <belay/base.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The six bits that a character stands for; negative if it is not a Base64 character. */
static int value_of(char character)
{
    if (character >= 'A' && character <= 'Z')
        return character - 'A';
    if (character >= 'a' && character <= 'z')
        return character - 'a' + 26;
    if (character >= '0' && character <= '9')
        return character - '0' + 52;
    return character == '+' ? 62 : character == '/' ? 63 : -1;
}

/* The number of padding characters in the last group. */
static size_t padding_of(struct bl_text text)
{
    size_t padding = 0;

    while (padding < 2 && padding < text.size && text.data[text.size - 1 - padding] == '=')
        padding++;
    return padding;
}

bool bl_base64_valid(struct bl_text text)
{
    if (text.size == 0 || text.size % 4 != 0)
        return false;
    for (size_t i = 0; i < text.size - padding_of(text); i++) {
        if (value_of(text.data[i]) < 0)
            return false;
    }
    return true;
}

int bl_base64_encode(struct bl_buffer *out, struct bl_text bytes)
{
    int code = 0;

    for (size_t i = 0; i < bytes.size && code == 0; i += 3) {
        size_t count = bytes.size - i < 3 ? bytes.size - i : 3;
        char group[] = "====";
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < count ? (unsigned char)bytes.data[i + j] : 0u);
        for (size_t j = 0; j <= count; j++)
            group[j] = alphabet[bits >> (18 - 6 * j) & 63];
        code = bl_buffer_append(out, (struct bl_text){group, 4});
    }
    return code;
}

bool bl_base64_decode(struct bl_arena *arena, struct bl_text text, struct bl_text *ret_bytes)
{
    size_t padding = padding_of(text), size = 0;

    if (text.size > 0 && !bl_base64_valid(text))
        return false;
    char *bytes = bl_arena_alloc(arena, text.size / 4 * 3 + 1);
    for (size_t i = 0; i < text.size; i += 4) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 4; j++)
            bits = bits << 6 |
                   (i + j < text.size - padding ? (uint32_t)value_of(text.data[i + j]) : 0u);
        for (size_t j = 0; j < 3; j++)
            bytes[size++] = (char)(bits >> (16 - 8 * j) & 255);
    }
    bytes[size - padding] = '\0';
    *ret_bytes = (struct bl_text){bytes, size - padding};
    return true;
}
