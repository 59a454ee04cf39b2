#include <ctype.h>
#include <stdio.h>

#include "parts.h"

int serve_path(const char *name, char *out, size_t out_size)
{
    int code = bl_runtime_folder(out, out_size, NULL);
    if (code != 0)
        return code;
    size_t used = strlen(out);
    int size = snprintf(out + used, out_size - used, "/%s", name);
    return size < 0 || (size_t)size >= out_size - used ? BL_ELIMIT : 0;
}

bool serve_name_parse(const char *name, int64_t *ret_pid)
{
    size_t size = strspn(name, "0123456789");
    const char *rest = name + size;
    if (rest[0] == '-' && isdigit((unsigned char)rest[1]))
        rest += 1 + strspn(rest + 1, "0123456789");
    return strcmp(rest, ".sock") == 0 &&
           bl_text_to_int64((struct bl_text){name, size}, ret_pid) == 0;
}
