/* The model's memory: options, creation, named blocks. SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "model.h"
#include "rng.h"

#define MAX_BLOCK 128 /* labels scored together, at most */
#define MAX_HIDDEN_UNITS 65536
#define HIDDEN_ROWS 16 /* rows of a dense layer updated together, see update.c */

/* ---- Options ---- */

xcl_model_options xcl_model_options_default(void) {
    return (xcl_model_options){
        .n_features = 1, .n_labels = 1, .n_hidden_layers = 1, .hidden = {128}, .n_members = 1,
        .loss = XCL_LOSS_BCE, .optimizer = XCL_OPTIMIZER_ADAGRAD, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
        .init_scale = 0.1f, .output_scale = 0.01f, .seed = 1,
        .sampler = XCL_SAMPLER_RANDOM, .scope = XCL_SCOPE_BATCH, .n_active = 1000, .random_fill = 1,
        .index = {.kind = XCL_HASH_DWTA, .n_tables = 50, .hashes_per_table = 5, .policy = XCL_POLICY_VANILLA, .min_count = 2,
                  .positive_queries = 1, .seed = 1},
        .rehash_rows = 6400, .rebuild_rows = 128000, .trainable = 1,
    };
}

#define CHECK(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) return xcl_fail(XCL_ERR_ARG, __VA_ARGS__);                                                   \
    } while (0)

static xcl_status check_options(const xcl_model_options *o) {
    CHECK(o->n_features >= 1 && o->n_features <= INT32_MAX, "features: %lld is not in 1..2147483647", (long long)o->n_features);
    CHECK(o->n_labels >= 1 && o->n_labels <= INT32_MAX, "labels: %lld is not in 1..2147483647", (long long)o->n_labels);
    CHECK(o->n_hidden_layers >= 1 && o->n_hidden_layers <= XCL_MAX_HIDDEN, "hidden: %d layers, not 1..8", o->n_hidden_layers);
    for (int32_t l = 0; l < o->n_hidden_layers; l++)
        CHECK(o->hidden[l] >= 1 && o->hidden[l] <= MAX_HIDDEN_UNITS, "hidden: %d units are not in 1..%d", o->hidden[l], MAX_HIDDEN_UNITS);
    int32_t top = o->hidden[o->n_hidden_layers - 1];
    CHECK(o->n_members >= 1 && (o->n_members == 1 || top % (o->n_members * XCL_LANES) == 0),
          "members: %d do not cut %d hidden units into multiples of %d", o->n_members, top, XCL_LANES);
    CHECK(o->n_members == 1 || o->scope == XCL_SCOPE_BATCH || o->sampler == XCL_SAMPLER_FULL, "members: %d need scope batch", o->n_members);
    CHECK(o->dropout >= 0 && o->dropout < 1, "dropout: %g is not in [0, 1)", o->dropout);
    CHECK(o->input_dropout >= 0 && o->input_dropout < 1, "input_dropout: %g is not in [0, 1)", o->input_dropout);
    CHECK(o->loss == XCL_LOSS_SOFTMAX || o->loss == XCL_LOSS_BCE, "loss: %d is unknown", o->loss);
    CHECK(o->optimizer >= XCL_OPTIMIZER_SGD && o->optimizer <= XCL_OPTIMIZER_ADAM, "optimizer: %d is unknown", o->optimizer);
    CHECK(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1, "beta1, beta2: %g, %g are not in [0, 1)", o->beta1, o->beta2);
    CHECK(o->epsilon > 0 && isfinite(o->epsilon), "epsilon: %g is not above 0 and finite", o->epsilon);
    CHECK(isfinite(o->init_scale), "init_scale: %g is not finite", o->init_scale);
    CHECK(isfinite(o->output_scale), "output_scale: %g is not finite", o->output_scale);
    CHECK(isfinite(o->output_bias), "output_bias: %g is not finite", o->output_bias);
    CHECK(o->sampler >= XCL_SAMPLER_FULL && o->sampler <= XCL_SAMPLER_LSH, "sampler: %d is unknown", o->sampler);
    CHECK(o->scope == XCL_SCOPE_ROW || o->scope == XCL_SCOPE_BATCH, "scope: %d is unknown", o->scope);
    CHECK(o->n_active >= 0, "active: %lld is negative", (long long)o->n_active);
    CHECK(o->rehash_rows >= 0 && o->rebuild_rows >= 0, "rehash_rows and rebuild_rows must not be negative");
    CHECK(o->rehash_growth >= 0 && o->rehash_growth <= 10, "rehash_growth: %g is not in 0..10", o->rehash_growth);
    return o->sampler == XCL_SAMPLER_LSH ? xcl_hash_check(&o->index) : XCL_OK;
}

