// The library from C++: a fiber in a scope with a deadline, and a stop from another thread.
#include <cstdio>
#include <cstring>
#include <thread>

#include <belay/belay.h>

static int wait_long(void *)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, 60 * BL_NS_PER_S);
    std::thread other([&limit] { bl_scope_stop(&limit, BL_STOP_USER, "C++"); });
    int code = bl_sleep(3600 * BL_NS_PER_S);
    other.join();
    struct bl_stop stop;
    bl_scope_stop_read(&limit, &stop);
    std::printf("%s, by %s\n", bl_error_name(code), stop.origin);
    bool stopped = bl_scope_stopped(&limit);
    bl_limit_end(&limit);
    return stopped && bl_text_equal(BL_TEXT("C++"), bl_text_from(stop.origin)) ? 0 : 1;
}

int main()
{
    static_assert(BELAY_VERSION_NUMBER >= BELAY_VERSION_MAKE(0, 1, 0), "version macros");
    struct bl_loop *loop;
    if (std::strcmp(bl_version(), BELAY_VERSION) != 0 || bl_loop_new(nullptr, &loop, nullptr) != 0)
        return 1;
    int code = bl_loop_run(loop, "main", wait_long, nullptr);
    bl_loop_free(loop);
    return code;
}
