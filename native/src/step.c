/* One training step: the five phases in order, nothing else. SPDX-License-Identifier: MIT */
#include <math.h>
#include "model.h"

/* Close a phase: add the time since the last call to it. */
static void lap(xcl_step *step, int phase, double *last) {
    double now = xcl_seconds();
    step->phase_seconds[phase] += now - *last;
    *last = now;
}

static xcl_status check_call(const xcl_model *model, int64_t n_rows, float learning_rate) {
    XCL_TRY(xcl_pool_check(model->engine->pool));
    if (!model->options.trainable) return xcl_fail(XCL_ERR_STATE, "the model was opened for prediction only");
    if (n_rows < 1 || n_rows > 1 << 24) return xcl_fail(XCL_ERR_ARG, "a batch of %lld rows is not in 1..16777216", (long long)n_rows);
    if (!isfinite(learning_rate)) return xcl_fail(XCL_ERR_ARG, "the learning rate is not finite");
    return XCL_OK;
}

xcl_status xcl_model_train(xcl_model *model, const xcl_csr *x, const xcl_csr *y, const int64_t *rows, int64_t n_rows,
                           float learning_rate, xcl_step *step) {
    const xcl_model_options *o = &model->options;
    xcl_updater updater = {model->engine->kernels, o->optimizer, learning_rate, o->beta1, o->beta2, o->epsilon};
    double clock = xcl_seconds();
    *step = (xcl_step){.n_rows = n_rows};
    XCL_TRY(check_call(model, n_rows, learning_rate));
    XCL_TRY(xcl_model_refresh_index(model, step));
    lap(step, XCL_PHASE_INDEX, &clock);

    XCL_TRY(xcl_embed_load(model, x, rows, n_rows, true));
    XCL_TRY(xcl_embed_forward(model));
    if (o->scope == XCL_SCOPE_BATCH) XCL_TRY(xcl_embed_turn(model));
    model->batch.block = o->scope == XCL_SCOPE_BATCH ? xcl_model_block(o->n_members * model->batch.n_padded, model->output.stride) : 1;
    lap(step, XCL_PHASE_EMBED, &clock);

    XCL_TRY(xcl_select_labels(model, y, rows));
    XCL_TRY(xcl_select_active(model, step));
    lap(step, XCL_PHASE_SELECT, &clock);

    XCL_TRY(xcl_score(model, &step->loss));
    lap(step, XCL_PHASE_SCORE, &clock);
    if (model->batch.overflow) step->loss = NAN;
    if (!isfinite(step->loss))
        return xcl_fail(XCL_ERR_DIVERGED, "the loss is %g at step %llu", step->loss, (unsigned long long)model->counters.n_steps + 1);

    XCL_TRY(xcl_update_output(model, &updater));
    if (model->index != NULL)
        for (int64_t w = 0; w < model->changed.n_words; w++) model->changed.words[w] |= model->batch.active.set.words[w];
    lap(step, XCL_PHASE_OUTPUT, &clock);

    XCL_TRY(xcl_update_hidden(model, &updater));
    XCL_TRY(xcl_update_input(model, &updater));
    step->n_features = model->batch.features.n_ids;
    lap(step, XCL_PHASE_INPUT, &clock);

    model->counters.n_steps++;
    model->counters.n_rows_seen += (uint64_t)n_rows;
    return XCL_OK;
}
