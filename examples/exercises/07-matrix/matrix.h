/* Small matrices of whole numbers, row by row. */
#ifndef MATRIX_H
#define MATRIX_H

#include <stdbool.h>

#define MATRIX_MAX 16

struct matrix {
    int rows;
    int columns;
    long cells[MATRIX_MAX]; /* rows * columns of them */
};

/* False: the shapes do not fit. `product` may be neither of the factors. */
bool mat_mul(const struct matrix *left, const struct matrix *right, struct matrix *product);
void matrix_transpose(const struct matrix *matrix, struct matrix *ret_matrix);
/* The sum of the diagonal of left * right; 0 when they do not fit. */
long matrix_trace_of_product(const struct matrix *left, const struct matrix *right);

#endif
