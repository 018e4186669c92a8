/* Phases 4 and 5: gradients and updates, from the output down. A row's gradient exists only while the row is updated.
 *
 * The hidden gradient is collected in XCL_SHARDS buffers, each over a fixed part of the union, and summed in order.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include "model.h"

#define FEATURES_A_TASK 32
#define HIDDEN_ROWS_A_TASK 16

typedef struct {
    xcl_model *model;
    const xcl_updater *updater;
    int32_t layer;
    float *total; /* (B, padded) */
} update_job;

/* Part of the union that belongs to a shard, in whole blocks. */
static void shard_range(const xcl_batch *batch, int64_t shard, int64_t *u0, int64_t *u1) {
    int64_t n_blocks = xcl_ceil_div(batch->active.n_ids, batch->block);
    *u0 = n_blocks * shard / XCL_SHARDS * batch->block;
    *u1 = xcl_min(n_blocks * (shard + 1) / XCL_SHARDS * batch->block, batch->active.n_ids);
}

/* Scores of labels u0..u1-1 become probability minus target. */
static void scores_to_errors(xcl_model *model, int64_t u0, int64_t u1) {
    xcl_batch *batch = &model->batch;
    int64_t n_members = model->options.n_members, n = n_members * batch->n_padded;
    float *z = batch->scores.data + u0 * n;
    bool bce = model->options.loss == XCL_LOSS_BCE;
    if (bce) model->engine->kernels->sigmoid(z, (u1 - u0) * n);
    else model->engine->kernels->exp_shift(z, batch->shift.data, u1 - u0, n);
    for (int64_t i = batch->active.starts.data[u0]; i < batch->active.starts.data[u1]; i++) {
        int32_t pair = batch->active.order.data[i], b = batch->label_rows.data[pair];
        int64_t n_labels = batch->label_starts.data[b + 1] - batch->label_starts.data[b];
        float target = bce ? 1.0f : 1.0f / (float)n_labels;
        for (int64_t m = 0; m < n_members; m++) batch->scores.data[batch->true_places.data[pair] + m * batch->n_padded] -= target;
    }
}

static void update_label(xcl_model *model, int64_t u, const float *gradient, float bias_gradient, const xcl_updater *updater) {
    int32_t label = model->batch.active.ids.data[u];
    xcl_table_update(&model->output, label, gradient, updater);
    xcl_table_update(&model->output_bias, label, &bias_gradient, updater);
}

static void block_shard(xcl_model *model, int64_t shard, int32_t thread, const xcl_updater *updater) {
    xcl_batch *batch = &model->batch;
    const xcl_kernels *kernels = model->engine->kernels;
    xcl_room *room = &model->rooms[thread];
    int64_t n_members = model->options.n_members, part = xcl_model_part(model);
    int64_t n_rows = batch->n_rows, n = n_members * batch->n_padded, width = model->output.stride, first, last;
    float *share = batch->shards.data + shard * n_rows * width;
    shard_range(batch, shard, &first, &last);
    for (int64_t u0 = first; u0 < last; u0 += batch->block) {
        int64_t u1 = xcl_min(u0 + batch->block, last);
        scores_to_errors(model, u0, u1);
        const float *errors = batch->scores.data + u0 * n, *w = xcl_score_rows(model, room, u0, u1);
        for (int64_t m = 0; m < n_members; m++) {
            const float *own = errors + m * batch->n_padded;
            int64_t at = m * part;
            kernels->product(share + at, width, own, 1, n, w + at, width, n_rows, u1 - u0, part, u0 > first);
            kernels->product(room->gradient + at, width, own, n, 1, batch->scaled.data + at, width, u1 - u0, n_rows, part, 0);
        }
        for (int64_t u = u0; u < u1; u++) {
            float bias_gradient = 0;
            for (int64_t m = 0; m < n_members; m++)
                for (int64_t b = 0; b < n_rows; b++) bias_gradient += errors[(u - u0) * n + m * batch->n_padded + b];
            update_label(model, u, room->gradient + (u - u0) * width, bias_gradient / (float)(n_rows * n_members), updater);
        }
    }
}

/* Error of one pair of scope row: probability minus target. */
static float pair_error(const xcl_model *model, int32_t pair, int32_t b) {
    const xcl_batch *batch = &model->batch;
    int64_t n_labels = batch->label_starts.data[b + 1] - batch->label_starts.data[b];
    bool is_true = pair - batch->pair_starts.data[b] < n_labels, bce = model->options.loss == XCL_LOSS_BCE;
    float z = batch->scores.data[pair], target = !is_true ? 0.0f : bce ? 1.0f : 1.0f / (float)n_labels;
    return (bce ? 1.0f / (1.0f + expf(-z)) : expf(z - batch->shift.data[b])) - target;
}

