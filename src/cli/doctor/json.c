#include <belay/version.h>

#include "cli/answers.h"
#include "doctor.h"

static const struct bl_names standards = {cli_container_names + 1, 2}; /* without pidns */
static const char *const means_names[] = {"bubblewrap", "landlock", "seccomp"};
static const struct bl_names means = BL_NAMES(means_names);
static const char *const worker_names[] = {"worker"};
static const struct bl_names workers = BL_NAMES(worker_names);
static const char *const database_names[] = {"database"};
static const struct bl_names databases = BL_NAMES(database_names);
static const char *const guard_names[] = {"guard regions", "protected pages"};
static const struct bl_names guards = BL_NAMES(guard_names);

/* ---- Checks ---------------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct probe_check
#define CHECK_AVAILABLE                                                                            \
    BL_MEMBER_BOOLEAN("available", state, .nullable = true, .none = PROBE_UNTRIED,                 \
                      .about = "null: it could not be tried.")
#define CHECK_VERSION BL_MEMBER_WORD("version", version, .nullable = true)
#define CHECK_TEXTS                                                                                \
    BL_MEMBER_WORD("detail", detail, .least = 1, .about = "How, or why not."),                     \
        BL_MEMBER_WORD("hint", hint, .nullable = true, .about = "How to get it.")

static const struct bl_member container_members[] = {
    BL_MEMBER_STRING("name", name, .names = &cli_containers),
    CHECK_AVAILABLE,
    CHECK_TEXTS,
    BL_MEMBER_END,
};
static const struct bl_record container_record =
    BL_RECORD("container", struct probe_check, container_members, .closed = true);
static const struct bl_member means_members[] = {
    BL_MEMBER_STRING("name", name, .names = &means),
    CHECK_AVAILABLE,
    CHECK_VERSION,
    CHECK_TEXTS,
    BL_MEMBER_END,
};
static const struct bl_record means_record =
    BL_RECORD("means", struct probe_check, means_members, .closed = true);
static const struct bl_member worker_members[] = {
    BL_MEMBER_STRING("name", name, .names = &workers),
    CHECK_AVAILABLE,
    CHECK_TEXTS,
    BL_MEMBER_END,
};
static const struct bl_record worker_record =
    BL_RECORD("worker", struct probe_check, worker_members, .closed = true);
static const struct bl_member database_check_members[] = {
    BL_MEMBER_STRING("name", name, .names = &databases),
    CHECK_AVAILABLE,
    CHECK_TEXTS,
    BL_MEMBER_END,
};
static const struct bl_record database_check_record =
    BL_RECORD_GROUP("database_check", database_check_members);
#undef BL_RECORD_STRUCT

#define BL_RECORD_STRUCT struct probe_database
static const struct bl_member database_members[] = {
    BL_MEMBER_EMBED(check, &database_check_record),
    BL_MEMBER_WORD("server_version", server, .nullable = true),
    BL_MEMBER_INTEGER("schema", schema, .nullable = true, .none = 0,
                      .about = "Version of the schema."),
    BL_MEMBER_NUMBER("round_trip_ms", round_trip_ms, .nullable = true,
                     .about = "Time of a statement that does nothing."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record database_record =
    BL_RECORD("database", struct probe_database, database_members, .closed = true);

/* ---- Facts ----------------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct probe_system
static const struct bl_member system_members[] = {
    BL_MEMBER_WORD("kernel", kernel),
    BL_MEMBER_WORD("machine", machine),
    BL_MEMBER_INTEGER("processors", processors, .least = 1,
                      .about = "Processors that this process may run on."),
    BL_MEMBER_INTEGER("memory_bytes", memory_bytes),
    BL_MEMBER_INTEGER("page_bytes", page_bytes, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record system_record =
    BL_RECORD("system", struct probe_system, system_members, .closed = true);

#define BL_RECORD_STRUCT struct probe_fibers
static const struct bl_member fibers_members[] = {
    BL_MEMBER_STRING("guard", guard, .names = &guards),
    BL_MEMBER_INTEGER("fibers_max", fibers_max, .nullable = true, .least = 1,
                      .about = "null: no limit of our own."),
    BL_MEMBER_INTEGER("stack_bytes", stack_bytes, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record fibers_record =
    BL_RECORD("fibers", struct probe_fibers, fibers_members, .closed = true);

#define BL_RECORD_STRUCT struct probe_library
static const struct bl_member library_members[] = {
    BL_MEMBER_STRING("name", name),
    BL_MEMBER_WORD("compiled", compiled),
    BL_MEMBER_WORD("running", running),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record library_record =
    BL_RECORD("library", struct probe_library, library_members, .closed = true);

#define BL_RECORD_STRUCT struct probe_limit
static const struct bl_member limit_members[] = {
    BL_MEMBER_INTEGER("soft", soft, .nullable = true, .none = -1),
    BL_MEMBER_INTEGER("hard", hard, .nullable = true, .none = -1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record limit_record = BL_RECORD("limit", struct probe_limit, limit_members,
                                                       .closed = true, .about = "null: unlimited.");

#define BL_RECORD_STRUCT struct probe_limits
static const struct bl_member limits_members[] = {
    BL_MEMBER_OBJECT("open_files", open_files, &limit_record, .about = "RLIMIT_NOFILE"),
    BL_MEMBER_OBJECT("processes", processes, &limit_record, .about = "RLIMIT_NPROC"),
    BL_MEMBER_INTEGER("memory_maps", memory_maps, .nullable = true, .none = -1,
                      .about = "vm.max_map_count; null: not known."),
    BL_MEMBER_INTEGER("memory_overcommit", memory_overcommit, .nullable = true, .none = -1,
                      .about = "vm.overcommit_memory; null: not known."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record limits_record =
    BL_RECORD("limits", struct probe_limits, limits_members, .closed = true);

/* ---- The answer ------------------------------------------------------------------------------ */

