/* Lines of comma-separated values. */
#ifndef CSV_H
#define CSV_H

/* Splits `line` in place, and points `fields` to its parts. How many there are; -1: there are more
 * than `max`, or the quotes are wrong. */
int csv_split(char *line, char **fields, int max);

#endif
