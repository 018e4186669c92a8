/* Whole steps through the C interface: the kernels of XCL_ISA against the portable ones, one thread against three, and
 * restored against uninterrupted. Right values are checked in Python, against tests/reference.py; this test is for
 * machines that run the library but not Python, and for sanitizers. SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include "check.h"

#define N_ROWS 37
#define N_FEATURES 50
#define N_LABELS 200
#define STEPS 5

typedef struct {
    int64_t starts[N_ROWS + 1];
    int32_t ids[N_ROWS * 8];
    float values[N_ROWS * 8];
    xcl_csr csr;
} rows;

/* Row i has i mod 8 ascending ids below n. */
static void fill(rows *r, int32_t n, uint64_t sequence) {
    r->starts[0] = 0;
    for (int64_t i = 0; i < N_ROWS; i++) {
        int64_t at = r->starts[i];
        for (int32_t j = 0; j < i % 8; j++, at++) {
            uint32_t part = (uint32_t)(n / 8);
            r->ids[at] = j * (int32_t)part + (int32_t)xcl_below(xcl_random(5, sequence, 0, (uint64_t)at), part);
            r->values[at] = check_random(sequence, at);
        }
        r->starts[i + 1] = at;
    }
    r->csr = (xcl_csr){N_ROWS, r->starts, r->ids, r->values};
}

static rows x, y;
static int64_t numbers[N_ROWS];

static xcl_model_options options_of(int32_t variant) {
    xcl_model_options o = xcl_model_options_default();
    o.n_features = N_FEATURES;
    o.n_labels = N_LABELS;
    o.n_hidden_layers = 2;
    o.hidden[0] = 33;
    o.hidden[1] = 20;
    o.loss = variant % 2;
    o.scope = variant / 2 % 2;
    o.sampler = variant / 4 % 3;
    o.optimizer = variant % 3;
    if (o.scope == XCL_SCOPE_BATCH) {
        o.hidden[1] = 32;
        o.n_members = 2;
    }
    o.epsilon = 1e-3f;
    o.dropout = 0.25f;
    o.input_dropout = 0.1f;
    o.output_scale = 0.2f;
    o.n_active = 20;
    o.index.kind = variant % 3;
    o.index.policy = variant / 3 % 3;
    o.index.n_tables = 6;
    o.index.hashes_per_table = 2;
    o.rehash_rows = N_ROWS;
    o.rebuild_rows = 3 * N_ROWS;
    return o;
}

static xcl_model *create(xcl_engine *engine, const xcl_model_options *o) {
    xcl_model *model = NULL;
    CHECK(xcl_model_create(engine, o, &model) == XCL_OK, "%s", xcl_error_text());
    if (model == NULL) exit(1);
    return model;
}

static void train(xcl_model *model, int n_steps) {
    xcl_step step;
    for (int i = 0; i < n_steps; i++)
        CHECK(xcl_model_train(model, &x.csr, &y.csr, numbers, N_ROWS, 0.1f, &step) == XCL_OK, "%s", xcl_error_text());
}

static size_t bytes_of(const xcl_tensor *t) {
    return (size_t)(t->n_rows * t->stride) * (t->type == XCL_TYPE_I64 || t->type == XCL_TYPE_U64 ? 8 : 4);
}

/* tolerance 0: equal bytes. Otherwise weights may differ by it, and nothing else is compared. */
static void compare(const char *what, int32_t variant, xcl_model *a, xcl_model *b, double tolerance) {
    xcl_tensor s, t;
    for (int32_t i = 0; xcl_model_get_tensor(a, i, &s) == XCL_OK; i++) {
        CHECK(xcl_model_get_tensor(b, i, &t) == XCL_OK && strcmp(s.name, t.name) == 0, "tensor %d", i);
        if (tolerance == 0)
            CHECK(memcmp(s.data, t.data, bytes_of(&s)) == 0, "%s, variant %d: %s differs", what, variant, s.name);
        const float *p = s.data, *q = t.data;
        for (int64_t j = 0; tolerance > 0 && s.role == XCL_ROLE_WEIGHT && j < s.n_rows * s.stride; j++)
            CHECK(fabs((double)p[j] - q[j]) <= tolerance, "%s, variant %d: %s[%lld]: %g, %g", what, variant, s.name, (long long)j, p[j], q[j]);
    }
}

static void copy(xcl_model *to, xcl_model *from) {
    xcl_tensor s, t;
    for (int32_t i = 0; xcl_model_get_tensor(from, i, &s) == XCL_OK; i++)
        if (xcl_model_get_tensor(to, i, &t) == XCL_OK) memcpy(t.data, s.data, bytes_of(&s));
    CHECK(xcl_model_restore(to) == XCL_OK, "%s", xcl_error_text());
}

static void predict(xcl_model *model, int32_t lsh, int32_t k, float *scores) {
    int32_t *ids = xcl_alloc(N_ROWS * k, sizeof *ids);
    int64_t n_unknown;
    CHECK(xcl_model_predict(model, &x.csr, NULL, N_ROWS, k, lsh, ids, scores, &n_unknown) == XCL_OK, "%s", xcl_error_text());
    for (int64_t i = 0; i < N_ROWS * k; i++) CHECK(ids[i] >= -1 && ids[i] < N_LABELS, "label %d", ids[i]);
    xcl_free(ids);
}

static void test_variant(xcl_engine *engine, xcl_engine *three, xcl_engine *portable, int32_t variant) {
    enum { K = 250 };
    xcl_model_options o = options_of(variant);
    xcl_model *model = create(engine, &o), *threads = create(three, &o), *plain = create(portable, &o), *again = create(three, &o);
    train(model, 1);
    train(plain, 1);
    compare("portable", variant, model, plain, 3e-5); /* one step: no hash or dropout can have flipped */
    train(model, STEPS - 1);
    train(threads, STEPS);
    compare("threads", variant, model, threads, 0);
    train(again, 2);
    train(threads, 2);
    copy(again, model);
    train(again, 2);
    compare("restored", variant, again, threads, 0);
    float *a = xcl_alloc(N_ROWS * K, sizeof *a), *b = xcl_alloc(N_ROWS * K, sizeof *b);
    for (int32_t lsh = 0; lsh <= (o.sampler == XCL_SAMPLER_LSH); lsh++) {
        predict(again, lsh, K, a);
        predict(threads, lsh, K, b);
        CHECK(memcmp(a, b, N_ROWS * K * sizeof *a) == 0, "variant %d: scores differ", variant);
    }
    xcl_free(a);
    xcl_free(b);
    CHECK(xcl_model_prototypes_add(model, &x.csr, &y.csr, numbers, N_ROWS) == XCL_OK, "%s", xcl_error_text());
    CHECK(xcl_model_prototypes_finish(model, 0.5f) == XCL_OK, "%s", xcl_error_text());
    xcl_model_free(model);
    xcl_model_free(threads);
    xcl_model_free(plain);
    xcl_model_free(again);
}

int main(void) {
    xcl_engine *engine = check_engine(1), *three = check_engine(3), *portable = NULL;
    CHECK(xcl_engine_create(1, "portable", &portable) == XCL_OK, "%s", xcl_error_text());
    fill(&x, N_FEATURES, 30);
    fill(&y, N_LABELS, 31);
    for (int64_t i = 0; i < N_ROWS; i++) numbers[i] = N_ROWS - 1 - i;
    for (int32_t variant = 0; variant < 36; variant++) test_variant(engine, three, portable, variant);
    xcl_engine_free(engine);
    xcl_engine_free(three);
    xcl_engine_free(portable);
    return check_result();
}
