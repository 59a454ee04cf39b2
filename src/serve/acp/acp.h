/* The parts of `belay acp`: the connection and what is asked first (acp.c), sessions
 * (acp_session.c), their past (acp_load.c), their settings (acp_config.c), prompts and their stops
 * (acp_prompt.c), what a prompt holds (acp_content.c), what is told (acp_update.c) and asked
 * (acp_permission.c) on the way. */
#ifndef BELAY_SERVE_ACP_H
#define BELAY_SERVE_ACP_H

#include <belay/serve.h>

#define ACP_ORIGIN "acp"
/* Of a tool's output that a client is shown while it runs: the end of it. */
#define ACP_OUTPUT_MAX ((size_t)16 * 1024)

struct acp {
    const struct bl_acp_options *options;
    struct bl_rpc *rpc;
    struct bl_nursery nursery; /* of the connection */
    struct bl_scope home;      /* of the sessions: outlives every request */
    struct bl_list sessions;   /* struct acp_session */
    struct bl_semaphore slots; /* for prompts that run */
    bool initialized;
    bool takes_notices; /* the client has said so; as the next */
    bool takes_compactions;
    bool was_busy; /* when the client went */
};

/* A tool call that was announced and has no last word yet. On the heap. */
struct acp_call {
    struct bl_list link;
    char id[160];   /* for the client: unique in the session */
    char call[72];  /* ours */
    char agent[72]; /* that made it; empty: the root */
    struct bl_buffer input;
    struct bl_buffer output; /* the end of what it printed */
    struct bl_text name;     /* behind the struct */
    uint64_t told_ns;        /* when its output was told last */
    bool dirty;              /* there is more to be told */
    bool stopped;            /* it ended by a stop: what became of it the receipt says */
    char fate[24];           /* of one that was stopped alone; empty: not known */
    struct bl_buffer result;
};

/* One session/prompt, from the line that asks for it to its answer. On the heap. */
struct acp_prompt {
    struct bl_list link; /* of the session's, in the order they came */
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
    struct bl_list prompts;   /* struct acp_prompt: the first has its turn, others wait */
    struct bl_lock turn;      /* held by whoever uses the agent */
    uint32_t users;           /* other requests that are at work on it */
    struct bl_semaphore left; /* given for each of these, and each prompt, that ends */
    bool closing;
    bool titled; /* the client knows what it is about */
    bool timed;
    int64_t timeout_ns;
    const char *model;        /* chosen by the client; NULL: as it was opened */
    struct bl_buffer receipt; /* of the newest stop */
    bool warned;              /* what its opening had to say was told */
    /* What is told. */
    struct bl_list calls;        /* struct acp_call */
    struct bl_map call_ids;      /* that were used, and how often */
    char message_id[BL_ID_SIZE]; /* of the message under way; empty: none */
    uint64_t messages;           /* so far */
    uint64_t compactions;
};

/* ---- acp.c ----------------------------------------------------------------------------------- */

/* Bad parameters, with the path to what is wrong. */
void acp_refuse_params(struct bl_rpc_call *call, const char *path, const char *format, ...)
    BL_PRINTF(3, 4);
/* An error of ours as the answer: its kind chooses the code, and the object is its data. */
void acp_fail(struct bl_rpc_call *call, int code, const struct bl_error *error);
/* A text member of the parameters; false: it is not there or no text, and the call is refused. */
bool acp_param_text(struct bl_rpc_call *call, const char *name, struct bl_text *ret_text);

/* ---- acp_session.c --------------------------------------------------------------------------- */

/* By its id; NULL: none that is open here. */
struct acp_session *acp_session_find(const struct acp *acp, struct bl_text id);
/* The one that the parameters name; NULL: the call is refused. */
struct acp_session *acp_session_of(struct acp *acp, struct bl_rpc_call *call);
/* Around what waits with a session in its hands. */
void acp_session_use(struct acp_session *session);
void acp_session_leave(struct acp_session *session);
/* Requests: each in a fiber of its own. */
void acp_session_new(void *acp, struct bl_rpc_call *call);
void acp_session_load(void *acp, struct bl_rpc_call *call);
void acp_session_resume(void *acp, struct bl_rpc_call *call);
void acp_session_list(void *acp, struct bl_rpc_call *call);
void acp_session_close(void *acp, struct bl_rpc_call *call);
void acp_session_delete(void *acp, struct bl_rpc_call *call);
/* Ends it and frees it, its turn stopped and waited for. In a fiber. */
void acp_session_end(struct acp_session *session, enum bl_stop_reason reason, const char *origin);

