"""A model server for any agent: the same answers in the formats of Anthropic, OpenAI Chat Completions and OpenAI Responses.

The first request that offers a shell tool gets a call of it with `command`, if there is one; every other request gets a
short text. `first_ns` is the time at which the first request that offers a shell tool has been read."""
import http.server
import json
import threading
import time

SHELLS = ("bash", "shell", "shell_command", "exec_command", "local_shell", "run_shell_command")


def shell_of(tools):
    """The name of the shell tool among those offered, and a function that makes its arguments; (None, None) if there is none."""
    for tool in tools or []:
        tool = tool.get("function", tool)
        schema = tool.get("parameters") or tool.get("input_schema") or {}
        properties = schema.get("properties", {})
        if str(tool.get("name", "")).lower() not in SHELLS:
            continue
        for member in ("command", "cmd"):
            if member in properties:
                is_list = properties[member].get("type") == "array"
                others = {name: "run" for name in schema.get("required", []) if name != member}
                return tool["name"], lambda line: {member: ["sh", "-c", line] if is_list else line, **others}
    return None, None


def anthropic(model, text, call):
    block = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": {}} if call else {"type": "text", "text": ""}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])} if call else {"type": "text_delta", "text": text}
    usage = {"input_tokens": 10, "output_tokens": 2}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": usage}
    for event in ({"type": "message_start", "message": message},
                  {"type": "content_block_start", "index": 0, "content_block": block},
                  {"type": "content_block_delta", "index": 0, "delta": delta},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None},
                   "usage": usage},
                  {"type": "message_stop"}):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def chat(model, text, call):
    delta = {"role": "assistant", "content": text}
    if call:
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {
            "name": call[0], "arguments": json.dumps(call[1])}}]}
    for delta, reason in ((delta, None), ({}, "tool_calls" if call else "stop")):
        chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": model,
                 "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        yield f"data: {json.dumps(chunk)}\n\n"
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    yield f"data: {json.dumps({'id': 'chat_1', 'object': 'chat.completion.chunk', 'created': 1, 'model': model, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def responses(model, text, call):
    item = {"type": "message", "id": "item_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}
    if call:
        item = {"type": "function_call", "id": "item_1", "call_id": "call_1", "name": call[0],
                "arguments": json.dumps(call[1]), "status": "completed"}
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "in_progress", "output": []}
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 2,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12}
    for event in ({"type": "response.created", "response": response},
                  {"type": "response.output_item.added", "output_index": 0, "item": item},
                  {"type": "response.output_item.done", "output_index": 0, "item": item},
                  {"type": "response.completed", "response": {**response, "status": "completed", "output": [item], "usage": usage}}):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


FORMATS = (("/messages", anthropic), ("/chat/completions", chat), ("/responses", responses))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        answer = next((make for end, make in FORMATS if path.endswith(end)), None)
        if answer is None:
            return self.send_json({"input_tokens": 10})
        request = json.loads(body)
        call = self.server.take(request)
        pieces = answer(request.get("model", "probe"), "Done.", call)
        if request.get("stream"):
            return self.send_body("text/event-stream", "".join(pieces))
        return self.send_json({"id": "msg_1", "type": "message", "role": "assistant", "model": "probe", "stop_reason": "end_turn",
                               "content": [{"type": "text", "text": "Done."}], "usage": {"input_tokens": 10, "output_tokens": 2},
                               "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}]})

    def do_GET(self):
        self.send_json({"object": "list", "data": [], "models": []})

    do_HEAD = do_GET

    def send_json(self, value):
        self.send_body("application/json", json.dumps(value))

    def send_body(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves until close(). `command`: what the shell tool is called with, once; None: it is never called."""
    daemon_threads = True

    def __init__(self, command=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.command, self.first_ns, self.lock = command, None, threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, request):
        name, arguments = shell_of(request.get("tools"))
        with self.lock:
            if name is None:
                return None
            if self.first_ns is None:
                self.first_ns = time.monotonic_ns()
            command, self.command = self.command, None
        return (name, arguments(command)) if command else None

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass  # an agent that was killed in the middle of a request
