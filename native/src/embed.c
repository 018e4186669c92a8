/* Phase 1: from sparse rows to hidden vectors.  h = dropout(relu(b + sum_j x_j E[j])), then dense layers.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include "model.h"
#include "rng.h"

#define ROWS_A_TASK 8

static xcl_status bad_row(int64_t row, int64_t n_rows) {
    return xcl_fail(XCL_ERR_ARG, "row %lld is not one of %lld", (long long)row, (long long)n_rows);
}

static xcl_status measure(const xcl_csr *x, const int64_t *rows, int64_t n_rows, int64_t *nnz) {
    *nnz = 0;
    for (int64_t b = 0; b < n_rows; b++) {
        int64_t row = rows != NULL ? rows[b] : b;
        if (row < 0 || row >= x->n_rows) return bad_row(row, x->n_rows);
        if (x->indptr[row + 1] < x->indptr[row])
            return xcl_fail(XCL_ERR_ARG, "row %lld: it ends before it begins", (long long)row);
        *nnz += x->indptr[row + 1] - x->indptr[row];
    }
    return XCL_OK;
}

/* What the values of a row are multiplied by: 1, or 1 / its length over the features below n_features. */
static float row_scale(const xcl_model *model, const xcl_csr *x, int64_t row) {
    if (!model->options.normalize) return 1.0f;
    double square = 0;
    for (int64_t i = x->indptr[row]; i < x->indptr[row + 1]; i++) {
        bool known = x->indices[i] >= 0 && x->indices[i] < model->options.n_features;
        double value = x->values != NULL ? x->values[i] : 1.0;
        square += known ? value * value : 0;
    }
    return square > 0 ? (float)(1 / sqrt(square)) : 1.0f;
}

xcl_status xcl_embed_load(xcl_model *model, const xcl_csr *x, const int64_t *rows, int64_t n_rows, bool training) {
    xcl_batch *batch = &model->batch;
    int64_t nnz = 0, at = 0, n_features = model->options.n_features;
    XCL_TRY(measure(x, rows, n_rows, &nnz));
    XCL_TRY(XCL_RESERVE(batch->feature_starts, n_rows + 1));
    XCL_TRY(XCL_RESERVE(batch->feature_ids, nnz));
    XCL_TRY(XCL_RESERVE(batch->feature_rows, nnz));
    XCL_TRY(XCL_RESERVE(batch->feature_values, nnz));
    batch->n_rows = n_rows;
    batch->n_padded = xcl_pad(n_rows);
    batch->training = training;
    batch->n_unknown = 0;
    float drop = training ? model->options.input_dropout : 0;
    uint64_t key = xcl_random_key(model->options.seed, XCL_RNG_INPUT_DROPOUT, model->counters.n_steps);
    for (int64_t b = 0; b < n_rows; b++) {
        int64_t row = rows != NULL ? rows[b] : b;
        float scale = row_scale(model, x, row) / (1.0f - drop);
        batch->feature_starts.data[b] = at;
        for (int64_t i = x->indptr[row]; i < x->indptr[row + 1]; i++) {
            int32_t id = x->indices[i];
            if (id < 0 || id >= n_features) {
                if (training)
                    return xcl_fail(XCL_ERR_ARG, "row %lld: feature %d is not below %lld", (long long)row, id, (long long)n_features);
                batch->n_unknown++;
                continue;
            }
            float value = x->values != NULL ? x->values[i] : 1.0f;
            if (!isfinite(value)) /* a ReLU may hide it from the loss, but not from the gradient */
                return xcl_fail(XCL_ERR_DIVERGED, "row %lld: the value of feature %d is %g", (long long)row, id, (double)value);
            if (drop > 0 && xcl_unit(xcl_random_at(key, (uint64_t)b << 32 | (uint32_t)id)) < drop) continue;
            batch->feature_ids.data[at] = id;
            batch->feature_rows.data[at] = (int32_t)b;
            batch->feature_values.data[at++] = value * scale;
        }
    }
    batch->feature_starts.data[n_rows] = at;
    return XCL_OK;
}

/* ReLU, then in training keep each unit with probability 1 - dropout, scaled up. One draw serves two units.
 * NaN stays NaN, so that it reaches the loss. */
