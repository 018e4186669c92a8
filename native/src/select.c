/* Phase 2: which labels are scored. True labels always; then candidates of the tables; then random ones.
 *
 * Scope row: every row has its own list of pairs. Scope batch: all rows share the union.
 * SPDX-License-Identifier: MIT */
#include "model.h"
#include "rng.h"

bool xcl_select_takes_all(const xcl_model *model) {
    const xcl_model_options *o = &model->options;
    if (o->sampler == XCL_SAMPLER_FULL) return true;
    return o->n_active >= o->n_labels / 3 + 1 && (o->sampler == XCL_SAMPLER_RANDOM || o->random_fill);
}

xcl_status xcl_select_labels(xcl_model *model, const xcl_csr *y, const int64_t *rows) {
    xcl_batch *batch = &model->batch;
    int64_t count = 0, n_labels = model->options.n_labels;
    for (int64_t b = 0; b < batch->n_rows; b++) {
        if (rows[b] < 0 || rows[b] >= y->n_rows || y->indptr[rows[b] + 1] < y->indptr[rows[b]])
            return xcl_fail(XCL_ERR_ARG, "row %lld has no labels to read", (long long)rows[b]);
        count += y->indptr[rows[b] + 1] - y->indptr[rows[b]];
    }
    XCL_TRY(XCL_RESERVE(batch->label_starts, batch->n_rows + 1));
    XCL_TRY(XCL_RESERVE(batch->labels, count));
    XCL_TRY(XCL_RESERVE(batch->label_rows, count));
    int64_t at = 0;
    for (int64_t b = 0; b < batch->n_rows; b++) {
        batch->label_starts.data[b] = at;
        for (int64_t i = y->indptr[rows[b]]; i < y->indptr[rows[b] + 1]; i++) {
            int32_t label = y->indices[i];
            if (label < 0 || label >= n_labels)
                return xcl_fail(XCL_ERR_ARG, "row %lld: label %d is not below %lld", (long long)rows[b], label, (long long)n_labels);
            if (i > y->indptr[rows[b]] && label <= y->indices[i - 1])
                return xcl_fail(XCL_ERR_ARG, "row %lld: label %d does not ascend", (long long)rows[b], label);
            batch->labels.data[at] = label;
            batch->label_rows.data[at++] = (int32_t)b;
        }
    }
    batch->label_starts.data[batch->n_rows] = at;
    return XCL_OK;
}

/* ---- Candidates of the tables, for a block of rows ---- */

typedef struct {
    xcl_model *model;
    int64_t n_wanted; /* candidates a row */
    int32_t *ids;     /* (B, n_wanted) */
    int64_t *n_ids;   /* (B) */
} probe_job;

static void probe_task(void *arg, int64_t task, int32_t thread) {
    probe_job *job = arg;
    xcl_model *model = job->model;
    xcl_batch *batch = &model->batch;
    xcl_index *index = model->index;
    xcl_index_room *room = &index->rooms[thread];
    int64_t first = task * XCL_HASH_BLOCK, n = xcl_min(XCL_HASH_BLOCK, batch->n_rows - first), padded = xcl_model_padded(model);
    xcl_hash_block(&index->hash, &room->hash, xcl_model_top(model) + first * padded, padded, NULL, n, true, NULL, room->addresses);
    for (int64_t b = first; b < first + n; b++) {
        const int32_t *labels = batch->labels.data + batch->label_starts.data[b];
        int64_t n_labels = batch->label_starts.data[b + 1] - batch->label_starts.data[b];
        job->n_ids[b] = xcl_index_candidates(index, room, room->addresses + (b - first) * index->hash.options.n_tables,
                                             (int64_t)(model->counters.n_rows_seen + (uint64_t)b), job->n_wanted,
                                             job->ids + b * job->n_wanted, labels, n_labels, &batch->found.data[b],
                                             &batch->candidates.data[b]);
    }
}