static void pair_shard(xcl_model *model, int64_t shard, int32_t thread, const xcl_updater *updater) {
    xcl_batch *batch = &model->batch;
    const xcl_kernels *kernels = model->engine->kernels;
    xcl_room *room = &model->rooms[thread];
    int64_t n_rows = batch->n_rows, width = model->output.stride, first, last;
    float *share = batch->shards.data + shard * n_rows * width;
    shard_range(batch, shard, &first, &last);
    if (first < last) memset(share, 0, (size_t)(n_rows * width) * sizeof *share);
    for (int64_t u = first; u < last; u++) {
        int64_t start = batch->active.starts.data[u], n_pairs = batch->active.starts.data[u + 1] - start;
        const float *w = model->output.weight + batch->active.ids.data[u] * width;
        float bias_gradient = 0;
        if (u + 2 < last) __builtin_prefetch(model->output.weight + batch->active.ids.data[u + 2] * width);
        memset(room->gradient, 0, (size_t)width * sizeof *room->gradient);
        for (int64_t i = start; i < start + n_pairs; i++) {
            int32_t pair = batch->active.order.data[i], b = batch->pair_rows.data[pair];
            float error = pair_error(model, pair, b);
            bias_gradient += error;
            kernels->axpy(share + b * width, w, error, width);
            kernels->axpy(room->gradient, batch->scaled.data + b * width, error, width);
        }
        update_label(model, u, room->gradient, bias_gradient / (float)n_rows, updater);
    }
}

static void shard_task(void *arg, int64_t shard, int32_t thread) {
    update_job *job = arg;
    if (job->model->options.scope == XCL_SCOPE_ROW) pair_shard(job->model, shard, thread, job->updater);
    else block_shard(job->model, shard, thread, job->updater);
}

/* dh -> gradient of the sum before the ReLU: a unit that is zero passes nothing on. */
static void through_activation(const xcl_model *model, int32_t layer, int64_t b, float *gradient) {
    float scale = model->batch.training ? 1.0f / (1.0f - model->options.dropout) : 1.0f;
    const float *h = model->batch.hidden[layer].data + b * model->padded[layer];
    for (int64_t i = 0; i < model->padded[layer]; i++) gradient[i] = h[i] > 0 ? gradient[i] * scale : 0.0f;
}

static void sum_task(void *arg, int64_t b, int32_t thread) {
    (void)thread;
    update_job *job = arg;
    xcl_batch *batch = &job->model->batch;
    int64_t width = job->model->output.stride, first, last;
    float *total = job->total + b * width, scale = 1.0f / (float)batch->n_rows;
    memset(total, 0, (size_t)width * sizeof *total);
    for (int64_t shard = 0; shard < XCL_SHARDS; shard++) {
        shard_range(batch, shard, &first, &last);
        if (first >= last) continue;
        const float *share = batch->shards.data + (shard * batch->n_rows + b) * width;
        job->model->engine->kernels->axpy(total, share, scale, width);
    }
    through_activation(job->model, job->layer, b, total);
}

static void scale_task(void *arg, int64_t b, int32_t thread) {
    (void)thread;
    xcl_model *model = arg;
    int64_t width = model->output.stride;
    float *out = model->batch.scaled.data + b * width, scale = 1.0f / (float)model->batch.n_rows;
    const float *h = xcl_model_top(model) + b * width;
    for (int64_t i = 0; i < width; i++) out[i] = h[i] * scale;
}

xcl_status xcl_update_output(xcl_model *model, const xcl_updater *updater) {
    xcl_batch *batch = &model->batch;
    int32_t top = model->n_layers - 1;
    int64_t size = batch->n_rows * model->output.stride;
    XCL_TRY(XCL_RESERVE(batch->shards, XCL_SHARDS * size));
    XCL_TRY(XCL_RESERVE(batch->scaled, size));
    XCL_TRY(XCL_RESERVE(batch->gradient[top], size));
    update_job job = {model, updater, top, batch->gradient[top].data};
    xcl_pool_run(model->engine->pool, batch->n_rows, scale_task, model);
    xcl_pool_run(model->engine->pool, XCL_SHARDS, shard_task, &job);
    xcl_pool_run(model->engine->pool, batch->n_rows, sum_task, &job);
    return XCL_OK;
}

/* ---- Dense layers between ---- */

static void below_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    update_job *job = arg;
    xcl_model *model = job->model;
    int32_t l = job->layer;
    int64_t first = task * HIDDEN_ROWS_A_TASK, n = xcl_min(HIDDEN_ROWS_A_TASK, model->batch.n_rows - first);
    int64_t below = model->padded[l - 1];
    float *out = model->batch.gradient[l - 1].data + first * below;
    model->engine->kernels->product(out, below, model->batch.gradient[l].data + first * model->padded[l], model->padded[l], 1,
                                    model->batch.turned.data, below, n, model->width[l], below, 0);
    for (int64_t b = 0; b < n; b++) through_activation(model, l - 1, first + b, out + b * below);
}