static void activate(const xcl_model *model, int32_t layer, int64_t row, float *h) {
    int64_t width = model->width[layer];
    float drop = model->batch.training ? model->options.dropout : 0;
    if (drop <= 0) {
        bool mean = !model->batch.training && layer == model->n_layers - 1;
        float share = mean ? 1.0f / (float)model->options.n_members : 1.0f; /* scores are means over members */
        for (int64_t i = 0; i < width; i++) h[i] = h[i] < 0 ? 0.0f : h[i] * share;
        return;
    }
    float scale = 1.0f / (1.0f - drop);
    uint32_t bound = (uint32_t)(drop * 4294967296.0);
    uint64_t key = xcl_random_key(model->options.seed, XCL_RNG_DROPOUT, model->counters.n_steps << 8 | (uint64_t)layer);
    for (int64_t i = 0; i < width; i += 2) {
        uint64_t bits = xcl_random_at(key, (uint64_t)row << 32 | (uint64_t)(i / 2));
        h[i] = h[i] < 0 || (uint32_t)bits < bound ? 0.0f : h[i] * scale;
        if (i + 1 < width) h[i + 1] = h[i + 1] < 0 || (uint32_t)(bits >> 32) < bound ? 0.0f : h[i + 1] * scale;
    }
}

/* An infinite unit need not show in the loss (the layer above may answer 0), but it would in the gradient. */
static void check_finite(xcl_model *model, int32_t layer, const float *h) {
    if (!isfinite(model->engine->kernels->sum(h, model->padded[layer])))
        __atomic_store_n(&model->batch.overflow, true, __ATOMIC_RELAXED);
}

static void input_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    xcl_model *model = arg;
    xcl_batch *batch = &model->batch;
    int64_t end = xcl_min((task + 1) * ROWS_A_TASK, batch->n_rows), padded = model->padded[0];
    for (int64_t b = task * ROWS_A_TASK; b < end; b++) {
        int64_t first = batch->feature_starts.data[b];
        float *h = batch->hidden[0].data + b * padded;
        model->engine->kernels->bag(h, model->input_bias.weight, model->input.weight, padded, batch->feature_ids.data + first,
                                    batch->feature_values.data + first, batch->feature_starts.data[b + 1] - first, padded);
        activate(model, 0, b, h);
        check_finite(model, 0, h);
    }
}

typedef struct {
    xcl_model *model;
    int32_t layer;
} layer_job;

static void layer_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    layer_job *job = arg;
    xcl_model *model = job->model;
    int32_t layer = job->layer;
    int64_t first = task * ROWS_A_TASK, n = xcl_min(ROWS_A_TASK, model->batch.n_rows - first);
    int64_t below = model->padded[layer - 1], padded = model->padded[layer];
    float *h = model->batch.hidden[layer].data + first * padded;
    for (int64_t b = 0; b < n; b++) memcpy(h + b * padded, model->between_bias[layer].weight, (size_t)padded * sizeof *h);
    model->engine->kernels->product(h, padded, model->batch.hidden[layer - 1].data + first * below, below, 1,
                                    model->between[layer].weight, padded, n, model->width[layer - 1], padded, 1);
    for (int64_t b = 0; b < n; b++) {
        activate(model, layer, first + b, h + b * padded);
        check_finite(model, layer, h + b * padded);
    }
}

xcl_status xcl_embed_forward(xcl_model *model) {
    int64_t n_tasks = xcl_ceil_div(model->batch.n_rows, ROWS_A_TASK);
    for (int32_t l = 0; l < model->n_layers; l++)
        XCL_TRY(XCL_RESERVE(model->batch.hidden[l], model->batch.n_rows * model->padded[l]));
    model->batch.overflow = false;
    xcl_pool_run(model->engine->pool, n_tasks, input_task, model);
    for (int32_t l = 1; l < model->n_layers; l++) {
        layer_job job = {model, l};
        xcl_pool_run(model->engine->pool, n_tasks, layer_task, &job);
    }
    return XCL_OK;
}

static void turn_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    xcl_model *model = arg;
    xcl_batch *batch = &model->batch;
    int64_t padded = xcl_model_padded(model), first = task * XCL_LANES, n = xcl_min(XCL_LANES, batch->n_rows - first);
    const float *h = xcl_model_top(model) + first * padded;
    for (int64_t i = 0; i < xcl_model_width(model); i++) {
        float *out = batch->turned.data + i * batch->n_padded + first;
        for (int64_t b = 0; b < n; b++) out[b] = h[b * padded + i];
        for (int64_t b = n; b < XCL_LANES; b++) out[b] = 0;
    }
}

xcl_status xcl_embed_turn(xcl_model *model) {
    XCL_TRY(XCL_RESERVE(model->batch.turned, xcl_model_width(model) * model->batch.n_padded));
    xcl_pool_run(model->engine->pool, model->batch.n_padded / XCL_LANES, turn_task, model);
    return XCL_OK;
}
