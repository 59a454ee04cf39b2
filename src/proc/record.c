#include "record.h"

#include <unistd.h>

bool record_read(int fd, int number, struct record *ret_record)
{
    off_t place = (off_t)number * (off_t)sizeof *ret_record;
    return number >= 0 && number < RECORDS_MAX &&
           pread(fd, ret_record, sizeof *ret_record, place) == (ssize_t)sizeof *ret_record;
}

bool record_write(int fd, int number, const struct record *record)
{
    off_t place = (off_t)number * (off_t)sizeof *record;
    return number >= 0 && number < RECORDS_MAX &&
           pwrite(fd, record, sizeof *record, place) == (ssize_t)sizeof *record;
}