/* ---- Creation ---- */

typedef struct {
    xcl_table *table;
    uint64_t seed, purpose, first;
    float scale;
} init_job;

static void init_task(void *arg, int64_t task, int32_t thread) {
    (void)thread;
    init_job *job = arg;
    int64_t end = xcl_min((task + 1) * 256, job->table->n_rows);
    for (int64_t row = task * 256; row < end; row++) {
        uint64_t key = xcl_random_key(job->seed, job->purpose, job->first + (uint64_t)row);
        float *w = job->table->weight + row * job->table->stride;
        for (int64_t i = 0; i < job->table->n_cols; i++) w[i] = job->scale * xcl_normal(xcl_random_at(key, (uint64_t)i));
    }
}

static void fill_normal(xcl_model *model, xcl_table *table, uint64_t purpose, uint64_t first, float scale) {
    init_job job = {table, model->options.seed, purpose, first, scale};
    if (scale != 0) xcl_pool_run(model->engine->pool, xcl_ceil_div(table->n_rows, 256), init_task, &job);
}

static void init_weights(xcl_model *model) {
    fill_normal(model, &model->input, XCL_RNG_INIT_INPUT, 0, model->options.init_scale);
    for (int32_t l = 1; l < model->n_layers; l++)
        fill_normal(model, &model->between[l], XCL_RNG_INIT_HIDDEN, (uint64_t)l << 32, sqrtf(2.0f / (float)model->width[l - 1]));
    fill_normal(model, &model->output, XCL_RNG_INIT_OUTPUT, 0, model->options.output_scale);
    for (int64_t i = 0; i < model->options.n_labels; i++) model->output_bias.weight[i] = model->options.output_bias;
}

static xcl_status create_tables(xcl_model *model) {
    const xcl_model_options *o = &model->options;
    bool own = o->trainable;
    int64_t top = xcl_model_padded(model);
    XCL_TRY(xcl_table_create(&model->input, o->n_features, model->width[0], model->padded[0], o->optimizer, own));
    XCL_TRY(xcl_table_create(&model->input_bias, 1, model->width[0], model->padded[0], o->optimizer, own));
    for (int32_t l = 1; l < model->n_layers; l++) {
        XCL_TRY(xcl_table_create(&model->between[l], model->width[l - 1], model->width[l], model->padded[l], o->optimizer, own));
        XCL_TRY(xcl_table_create(&model->between_bias[l], 1, model->width[l], model->padded[l], o->optimizer, own));
    }
    XCL_TRY(xcl_table_create(&model->output, o->n_labels, xcl_model_width(model), top, o->optimizer, own));
    return xcl_table_create(&model->output_bias, o->n_labels, 1, 1, o->optimizer, own);
}

static xcl_status create_rooms(xcl_model *model) {
    int32_t n_threads = model->n_threads;
    int64_t widest = 0, n_labels = model->options.n_labels;
    for (int32_t l = 0; l < model->n_layers; l++) widest = xcl_max(widest, model->padded[l]);
    bool stamps = model->options.trainable && model->options.scope == XCL_SCOPE_ROW, whole = true;
    model->rooms = xcl_alloc(n_threads, sizeof *model->rooms);
    for (int32_t i = 0; i < n_threads && model->rooms != NULL; i++) {
        xcl_room *room = &model->rooms[i];
        room->pack = xcl_alloc(MAX_BLOCK * xcl_model_padded(model), sizeof(float));
        room->gradient = xcl_alloc(xcl_max(MAX_BLOCK * xcl_model_padded(model), HIDDEN_ROWS * widest), sizeof(float));
        room->bias = xcl_alloc(MAX_BLOCK, sizeof(float));
        if (stamps) room->stamp = xcl_alloc(n_labels, sizeof *room->stamp);
        whole = whole && room->pack && room->gradient && room->bias && (!stamps || room->stamp);
    }
    if (model->rooms != NULL && whole) return XCL_OK;
    return xcl_fail(XCL_ERR_MEMORY, "cannot allocate room for %d threads", n_threads);
}

