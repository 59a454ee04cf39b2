#include "files.h"
#include "peer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void ignore_output(const struct bl_tool_call *call, struct bl_text bytes)
{
    (void)call, (void)bytes;
}

void files_arm(struct files *files)
{
    if (files->receipt.scope != NULL) {
        bl_receipt_close(&files->receipt);
        bl_scope_done(&files->scope);
    }
    bl_scope_init(&files->scope, bl_scope_current());
    bl_receipt_open(&files->receipt, &files->scope, "run_test");
}

int files_stop(void *argument)
{
    struct files *files = argument;
    bl_scope_stop(&files->scope, BL_STOP_USER, "test");
    return 0;
}

void files_pin(struct files *files)
{
    struct bl_toolbox *toolbox = &files->toolbox;
    if (toolbox->roots != NULL)
        tool_roots_done(toolbox->roots);
    toolbox->roots =
        tool_roots_new(&files->arena, toolbox->workspace, toolbox->folders, toolbox->readable);
}

void files_init(struct files *files)
{
    const char *temporary = getenv("TMPDIR");
    memset(files, 0, sizeof *files);
    snprintf(files->folder, sizeof files->folder, "%.40s/belay-files-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    CHECK(mkdtemp(files->folder) != NULL);
    snprintf(files->workspace, sizeof files->workspace, "%s/work", files->folder);
    snprintf(files->outside, sizeof files->outside, "%s/outside", files->folder);
    CHECK_EQUAL(mkdir(files->workspace, 0777), 0);
    CHECK_EQUAL(mkdir(files->outside, 0777), 0);
    files->toolbox.workspace = files->workspace;
    files->toolbox.output_max = (size_t)64 * 1024;
    files->toolbox.permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    bl_arena_init(&files->arena);
    files_pin(files);
    files_arm(files);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

void files_done(struct files *files)
{
    bl_receipt_close(&files->receipt);
    bl_scope_done(&files->scope);
    tool_roots_done(files->toolbox.roots);
    bl_arena_done(&files->arena);
    bl_permissions_free(files->toolbox.permissions);
    nftw(files->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

bool files_fits(struct files *files, const struct tool_entry *tool, const char *input)
{
    const struct bl_json *source = NULL, *value = NULL;
    struct bl_json_schema *schema = NULL;
    struct bl_list problems;
    struct bl_text text = bl_record_input_schema(&files->arena, tool->input);
    CHECK_EQUAL(bl_json_read(&files->arena, text, NULL, &source, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(source, &schema, NULL), 0);
    CHECK_EQUAL(bl_json_read(&files->arena, bl_text_from(input), NULL, &value, NULL), 0);
    bool fits = bl_json_schema_check(schema, value, &files->arena, &problems) == 0;
    bl_json_schema_free(schema);
    return fits;
}

int files_call_input(struct files *files, const struct tool_entry *tool,
                     const struct bl_json *input)
{
    files->call = (struct bl_tool_call){.id = "call_1",
                                        .name = tool->name,
                                        .turn = "turn_1",
                                        .input = input,
                                        .scope = &files->scope,
                                        .arena = &files->arena,
                                        .output = ignore_output};
    files->error = (struct bl_error){0};
    files->result = (struct bl_tool_result){.is_error = true};
    if (tool_input_read(tool, &files->call, &files->result.text) == NULL)
        return 0;
    struct bl_scope *outer = bl_scope_enter(&files->scope);
    int code = tool->call(&files->toolbox, &files->call, &files->result, &files->error);
    bl_scope_enter(outer);
    CHECK(bl_utf8_valid(files->result.text));
    return code;
}

int files_call(struct files *files, const struct tool_entry *tool, const char *input, ...)
{
    const struct bl_json *value = NULL;
    char text[8192];
    va_list arguments;
    va_start(arguments, input);
    vsnprintf(text, sizeof text, input, arguments);
    va_end(arguments);
    if (!CHECK(files_fits(files, tool, text)))
        fprintf(stderr, "%s: %s\n", tool->name, text);
    CHECK_EQUAL(bl_json_read(&files->arena, bl_text_from(text), NULL, &value, NULL), 0);
    return files_call_input(files, tool, value);
}

static const struct bl_json *make_input(struct files *files, va_list arguments)
{
    const struct bl_json *value = NULL;
    struct bl_json_writer writer;
    struct bl_buffer text;
    const char *name;
    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    while ((name = va_arg(arguments, const char *)) != NULL)
        bl_json_put_string(&writer, name, va_arg(arguments, const char *));
    bl_json_write_end(&writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    CHECK_EQUAL(bl_json_read(&files->arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
    bl_buffer_done(&text);
    return value;
}

const struct bl_json *files_input(struct files *files, ...)
{
    va_list arguments;
    va_start(arguments, files);
    const struct bl_json *value = make_input(files, arguments);
    va_end(arguments);
    return value;
}

int files_call_with(struct files *files, const struct tool_entry *tool, ...)
{
    va_list arguments;
    va_start(arguments, tool);
    const struct bl_json *value = make_input(files, arguments);
    va_end(arguments);
    return files_call_input(files, tool, value);
}

const char *files_text(const struct files *files)
{
    return files->result.text.size > 0 ? files->result.text.data : "";
}

bool files_outcome_unknown(const struct files *files)
{
    return files->result.is_error && strstr(files_text(files), "the outcome is unknown") != NULL;
}

bool files_says(struct files *files, bool is_error, const char *text)
{
    bool says = files->result.is_error == is_error && strstr(files_text(files), text) != NULL;
    if (!says)
        fprintf(stderr, "%s, and not '%s': %s\n", files->result.is_error ? "an error" : "no error",
                text, files_text(files));
    return says;
}

/* ---- Files ----------------------------------------------------------------------------------- */

const char *files_path(struct files *files, const char *path)
{
    return bl_arena_printf(&files->arena, "%s/%s", files->workspace, path).data;
}

void files_folder(struct files *files, const char *path)
{
    char *whole = bl_alloc(8192);
    snprintf(whole, 8192, "%s/%s/", files->workspace, path);
    for (char *slash = whole + strlen(files->workspace) + 1; (slash = strchr(slash, '/'));
         slash++) {
        *slash = '\0';
        CHECK(mkdir(whole, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    bl_free(whole);
}

void files_put(struct files *files, const char *path, struct bl_text content)
{
    const char *slash = strrchr(path, '/');
    if (slash != NULL)
        files_folder(
            files,
            bl_arena_text(&files->arena, (struct bl_text){path, (size_t)(slash - path)}).data);
    int fd = open(files_path(files, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    while (content.size > 0) {
        ssize_t count = write(fd, content.data, content.size);
        if (!CHECK(count > 0))
            break;
        content = (struct bl_text){content.data + count, content.size - (size_t)count};
    }
    close(fd);
}

bool files_holds(struct files *files, const char *path, struct bl_text content)
{
    struct bl_buffer found;
    const char *why = "";
    int code = bl_file_load(files_path(files, path), (size_t)1 << 30, &found, &why);
    bool same = code == 0 && bl_text_equal(bl_buffer_text(&found), content);
    if (!same)
        fprintf(stderr, "%s: %s %.*s\n", path, why, (int)(found.size < 200 ? found.size : 200),
                found.size > 0 ? found.data : "");
    bl_buffer_done(&found);
    return same;
}

void files_link(struct files *files, const char *target, const char *path)
{
    CHECK_EQUAL(symlink(target, files_path(files, path)), 0);
}

size_t files_count(struct files *files, const char *folder, const char *prefix)
{
    size_t count = 0;
    const struct dirent *entry;
    DIR *stream = opendir(files_path(files, folder));
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (stream != NULL)
        closedir(stream);
    return count;
}

/* Waits until `count` descriptors are open: threads of a stopped call may still hold some. */
static bool descriptors_settle(unsigned count)
{
    for (unsigned i = 0; i < 500 && peer_descriptors() != count; i++)
        bl_sleep(10 * BL_NS_PER_MS);
    return peer_descriptors() == count;
}

int files_without_openat2(int code, int (*main)(void *argument), void *argument)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)AT_FDCWD, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {BL_COUNT(lines), lines};
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
            _exit(100);
        _exit(main(argument));
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

int files_run(void *body)
{
    static struct files files;
    unsigned descriptors = peer_descriptors();
    files_init(&files);
    (*(files_body *const *)body)(&files);
    files_done(&files);
    CHECK(descriptors_settle(descriptors));
    return 0;
}
