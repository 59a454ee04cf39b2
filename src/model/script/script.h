/* Reading scripts: shared by its files. Inside model/ only. */
#ifndef BELAY_MODEL_SCRIPT_H
#define BELAY_MODEL_SCRIPT_H

#include "model/parts.h"
#include <belay/source.h>

#define SCRIPT_SIZE_MAX  (16u << 20)
#define SCRIPT_OPERATION "read the script"

#endif