static xcl_status create_parts(xcl_model *model) {
    const xcl_model_options *o = &model->options;
    XCL_TRY(create_tables(model));
    XCL_TRY(create_rooms(model));
    if (!o->trainable) return XCL_OK;
    XCL_TRY(xcl_group_create(&model->batch.active, o->n_labels));
    XCL_TRY(xcl_group_create(&model->batch.features, o->n_features));
    if (o->sampler == XCL_SAMPLER_LSH) {
        XCL_TRY(xcl_bitset_create(&model->changed, o->n_labels));
        XCL_TRY(xcl_index_create(model->engine, &o->index, xcl_model_width(model), &model->index));
        XCL_TRY(xcl_index_size(model->index, o->n_labels));
    }
    init_weights(model);
    return XCL_OK;
}

xcl_status xcl_model_create(xcl_engine *engine, const xcl_model_options *options, xcl_model **out) {
    *out = NULL;
    XCL_TRY(check_options(options));
    XCL_TRY(xcl_pool_check(engine->pool));
    xcl_model *model = xcl_alloc(1, sizeof *model);
    if (model == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a model");
    model->engine = engine;
    model->n_threads = xcl_pool_threads(engine->pool);
    model->options = *options;
    if (options->sampler == XCL_SAMPLER_FULL) model->options.scope = XCL_SCOPE_BATCH;
    model->options.n_active = xcl_min(options->n_active, options->n_labels);
    model->n_layers = options->n_hidden_layers;
    for (int32_t l = 0; l < model->n_layers; l++) {
        model->width[l] = options->hidden[l];
        model->padded[l] = xcl_pad(options->hidden[l]);
    }
    xcl_status status = create_parts(model);
    if (status != XCL_OK) xcl_model_free(model);
    else *out = model;
    return status;
}

static void free_batch(xcl_batch *batch) {
    void *buffers[] = {batch->feature_starts.data, batch->feature_ids.data, batch->feature_rows.data, batch->feature_values.data,
                       batch->label_starts.data, batch->labels.data, batch->label_rows.data, batch->turned.data,
                       batch->scaled.data, batch->scores.data, batch->block_peak.data, batch->block_mass.data,
                       batch->shift.data, batch->row_loss.data, batch->true_places.data, batch->shards.data,
                       batch->pair_starts.data, batch->pair_labels.data, batch->pair_rows.data, batch->slots.data,
                       batch->proposals.data, batch->n_proposals.data, batch->candidates.data, batch->found.data};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) xcl_free(buffers[i]);
    for (int32_t l = 0; l < XCL_MAX_HIDDEN; l++) {
        xcl_free(batch->hidden[l].data);
        xcl_free(batch->gradient[l].data);
    }
    xcl_group_free(&batch->active);
    xcl_group_free(&batch->features);
}

void xcl_model_free(xcl_model *model) {
    if (model == NULL) return;
    xcl_table *tables[] = {&model->input, &model->input_bias, &model->output, &model->output_bias};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) xcl_table_free(tables[i]);
    for (int32_t l = 1; l < model->n_layers; l++) {
        xcl_table_free(&model->between[l]);
        xcl_table_free(&model->between_bias[l]);
    }
    for (int32_t i = 0; model->rooms != NULL && i < model->n_threads; i++) {
        xcl_free(model->rooms[i].pack);
        xcl_free(model->rooms[i].gradient);
        xcl_free(model->rooms[i].bias);
        xcl_free(model->rooms[i].values.data);
        xcl_free(model->rooms[i].rows.data);
        xcl_free(model->rooms[i].stamp);
    }
    free_batch(&model->batch);
    xcl_free(model->rooms);
    xcl_index_free(model->index);
    xcl_bitset_free(&model->changed);
    xcl_free(model->offsets);
    xcl_free(model->prototype_mean);
    xcl_free(model->prototype_counts);
    xcl_free(model);
}

