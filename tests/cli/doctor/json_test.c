#include <belay/version.h>

#include "suite.h"

#include "cli/answers.h"
#include "reports.h"

static void every_member_is_there_and_unknown_is_null(void **state)
{
    struct doctor_report report = report_sample();
    struct doctor_view view = doctor_view(&report);
    struct bl_arena arena = {0};

    (void)state;
    assert_string_equal(
        bl_record_text(&arena, &doctor_answer.record, &view).data,
        "{\"version\":\"" BELAY_VERSION "\","
        "\"system\":{\"kernel\":\"6.1.0\",\"machine\":\"riscv64\",\"processors\":4,"
        "\"memory_bytes\":8589934592,\"page_bytes\":4096},"
        "\"containment\":{\"default\":\"subreaper\",\"containers\":["
        "{\"name\":\"pidns\",\"available\":null,"
        "\"detail\":\"cannot start a child: Out of memory\",\"hint\":null},"
        "{\"name\":\"cgroup2\",\"available\":false,\"detail\":\"/sys/fs/cgroup/user.slice is not "
        "delegated to this user, and this sentence goes on for longer than a line\","
        "\"hint\":\"ask for it\"},"
        "{\"name\":\"subreaper\",\"available\":true,\"detail\":\"orphans come to the warden\","
        "\"hint\":null}]},"
        "\"sandbox\":[{\"name\":\"bubblewrap\",\"available\":true,\"version\":\"0.8.0\","
        "\"detail\":\"/usr/bin/bwrap\",\"hint\":null},"
        "{\"name\":\"landlock\",\"available\":true,\"version\":\"7\",\"detail\":\"ABI 7\","
        "\"hint\":null},"
        "{\"name\":\"seccomp\",\"available\":true,\"version\":null,\"detail\":\"filters\","
        "\"hint\":null}],"
        "\"cells\":{\"name\":\"worker\",\"available\":false,\"detail\":\"no such program\","
        "\"hint\":\"install it\"},"
        "\"database\":{\"name\":\"database\",\"available\":true,"
        "\"detail\":\"postgres://db/belay: PostgreSQL 15.4\",\"hint\":null,"
        "\"server_version\":\"15.4\",\"schema\":1,\"round_trip_ms\":0.5},"
        "\"fibers\":{\"guard\":\"protected pages\",\"fibers_max\":30000,\"stack_bytes\":65536},"
        "\"libraries\":[{\"name\":\"libuv\",\"compiled\":\"1.44.2\",\"running\":\"1.48.0\"},"
        "{\"name\":\"libc\",\"compiled\":\"2.36\",\"running\":\"2.36\"}],"
        "\"limits\":{\"open_files\":{\"soft\":1024,\"hard\":null},"
        "\"processes\":{\"soft\":5,\"hard\":6},\"memory_maps\":65530,"
        "\"memory_overcommit\":null}}");
    bl_arena_done(&arena);
}

static void database_is_null_for_a_file(void **state)
{
    struct doctor_report report = report_sample();
    struct bl_arena arena = {0};

    (void)state;
    report.database = (struct probe_database){0};
    struct doctor_view view = doctor_view(&report);
    const char *text = bl_record_text(&arena, &doctor_answer.record, &view).data;
    assert_non_null(strstr(text, "\"database\":null"));
    bl_arena_done(&arena);
}

SUITE(doctor_json, cmocka_unit_test(every_member_is_there_and_unknown_is_null),
      cmocka_unit_test(database_is_null_for_a_file));