static xcl_status probe_tables(xcl_model *model, int64_t n_wanted, xcl_step *step) {
    xcl_batch *batch = &model->batch;
    XCL_TRY(XCL_RESERVE(batch->proposals, batch->n_rows * n_wanted));
    XCL_TRY(XCL_RESERVE(batch->n_proposals, batch->n_rows));
    XCL_TRY(XCL_RESERVE(batch->found, batch->n_rows));
    XCL_TRY(XCL_RESERVE(batch->candidates, batch->n_rows));
    probe_job job = {model, n_wanted, batch->proposals.data, batch->n_proposals.data};
    xcl_pool_run(model->engine->pool, xcl_ceil_div(batch->n_rows, XCL_HASH_BLOCK), probe_task, &job);
    for (int64_t b = 0; b < batch->n_rows; b++) {
        step->n_labels_found += batch->found.data[b];
        step->n_candidates += batch->candidates.data[b];
    }
    return XCL_OK;
}

/* ---- Scope batch ---- */

static void fill_randomly(xcl_model *model, int64_t n_wanted) {
    uint64_t key = xcl_random_key(model->options.seed, XCL_RNG_SAMPLE, model->counters.n_steps);
    for (uint64_t draw = 0; n_wanted > 0; draw++)
        n_wanted -= xcl_bitset_add(&model->batch.active.set,
                                   (int32_t)xcl_below(xcl_random_at(key, draw), (uint32_t)model->options.n_labels));
}

static void take_all(xcl_model *model) {
    xcl_bitset *set = &model->batch.active.set;
    int64_t n = model->options.n_labels;
    memset(set->words, 0xff, (size_t)set->n_words * sizeof *set->words);
    if (n % 64 != 0) set->words[set->n_words - 1] = ((uint64_t)1 << (n % 64)) - 1;
}

static xcl_status select_batch(xcl_model *model, xcl_step *step) {
    xcl_batch *batch = &model->batch;
    int64_t n_labels = model->options.n_labels, n_pairs = batch->label_starts.data[batch->n_rows];
    bool lsh = model->options.sampler == XCL_SAMPLER_LSH;
    xcl_bitset_clear(&batch->active.set);
    for (int64_t i = 0; i < n_pairs; i++) xcl_bitset_add(&batch->active.set, batch->labels.data[i]);
    int64_t n_wanted = model->options.n_active;
    if (lsh && n_wanted > 0) {
        int64_t share = xcl_ceil_div(n_wanted, batch->n_rows);
        XCL_TRY(probe_tables(model, share, step));
        for (int64_t b = 0; b < batch->n_rows; b++)
            for (int64_t i = 0; i < batch->n_proposals.data[b]; i++)
                n_wanted -= xcl_bitset_add(&batch->active.set, batch->proposals.data[b * share + i]);
        if (!model->options.random_fill) n_wanted = 0;
    }
    int64_t n_left = n_wanted > 0 ? n_labels - xcl_bitset_count(&batch->active.set) : 0;
    if (xcl_select_takes_all(model) || (n_wanted > 0 && n_wanted >= n_left)) take_all(model);
    else if (n_wanted > 0) fill_randomly(model, n_wanted);
    XCL_TRY(xcl_group_list(&batch->active));
    XCL_TRY(xcl_group_sort(&batch->active, model->engine->pool, batch->labels.data, n_pairs));
    step->n_active = batch->active.n_ids * batch->n_rows;
    return XCL_OK;
}

/* ---- Scope row ---- */

/* Put id into the row's list unless it is there. */
static bool put(xcl_room *room, int32_t *list, int64_t *n, int32_t id) {
    if (room->stamp[id] == room->last_stamp) return false;
    room->stamp[id] = room->last_stamp;
    list[(*n)++] = id;
    return true;
}

static void new_list(const xcl_model *model, xcl_room *room) {
    if (++room->last_stamp != 0) return;
    memset(room->stamp, 0, (size_t)model->options.n_labels * sizeof *room->stamp);
    room->last_stamp = 1;
}