/* ---- acp_load.c ------------------------------------------------------------------------------ */

/* Tells the client all that was said in the session. 0, or what bl_store_turns answers. */
int acp_replay(struct acp_session *session, struct bl_error *error);

/* ---- acp_config.c ---------------------------------------------------------------------------- */

/* Members of an answer: modes and configOptions. */
void acp_config_write(const struct acp_session *session, struct bl_json_writer *writer);
void acp_set_mode(void *acp, struct bl_rpc_call *call);
void acp_set_config_option(void *acp, struct bl_rpc_call *call);

/* ---- acp_prompt.c ---------------------------------------------------------------------------- */

/* In the fiber that reads: the prompt has its place from now on. */
void acp_prompt_take(struct acp *acp, struct bl_rpc_call *call);
void acp_inject(struct acp *acp, struct bl_rpc_call *call);
/* `session/cancel`: all prompts of it; those that are being stopped are hurried. */
void acp_cancel_session(struct acp_session *session);
/* `$/cancel_request` with the id of that call. */
void acp_cancel_call(struct acp *acp, struct bl_rpc_call *call);
/* The session ends: all prompts of it, and what outlives them. */
void acp_stop_session(struct acp_session *session, enum bl_stop_reason reason, const char *origin);
/* `_belay/cancel`: one call, sub-agent or cell. */
void acp_cancel_work(void *acp, struct bl_rpc_call *call);

/* ---- acp_content.c --------------------------------------------------------------------------- */

/* What a prompt says: text, and images beside it. In the arena. */
struct acp_content {
    struct bl_text text;
    struct bl_list images; /* struct bl_block */
};

/* False: `path` (a pointer into the parameters) is wrong, for that reason. */
bool acp_content_read(struct bl_arena *arena, const struct bl_json *prompt, bool takes_images,
                      struct acp_content *ret_content, char *ret_path, size_t path_size,
                      const char **ret_why);

/* ---- acp_update.c ---------------------------------------------------------------------------- */

enum acp_speaker {
    ACP_USER,
    ACP_AGENT,
    ACP_THOUGHT,
};

void acp_tell_text(struct acp_session *session, enum acp_speaker speaker, const char *message_id,
                   struct bl_text text);
/* An update that is written by hand: begin opens params and update, whose kind is given. */
struct acp_update {
    struct bl_buffer out;
    struct bl_json_writer writer;
};
void acp_update_begin(struct acp_update *update, const struct acp_session *session,
                      const char *kind);
void acp_update_send(struct acp_update *update, struct acp_session *session);
/* The members of a tool call that do not change: title, name, kind, rawInput, locations, and for
 * edits the diff as content. */
void acp_call_write(struct bl_json_writer *writer, const struct acp_session *session,
                    struct bl_text name, struct bl_text input);
void acp_write_text_content(struct bl_json_writer *writer, struct bl_text text);
const char *acp_tool_kind(struct bl_text name);
/* An id that the client has not seen in this session, for a call of ours. */
void acp_call_id(struct acp_session *session, const char *agent, struct bl_text call, char *out,
                 size_t size);
void acp_on_event(void *session, const struct bl_event *event);
/* Output that waits to be told. */
void acp_flush_output(struct acp_session *session);
/* Each call that has no last word gets one. */
void acp_end_calls(struct acp_session *session);
void acp_calls_free(struct acp_session *session);
/* The newest one that the client knows by that id; NULL: none is under way. */
struct acp_call *acp_call_find(struct acp_session *session, struct bl_text id);

/* ---- acp_permission.c ------------------------------------------------------------------------ */

int acp_ask(void *session, const struct bl_question *question, enum bl_reply *ret_reply);

#endif
