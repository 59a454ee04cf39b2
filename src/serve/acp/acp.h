/* The parts of `belay acp`: the connection and its first requests (acp.c), sessions (session.c),
 * their history (load.c), their settings (config.c), prompts and their stops (prompt.c), the
 * content of prompts (content.c), updates (update.c) and permission requests (permission.c). */
#ifndef BELAY_SERVE_ACP_H
#define BELAY_SERVE_ACP_H

#include <belay/serve.h>

#define ACP_ORIGIN "acp"
/* How much of a running tool's output a client sees: the end of it. */
#define ACP_OUTPUT_MAX ((size_t)16 * 1024)

struct acp {
    const struct bl_acp_options *options;
    struct bl_rpc *rpc;
    struct bl_nursery nursery; /* of the connection */
    struct bl_scope home;      /* of the sessions: outlives every request */
    struct bl_list sessions;   /* struct acp_session */
    struct bl_semaphore slots; /* for running prompts */
    bool initialized;
    bool takes_notices; /* as the client declared; likewise the next */
    bool takes_compactions;
    bool was_busy; /* when the client disconnected */
};

/* A tool call that was announced and whose end was not reported yet. On the heap. */
struct acp_call {
    struct bl_list link;
    char id[160];   /* for the client: unique in the session */
    char call[72];  /* the model's */
    char agent[72]; /* the sub-agent that made it; empty: the root */
    struct bl_buffer input;
    struct bl_buffer output; /* the end of its output */
    struct bl_text name;     /* behind the struct */
    uint64_t told_ns;        /* when its output was last sent */
    bool dirty;              /* some output was not sent yet */
    bool stopped;            /* it ended by a stop: the receipt has its fate */
    char fate[24];           /* if it was stopped alone; empty: unknown */
    struct bl_buffer result;
};

/* One session/prompt, from the request to its answer. On the heap. */
struct acp_prompt {
    struct bl_list link; /* in the session's list, in order of arrival */
    struct acp_session *session;
    struct bl_rpc_call *call;
    struct bl_scope scope; /* of its turn */
    bool cancelled;        /* by the client */
};

struct acp_session {
    struct bl_list link;
    struct acp *acp;
    char id[72];
    char run_id[BL_ID_SIZE];
    struct bl_arena arena;
    const char *directory;
    struct bl_workspace *workspace;
    struct bl_agent *agent;
    struct bl_listener listener;
    struct bl_asker asker;
    struct bl_list prompts;   /* struct acp_prompt: the first has the turn, the others wait */
    struct bl_lock turn;      /* held while the agent is used */
    uint32_t users;           /* other requests that use the session */
    struct bl_semaphore left; /* given when one of these, or a prompt, ends */
    bool closing;
    bool titled; /* the client knows the title */
    bool timed;
    int64_t timeout_ns;
    const char *model;        /* chosen by the client; NULL: the model it was opened with */
    struct bl_buffer receipt; /* of the newest stop */
    bool warned;              /* the warnings of its opening were reported */
    /* Updates. */
    struct bl_list calls;        /* struct acp_call */
    struct bl_map call_ids;      /* ids in use, and how often each was used */
    char message_id[BL_ID_SIZE]; /* of the current message; empty: none */
    uint64_t messages;           /* number of messages so far */
    uint64_t compactions;
};

/* ---- acp.c ----------------------------------------------------------------------------------- */

/* Refuses a call for bad parameters, with the path of the bad one. */
void acp_refuse_params(struct bl_rpc_call *call, const char *path, const char *format, ...)
    BL_PRINTF(3, 4);
/* Answers with an error: its kind selects the code (unless given), and the whole error is the
 * data. */
void acp_fail(struct bl_rpc_call *call, int code, const struct bl_error *error);
/* Reads a text parameter. If it is missing or not a text, refuses the call and returns false. */
bool acp_param_text(struct bl_rpc_call *call, const char *name, struct bl_text *ret_text);

/* ---- session.c ------------------------------------------------------------------------------- */

