/* Parameter rows and their optimisers. SPDX-License-Identifier: MIT */
#include <math.h>
#include "table.h"

xcl_status xcl_table_create(xcl_table *table, int64_t n_rows, int64_t n_cols, int64_t stride, int32_t optimizer,
                            bool allocate) {
    *table = (xcl_table){.n_rows = n_rows, .n_cols = n_cols, .stride = stride};
    if (!allocate) return XCL_OK;
    int64_t n = n_rows * table->stride;
    bool adam = optimizer == XCL_OPTIMIZER_ADAM, adagrad = optimizer == XCL_OPTIMIZER_ADAGRAD;
    /* Stops at the first refusal: what follows may fit, and would be written for nothing. */
    bool whole = (table->weight = xcl_alloc(n, sizeof(float))) != NULL;
    if (adagrad) whole = whole && (table->square = xcl_alloc(n_rows, sizeof(float))) != NULL;
    if (adam)
        whole = whole && (table->m = xcl_alloc(n, sizeof(float))) != NULL && (table->v = xcl_alloc(n, sizeof(float))) != NULL &&
                (table->n_updates = xcl_alloc(n_rows, sizeof(int32_t))) != NULL;
    if (whole) return XCL_OK;
    return xcl_fail(XCL_ERR_MEMORY, "cannot allocate %lld x %lld weights and their optimiser state", (long long)n_rows,
                    (long long)n_cols);
}

void xcl_table_free(xcl_table *table) {
    if (!table->borrowed) xcl_free(table->weight);
    xcl_free(table->square);
    xcl_free(table->m);
    xcl_free(table->v);
    xcl_free(table->n_updates);
}

/* The Adam step for a row updated t times: rate / (1 - beta1^t), and 1 / sqrt(1 - beta2^t) for the second moment. */
static void adam_scales(const xcl_updater *updater, int32_t t, float *rate, float *scale) {
    *rate = (float)(updater->rate / (1.0 - pow(updater->beta1, t)));
    *scale = (float)(1.0 / sqrt(1.0 - pow(updater->beta2, t)));
}

static void update_scalar(const xcl_table *table, int64_t row, float g, const xcl_updater *updater) {
    float *w = &table->weight[row];
    if (updater->optimizer == XCL_OPTIMIZER_SGD) {
        *w -= updater->rate * g;
    } else if (updater->optimizer == XCL_OPTIMIZER_ADAGRAD) {
        float s = table->square[row] += g * g;
        *w -= updater->rate * g / (sqrtf(s) + updater->epsilon);
    } else {
        float rate, scale, *m = &table->m[row], *v = &table->v[row];
        adam_scales(updater, ++table->n_updates[row], &rate, &scale);
        *m = updater->beta1 * *m + (1.0f - updater->beta1) * g;
        *v = updater->beta2 * *v + (1.0f - updater->beta2) * (g * g);
        *w -= rate * *m / (sqrtf(*v) * scale + updater->epsilon);
    }
}

void xcl_table_update(const xcl_table *table, int64_t row, const float *g, const xcl_updater *updater) {
    if (table->stride == 1) {
        update_scalar(table, row, *g, updater);
        return;
    }
    const xcl_kernels *kernels = updater->kernels;
    int64_t n = table->stride, at = row * n;
    if (updater->optimizer == XCL_OPTIMIZER_SGD) {
        kernels->sgd_row(table->weight + at, g, updater->rate, n);
    } else if (updater->optimizer == XCL_OPTIMIZER_ADAGRAD) {
        float s = table->square[row] += kernels->dot(g, g, n) / (float)table->n_cols;
        kernels->sgd_row(table->weight + at, g, updater->rate / (sqrtf(s) + updater->epsilon), n);
    } else {
        float rate, scale;
        adam_scales(updater, ++table->n_updates[row], &rate, &scale);
        kernels->adam_row(table->weight + at, table->m + at, table->v + at, g, rate, scale, updater->beta1, updater->beta2,
                          updater->epsilon, n);
    }
}

double xcl_table_weight_bytes(int64_t n_rows, int64_t stride) { return (double)n_rows * (double)stride * sizeof(float); }

double xcl_table_state_bytes(int64_t n_rows, int64_t stride, int32_t optimizer) {
    if (optimizer == XCL_OPTIMIZER_SGD) return 0;
    if (optimizer == XCL_OPTIMIZER_ADAGRAD) return (double)n_rows * sizeof(float);
    return 2 * xcl_table_weight_bytes(n_rows, stride) + (double)n_rows * sizeof(int32_t);
}
