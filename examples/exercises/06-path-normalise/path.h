/* Paths as texts. */
#ifndef PATH_H
#define PATH_H

/* Shortens `path` in place. An absolute path stays one, and never leads above the root; a relative
 * one keeps the `..` that it begins with. What is empty in the end is ".". There is room for at
 * least two bytes. */
void path_normalise(char *path);

#endif
