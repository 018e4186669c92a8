/* A matrix of parameters with the optimiser's state of each row, updated a row at a time.
 *
 * sgd      w -= rate g
 * adagrad  s += mean(g^2);  w -= rate g / (sqrt(s) + epsilon)           one float of state a row
 * adam     the usual moments a weight; bias corrected by the row's own number of updates (lazy rows)
 * SPDX-License-Identifier: MIT */
#ifndef XCL_TABLE_H
#define XCL_TABLE_H
#include "internal.h"

typedef struct {
    int64_t n_rows, n_cols, stride;
    float *weight;     /* (n_rows, stride) */
    float *square;     /* adagrad: (n_rows) */
    float *m, *v;      /* adam: (n_rows, stride) */
    int32_t *n_updates; /* adam: (n_rows) */
    bool borrowed;     /* weight belongs to somebody else */
} xcl_table;

/* What an update needs beside the row. */
typedef struct {
    const xcl_kernels *kernels;
    int32_t optimizer; /* xcl_optimizer */
    float rate, beta1, beta2, epsilon;
} xcl_updater;

/* stride: floats between rows, a multiple of 16, or 1 for a column of scalars, whose rows are updated by scalar code.
 * allocate: false leaves weight and state NULL. */
xcl_status xcl_table_create(xcl_table *table, int64_t n_rows, int64_t n_cols, int64_t stride, int32_t optimizer,
                            bool allocate);
void xcl_table_free(xcl_table *table);
/* Apply gradient g: (stride) to one row. */
void xcl_table_update(const xcl_table *table, int64_t row, const float *g, const xcl_updater *updater);
/* Bytes of weights and of state. */
double xcl_table_weight_bytes(int64_t n_rows, int64_t stride);
double xcl_table_state_bytes(int64_t n_rows, int64_t stride, int32_t optimizer);
#endif
