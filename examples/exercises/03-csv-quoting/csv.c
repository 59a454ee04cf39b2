#include "csv.h"

#include <string.h>

int csv_split(char *line, char **fields, int max)
{
    int count = 0;

    for (char *field = line; field != NULL;) {
        if (count == max)
            return -1;
        fields[count++] = field;
        field = strchr(field, ',');
        if (field != NULL)
            *field++ = '\0';
    }
    return count;
}
