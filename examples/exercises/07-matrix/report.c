#include "matrix.h"

long matrix_trace_of_product(const struct matrix *left, const struct matrix *right)
{
    struct matrix product;
    long sum = 0;

    /* Only what mat_mul accepts has a trace. */
    if (!mat_mul(left, right, &product) || product.rows != product.columns)
        return 0;
    for (int i = 0; i < product.rows; i++)
        sum += product.cells[i * product.columns + i];
    return sum;
}
