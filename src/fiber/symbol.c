/* Names for addresses, from the program's own symbol table: dladdr knows only exported symbols, and
 * would give every static function the name of a neighbour. Read on request and freed at once. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"

struct symbols {
    const char *image; /* the mapped executable; NULL if it cannot be read */
    size_t image_size;
    const ElfW(Sym) * entries;
    size_t count;
    const char *names;
    size_t names_size;
    uintptr_t base; /* the program's load address */
};

static int first_module(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(uintptr_t *)data = info->dlpi_addr;
    return 1; /* the program itself comes first */
}

static bool in_image(const struct symbols *symbols, uint64_t offset, uint64_t size)
{
    return offset <= symbols->image_size && size <= symbols->image_size - offset;
}

/* Finds the symbol table and its strings. Leaves count 0 if there are none (stripped program). */
static void find_table(struct symbols *symbols)
{
    const ElfW(Ehdr) *header = (const void *)symbols->image;
    if (!in_image(symbols, 0, sizeof *header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shentsize != sizeof(ElfW(Shdr)) ||
        !in_image(symbols, header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr))))
        return;
    const ElfW(Shdr) *sections = (const void *)(symbols->image + header->e_shoff);
    for (size_t i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) *table = &sections[i];
        if (table->sh_type != SHT_SYMTAB || table->sh_link >= header->e_shnum)
            continue;
        const ElfW(Shdr) *names = &sections[table->sh_link];
        if (!in_image(symbols, table->sh_offset, table->sh_size) ||
            !in_image(symbols, names->sh_offset, names->sh_size))
            return;
        symbols->entries = (const void *)(symbols->image + table->sh_offset);
        symbols->count = table->sh_size / sizeof *symbols->entries;
        symbols->names = symbols->image + names->sh_offset;
        symbols->names_size = names->sh_size;
        return;
    }
}

struct symbols *symbols_new(void)
{
    struct symbols *symbols = bl_zalloc(sizeof *symbols);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
        void *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            symbols->image = image;
            symbols->image_size = (size_t)status.st_size;
            dl_iterate_phdr(first_module, &symbols->base);
            find_table(symbols);
        }
    }
    if (fd >= 0)
        close(fd);
    return symbols;
}

void symbols_free(struct symbols *symbols)
{
    union {
        const char *in;
        void *out;
    } image = {.in = symbols->image};
    if (symbols->image != NULL)
        munmap(image.out, symbols->image_size);
    bl_free(symbols);
}

const char *symbols_find(const struct symbols *symbols, const void *address, size_t *ret_offset)
{
    uintptr_t wanted = (uintptr_t)address - symbols->base;
    for (size_t i = 0; i < symbols->count; i++) {
        const ElfW(Sym) *symbol = &symbols->entries[i];
        if ((symbol->st_info & 0xf) != STT_FUNC || symbol->st_name >= symbols->names_size)
            continue;
        if (wanted < symbol->st_value || wanted - symbol->st_value >= symbol->st_size)
            continue;
        *ret_offset = wanted - symbol->st_value;
        return symbols->names + symbol->st_name;
    }
    return NULL;
}
