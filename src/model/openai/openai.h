/* Shared by the two formats of OpenAI: chat completions (openai.c, decode.c) and responses
 * (responses.c, responses_decode.c). */
#ifndef BELAY_MODEL_OPENAI_H
#define BELAY_MODEL_OPENAI_H

#include "model/provider.h"

/* ---- Shared by both (openai.c) --------------------------------------------------------------- */

/* Key and organization. */
size_t openai_headers(const struct bl_provider *provider, struct bl_arena *arena,
                      struct bl_http_header *out);
/* Returns the format's word for it; NULL: the field is left out. */
const char *openai_effort(enum bl_effort effort);
/* Returns the id under which a call is sent back. An id of another provider that is too long for
 * this server is replaced by a shorter one, always the same. */
struct bl_text openai_call_id(struct bl_arena *arena, struct bl_text id, size_t size_max);
/* Writes texts and images of a user's message, as a list; an image of a result is announced by a
 * line of text. */
void openai_write_parts(const struct model_build *build, struct bl_json_writer *writer,
                        const struct bl_message *message, bool nested, size_t id_max);
/* Write the tools with their choice, and the form of the answer. `nested`: in a member of their
 * own, as chat completions have it. */
void openai_write_tools(const struct model_build *build, struct bl_json_writer *writer,
                        bool nested);
void openai_write_format(const struct model_build *build, struct bl_json_writer *writer,
                         bool nested);

/* Returns whether this object reports a failed request. */
bool openai_is_error(const struct bl_json *value);
/* Reports the usage of a usage object; ignores one without numbers. */
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
