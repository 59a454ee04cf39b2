/* What `belay session import` is given: any bytes, right before an unmapped page, are taken for a
 * session or refused with a line. */
#include <stdint.h>
#include <stdlib.h>

#include "guard_page.h"
#include "store/form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct guard_page guard;
    struct bl_text lines = guard_page_before(&guard, (struct bl_text){(const char *)data, size});
    struct bl_error error = {0};

    int code = store_import_check(lines, &error);
    if ((code == 0) != (error.code == 0) || (code != 0 && error.message[0] == '\0'))
        abort();
    return 0;
}