int64_t xcl_model_block(int64_t n_padded, int64_t width) {
    int64_t fits = ((int64_t)1 << 20) / 4 / (n_padded + 2 * width) / 8 * 8; /* errors, rows and gradients in 1 MiB */
    return xcl_min(MAX_BLOCK, xcl_max(16, fits));
}

/* ---- Memory plan ---- */

static void plan_table(double parts[6], const xcl_model_options *o, double n_rows, double stride) {
    parts[0] += xcl_table_weight_bytes((int64_t)n_rows, (int64_t)stride);
    if (o->trainable) parts[1] += xcl_table_state_bytes((int64_t)n_rows, (int64_t)stride, o->optimizer);
}

/* Distinct labels of a batch if labels are equally frequent; fewer if they are not. */
static double plan_union(const xcl_model_options *o, double n_rows, double n_row_labels) {
    double n = (double)o->n_labels, a = (double)o->n_active;
    bool row = o->scope == XCL_SCOPE_ROW && o->sampler != XCL_SAMPLER_FULL;
    if (o->sampler == XCL_SAMPLER_FULL || a * 3 >= n) return n;
    double n_true = n_rows * n_row_labels;
    return row ? n * (1 - exp(-(n_rows * a + n_true) / n)) : fmin(n, a + n * (1 - exp(-n_true / n)));
}

static double plan_scratch(const xcl_model_options *o, double n_threads, double n_rows, double n_row_features, double n_row_labels) {
    double top = (double)xcl_pad(o->hidden[o->n_hidden_layers - 1]), units = 0, n = (double)o->n_labels;
    for (int32_t l = 0; l < o->n_hidden_layers; l++) units += (double)xcl_pad(o->hidden[l]);
    double scored = plan_union(o, n_rows, n_row_labels), nnz = n_rows * n_row_features, padded = (double)xcl_pad((int64_t)n_rows);
    bool row = o->scope == XCL_SCOPE_ROW && o->sampler != XCL_SAMPLER_FULL;
    double pairs = n_rows * (fmin(n, (double)o->n_active) + n_row_labels);
    double bytes = 8 * n_rows * units + 4 * n_rows * top * (2 + XCL_SHARDS); /* hidden, gradients, turned, scaled, shards */
    bytes += nnz * 24 + 20 * scored + 40 * n_rows * n_row_labels + 0.19 * (n + (double)o->n_features);
    if (o->sampler == XCL_SAMPLER_LSH) bytes += 4 * (double)o->n_active * (row ? n_rows : 1); /* proposals */
    bytes += row ? pairs * 28 + 4 * n * n_threads : 4 * scored * padded * o->n_members * (1 + 2.0 / 64);
    return bytes + n_threads * 2 * 4 * MAX_BLOCK * top;
}

xcl_status xcl_model_plan(const xcl_model_options *options, int64_t n_threads, int64_t n_rows, double n_row_features,
                          double n_row_labels, double parts[6]) {
    XCL_TRY(check_options(options));
    for (int i = 0; i < 6; i++) parts[i] = 0;
    int32_t top = options->n_hidden_layers - 1;
    plan_table(parts, options, (double)options->n_features, (double)xcl_pad(options->hidden[0]));
    for (int32_t l = 1; l <= top; l++) plan_table(parts, options, options->hidden[l - 1], (double)xcl_pad(options->hidden[l]));
    plan_table(parts, options, (double)options->n_labels, (double)xcl_pad(options->hidden[top]));
    plan_table(parts, options, (double)options->n_labels, 1);
    parts[3] = plan_scratch(options, (double)n_threads, (double)n_rows, n_row_features, n_row_labels);
    if (options->sampler == XCL_SAMPLER_LSH)
        xcl_index_bytes(&options->index, options->n_labels, options->hidden[top], n_threads, &parts[2], &parts[4]);
    for (int i = 0; i < 5; i++) parts[5] += parts[i];
    return XCL_OK;
}

/* ---- Named blocks ---- */

typedef struct {
    int32_t wanted, at;
    xcl_tensor *out;
    bool found;
} tensor_search;

