#include "term.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum number of entries of a folder that are read. */
#define ENTRIES_MAX 100000

static void add_candidate(struct bl_arena *arena, struct bl_list *candidates, struct bl_text text,
                          struct bl_text note)
{
    struct edit_candidate *candidate = bl_arena_alloc(arena, sizeof *candidate);

    candidate->text = text;
    candidate->note = note;
    bl_list_push_back(candidates, &candidate->link);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void complete_command(struct bl_arena *arena, const struct edit_command *commands,
                             struct bl_text word, struct bl_list *candidates)
{
    for (; commands->name != NULL; commands++) {
        struct bl_text name = bl_text_from(commands->name);
        if (bl_text_starts_with(name, word))
            add_candidate(arena, candidates, name, bl_text_from(commands->summary));
    }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* A path to complete: names that begin with `name` in the folder named by the word. */
struct path_word {
    const char *mark;      /* precedes the path in the word: "@", or nothing */
    struct bl_text folder; /* of the word, with its '/'; may be empty */
    struct bl_text name;
    int directory; /* open */
};

/* Names that cannot be displayed on a line are omitted. */
static bool edit_complete_is_shown(const struct path_word *word, struct bl_text name)
{
    if (!bl_text_starts_with(name, word->name) || bl_text_equal(name, BL_TEXT(".")))
        return false;
    if (bl_text_equal(name, BL_TEXT("..")) && word->name.size < 2)
        return false;
    if (name.data[0] == '.' && word->name.size == 0)
        return false;
    if (!bl_utf8_valid(name))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        if ((unsigned char)name.data[i] < 0x20 || name.data[i] == 0x7F)
            return false;
    }
    return true;
}

static bool edit_complete_is_folder(const struct path_word *word, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    return fstatat(word->directory, entry->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

static int compare_texts(const void *a, const void *b)
{
    const struct bl_text *first = a;
    const struct bl_text *second = b;
    return bl_text_compare(*first, *second);
}

/* Takes ownership of the open directory. */
static void edit_complete_read_folder(struct bl_arena *arena, const struct path_word *word,
                                      struct bl_list *candidates)
{
    struct bl_buffer found;
    DIR *folder = fdopendir(word->directory);
    const struct dirent *entry;

    if (folder == NULL) {
        close(word->directory);
        return;
    }
    bl_buffer_init(&found, ENTRIES_MAX * sizeof(struct bl_text));
    for (size_t i = 0; i < ENTRIES_MAX && (entry = readdir(folder)) != NULL; i++) {
        if (!edit_complete_is_shown(word, bl_text_from(entry->d_name)))
            continue;
        struct bl_text text = bl_arena_printf(arena, "%s" BL_TEXT_FORMAT "%s%s", word->mark,
                                              BL_TEXT_ARG(word->folder), entry->d_name,
                                              edit_complete_is_folder(word, entry) ? "/" : "");
        bl_buffer_append(&found, (struct bl_text){(const char *)&text, sizeof text});
    }
    closedir(folder);
    size_t count = found.size / sizeof(struct bl_text);
    struct bl_text *texts = (struct bl_text *)(void *)found.data;
    if (count > 0)
        qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 0; i < count && i < EDIT_CANDIDATES_MAX; i++)
        add_candidate(arena, candidates, texts[i], BL_TEXT(""));
    bl_buffer_done(&found);
}

/* "~/" is the user's home, as elsewhere. */
static const char *folder_path(struct bl_arena *arena, struct bl_text folder)
{
    const char *home = getenv("HOME");

    if (folder.size == 0)
        return ".";
    if (bl_text_starts_with(folder, BL_TEXT("~/")) && home != NULL)
        return bl_arena_printf(arena, "%s" BL_TEXT_FORMAT, home, (int)folder.size - 1,
                               folder.data + 1)
            .data;
    return bl_arena_text(arena, folder).data;
}

static void complete_path(struct bl_arena *arena, struct bl_text text, const char *directory,
                          struct bl_list *candidates)
{
    /* A file to attach to the prompt. */
    bool marked = bl_text_starts_with(text, BL_TEXT("@"));
    text = (struct bl_text){text.data + marked, text.size - marked};
    size_t split = text.size;

    while (split > 0 && text.data[split - 1] != '/')
        split--;
    if (text.size > PATH_MAX || memchr(text.data, '\0', text.size) != NULL)
        return;
    struct path_word word = {
        .mark = marked ? "@" : "",
        .folder = {text.data, split},
        .name = {text.data + split, text.size - split},
    };
    int base = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0)
        return;
    word.directory =
        openat(base, folder_path(arena, word.folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(base);
    if (word.directory >= 0)
        edit_complete_read_folder(arena, &word, candidates);
}

void edit_complete_commands(struct bl_arena *arena, const struct edit_line *line,
                            const struct edit_command *commands, struct bl_list *ret_candidates)
{
    struct bl_text word = edit_line_word(line);

    bl_list_init(ret_candidates);
    if (line->cursor == word.size && word.size > 0 && word.data[0] == '/')
        complete_command(arena, commands, word, ret_candidates);
}

void edit_complete(struct bl_arena *arena, const struct edit_line *line,
                   const struct edit_command *commands, const char *directory,
                   struct bl_list *ret_candidates)
{
    struct bl_text word = edit_line_word(line);
    bool first = line->cursor == word.size;

    bl_list_init(ret_candidates);
    if (first && (word.size == 0 || word.data[0] == '/'))
        complete_command(arena, commands, word, ret_candidates);
    /* A word that looks like a command but is not one may be a path. */
    if (bl_list_empty(ret_candidates))
        complete_path(arena, word, directory, ret_candidates);
}
