#include "suite.h"

struct item {
    int value;
    struct bl_list link;
};

static void assert_values(const struct bl_list *head, const int *values, size_t count)
{
    size_t i = 0;
    const struct bl_list *previous = head;
    BL_LIST_EACH (link, (struct bl_list *)head) {
        assert_true(i < count);
        assert_int_equal(BL_CONTAINER(link, struct item, link)->value, values[i]);
        assert_ptr_equal(link->previous, previous);
        previous = link;
        i++;
    }
    assert_int_equal(i, count);
    assert_ptr_equal(head->previous, previous);
}

static void links_are_inserted_in_place(void **state BL_UNUSED)
{
    struct bl_list head;
    struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    bl_list_init(&head);
    assert_true(bl_list_empty(&head));
    bl_list_push_back(&head, &items[1].link);
    bl_list_push_back(&head, &items[2].link);
    bl_list_push_front(&head, &items[0].link);
    bl_list_insert_before(&items[2].link, &items[3].link);
    assert_false(bl_list_empty(&head));
    assert_values(&head, (int[]){0, 1, 3, 2}, 4);
}

static void removing_twice_is_harmless(void **state BL_UNUSED)
{
    struct bl_list head;
    struct item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    bl_list_init(&head);
    for (size_t i = 0; i < 3; i++)
        bl_list_push_back(&head, &items[i].link);
    bl_list_remove(&items[1].link);
    bl_list_remove(&items[1].link);
    assert_values(&head, (int[]){0, 2}, 2);
    assert_true(bl_list_empty(&items[1].link));
}

static void pop_takes_the_first_until_none_is_left(void **state BL_UNUSED)
{
    struct bl_list head;
    struct item items[2] = {{.value = 0}, {.value = 1}};
    bl_list_init(&head);
    bl_list_push_back(&head, &items[0].link);
    bl_list_push_back(&head, &items[1].link);
    assert_ptr_equal(bl_list_pop_front(&head), &items[0].link);
    assert_ptr_equal(bl_list_pop_front(&head), &items[1].link);
    assert_null(bl_list_pop_front(&head));
}

static void the_current_link_may_be_removed_in_a_loop(void **state BL_UNUSED)
{
    struct bl_list head, other;
    struct item items[6];
    bl_list_init(&head);
    bl_list_init(&other);
    for (int i = 0; i < 6; i++) {
        items[i].value = i;
        bl_list_push_back(&head, &items[i].link);
    }
    BL_LIST_EACH_SAFE (link, &head) {
        if (BL_CONTAINER(link, struct item, link)->value % 2 == 1) {
            bl_list_remove(link);
            bl_list_push_back(&other, link);
        }
    }
    assert_values(&head, (int[]){0, 2, 4}, 3);
    assert_values(&other, (int[]){1, 3, 5}, 3);
    BL_LIST_EACH_SAFE (link, &head)
        bl_list_remove(link);
    assert_true(bl_list_empty(&head));
}

SUITE(list, cmocka_unit_test(links_are_inserted_in_place),
      cmocka_unit_test(removing_twice_is_harmless),
      cmocka_unit_test(pop_takes_the_first_until_none_is_left),
      cmocka_unit_test(the_current_link_may_be_removed_in_a_loop));