static void between_task(void *arg, int64_t task, int32_t thread) {
    update_job *job = arg;
    xcl_model *model = job->model;
    int32_t l = job->layer;
    int64_t first = task * HIDDEN_ROWS_A_TASK, n = xcl_min(HIDDEN_ROWS_A_TASK, model->width[l - 1] - first);
    float *gradient = model->rooms[thread].gradient;
    model->engine->kernels->product(gradient, model->padded[l], model->batch.hidden[l - 1].data + first, 1, model->padded[l - 1],
                                    model->batch.gradient[l].data, model->padded[l], n, model->batch.n_rows, model->padded[l], 0);
    for (int64_t i = 0; i < n; i++)
        xcl_table_update(&model->between[l], first + i, gradient + i * model->padded[l], job->updater);
}

static void update_bias(xcl_model *model, const xcl_table *bias, int32_t layer, const xcl_updater *updater) {
    const float one = 1.0f;
    float *gradient = model->rooms[0].gradient;
    model->engine->kernels->product(gradient, bias->stride, &one, 0, 0, model->batch.gradient[layer].data, bias->stride, 1,
                                    model->batch.n_rows, bias->stride, 0);
    xcl_table_update(bias, 0, gradient, updater);
}

xcl_status xcl_update_hidden(xcl_model *model, const xcl_updater *updater) {
    xcl_batch *batch = &model->batch;
    for (int32_t l = model->n_layers - 1; l >= 1; l--) {
        update_job job = {model, updater, l, NULL};
        int64_t below = model->padded[l - 1];
        XCL_TRY(XCL_RESERVE(batch->gradient[l - 1], batch->n_rows * below));
        XCL_TRY(XCL_RESERVE(batch->turned, model->width[l] * below));
        memset(batch->turned.data, 0, (size_t)(model->width[l] * below) * sizeof(float));
        for (int64_t i = 0; i < model->width[l - 1]; i++)
            for (int64_t j = 0; j < model->width[l]; j++)
                batch->turned.data[j * below + i] = model->between[l].weight[i * model->padded[l] + j];
        xcl_pool_run(model->engine->pool, xcl_ceil_div(batch->n_rows, HIDDEN_ROWS_A_TASK), below_task, &job);
        xcl_pool_run(model->engine->pool, xcl_ceil_div(model->width[l - 1], HIDDEN_ROWS_A_TASK), between_task, &job);
        update_bias(model, &model->between_bias[l], l, updater);
    }
    return XCL_OK;
}

/* ---- Input ---- */

static void feature_task(void *arg, int64_t task, int32_t thread) {
    update_job *job = arg;
    xcl_model *model = job->model;
    xcl_batch *batch = &model->batch;
    xcl_room *room = &model->rooms[thread];
    const xcl_group *features = &batch->features;
    int64_t end = xcl_min((task + 1) * FEATURES_A_TASK, features->n_ids), width = model->padded[0];
    for (int64_t u = task * FEATURES_A_TASK; u < end; u++) {
        int64_t start = features->starts.data[u], n = features->starts.data[u + 1] - start;
        for (int64_t i = 0; i < n; i++) {
            int32_t pair = features->order.data[start + i];
            room->rows.data[i] = batch->feature_rows.data[pair];
            room->values.data[i] = batch->feature_values.data[pair];
        }
        model->engine->kernels->bag(room->gradient, NULL, batch->gradient[0].data, width, room->rows.data, room->values.data, n, width);
        xcl_table_update(&model->input, features->ids.data[u], room->gradient, job->updater);
    }
}

xcl_status xcl_update_input(xcl_model *model, const xcl_updater *updater) {
    xcl_batch *batch = &model->batch;
    int64_t nnz = batch->feature_starts.data[batch->n_rows], longest = 0;
    xcl_bitset_clear(&batch->features.set);
    for (int64_t i = 0; i < nnz; i++) xcl_bitset_add(&batch->features.set, batch->feature_ids.data[i]);
    XCL_TRY(xcl_group_list(&batch->features));
    XCL_TRY(xcl_group_sort(&batch->features, model->engine->pool, batch->feature_ids.data, nnz));
    for (int64_t u = 0; u < batch->features.n_ids; u++)
        longest = xcl_max(longest, batch->features.starts.data[u + 1] - batch->features.starts.data[u]);
    for (int32_t i = 0; i < model->n_threads; i++) {
        XCL_TRY(XCL_RESERVE(model->rooms[i].values, longest));
        XCL_TRY(XCL_RESERVE(model->rooms[i].rows, longest));
    }
    update_job job = {model, updater, 0, NULL};
    xcl_pool_run(model->engine->pool, xcl_ceil_div(batch->features.n_ids, FEATURES_A_TASK), feature_task, &job);
    update_bias(model, &model->input_bias, 0, updater);
    return XCL_OK;
}
