#include "parts.h"

#define FRAMES_MAX 64

/* A frame begins with the caller's frame and the address to return to, on x86-64 and arm64 alike.
 */
struct frame {
    const struct frame *caller;
    const void *return_address;
};

/* True if the frame is in the fiber's stack. A caller's frame is above the frame of the function
 * that it called; any other address ends the backtrace. */
static bool inside(const struct bl_fiber *fiber, const struct frame *frame)
{
    const char *address = (const char *)frame;
    return address >= fiber->stack && address <= fiber->stack + STACK_SIZE - sizeof *frame &&
           (uintptr_t)address % sizeof(void *) == 0;
}

int backtrace_write(const struct bl_fiber *fiber, const struct symbols *symbols,
                    struct bl_buffer *out)
{
    const struct frame *frame = fiber->frame;
    int code = 0;
    for (int i = 0; i < FRAMES_MAX && code == 0 && frame != NULL && inside(fiber, frame); i++) {
        size_t offset;
        /* One byte back: a call that does not return may be a function's last instruction. */
        const char *address = (const char *)frame->return_address - 1;
        const char *name = symbols_find(symbols, address, &offset);
        if (name != NULL)
            code = bl_buffer_printf(out, "    #%d %s+0x%zx\n", i, name, offset + 1);
        else
            code = bl_buffer_printf(out, "    #%d %p\n", i, frame->return_address);
        if (frame->caller <= frame)
            break;
        frame = frame->caller;
    }
    return code;
}
