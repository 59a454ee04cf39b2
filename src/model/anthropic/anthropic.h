/* Shared by the two files of Anthropic's format. */
#ifndef BELAY_MODEL_ANTHROPIC_H
#define BELAY_MODEL_ANTHROPIC_H

#include "model/provider.h"

int anthropic_feed(struct model_decoder *decoder, struct bl_text event_name,
                   const struct bl_json *data);
int anthropic_whole(struct model_decoder *decoder, const struct bl_json *answer);
int anthropic_finish(struct model_decoder *decoder);

#endif
