/* The kernels in plain C, in the obvious order: what runs on any CPU and what the other sets are tested against.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include "kernels.h"

static float dot(const float *a, const float *b, int64_t n) {
    float lanes[16] = {0}; /* the lanes let compilers vectorise without reordering anything else */
    for (int64_t i = 0; i < n; i += 16)
        for (int j = 0; j < 16; j++) lanes[j] += a[i + j] * b[i + j];
    float total = 0;
    for (int j = 0; j < 16; j++) total += lanes[j];
    return total;
}

static float sum(const float *x, int64_t n) {
    float total = 0;
    for (int64_t i = 0; i < n; i++) total += x[i];
    return total;
}

static void axpy(float *y, const float *x, float alpha, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += alpha * x[i];
}

static void bag(float *out, const float *bias, const float *table, int64_t stride, const int32_t *ids, const float *values,
                int64_t n_ids, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = bias != NULL ? bias[i] : 0.0f;
    for (int64_t j = 0; j < n_ids; j++) axpy(out, table + ids[j] * stride, values[j], n);
}

static void product(float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col, const float *b, int64_t ldb, int64_t m,
                    int64_t k, int64_t n, int accumulate) {
    for (int64_t i = 0; i < m; i++) {
        if (!accumulate) memset(c + i * ldc, 0, (size_t)n * sizeof *c);
        for (int64_t l = 0; l < k; l++) axpy(c + i * ldc, b + l * ldb, a[i * a_row + l * a_col], n);
    }
}

static void add_bias(float *z, const float *bias, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) z[i * n + j] += bias[i];
}

static void bce_loss(float *z, const float *bias, int64_t m, int64_t n, float *loss) {
    add_bias(z, bias, m, n);
    for (int64_t j = 0; j < n; j++) {
        loss[j] = 0;
        for (int64_t i = 0; i < m; i++) {
            float x = z[i * n + j];
            loss[j] += fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
        }
    }
}

static void softmax_loss(float *z, const float *bias, int64_t m, int64_t n, float *peak, float *mass) {
    add_bias(z, bias, m, n);
    for (int64_t j = 0; j < n; j++) {
        peak[j] = -INFINITY;
        for (int64_t i = 0; i < m; i++) peak[j] = z[i * n + j] > peak[j] ? z[i * n + j] : peak[j];
        mass[j] = 0;
        for (int64_t i = 0; i < m; i++) mass[j] += expf(z[i * n + j] - peak[j]);
    }
}

static void sigmoid(float *z, int64_t n) {
    for (int64_t i = 0; i < n; i++) z[i] = 1.0f / (1.0f + expf(-z[i]));
}

static void exp_shift(float *z, const float *shift, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) z[i * n + j] = expf(z[i * n + j] - shift[j]);
}

static void sgd_row(float *w, const float *g, float rate, int64_t n) { axpy(w, g, -rate, n); }

static void adam_row(float *w, float *m, float *v, const float *g, float rate, float scale, float beta1, float beta2,
                     float epsilon, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        m[i] = beta1 * m[i] + (1.0f - beta1) * g[i];
        v[i] = beta2 * v[i] + (1.0f - beta2) * (g[i] * g[i]);
        w[i] -= rate * m[i] / (sqrtf(v[i]) * scale + epsilon);
    }
}

static int64_t above(const float *z, const float *bound, int64_t n, int32_t *places) {
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++)
        if (z[j] > bound[j]) places[count++] = (int32_t)j;
    return count;
}

static void dwta(const float *x, const int32_t *bins, int64_t n_bins, float floor, uint8_t *codes) {
    for (int64_t b = 0; b < n_bins; b++) {
        for (int v = 0; v < 16; v++) {
            float best = floor;
            uint8_t code = XCL_DWTA_EMPTY;
            for (int j = 0; j < XCL_DWTA_BIN; j++) {
                float value = x[bins[b * XCL_DWTA_BIN + j] * (int64_t)16 + v];
                if (value > best) {
                    best = value;
                    code = (uint8_t)j;
                }
            }
            codes[b * 16 + v] = code;
        }
    }
}

static const xcl_kernels kernels = {
    .name = "portable", .width = 16,
    .dot = dot, .sum = sum, .axpy = axpy, .bag = bag, .product = product,
    .bce_loss = bce_loss, .softmax_loss = softmax_loss, .add_bias = add_bias, .sigmoid = sigmoid, .exp_shift = exp_shift,
    .sgd_row = sgd_row, .adam_row = adam_row, .above = above, .dwta = dwta,
};

const xcl_kernels *xcl_kernels_portable(void) { return &kernels; }
