#include "matrix.h"

#include <stdio.h>

static int failed;

static void expect(const char *what, const struct matrix *is, const struct matrix *wanted)
{
    bool same = is->rows == wanted->rows && is->columns == wanted->columns;

    for (int i = 0; same && i < wanted->rows * wanted->columns; i++)
        same = is->cells[i] == wanted->cells[i];
    if (same)
        return;
    printf("%s: wrong, as %d x %d with cells", what, is->rows, is->columns);
    for (int i = 0; i < wanted->rows * wanted->columns; i++)
        printf(" %ld", is->cells[i]);
    puts("");
    failed = 1;
}

int main(void)
{
    static const struct matrix square = {2, 2, {1, 2, 3, 4}};
    static const struct matrix wide = {2, 3, {1, 2, 3, 4, 5, 6}};
    static const struct matrix tall = {3, 2, {1, 4, 2, 5, 3, 6}};
    static const struct matrix row = {1, 3, {7, 8, 9}};
    struct matrix out = {0};

    if (!matrix_multiply(&square, &square, &out))
        failed = 1;
    expect("square * square", &out, &(struct matrix){2, 2, {7, 10, 15, 22}});
    if (!matrix_multiply(&wide, &tall, &out))
        failed = 1;
    expect("wide * tall", &out, &(struct matrix){2, 2, {14, 32, 32, 77}});
    if (!matrix_multiply(&tall, &wide, &out))
        failed = 1;
    expect("tall * wide", &out, &(struct matrix){3, 3, {17, 22, 27, 22, 29, 36, 27, 36, 45}});
    if (!matrix_multiply(&row, &tall, &out))
        failed = 1;
    expect("row * tall", &out, &(struct matrix){1, 2, {50, 122}});
    if (matrix_multiply(&wide, &square, &out))
        failed = 1;
    matrix_transpose(&wide, &out);
    expect("wide, transposed", &out, &tall);
    matrix_transpose(&tall, &out);
    expect("tall, transposed", &out, &wide);
    if (matrix_trace_of_product(&wide, &tall) != 91)
        failed = 1;
    puts(failed ? "failed" : "passed");
    return failed;
}
