/* Phase 3: scores of the active labels and the loss.  z_l = b_l + <W_l, h>
 *
 * Scope batch works on blocks of labels by all rows: a matrix product, with the row index running fastest, so that the
 * loss runs over rows in registers. With M members it is as if there were M pad(B) rows, a member's side by side. Scope row streams each active label once for all rows that picked it.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include "model.h"

#define LABELS_A_TASK 64 /* scope row */

const float *xcl_score_rows(const xcl_model *model, xcl_room *room, int64_t u0, int64_t u1) {
    const int32_t *ids = model->batch.active.ids.data;
    int64_t stride = model->output.stride;
    if (ids[u1 - 1] - ids[u0] == u1 - 1 - u0) return model->output.weight + ids[u0] * stride;
    for (int64_t u = u0; u < u1; u++)
        memcpy(room->pack + (u - u0) * stride, model->output.weight + ids[u] * stride, (size_t)stride * sizeof(float));
    return room->pack;
}

static void block_task(void *arg, int64_t task, int32_t thread) {
    xcl_model *model = arg;
    xcl_batch *batch = &model->batch;
    const xcl_kernels *kernels = model->engine->kernels;
    xcl_room *room = &model->rooms[thread];
    int64_t u0 = task * batch->block, u1 = xcl_min(u0 + batch->block, batch->active.n_ids);
    int64_t part = xcl_model_part(model), n_members = model->options.n_members, n = n_members * batch->n_padded;
    float *z = batch->scores.data + u0 * n;
    const float *w = xcl_score_rows(model, room, u0, u1);
    for (int64_t m = 0; m < n_members; m++)
        kernels->product(z + m * batch->n_padded, n, w + m * part, model->output.stride, 1,
                         batch->turned.data + m * part * batch->n_padded, batch->n_padded, u1 - u0,
                         xcl_min(part, xcl_model_width(model)), batch->n_padded, 0);
    for (int64_t u = u0; u < u1; u++) room->bias[u - u0] = xcl_score_bias(model, batch->active.ids.data[u]);
    float *peak = batch->block_peak.data + task * n, *mass = batch->block_mass.data + task * n;
    if (model->options.loss == XCL_LOSS_BCE) kernels->bce_loss(z, room->bias, u1 - u0, n, mass);
    else kernels->softmax_loss(z, room->bias, u1 - u0, n, peak, mass);
}

/* Per member and row, over blocks in order: the sum of the losses, or the log of the normaliser. */
static void reduce_blocks(xcl_model *model, int64_t n_blocks) {
    xcl_batch *batch = &model->batch;
    int64_t n = model->options.n_members * batch->n_padded;
    for (int64_t b = 0; b < n; b++) {
        const float *peak = batch->block_peak.data + b, *mass = batch->block_mass.data + b;
        double total = 0, high = -INFINITY;
        if (model->options.loss == XCL_LOSS_BCE) {
            for (int64_t i = 0; i < n_blocks; i++) total += mass[i * n];
            batch->row_loss.data[b] = (float)total;
            continue;
        }
        for (int64_t i = 0; i < n_blocks; i++) high = peak[i * n] > high ? peak[i * n] : high;
        for (int64_t i = 0; i < n_blocks; i++) total += mass[i * n] * exp(peak[i * n] - high);
        batch->shift.data[b] = (float)(high + log(total));
    }
}

/* The part of one member's loss that the true labels bring, and the mean over rows. */
static double add_targets(xcl_model *model, int64_t member) {
    xcl_batch *batch = &model->batch;
    float *shift = batch->shift.data + member * batch->n_padded, *row_loss = batch->row_loss.data + member * batch->n_padded;
    const float *scores = batch->scores.data + member * batch->n_padded;
    double total = 0;
    for (int64_t b = 0; b < batch->n_rows; b++) {
        int64_t first = batch->label_starts.data[b], n_labels = batch->label_starts.data[b + 1] - first;
        double of_labels = 0;
        for (int64_t i = 0; i < n_labels; i++) of_labels += scores[batch->true_places.data[first + i]];
        if (model->options.loss == XCL_LOSS_BCE) {
            total += row_loss[b] - of_labels;
        } else if (n_labels > 0) {
            total += shift[b] - of_labels / (double)n_labels;
        } else {
            if (isnan(shift[b])) total = NAN; /* scores overflowed */
            shift[b] = INFINITY; /* nothing to learn: all probabilities become 0 */
        }
    }
    return total / (double)batch->n_rows;
}

