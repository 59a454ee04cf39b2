/* Values in messages. */
#ifndef BELAY_VALUE_H
#define BELAY_VALUE_H

#include <belay/json.h>

BL_PUBLIC_BEGIN

#define BL_VALUE_SHOWN_SIZE 64u

/* Returns the beginning of a text, without characters that control a terminal. */
const char *bl_value_show(struct bl_text text, char out[BL_VALUE_SHOWN_SIZE]);
const char *bl_value_type(const struct bl_json *value); /* "a list" */

BL_PUBLIC_END

#endif
