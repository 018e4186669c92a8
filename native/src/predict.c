/* Top k labels of rows: all labels scored in blocks, or only the candidates of the tables.
 *
 * The labels are cut into fixed ranges; each keeps the best k of every row in a heap with the worst at the root, and the
 * heaps of a row are merged at the end. Better means a higher score, or an equal score and a lower id.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include "model.h"

#define ROWS_TOGETHER 256
#define MAX_RANGES 64
#define LABELS_TOGETHER 64
#define MAX_CANDIDATES 65536 /* of the tables, a row */

typedef struct {
    float score;
    int32_t id;
} scored;

static bool better(scored a, scored b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }

/* Put item at the root's place and let it sink: every parent is worse than its children. */
static void sink(scored *heap, int64_t n, scored item) {
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && better(heap[child], heap[child + 1])) child++;
        if (!better(item, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

static int by_rank(const void *a, const void *b) {
    const scored *x = a, *y = b;
    return better(*x, *y) ? -1 : better(*y, *x) ? 1 : 0;
}

typedef struct {
    xcl_model *model;
    int64_t n_ranges, k; /* k at most the number of labels */
    scored *heaps;       /* (n_ranges, B, k), full of -infinity at first */
    float *bounds;       /* (n_ranges, pad(B)) root of each heap: what a score must exceed */
    float *z;            /* (n_ranges, LABELS_TOGETHER, pad(B)) */
    int32_t *places;     /* (n_ranges, pad(B)) */
    int32_t *label_ids;
    float *scores;
    int64_t k_out;
} predict_job;

static void range_task(void *arg, int64_t range, int32_t thread) {
    predict_job *job = arg;
    xcl_model *model = job->model;
    const xcl_kernels *kernels = model->engine->kernels;
    int64_t n = model->batch.n_padded, n_rows = model->batch.n_rows, n_labels = model->options.n_labels;
    int64_t first = n_labels * range / job->n_ranges, last = n_labels * (range + 1) / job->n_ranges;
    scored *heaps = job->heaps + range * n_rows * job->k;
    float *bounds = job->bounds + range * n, *z = job->z + range * LABELS_TOGETHER * n;
    int32_t *places = job->places + range * n;
    (void)thread;
    for (int64_t i = 0; i < n_rows * job->k; i++) heaps[i] = (scored){-INFINITY, INT32_MAX};
    for (int64_t b = 0; b < n; b++) bounds[b] = b < n_rows ? -INFINITY : INFINITY;
    for (int64_t l0 = first; l0 < last; l0 += LABELS_TOGETHER) {
        int64_t l1 = xcl_min(l0 + LABELS_TOGETHER, last);
        kernels->product(z, n, model->output.weight + l0 * model->output.stride, model->output.stride, 1, model->batch.turned.data, n,
                         l1 - l0, xcl_model_width(model), n, 0);
        kernels->add_bias(z, model->output_bias.weight + l0, l1 - l0, n);
        for (int64_t l = l0; l < l1; l++) {
            const float *scores = z + (l - l0) * n;
            int64_t n_places = kernels->above(scores, bounds, n, places);
            for (int64_t i = 0; i < n_places; i++) {
                int64_t b = places[i];
                sink(heaps + b * job->k, job->k, (scored){scores[b], (int32_t)l});
                bounds[b] = heaps[b * job->k].score;
            }
        }
    }
}

/* Merge the ranges of row b into the first, sort, write out. */
static void merge_task(void *arg, int64_t b, int32_t thread) {
    (void)thread;
    predict_job *job = arg;
    int64_t n_rows = job->model->batch.n_rows, k = job->k;
    scored *best = job->heaps + b * k;
    for (int64_t range = 1; range < job->n_ranges; range++) {
        const scored *heap = job->heaps + (range * n_rows + b) * k;
        for (int64_t i = 0; i < k; i++)
            if (better(heap[i], best[0])) sink(best, k, heap[i]);
    }
    qsort(best, (size_t)k, sizeof *best, by_rank);
    for (int64_t i = 0; i < job->k_out; i++) {
        bool is_label = i < k && best[i].id != INT32_MAX;
        job->label_ids[b * job->k_out + i] = is_label ? best[i].id : -1;
        job->scores[b * job->k_out + i] = is_label ? best[i].score : -INFINITY;
    }
}

static void candidates_task(void *arg, int64_t task, int32_t thread) {
    predict_job *job = arg;
    xcl_model *model = job->model;
    xcl_index_room *room = &model->index->rooms[thread];
    int64_t padded = xcl_model_padded(model), n_tables = model->options.index.n_tables, n_found, n_met;
    int64_t first = task * XCL_HASH_BLOCK, n = xcl_min(XCL_HASH_BLOCK, model->batch.n_rows - first);
    const float *h = xcl_model_top(model) + first * padded;
    int64_t most = xcl_min(MAX_CANDIDATES, model->options.n_labels);
    int32_t *ids = job->places + thread * most;
    xcl_hash_block(&model->index->hash, &room->hash, h, padded, NULL, n, true, NULL, room->addresses);
    for (int64_t v = 0; v < n; v++) {
        scored *heap = job->heaps + (first + v) * job->k;
        for (int64_t i = 0; i < job->k; i++) heap[i] = (scored){-INFINITY, INT32_MAX};
        int64_t n_ids = xcl_index_candidates(model->index, room, room->addresses + v * n_tables, 0, most, ids, NULL, 0, &n_found, &n_met);
        for (int64_t i = 0; i < n_ids; i++) {
            float dot = model->engine->kernels->dot(model->output.weight + ids[i] * padded, h + v * padded, padded);
            scored item = {dot + model->output_bias.weight[ids[i]], ids[i]};
            if (better(item, heap[0])) sink(heap, job->k, item);
        }
    }
}

static xcl_status check_ready(const xcl_model *model, int64_t n_rows, int32_t k, int32_t lsh) {
    XCL_TRY(xcl_pool_check(model->engine->pool));
    if (k < 1) return xcl_fail(XCL_ERR_ARG, "k: %d is below 1", k);
    if (n_rows < 0) return xcl_fail(XCL_ERR_ARG, "%lld rows", (long long)n_rows);
    bool whole = model->input.weight && model->input_bias.weight && model->output.weight && model->output_bias.weight;
    for (int32_t l = 1; l < model->n_layers; l++) whole = whole && model->between[l].weight && model->between_bias[l].weight;
    if (!whole) return xcl_fail(XCL_ERR_STATE, "not all weights are attached");
    if (lsh && (model->index == NULL || !model->counters.index_built))
        return xcl_fail(XCL_ERR_ARG, "the model has no hash tables: it was trained with another sampler");
    return XCL_OK;
}

static xcl_status predict_rows(xcl_model *model, predict_job *job, int32_t lsh) {
    int64_t n_rows = model->batch.n_rows;
    XCL_TRY(xcl_embed_forward(model));
    if (lsh) {
        xcl_pool_run(model->engine->pool, xcl_ceil_div(n_rows, XCL_HASH_BLOCK), candidates_task, job);
    } else {
        XCL_TRY(xcl_embed_turn(model));
        xcl_pool_run(model->engine->pool, job->n_ranges, range_task, job);
    }
    xcl_pool_run(model->engine->pool, n_rows, merge_task, job);
    return XCL_OK;
}

xcl_status xcl_model_predict(xcl_model *model, const xcl_csr *x, const int64_t *rows, int64_t n_rows, int32_t k, int32_t lsh,
                             int32_t *label_ids, float *scores, int64_t *n_unknown) {
    XCL_TRY(check_ready(model, n_rows, k, lsh));
    int64_t together = xcl_min(ROWS_TOGETHER, xcl_max(n_rows, 1)), n = xcl_pad(together);
    predict_job job = {.model = model, .k = xcl_min(k, model->options.n_labels), .k_out = k};
    job.n_ranges = lsh ? 1 : xcl_min(MAX_RANGES, xcl_ceil_div(model->options.n_labels, LABELS_TOGETHER));
    int64_t n_places = lsh ? model->n_threads * xcl_min(MAX_CANDIDATES, model->options.n_labels) : job.n_ranges * n;
    job.heaps = xcl_alloc(job.n_ranges * together * job.k, sizeof *job.heaps);
    job.bounds = xcl_alloc(job.n_ranges * n, sizeof *job.bounds);
    job.z = xcl_alloc(job.n_ranges * LABELS_TOGETHER * n, sizeof *job.z);
    job.places = xcl_alloc(n_places, sizeof *job.places);
    xcl_status status = XCL_OK;
    if (!job.heaps || !job.bounds || !job.z || !job.places)
        status = xcl_fail(XCL_ERR_MEMORY, "cannot allocate the best %d of %lld rows", k, (long long)together);
    *n_unknown = 0;
    for (int64_t first = 0; first < n_rows && status == XCL_OK; first += together) {
        int64_t count = xcl_min(together, n_rows - first);
        xcl_csr part = *x; /* without row numbers, the part's own rows are 0.. */
        if (rows == NULL) {
            part.n_rows = x->n_rows - first;
            part.indptr = x->indptr + first;
        }
        status = xcl_embed_load(model, &part, rows != NULL ? rows + first : NULL, count, false);
        *n_unknown += status == XCL_OK ? model->batch.n_unknown : 0;
        job.label_ids = label_ids + first * k;
        job.scores = scores + first * k;
        if (status == XCL_OK) status = predict_rows(model, &job, lsh);
    }
    xcl_free(job.heaps);
    xcl_free(job.bounds);
    xcl_free(job.z);
    xcl_free(job.places);
    return status;
}

xcl_status xcl_model_hidden(xcl_model *model, const xcl_csr *x, const int64_t *rows, int64_t n_rows, float *hidden) {
    XCL_TRY(check_ready(model, n_rows, 1, 0));
    XCL_TRY(xcl_embed_load(model, x, rows, n_rows, false));
    XCL_TRY(xcl_embed_forward(model));
    int64_t width = xcl_model_width(model);
    for (int64_t b = 0; b < n_rows; b++)
        memcpy(hidden + b * width, xcl_model_top(model) + b * model->output.stride, (size_t)width * sizeof *hidden);
    return XCL_OK;
}
