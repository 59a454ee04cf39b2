#include "doctor.h"

#include <belay/version.h>
/* null when it is not known. */
static void write_known(struct bl_json_writer *writer, const char *key, int64_t value)
{
    bl_json_write_key(writer, bl_text_from(key));
    if (value < 0)
        bl_json_write_null(writer);
    else
        bl_json_write_int64(writer, value);
}

static void write_check(struct bl_json_writer *writer, const struct probe_check *check,
                        bool versioned)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "name", check->name);
    bl_json_write_key(writer, BL_TEXT("available"));
    if (check->state == PROBE_UNTRIED)
        bl_json_write_null(writer);
    else
        bl_json_write_boolean(writer, check->state == PROBE_OK);
    if (versioned)
        bl_json_put_string(writer, "version", check->version[0] != '\0' ? check->version : NULL);
    bl_json_put_string(writer, "detail", check->detail);
    bl_json_put_string(writer, "hint", check->hint[0] != '\0' ? check->hint : NULL);
    bl_json_write_end(writer);
}

static void doctor_json_write_system(struct bl_json_writer *writer,
                                     const struct probe_system *system)
{
    bl_json_write_key(writer, BL_TEXT("system"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "kernel", system->kernel);
    bl_json_put_string(writer, "machine", system->machine);
    bl_json_put_uint64(writer, "processors", system->processors);
    bl_json_put_uint64(writer, "memory_bytes", system->memory_bytes);
    bl_json_put_uint64(writer, "page_bytes", system->page_bytes);
    bl_json_write_end(writer);
}

static void write_containment(struct bl_json_writer *writer, const struct doctor_report *report)
{
    bl_json_write_key(writer, BL_TEXT("containment"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "default", doctor_default_container(report));
    bl_json_write_key(writer, BL_TEXT("containers"));
    bl_json_write_array(writer);
    write_check(writer, &report->pidns, false);
    write_check(writer, &report->cgroup2, false);
    write_check(writer, &report->subreaper, false);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void write_sandbox(struct bl_json_writer *writer, const struct doctor_report *report)
{
    bl_json_write_key(writer, BL_TEXT("sandbox"));
    bl_json_write_array(writer);
    write_check(writer, &report->bubblewrap, true);
    write_check(writer, &report->landlock, true);
    write_check(writer, &report->seccomp, true);
    bl_json_write_end(writer);
}

static void write_fibers(struct bl_json_writer *writer, const struct probe_fibers *fibers)
{
    bl_json_write_key(writer, BL_TEXT("fibers"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "guard", fibers->guard);
    write_known(writer, "fibers_max", fibers->fibers_max > 0 ? (int64_t)fibers->fibers_max : -1);
    bl_json_put_uint64(writer, "stack_bytes", fibers->stack_bytes);
    bl_json_write_end(writer);
}

static void write_libraries(struct bl_json_writer *writer, const struct probe_library *libraries)
{
    bl_json_write_key(writer, BL_TEXT("libraries"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < PROBE_LIBRARIES; i++) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "name", libraries[i].name);
        bl_json_put_string(writer, "compiled", libraries[i].compiled);
        bl_json_put_string(writer, "running", libraries[i].running);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* Soft and hard; null: unlimited. */
static void doctor_json_write_limit(struct bl_json_writer *writer, const char *key, uint64_t soft,
                                    uint64_t hard)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_object(writer);
    write_known(writer, "soft", soft == PROBE_UNLIMITED ? -1 : (int64_t)soft);
    write_known(writer, "hard", hard == PROBE_UNLIMITED ? -1 : (int64_t)hard);
    bl_json_write_end(writer);
}

void doctor_write_json(struct bl_json_writer *writer, const void *context)
{
    const struct doctor_report *report = context;
    const struct probe_limits *limits = &report->limits;

    bl_json_put_string(writer, "version", BELAY_VERSION);
    doctor_json_write_system(writer, &report->system);
    write_containment(writer, report);
    write_sandbox(writer, report);
    bl_json_write_key(writer, BL_TEXT("cells"));
    write_check(writer, &report->cells, false);
    write_fibers(writer, &report->fibers);
    write_libraries(writer, report->libraries);
    bl_json_write_key(writer, BL_TEXT("limits"));
    bl_json_write_object(writer);
    doctor_json_write_limit(writer, "open_files", limits->open_files_soft, limits->open_files_hard);
    doctor_json_write_limit(writer, "processes", limits->processes_soft, limits->processes_hard);
    write_known(writer, "memory_maps", limits->memory_maps);
    write_known(writer, "memory_overcommit", limits->memory_overcommit);
    bl_json_write_end(writer);
}