static void offer(tensor_search *search, const char *name, const char *suffix, int32_t type, int32_t role, int64_t n_rows,
                  int64_t n_cols, int64_t stride, void *data) {
    if (data == NULL || search->at++ != search->wanted) return;
    *search->out = (xcl_tensor){.type = type, .role = role, .n_rows = n_rows, .n_cols = n_cols, .stride = stride, .data = data};
    snprintf(search->out->name, sizeof search->out->name, "%s%s", name, suffix);
    search->found = true;
}

static void offer_table(tensor_search *search, const char *name, const xcl_table *t) {
    offer(search, name, "", XCL_TYPE_F32, XCL_ROLE_WEIGHT, t->n_rows, t->n_cols, t->stride, t->weight);
    offer(search, name, ".square", XCL_TYPE_F32, XCL_ROLE_OPTIMIZER, t->n_rows, 1, 1, t->square);
    offer(search, name, ".moment1", XCL_TYPE_F32, XCL_ROLE_OPTIMIZER, t->n_rows, t->n_cols, t->stride, t->m);
    offer(search, name, ".moment2", XCL_TYPE_F32, XCL_ROLE_OPTIMIZER, t->n_rows, t->n_cols, t->stride, t->v);
    offer(search, name, ".updates", XCL_TYPE_I32, XCL_ROLE_OPTIMIZER, t->n_rows, 1, 1, t->n_updates);
}

xcl_status xcl_model_get_tensor(xcl_model *model, int32_t i, xcl_tensor *out) {
    tensor_search search = {.wanted = i, .out = out};
    char name[32];
    offer_table(&search, "input.weight", &model->input);
    offer_table(&search, "input.bias", &model->input_bias);
    for (int32_t l = 1; l < model->n_layers; l++) {
        snprintf(name, sizeof name, "hidden.%d.weight", l);
        offer_table(&search, name, &model->between[l]);
        snprintf(name, sizeof name, "hidden.%d.bias", l);
        offer_table(&search, name, &model->between_bias[l]);
    }
    offer_table(&search, "output.weight", &model->output);
    offer_table(&search, "output.bias", &model->output_bias);
    if (model->index != NULL && model->index->ids != NULL) {
        xcl_index *index = model->index;
        int64_t n_tables = index->hash.options.n_tables, n_offsets = ((int64_t)1 << index->bits) + 1;
        offer(&search, "index.offsets", "", XCL_TYPE_I32, XCL_ROLE_INDEX, n_tables, n_offsets, n_offsets, index->offsets);
        offer(&search, "index.ids", "", XCL_TYPE_I32, XCL_ROLE_INDEX, n_tables, index->n_ids, index->n_ids, index->ids);
        int64_t n_words = model->changed.n_words;
        offer(&search, "index.changed", "", XCL_TYPE_U64, XCL_ROLE_INDEX, 1, n_words, n_words, model->changed.words);
    }
    int64_t n_counters = sizeof model->counters / sizeof(uint64_t);
    offer(&search, "counters", "", XCL_TYPE_U64, XCL_ROLE_COUNTER, 1, n_counters, n_counters, &model->counters);
    return search.found ? XCL_OK : xcl_fail(XCL_ERR_ARG, "there is no tensor %d", i);
}

static xcl_table *table_called(xcl_model *model, const char *name) {
    char layer_name[32];
    if (strcmp(name, "input.weight") == 0) return &model->input;
    if (strcmp(name, "input.bias") == 0) return &model->input_bias;
    if (strcmp(name, "output.weight") == 0) return &model->output;
    if (strcmp(name, "output.bias") == 0) return &model->output_bias;
    for (int32_t l = 1; l < model->n_layers; l++) {
        snprintf(layer_name, sizeof layer_name, "hidden.%d.weight", l);
        if (strcmp(name, layer_name) == 0) return &model->between[l];
        snprintf(layer_name, sizeof layer_name, "hidden.%d.bias", l);
        if (strcmp(name, layer_name) == 0) return &model->between_bias[l];
    }
    return NULL;
}

xcl_status xcl_model_attach(xcl_model *model, const char *name, const float *data, int64_t n_rows, int64_t stride) {
    if (model->options.trainable) return xcl_fail(XCL_ERR_STATE, "a trainable model owns its weights");
    xcl_table *table = table_called(model, name);
    if (table == NULL) return xcl_fail(XCL_ERR_ARG, "no weights are called '%.40s'", name);
    if (n_rows != table->n_rows || stride != table->stride)
        return xcl_fail(XCL_ERR_ARG, "%s: %lld x %lld numbers, not %lld x %lld", name, (long long)n_rows, (long long)stride,
                        (long long)table->n_rows, (long long)table->stride);
    table->weight = (float *)(uintptr_t)data; /* only read: there is no optimiser */
    table->borrowed = true;
    return XCL_OK;
}

