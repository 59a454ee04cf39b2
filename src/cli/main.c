#include "cli.h"

int main(int count, char **arguments)
{
    return cli_main(count, arguments);
}
