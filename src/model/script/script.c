/* Design notes.
 *
 * A script is read once and never changes. A player is the position of one agent in it: which
 * replies are used up, how often failing replies have failed, and the next id of a call. Everything
 * else depends only on the script, the request and the player's seed, so that a run on virtual time
 * can be repeated. */
#include "model/parts.h"

#include <stdio.h>

#define PROVIDER     "script"
#define QUOTED_MAX   200u
#define WEDGED_TOKEN "\u2026"
#define NOTHING_SENT "before the first token"
/* A call's input is sent in two pieces, to exercise the receiver's assembly. */
#define INPUT_PIECES 2u

/* The progress of a reply. */
struct progress {
    uint64_t failed; /* number of failures so far */
    bool used;
};

struct bl_script_player {
    const struct bl_script *script;
    struct progress *progress; /* by reply */
    uint64_t call_number;
    struct bl_random random;
};

/* An answer being played. */
struct playing {
    const struct script_reply *reply;
    struct bl_sink *sink;
    uint64_t bytes; /* sent so far */
    bool begun;     /* a piece was sent */
};

/* ---- Scripts ---- */

struct bl_script *bl_script_builtin(void)
{
    struct bl_script *script = bl_zalloc(sizeof *script);

    bl_arena_init(&script->arena);
    script->name = "builtin";
    script->repeat = true;
    script->reply_count = 1;
    script->replies = bl_arena_zalloc(&script->arena, sizeof(*script->replies));
    script->replies[0].pieces = SCRIPT_PIECES_DEFAULT;
    script->replies[0].say = BL_TEXT(
        "This is Belay's built-in script model: it repeats your prompt and does not think. ");
    script->replies[0].quotes_user = true;
    return script;
}

void bl_script_free(struct bl_script *script)
{
    if (script == NULL)
        return;
    for (size_t i = 0; i < script->reply_count; i++)
        bl_pattern_free(script->replies[i].when);
    bl_arena_done(&script->arena);
    bl_free(script);
}

const char *bl_script_name(const struct bl_script *script)
{
    return script->name;
}

/* ---- Words ---- */

static bool script_is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

uint64_t script_count_words(struct bl_text text)
{
    uint64_t count = 0;

    for (size_t i = 0; i < text.size; i++)
        count += !script_is_space(text.data[i]) && (i == 0 || script_is_space(text.data[i - 1]));
    return count;
}

/* The data is never NULL, which the pattern matcher does not accept. */
static struct bl_text script_newest_text(const struct bl_request *request)
{
    struct bl_text text = bl_request_newest_text(request);

    return text.data != NULL ? text : BL_TEXT("");
}

/* Returns the number of images in the user's newest message. */
static uint64_t newest_images(const struct bl_list *messages)
{
    const struct bl_list *link = messages->previous;
    uint64_t count = 0;

    while (link != messages && BL_CONTAINER(link, struct bl_message, link)->role != BL_ROLE_USER)
        link = link->previous;
    if (link == messages)
        return 0;
    BL_LIST_EACH (part, &BL_CONTAINER(link, struct bl_message, link)->blocks)
        count += BL_CONTAINER(part, struct bl_block, link)->type == BL_BLOCK_IMAGE;
    return count;
}

/* Returns the text of a reply to `newest`. In `arena` if it is composed. */
static struct bl_text script_said(struct bl_arena *arena, const struct script_reply *reply,
                                  struct bl_text newest)
{
    if (!reply->quotes_user)
        return reply->say;
    struct bl_text trimmed = bl_text_trim(newest), quoted = {trimmed.data, 0};
    for (unsigned i = 0; i < QUOTED_MAX && quoted.size < trimmed.size; i++) {
        uint32_t code_point;
        struct bl_text rest = {trimmed.data + quoted.size, trimmed.size - quoted.size};
        size_t length = bl_utf8_decode(rest, &code_point);
        quoted.size += length > 0 ? length : 1;
    }
    uint64_t words = script_count_words(newest);
    return bl_arena_printf(arena, BL_TEXT_FORMAT "You said: \"" BL_TEXT_FORMAT "%s\" (%llu %s).",
                           BL_TEXT_ARG(reply->say), BL_TEXT_ARG(quoted),
                           quoted.size < trimmed.size ? "\u2026" : "", (unsigned long long)words,
                           words == 1 ? "word" : "words");
}

/* ---- Telling ---- */

static int script_tell(struct playing *playing, const struct bl_piece *piece)
{
    playing->begun = true;
    playing->bytes += piece->text.size;
    return playing->sink->take(playing->sink, piece);
}

/* Lets other fibers run between two pieces, and detects a stop. */
static int pause_between(const struct playing *playing)
{
    if (!playing->begun)
        return bl_check();
    uint64_t delay_ns = playing->reply->piece_delay_ns;
    return delay_ns > 0 ? bl_sleep(delay_ns) : bl_yield();
}

/* Returns the `index`-th of `count` pieces of `text`, which starts at `*at`, and advances `*at`.
 * Pieces are as equal as characters allow; none is empty as long as there are bytes. */
