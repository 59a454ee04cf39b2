/* What the two formats of OpenAI share: chat completions (openai.c, openai_decode.c) and responses
 * (responses.c, responses_decode.c). */
#ifndef BELAY_MODEL_OPENAI_H
#define BELAY_MODEL_OPENAI_H

#include "model/provider.h"

/* ---- Shared by both (openai.c) --------------------------------------------------------------- */

/* Key and organization. */
size_t openai_headers(const struct bl_provider *provider, struct bl_arena *arena,
                      struct bl_http_header *out);
/* The word for it; NULL: the field is left out. */
const char *openai_effort(enum bl_effort effort);
/* The id under which a call goes back. An id of another provider that is longer than this server
 * takes becomes a shorter one, the same each time. */
struct bl_text openai_call_id(struct bl_arena *arena, struct bl_text id, size_t size_max);
/* Texts and images of a message of the user, as a list; an image of a result is told to be one. */
void openai_write_parts(const struct model_build *build, struct bl_json_writer *writer,
                        const struct bl_message *message, bool nested, size_t id_max);
/* The tools and how they may be called, and the shape of the answer. `nested`: as chat completions
 * have it, in a member of its own. */
void openai_write_tools(const struct model_build *build, struct bl_json_writer *writer,
                        bool nested);
void openai_write_format(const struct model_build *build, struct bl_json_writer *writer,
                         bool nested);

/* Does this object say that the request failed? */
bool openai_is_error(const struct bl_json *value);
/* Tells what a usage object says; one that says nothing is ignored. */
int openai_usage(struct model_assembly *assembly, const struct bl_json *value);

/* ---- Answers (openai_decode.c) --------------------------------------------------------------- */

int openai_feed(struct model_decoder *decoder, struct bl_text event_name,
                const struct bl_json *data);
int openai_whole(struct model_decoder *decoder, const struct bl_json *answer);
int openai_finish(struct model_decoder *decoder);

/* ---- Answers (responses_decode.c) ------------------------------------------------------------ */

int responses_feed(struct model_decoder *decoder, struct bl_text event_name,
                   const struct bl_json *data);
int responses_whole(struct model_decoder *decoder, const struct bl_json *answer);
int responses_finish(struct model_decoder *decoder);

#endif