static const struct bl_member container_element = BL_ELEMENT(struct probe_check, &container_record);
static const struct bl_member means_element = BL_ELEMENT(struct probe_check, &means_record);
static const struct bl_member library_element = BL_ELEMENT(struct probe_library, &library_record);

#define BL_RECORD_STRUCT struct doctor_view
static const struct bl_member containment_members[] = {
    BL_MEMBER_STRING("default", standard, .nullable = true, .names = &standards,
                     .about = "Container of --container auto; null: none is available."),
    BL_MEMBER_ARRAY("containers", containers, check_count, &container_element, .least = 3,
                    .most = 3),
    BL_MEMBER_END,
};
static const struct bl_record containment_record =
    BL_RECORD_GROUP("containment", containment_members, .closed = true);

static const struct bl_member doctor_members[] = {
    BL_MEMBER_STRING("version", version, .least = 1, .about = "Version of belay."),
    BL_MEMBER_POINTER("system", system, &system_record),
    BL_MEMBER_GROUP("containment", &containment_record),
    BL_MEMBER_ARRAY("sandbox", sandbox, check_count, &means_element, .least = 3, .most = 3),
    BL_MEMBER_POINTER("cells", cells, &worker_record,
                      .about = "The JavaScript engine, tried by running a script."),
    BL_MEMBER_POINTER("database", database, &database_record, .nullable = true,
                      .about = "The store; null: it is a file."),
    BL_MEMBER_POINTER("fibers", fibers, &fibers_record),
    BL_MEMBER_ARRAY("libraries", libraries, library_count, &library_element, .least = 1),
    BL_MEMBER_POINTER("limits", limits, &limits_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer doctor_answer = {BL_RECORD("doctor", struct doctor_view, doctor_members),
                                         .of = "doctor"};

struct doctor_view doctor_view(const struct doctor_report *report)
{
    return (struct doctor_view){
        .version = BELAY_VERSION,
        .standard = doctor_default_container(report),
        .system = &report->system,
        .containers = report->containers,
        .sandbox = report->sandbox,
        .check_count = BL_COUNT(report->containers),
        .cells = &report->cells,
        .database = report->database.check.name != NULL ? &report->database : NULL,
        .fibers = &report->fibers,
        .libraries = report->libraries,
        .library_count = BL_COUNT(report->libraries),
        .limits = &report->limits,
    };
}