static xcl_status score_batch(xcl_model *model, double *loss) {
    xcl_batch *batch = &model->batch;
    int64_t n_members = model->options.n_members, n = n_members * batch->n_padded;
    int64_t n_union = batch->active.n_ids, n_blocks = xcl_ceil_div(n_union, batch->block);
    int64_t n_pairs = batch->label_starts.data[batch->n_rows];
    XCL_TRY(XCL_RESERVE(batch->scores, n_union * n));
    XCL_TRY(XCL_RESERVE(batch->block_peak, n_blocks * n));
    XCL_TRY(XCL_RESERVE(batch->block_mass, n_blocks * n));
    XCL_TRY(XCL_RESERVE(batch->true_places, n_pairs));
    xcl_pool_run(model->engine->pool, n_blocks, block_task, model);
    reduce_blocks(model, n_blocks);
    for (int64_t i = 0; i < n_pairs; i++)
        batch->true_places.data[i] =
            (int64_t)xcl_bitset_place(&batch->active.set, batch->labels.data[i]) * n + batch->label_rows.data[i];
    *loss = 0;
    for (int64_t m = 0; m < n_members; m++) *loss += add_targets(model, m) / (double)n_members;
    return XCL_OK;
}

/* ---- Scope row ---- */

static void label_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    xcl_model *model = arg;
    xcl_batch *batch = &model->batch;
    const xcl_group *active = &batch->active;
    int64_t end = xcl_min((task + 1) * LABELS_A_TASK, active->n_ids), stride = model->output.stride;
    const float *h = xcl_model_top(model);
    for (int64_t u = task * LABELS_A_TASK; u < end; u++) {
        if (u + 2 < end) __builtin_prefetch(model->output.weight + active->ids.data[u + 2] * stride);
        const float *w = model->output.weight + active->ids.data[u] * stride;
        float bias = xcl_score_bias(model, active->ids.data[u]);
        for (int64_t i = active->starts.data[u]; i < active->starts.data[u + 1]; i++) {
            int32_t pair = active->order.data[i];
            batch->scores.data[pair] = bias + model->engine->kernels->dot(w, h + batch->pair_rows.data[pair] * stride, stride);
        }
    }
}

/* Loss or normaliser of one row over its pairs. */
static void row_task(void *arg, int64_t b, int32_t thread) {
    (void)thread;
    xcl_model *model = arg;
    xcl_batch *batch = &model->batch;
    const float *z = batch->scores.data + batch->pair_starts.data[b];
    int64_t n = batch->pair_starts.data[b + 1] - batch->pair_starts.data[b];
    double total = 0;
    if (model->options.loss == XCL_LOSS_BCE) {
        for (int64_t i = 0; i < n; i++) total += (z[i] > 0 ? z[i] : 0) + log1p(exp(-fabs(z[i])));
        batch->row_loss.data[b] = (float)total;
        return;
    }
    float high = -INFINITY;
    for (int64_t i = 0; i < n; i++) high = z[i] > high ? z[i] : high;
    for (int64_t i = 0; i < n; i++) total += exp(z[i] - high);
    batch->shift.data[b] = (float)(high + log(total));
}

static xcl_status score_row(xcl_model *model, double *loss) {
    xcl_batch *batch = &model->batch;
    int64_t n_pairs = batch->pair_starts.data[batch->n_rows];
    XCL_TRY(XCL_RESERVE(batch->scores, n_pairs));
    XCL_TRY(XCL_RESERVE(batch->true_places, batch->label_starts.data[batch->n_rows]));
    xcl_pool_run(model->engine->pool, xcl_ceil_div(batch->active.n_ids, LABELS_A_TASK), label_task, model);
    xcl_pool_run(model->engine->pool, batch->n_rows, row_task, model);
    for (int64_t b = 0; b < batch->n_rows; b++) /* a row's true labels stand first among its pairs */
        for (int64_t i = batch->label_starts.data[b]; i < batch->label_starts.data[b + 1]; i++)
            batch->true_places.data[i] = batch->pair_starts.data[b] + i - batch->label_starts.data[b];
    *loss = add_targets(model, 0);
    return XCL_OK;
}

xcl_status xcl_score(xcl_model *model, double *loss) {
    XCL_TRY(XCL_RESERVE(model->batch.shift, model->options.n_members * model->batch.n_padded));
    XCL_TRY(XCL_RESERVE(model->batch.row_loss, model->options.n_members * model->batch.n_padded));
    return model->options.scope == XCL_SCOPE_ROW ? score_row(model, loss) : score_batch(model, loss);
}