xcl_status xcl_model_set_offsets(xcl_model *model, const float *offsets) {
    xcl_free(model->offsets);
    model->offsets = NULL;
    if (offsets == NULL) return XCL_OK;
    int64_t n = model->options.n_labels;
    model->offsets = xcl_alloc(n, sizeof *model->offsets);
    if (model->offsets == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate offsets of %lld labels", (long long)n);
    memcpy(model->offsets, offsets, (size_t)n * sizeof *offsets);
    return XCL_OK;
}

/* ---- Index upkeep ---- */

static xcl_status build_index(xcl_model *model) {
    XCL_TRY(xcl_index_build(model->index, model->output.weight, model->output.n_rows, model->output.stride,
                            (int64_t)model->counters.generation));
    xcl_bitset_clear(&model->changed);
    model->counters.index_built = 1;
    return XCL_OK;
}

/* Rows until the rehash after the t-th: they grow as SLIDE's schedule does. */
static uint64_t rehash_period(const xcl_model_options *o, uint64_t t) {
    double period = (double)o->rehash_rows * exp((double)o->rehash_growth * (double)t);
    return period < 1e18 ? (uint64_t)period : (uint64_t)1e18;
}

xcl_status xcl_model_refresh_index(xcl_model *model, xcl_step *step) {
    const xcl_model_options *o = &model->options;
    xcl_counters *c = &model->counters;
    if (model->index == NULL) return XCL_OK;
    if (!c->index_built) {
        c->next_rehash = c->n_rows_seen + rehash_period(o, 0);
        c->next_rebuild = c->n_rows_seen + (uint64_t)o->rebuild_rows;
        return build_index(model);
    }
    bool rebuild = o->rebuild_rows > 0 && c->n_rows_seen >= c->next_rebuild;
    bool rehash = o->rehash_rows > 0 && c->n_rows_seen >= c->next_rehash;
    if (rebuild) {
        c->generation++;
        c->next_rebuild = c->n_rows_seen + (uint64_t)o->rebuild_rows;
    }
    if (rehash) c->next_rehash = c->n_rows_seen + rehash_period(o, ++c->n_rehashes);
    step->rehashed = rebuild ? 2 : rehash ? 1 : 0;
    if (!rebuild && !rehash) return XCL_OK;
    XCL_TRY(xcl_index_refresh(model->index, model->output.weight, model->output.stride, &model->changed, (int64_t)c->generation));
    xcl_bitset_clear(&model->changed);
    return XCL_OK;
}

xcl_status xcl_model_restore(xcl_model *model) {
    if (model->options.sampler != XCL_SAMPLER_LSH) return XCL_OK;
    if (model->options.trainable) {
        if (model->counters.index_built) XCL_TRY(xcl_index_check(model->index));
        xcl_bitset_trim(&model->changed, model->options.n_labels);
        return xcl_hash_draw(&model->index->hash, (int64_t)model->counters.generation);
    }
    if (model->output.weight == NULL) return xcl_fail(XCL_ERR_STATE, "the output weights are not attached");
    if (model->index == NULL) {
        XCL_TRY(xcl_index_create(model->engine, &model->options.index, xcl_model_width(model), &model->index));
        XCL_TRY(xcl_bitset_create(&model->changed, model->options.n_labels));
    }
    return build_index(model);
}

void xcl_model_get_index_stats(xcl_model *model, int32_t reset, xcl_index_stats *out) {
    *out = (xcl_index_stats){0};
    if (model->index != NULL) xcl_index_get_stats(model->index, reset, out);
}

/* ---- Order of rows ---- */

void xcl_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t *order) {
    uint64_t key = xcl_random_key(seed, XCL_RNG_SHUFFLE, (uint64_t)epoch);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t j = i + (int64_t)(xcl_random_at(key, (uint64_t)i) % (uint64_t)(n - i));
        int64_t keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
}
