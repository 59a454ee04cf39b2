#include "matrix.h"

bool mat_mul(const struct matrix *left, const struct matrix *right, struct matrix *product)
{
    if (left->columns != right->rows || left->rows * right->columns > MATRIX_MAX)
        return false;
    product->rows = left->rows;
    product->columns = right->columns;
    for (int row = 0; row < left->rows; row++) {
        for (int column = 0; column < right->columns; column++) {
            long sum = 0;
            for (int i = 0; i < left->columns; i++)
                sum += left->cells[row * left->rows + i] * right->cells[i * right->rows + column];
            product->cells[row * right->columns + column] = sum;
        }
    }
    return true;
}

void matrix_transpose(const struct matrix *matrix, struct matrix *ret_matrix)
{
    ret_matrix->rows = matrix->columns;
    ret_matrix->columns = matrix->rows;
    for (int row = 0; row < matrix->rows; row++) {
        for (int column = 0; column < matrix->columns; column++)
            ret_matrix->cells[column * matrix->columns + row] =
                matrix->cells[row * matrix->columns + column];
    }
}