static int64_t list_row(xcl_model *model, xcl_room *room, int64_t b, int64_t share, int32_t *list) {
    xcl_batch *batch = &model->batch;
    int64_t n = 0, n_labels = model->options.n_labels, n_wanted = model->options.n_active;
    new_list(model, room);
    for (int64_t i = batch->label_starts.data[b]; i < batch->label_starts.data[b + 1]; i++)
        put(room, list, &n, batch->labels.data[i]);
    if (xcl_select_takes_all(model)) {
        for (int32_t id = 0; id < n_labels; id++) put(room, list, &n, id);
        return n;
    }
    if (model->options.sampler == XCL_SAMPLER_LSH) {
        for (int64_t i = 0; i < batch->n_proposals.data[b] && n_wanted > 0; i++)
            n_wanted -= put(room, list, &n, batch->proposals.data[b * share + i]);
        if (!model->options.random_fill) return n;
    }
    n_wanted = xcl_min(n_wanted, n_labels - n);
    uint64_t key = xcl_random_key(model->options.seed, XCL_RNG_SAMPLE, model->counters.n_steps);
    for (uint64_t draw = 0; n_wanted > 0; draw++) {
        uint64_t bits = xcl_random_at(key, (uint64_t)b << 32 | draw);
        n_wanted -= put(room, list, &n, (int32_t)xcl_below(bits, (uint32_t)n_labels));
    }
    return n;
}

typedef struct {
    xcl_model *model;
    int64_t slot;  /* places reserved for a row beside its true labels */
    int64_t share; /* proposals of a row */
} list_job;

static void list_task(void *arg, int64_t task, int32_t thread) {
    list_job *job = arg;
    xcl_batch *batch = &job->model->batch;
    int32_t *list = batch->slots.data + task * job->slot + batch->label_starts.data[task];
    int64_t n = list_row(job->model, &job->model->rooms[thread], task, job->share, list);
    batch->pair_starts.data[task + 1] = n;
    for (int64_t i = 0; i < n; i++) /* other rows may share the word */
        __atomic_fetch_or(&batch->active.set.words[list[i] >> 6], (uint64_t)1 << (list[i] & 63), __ATOMIC_RELAXED);
}

static void gather_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    list_job *job = arg;
    xcl_batch *batch = &job->model->batch;
    const int32_t *list = batch->slots.data + task * job->slot + batch->label_starts.data[task];
    for (int64_t i = batch->pair_starts.data[task]; i < batch->pair_starts.data[task + 1]; i++) {
        batch->pair_labels.data[i] = *list++;
        batch->pair_rows.data[i] = (int32_t)task;
    }
}

static xcl_status select_row(xcl_model *model, xcl_step *step) {
    xcl_batch *batch = &model->batch;
    int64_t n_true = batch->label_starts.data[batch->n_rows];
    int64_t slot = xcl_select_takes_all(model) ? model->options.n_labels : model->options.n_active;
    list_job job = {model, slot, model->options.n_active};
    if (model->options.sampler == XCL_SAMPLER_LSH) XCL_TRY(probe_tables(model, job.share, step));
    XCL_TRY(XCL_RESERVE(batch->slots, batch->n_rows * job.slot + n_true));
    XCL_TRY(XCL_RESERVE(batch->pair_starts, batch->n_rows + 1));
    xcl_bitset_clear(&batch->active.set);
    xcl_pool_run(model->engine->pool, batch->n_rows, list_task, &job);
    batch->pair_starts.data[0] = 0;
    for (int64_t b = 0; b < batch->n_rows; b++) batch->pair_starts.data[b + 1] += batch->pair_starts.data[b];
    int64_t n_pairs = batch->pair_starts.data[batch->n_rows];
    XCL_TRY(XCL_RESERVE(batch->pair_labels, n_pairs));
    XCL_TRY(XCL_RESERVE(batch->pair_rows, n_pairs));
    xcl_pool_run(model->engine->pool, batch->n_rows, gather_task, &job);
    XCL_TRY(xcl_group_list(&batch->active));
    XCL_TRY(xcl_group_sort(&batch->active, model->engine->pool, batch->pair_labels.data, n_pairs));
    step->n_active = n_pairs;
    return XCL_OK;
}

xcl_status xcl_select_active(xcl_model *model, xcl_step *step) {
    xcl_batch *batch = &model->batch;
    step->n_labels = batch->label_starts.data[batch->n_rows];
    XCL_TRY(model->options.scope == XCL_SCOPE_ROW ? select_row(model, step) : select_batch(model, step));
    step->n_union = batch->active.n_ids;
    return XCL_OK;
}
