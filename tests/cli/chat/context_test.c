#include "guest.h"

/* Returns that many numbered lines. */
static const char *numbered(size_t count)
{
    BL_AUTO_BUFFER(text, SIZE_MAX);

    for (size_t i = 1; i <= count; i++)
        bl_buffer_printf(&text, "line %zu%s", i, i < count ? "\n" : "");
    return stage_keep(bl_buffer_text(&text));
}

static void long_paste_is_a_label_in_the_line_and_sent_in_full(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "name: played\n"
                       "replies: [{when: 'line 499\\nline 500\\) and', say: All there.}, "
                       "{when: 'first\\nsecond', say: Short.}]\n");
    guest_type(&guest, "sum up (");
    guest_paste(&guest, numbered(500));
    guest_type(&guest, ") and ");
    guest_paste(&guest, numbered(500));
    guest_await_shown(&guest, "sum up ([pasted 500 lines]) and [pasted 500 lines, 2]");
    guest_say(&guest, "\r", "All there.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "sum up ([pasted 500 lines])");
    assert_int_equal(guest_times(&guest, "line 250"), 0);
    guest_paste(&guest, "first\nsecond");
    guest_await_shown(&guest, "second");
    guest_say(&guest, "\r", "Short.");
    guest_await_idle(&guest);
    assert_non_null(strstr(stage_text_at(guest_show(guest_session()), "/turns/0/prompt"),
                           "line 250\nline 251"));
    guest_leave(&guest);
}

static void a_file_is_completed_attached_and_counted_in_the_context(void **state)
{
    struct guest guest;

    (void)state;
    stage_file("notes.txt", "remember the milk\n");
    stage_file("AGENTS.md", "Be brief.\n");
    guest_chat(&guest, "name: played\nreplies: [{when: 'remember the milk', say: Milk.}]\n");
    guest_type(&guest, "what is in @no\t");
    guest_await_shown(&guest, "what is in @notes.txt");
    guest_say(&guest, "\r", "Milk.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "Attached notes.txt (file)");
    guest_say(&guest, "/context\r", "the model's limit is unknown");
    guest_check_shown(&guest, "\nattachments   about ");
    guest_check_shown(&guest, "\ninstructions  about 3 tokens\n");
    guest_leave(&guest);
}

SUITE(chat_context, STAGED(long_paste_is_a_label_in_the_line_and_sent_in_full),
      STAGED(a_file_is_completed_attached_and_counted_in_the_context));
