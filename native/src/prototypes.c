/* Label prototypes as first output weights: for each member the unit vector from the mean of all hidden vectors to the
 * mean of those of the label's rows. Labels without rows get zeros. SPDX-License-Identifier: MIT */
#include <math.h>
#include "model.h"

static xcl_status begin(xcl_model *model) {
    if (model->prototype_counts != NULL) return XCL_OK;
    model->prototype_counts = xcl_alloc(model->options.n_labels, sizeof *model->prototype_counts);
    model->prototype_mean = xcl_alloc(model->output.stride, sizeof *model->prototype_mean);
    if (model->prototype_counts == NULL || model->prototype_mean == NULL)
        return xcl_fail(XCL_ERR_MEMORY, "cannot allocate counts of %lld labels", (long long)model->options.n_labels);
    model->n_prototype_rows = 0;
    memset(model->output.weight, 0, (size_t)(model->output.n_rows * model->output.stride) * sizeof(float));
    return XCL_OK;
}

#define LABELS_A_TASK 64

static void add_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    xcl_model *model = arg;
    const xcl_group *active = &model->batch.active;
    int64_t end = xcl_min((task + 1) * LABELS_A_TASK, active->n_ids), stride = model->output.stride;
    for (int64_t u = task * LABELS_A_TASK; u < end; u++) {
        float *w = model->output.weight + active->ids.data[u] * stride;
        for (int64_t i = active->starts.data[u]; i < active->starts.data[u + 1]; i++) {
            const float *h = xcl_model_top(model) + model->batch.label_rows.data[active->order.data[i]] * stride;
            model->engine->kernels->axpy(w, h, 1.0f, stride);
        }
        model->prototype_counts[active->ids.data[u]] += (int32_t)(active->starts.data[u + 1] - active->starts.data[u]);
    }
}

xcl_status xcl_model_prototypes_add(xcl_model *model, const xcl_csr *x, const xcl_csr *y, const int64_t *rows, int64_t n_rows) {
    XCL_TRY(xcl_pool_check(model->engine->pool));
    if (!model->options.trainable) return xcl_fail(XCL_ERR_STATE, "the model was opened for prediction only");
    XCL_TRY(xcl_embed_load(model, x, rows, n_rows, false)); /* no dropout of any kind */
    if (model->batch.n_unknown > 0)
        return xcl_fail(XCL_ERR_ARG, "features: %lld are not below %lld", (long long)model->batch.n_unknown,
                        (long long)model->options.n_features);
    XCL_TRY(xcl_embed_forward(model));
    XCL_TRY(xcl_select_labels(model, y, rows));
    XCL_TRY(begin(model));
    xcl_group *active = &model->batch.active;
    int64_t n_pairs = model->batch.label_starts.data[n_rows];
    xcl_bitset_clear(&active->set);
    for (int64_t i = 0; i < n_pairs; i++) xcl_bitset_add(&active->set, model->batch.labels.data[i]);
    XCL_TRY(xcl_group_list(active));
    XCL_TRY(xcl_group_sort(active, model->engine->pool, model->batch.labels.data, n_pairs));
    xcl_pool_run(model->engine->pool, xcl_ceil_div(active->n_ids, LABELS_A_TASK), add_task, model);
    for (int64_t b = 0; b < n_rows; b++)
        for (int64_t i = 0; i < model->output.stride; i++) model->prototype_mean[i] += xcl_model_top(model)[b * model->output.stride + i];
    model->n_prototype_rows += n_rows;
    return XCL_OK;
}

typedef struct {
    xcl_model *model;
    float scale;
} finish_job;

static void finish_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    finish_job *job = arg;
    xcl_model *model = job->model;
    int64_t end = xcl_min((task + 1) * LABELS_A_TASK, model->options.n_labels), stride = model->output.stride;
    int64_t part = xcl_model_part(model);
    for (int64_t l = task * LABELS_A_TASK; l < end; l++) {
        float *w = model->output.weight + l * stride;
        if (model->prototype_counts[l] == 0) continue;
        for (int64_t first = 0; first < stride; first += part) {
            double square = 0;
            for (int64_t i = first; i < first + part; i++) {
                w[i] = (float)(w[i] / model->prototype_counts[l] - model->prototype_mean[i] / (double)model->n_prototype_rows);
                square += (double)w[i] * w[i];
            }
            float scale = square > 0 ? (float)(job->scale / sqrt(square)) : 0.0f;
            for (int64_t i = first; i < first + part; i++) w[i] *= scale;
        }
    }
}

xcl_status xcl_model_prototypes_finish(xcl_model *model, float scale) {
    XCL_TRY(xcl_pool_check(model->engine->pool));
    if (model->prototype_counts == NULL) return xcl_fail(XCL_ERR_STATE, "no rows were added to the prototypes");
    finish_job job = {model, scale};
    xcl_pool_run(model->engine->pool, xcl_ceil_div(model->options.n_labels, LABELS_A_TASK), finish_task, &job);
    xcl_free(model->prototype_counts);
    xcl_free(model->prototype_mean);
    model->prototype_counts = NULL;
    model->prototype_mean = NULL;
    return XCL_OK;
}