static struct bl_text next_piece(struct bl_text text, size_t *at, uint32_t index, uint32_t count)
{
    struct bl_text rest = {text.data + *at, text.size - *at};
    size_t left = count - index;
    size_t size = (rest.size + left - 1) / left;
    struct bl_text piece = left == 1 ? rest : bl_utf8_cut(rest, size);
    uint32_t code_point;

    if (piece.size == 0 && rest.size > 0) {
        size_t length = bl_utf8_decode(rest, &code_point);
        piece = (struct bl_text){rest.data, length > 0 ? length : 1};
    }
    *at += piece.size;
    return piece;
}

/* Streams `text` in pieces; only the first one if `only_first`. */
static int stream_text(struct playing *playing, int type, struct bl_text text, bool only_first)
{
    uint32_t count = playing->reply->pieces;
    size_t at = 0;

    for (uint32_t i = 0; i < count && at < text.size; i++) {
        int result = pause_between(playing);
        if (result != 0)
            return result;
        struct bl_piece piece = {.type = type, .text = next_piece(text, &at, i, count)};
        result = script_tell(playing, &piece);
        if (result != 0 || only_first)
            return result;
    }
    return 0;
}

/* ---- Calls of tools ---- */

static bool id_is_given(const struct bl_script *script, struct bl_text id)
{
    for (size_t i = 0; i < script->reply_count; i++) {
        for (size_t j = 0; j < script->replies[i].call_count; j++) {
            if (bl_text_equal(script->replies[i].calls[j].id, id))
                return true;
        }
    }
    return false;
}

static struct bl_text script_make_id(struct bl_script_player *player, char out[32])
{
    struct bl_text id;

    do
        id = (struct bl_text){
            out, (size_t)snprintf(out, 32, "call_%llu", (unsigned long long)++player->call_number)};
    while (id_is_given(player->script, id));
    return id;
}

static int stream_call(struct bl_script_player *player, struct playing *playing, uint32_t index)
{
    const struct script_call *call = &playing->reply->calls[index];
    char made[32];
    struct bl_text id = call->id.size > 0 ? call->id : script_make_id(player, made);
    struct bl_piece piece = {
        .type = BL_PIECE_CALL_BEGIN, .index = index, .id = id, .name = call->name};
    size_t at = 0;

    int result = pause_between(playing);
    if (result == 0)
        result = script_tell(playing, &piece);
    for (uint32_t i = 0; result == 0 && i < INPUT_PIECES && at < call->input.size; i++) {
        result = pause_between(playing);
        if (result != 0)
            return result;
        piece = (struct bl_piece){.type = BL_PIECE_CALL_DELTA,
                                  .index = index,
                                  .text = next_piece(call->input, &at, i, INPUT_PIECES)};
        result = script_tell(playing, &piece);
    }
    if (result != 0)
        return result;
    piece = (struct bl_piece){
        .type = BL_PIECE_CALL_END, .index = index, .text = call->input, .invalid = call->invalid};
    /* Its text was sent before: no more bytes. */
    return playing->sink->take(playing->sink, &piece);
}

/* ---- One answer ---- */

static int script_hold(void)
{
    return bl_sleep(BL_NEVER);
}

struct bl_usage script_usage(const struct script_reply *reply, struct bl_text newest,
                             uint64_t words_said)
{
    struct bl_usage usage = reply->usage;

    if (!reply->input_given)
        usage.input_tokens = script_count_words(newest);
    if (!reply->output_given)
        usage.output_tokens = words_said;
    return usage;
}

static int model_script_end_answer(struct playing *playing, struct bl_text newest,
                                   struct bl_text say)
{
    const struct script_reply *reply = playing->reply;
    struct bl_piece piece = {.type = BL_PIECE_USAGE,
                             .usage = script_usage(reply, newest, script_count_words(say))};

    int result = script_tell(playing, &piece);
    if (result != 0)
        return result;
    piece = (struct bl_piece){.type = BL_PIECE_END, .end = reply->end};
    if (!reply->end_given)
        piece.end = reply->call_count > 0 ? BL_ANSWER_TOOL_CALLS : BL_ANSWER_END;
    return script_tell(playing, &piece);
}

static int script_play(struct bl_script_player *player, struct playing *playing,
                       struct bl_text newest, struct bl_text say)
{
    const struct script_reply *reply = playing->reply;

    if (reply->wedge == SCRIPT_WEDGE_BEFORE)
        return script_hold();
    int result = stream_text(playing, BL_PIECE_THINKING, reply->thinking, false);
    if (result == 0 && reply->wedge == SCRIPT_WEDGE_AFTER) {
        result =
            stream_text(playing, BL_PIECE_TEXT, say.size > 0 ? say : BL_TEXT(WEDGED_TOKEN), true);
        return result == 0 ? script_hold() : result;
    }
    if (result == 0)
        result = stream_text(playing, BL_PIECE_TEXT, say, false);
    for (uint32_t i = 0; result == 0 && i < reply->call_count; i++)
        result = stream_call(player, playing, i);
    return result == 0 ? model_script_end_answer(playing, newest, say) : result;
}

