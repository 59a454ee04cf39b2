#include <sys/stat.h>

#include "guest.h"

#define KEY "sk-ant-test-0123456789abcdef"

static void a_key_that_is_typed_is_not_shown(void **state BL_UNUSED)
{
    struct guest guest;
    const char *const words[] = {runner_program(), "login", "--no-keyring", NULL};

    guest_start(&guest, 80, 24, words, NULL);
    guest_await_shown(&guest, "Key of anthropic");
    guest_type(&guest, KEY "x\x7F\r");
    assert_int_equal(guest_wait(&guest), 0);
    assert_int_equal(guest_times(&guest, "sk-ant"), 0);
    assert_true(guest_terminal_as_before(&guest));
    assert_true(stage_exists(stage_path("config/belay/keys/anthropic")));
    guest_end(&guest);
}

static void ctrl_c_keeps_no_key_and_gives_the_terminal_back(void **state BL_UNUSED)
{
    struct guest guest;
    const char *const words[] = {runner_program(), "login", "--no-keyring", NULL};

    guest_start(&guest, 40, 10, words, NULL);
    guest_await_shown(&guest, "Key of anthropic");
    guest_type(&guest, "sk-ant-half\x03");
    assert_int_equal(guest_wait(&guest), 130);
    assert_true(guest_terminal_as_before(&guest));
    assert_false(stage_exists(stage_path("config/belay/keys/anthropic")));
    guest_end(&guest);
}

SUITE(chat_login, STAGED(a_key_that_is_typed_is_not_shown),
      STAGED(ctrl_c_keeps_no_key_and_gives_the_terminal_back));