/* Returns the open session with that id, or NULL. */
struct acp_session *acp_session_find(const struct acp *acp, struct bl_text id);
/* Returns the session that the parameters name, or NULL after refusing the call. */
struct acp_session *acp_session_of(struct acp *acp, struct bl_rpc_call *call);
/* Must enclose any use of a session that waits. */
void acp_session_use(struct acp_session *session);
void acp_session_leave(struct acp_session *session);
/* Requests, each in a fiber of its own. */
void acp_session_new(void *acp, struct bl_rpc_call *call);
void acp_session_load(void *acp, struct bl_rpc_call *call);
void acp_session_resume(void *acp, struct bl_rpc_call *call);
void acp_session_list(void *acp, struct bl_rpc_call *call);
void acp_session_close(void *acp, struct bl_rpc_call *call);
void acp_session_delete(void *acp, struct bl_rpc_call *call);
/* Stops its turn, waits for that, and ends and frees the session. In a fiber. */
void acp_session_end(struct acp_session *session, enum bl_stop_reason reason, const char *origin);

/* ---- load.c ---------------------------------------------------------------------------------- */

/* Sends the client the whole history of the session. Returns 0, or an error of bl_store_turns. */
int acp_replay(struct acp_session *session, struct bl_error *error);

/* ---- config.c -------------------------------------------------------------------------------- */

/* Writes the members modes and configOptions of an answer. */
void acp_config_write(const struct acp_session *session, struct bl_json_writer *writer);
/* Changes the permission mode without a request of the client, and reports it. */
void acp_config_change_mode(struct acp_session *session, enum bl_permission_mode mode);
void acp_set_mode(void *acp, struct bl_rpc_call *call);
void acp_set_config_option(void *acp, struct bl_rpc_call *call);

/* ---- prompt.c -------------------------------------------------------------------------------- */

/* Called in the fiber that reads: registers the prompt. */
void acp_prompt_take(struct acp *acp, struct bl_rpc_call *call);
void acp_inject(struct acp *acp, struct bl_rpc_call *call);
/* `session/cancel`: cancels all its prompts, and skips the grace periods of those already being
 * stopped. */
void acp_cancel_session(struct acp_session *session);
/* `$/cancel_request` with the id of that call. */
void acp_cancel_call(struct acp *acp, struct bl_rpc_call *call);
/* The session ends: stops all its prompts and its background work. */
void acp_stop_session(struct acp_session *session, enum bl_stop_reason reason, const char *origin);
/* `_belay/cancel`: one call, sub-agent or cell. */
void acp_cancel_work(void *acp, struct bl_rpc_call *call);

/* ---- content.c ------------------------------------------------------------------------------- */

/* The content of a prompt: text and images. In the arena. */
struct acp_content {
    struct bl_text text;
    struct bl_list images; /* struct bl_block */
};

/* Returns false if the parameter at `path` (a JSON pointer) is wrong, with the reason. */
bool acp_content_read(struct bl_arena *arena, const struct bl_json *prompt, bool takes_images,
                      struct acp_content *ret_content, char *ret_path, size_t path_size,
                      const char **ret_why);

/* ---- update.c -------------------------------------------------------------------------------- */

enum acp_speaker {
    ACP_USER,
    ACP_AGENT,
    ACP_THOUGHT,
};

void acp_tell_text(struct acp_session *session, enum acp_speaker speaker, const char *message_id,
                   struct bl_text text);
/* An update that is written member by member: begin opens params and update, and writes the
 * kind. */
struct acp_update {
    struct bl_buffer out;
    struct bl_json_writer writer;
};
void acp_update_begin(struct acp_update *update, const struct acp_session *session,
                      const char *kind);
void acp_update_send(struct acp_update *update, struct acp_session *session);
/* Writes the constant members of a tool call: title, name, kind, rawInput, locations, and for edits
 * the diff as content. */
void acp_call_write(struct bl_json_writer *writer, const struct acp_session *session,
                    struct bl_text name, struct bl_text input);
void acp_write_text_content(struct bl_json_writer *writer, struct bl_text text);
const char *acp_tool_kind(struct bl_text name);
/* Returns an id that is new to the client in this session, for one of the model's calls. */
void acp_call_id(struct acp_session *session, const char *agent, struct bl_text call, char *out,
                 size_t size);
void acp_on_event(void *session, const struct bl_event *event);
/* Sends output that is still to be sent. */
void acp_flush_output(struct acp_session *session);
/* Reports the end of each call whose end was not reported. */
void acp_end_calls(struct acp_session *session);
void acp_calls_free(struct acp_session *session);
/* Returns the newest running call with that client id, or NULL. */
struct acp_call *acp_call_find(struct acp_session *session, struct bl_text id);

/* ---- permission.c ---------------------------------------------------------------------------- */

int acp_ask(void *session, const struct bl_question *question, struct bl_answer *ret_answer);

#endif