static int model_script_answer(struct bl_script_player *player, const struct script_reply *reply,
                               struct bl_text newest, struct bl_sink *sink)
{
    struct playing playing = {.reply = reply, .sink = sink};
    struct bl_arena arena;

    bl_arena_init(&arena);
    sink->wait = BL_MODEL_STREAMING;
    int result = script_play(player, &playing, newest, script_said(&arena, reply, newest));
    bl_arena_done(&arena);
    if (result == 0)
        sink->detail[0] = '\0';
    else if (playing.begun)
        snprintf(sink->detail, sizeof sink->detail, "stream cut after %llu bytes",
                 (unsigned long long)playing.bytes);
    else
        bl_text_into(sink->detail, sizeof sink->detail, NOTHING_SENT);
    return result;
}

/* ---- The model ---- */

/* Returns the first unused reply of the script that matches; reply_count if there is none. */
static size_t find_reply(const struct bl_script_player *player, struct bl_text newest,
                         uint64_t images)
{
    const struct bl_script *script = player->script;
    size_t index = 0;

    for (; index < script->reply_count; index++) {
        const struct script_reply *reply = &script->replies[index];
        if (player->progress[index].used || (reply->images_given && reply->images != images))
            continue;
        if (reply->when == NULL || bl_pattern_search(reply->when, newest))
            break;
    }
    return index;
}

static size_t choose_reply(struct bl_script_player *player, struct bl_text newest, uint64_t images)
{
    const struct bl_script *script = player->script;
    size_t index = find_reply(player, newest, images);

    if (index < script->reply_count || !script->repeat)
        return index;
    memset(player->progress, 0, script->reply_count * sizeof(*player->progress));
    return find_reply(player, newest, images);
}

static int fail_exhausted(const struct bl_script_player *player, struct bl_error *error)
{
    const struct bl_script *script = player->script;
    size_t left = 0;

    for (size_t i = 0; i < script->reply_count; i++)
        left += !player->progress[i].used;
    int result =
        bl_error_set(error, BL_ENOENT, BL_KIND_PROVIDER, "call the model", PROVIDER,
                     left == 0 ? "the script '%s' has no reply left: %zu of %zu are used"
                               : "the script '%s' has no reply left that matches the prompt: "
                                 "%zu of %zu are used",
                     script->name, script->reply_count - left, script->reply_count);
    bl_error_name_set(error, "script_exhausted");
    bl_error_hint(error, left == 0 ? "add replies to it, or repeat: true"
                                   : "add a reply without `when`, which matches any prompt");
    return result;
}

int script_attempt(struct bl_script_player *player, struct bl_text newest, uint64_t images,
                   struct bl_sink *sink, const struct script_reply **reply, struct bl_error *error)
{
    bl_text_into(sink->detail, sizeof sink->detail, NOTHING_SENT);
    int result = bl_check();
    if (result != 0)
        return result;
    size_t index = choose_reply(player, newest, images);
    if (index == player->script->reply_count)
        return fail_exhausted(player, error);
    *reply = &player->script->replies[index];
    struct progress *progress = &player->progress[index];
    progress->used = ++progress->failed >= (*reply)->failures;
    result = (*reply)->delay_ns > 0 ? bl_sleep((*reply)->delay_ns) : 0;
    if (result != 0)
        return result;
    return (*reply)->failures == 0 ? model_script_answer(player, *reply, newest, sink) : BL_EIO;
}

static int script_call(void *context, const struct bl_request *request, struct bl_sink *sink,
                       struct bl_error *error)
{
    struct bl_script_player *player = context;
    struct bl_text newest = script_newest_text(request);
    uint64_t images = newest_images(request->messages);
    struct bl_model_retries retries = {0};

    for (;;) {
        const struct script_reply *reply = NULL;
        int result = script_attempt(player, newest, images, sink, &reply, error);
        if (result != BL_EIO || reply == NULL || reply->failures == 0)
            return result;
        result = bl_model_retry(&retries, &reply->failure, &player->random, sink, PROVIDER, error);
        if (result != 0)
            return result;
    }
}

static uint64_t script_estimate(void *context BL_UNUSED, const struct bl_request *request)
{
    return script_count_words(script_newest_text(request));
}

static double script_cost_usd(void *context BL_UNUSED, const struct bl_usage *usage BL_UNUSED)
{
    return 0;
}

struct bl_script_player *bl_script_player_new(const struct bl_script *script, uint64_t seed,
                                              struct bl_model *ret_model)
{
    struct bl_script_player *player = bl_zalloc(sizeof *player);

    player->script = script;
    player->progress = bl_zalloc(script->reply_count * sizeof(*player->progress));
    bl_random_seed(&player->random, seed);
    *ret_model = (struct bl_model){
        .provider = PROVIDER,
        .name = script->name,
        .context = player,
        .input_tokens_max = script->context_window,
        .takes_images = script->images,
        .estimate = script_estimate,
        .call = script_call,
        .cost_usd = script_cost_usd,
    };
    return player;
}

void bl_script_player_free(struct bl_script_player *player)
{
    if (player == NULL)
        return;
    bl_free(player->progress);
    bl_free(player);
}
