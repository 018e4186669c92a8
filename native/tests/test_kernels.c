/* Every kernel of the set that XCL_ISA names against double arithmetic, and where exact against the portable one, for
 * n = 0, 16 .. 304 and odd other sizes; inputs from ordinary to infinite. SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>
#include <string.h>
#include "check.h"

#define MAX_N 304
#define UNIT 0x1p-24 /* rounding of one operation, relative */

static const xcl_kernels *k, *plain;

static float *floats(int64_t n, uint64_t sequence) {
    float *x = xcl_alloc(n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = check_random(sequence, i);
    x[n] = 12345.0f; /* must stay */
    return x;
}

static void check_end(const float *x, int64_t n, const char *what) {
    CHECK(x[n] == 12345.0f, "%s wrote beyond %lld", what, (long long)n);
    xcl_free((void *)(uintptr_t)x);
}

/* |got - want| <= n terms' rounding of a sum whose absolute values sum to mass */
static void check_sum(const char *what, int64_t n, int64_t at, double got, double want, double mass) {
    double bound = (double)(n + 2) * UNIT * mass;
    CHECK(fabs(got - want) <= bound, "%s, %lld terms, place %lld: %.9g, not %.9g", what, (long long)n, (long long)at, got, want);
}

static void test_sums(int64_t n) {
    float *a = floats(n, 1), *b = floats(n, 2);
    double dot = 0, dot_mass = 0, sum = 0, sum_mass = 0;
    for (int64_t i = 0; i < n; i++) {
        dot += (double)a[i] * b[i];
        dot_mass += fabs((double)a[i] * b[i]);
        sum += a[i];
        sum_mass += fabsf(a[i]);
    }
    check_sum("dot", n, 0, k->dot(a, b, n), dot, dot_mass);
    check_sum("sum", n, 0, k->sum(a, n), sum, sum_mass);
    check_end(a, n, "dot");
    check_end(b, n, "dot");
}

static void test_axpy(int64_t n) {
    const float alphas[] = {0.0f, 1.0f, -0.37f, 1e20f};
    for (int j = 0; j < 4; j++) {
        float *x = floats(n, 3), *y = floats(n, 4), *w = floats(n, 4);
        k->axpy(y, x, alphas[j], n);
        k->sgd_row(w, x, alphas[j], n);
        for (int64_t i = 0; i < n; i++) {
            double step = (double)alphas[j] * x[i], old = check_random(4, i);
            check_sum("axpy", 1, i, y[i], old + step, fabs(old) + fabs(step));
            check_sum("sgd_row", 1, i, w[i], old - step, fabs(old) + fabs(step));
        }
        check_end(x, n, "axpy");
        check_end(y, n, "axpy");
        check_end(w, n, "sgd_row");
    }
}

static void test_bag(int64_t n) {
    enum { ROWS = 40 };
    int64_t stride = n + 16;
    float *table = floats(ROWS * stride, 5), *bias = floats(n, 6), *values = floats(ROWS, 7);
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++) ids[i] = (i * 7 + 3) % ROWS;
    for (int64_t n_ids = 0; n_ids <= ROWS; n_ids += n_ids < 6 ? 1 : 17) {
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            float *out = floats(n, 8);
            k->bag(out, with_bias ? bias : NULL, table, stride, ids, values, n_ids, n);
            for (int64_t i = 0; i < n; i++) {
                double want = with_bias ? bias[i] : 0, mass = fabs(want);
                for (int64_t j = 0; j < n_ids; j++) {
                    double term = (double)values[j] * table[ids[j] * stride + i];
                    want += term;
                    mass += fabs(term);
                }
                check_sum("bag", n_ids, i, out[i], want, mass);
            }
            check_end(out, n, "bag");
        }
    }
    check_end(table, ROWS * stride, "bag");
    check_end(bias, n, "bag");
    check_end(values, ROWS, "bag");
}

static void test_product(int64_t m, int64_t depth, int64_t n, bool turned, bool accumulate) {
    int64_t ldc = n + 16, ldb = n + 32, lda = (turned ? m : depth) + 3;
    float *a = floats(lda * (turned ? depth : m), 9), *b = floats(ldb * depth, 10), *c = floats(ldc * m, 11);
    int64_t a_row = turned ? 1 : lda, a_col = turned ? lda : 1;
    k->product(c, ldc, a, a_row, a_col, b, ldb, m, depth, n, accumulate);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < ldc; j++) {
            double want = accumulate || j >= n ? check_random(11, i * ldc + j) : 0, mass = fabs(want);
            for (int64_t l = 0; l < depth && j < n; l++) {
                double term = (double)a[i * a_row + l * a_col] * b[l * ldb + j];
                want += term;
                mass += fabs(term);
            }
            check_sum("product", depth, i * ldc + j, c[i * ldc + j], want, mass);
        }
    }
    check_end(a, lda * (turned ? depth : m), "product");
    check_end(b, ldb * depth, "product");
    check_end(c, ldc * m, "product");
}

static void test_products(void) {
    const int64_t depths[] = {0, 1, 2, 3, 31, 255, 256, 257, 513};
    for (int64_t m = 0; m <= 17; m++)
        for (int i = 0; i < 9; i++) test_product(m, depths[i], 16 * (m % 5), i % 2, m % 2);
    for (int64_t n = 0; n <= MAX_N; n += 16) test_product(9, 7, n, n % 32 == 0, n % 48 == 0);
}

static void test_losses(int64_t m, int64_t n) {
    float *start = floats(m * n, 12), *bias = floats(m, 13), *loss = floats(n, 14), *peak = floats(n, 15), *mass = floats(n, 16);
    for (int64_t i = 0; i < m * n; i++) start[i] *= i % 7 == 0 ? 90.0f : 9.0f;
    float *z = floats(m * n, 0), *y = floats(m * n, 0), *x = floats(m * n, 0);
    memcpy(z, start, (size_t)(m * n) * sizeof *z);
    memcpy(y, start, (size_t)(m * n) * sizeof *y);
    memcpy(x, start, (size_t)(m * n) * sizeof *x);
    k->bce_loss(z, bias, m, n, loss);
    k->softmax_loss(y, bias, m, n, peak, mass);
    k->add_bias(x, bias, m, n);
    for (int64_t j = 0; j < n; j++) {
        double want = 0, total = 0;
        float high = -INFINITY;
        for (int64_t i = 0; i < m; i++) {
            float s = start[i * n + j] + bias[i];
            CHECK(z[i * n + j] == s && y[i * n + j] == s && x[i * n + j] == s, "bias at %lld, %lld", (long long)i, (long long)j);
            want += fmax(s, 0) + log1p(exp(-fabs((double)s)));
            high = s > high ? s : high;
        }
        for (int64_t i = 0; i < m; i++) total += exp((double)y[i * n + j] - high);
        check_sum("bce_loss", m + 8, j, loss[j], want, want); /* 2 units of exp, 4 of log1p */
        CHECK(peak[j] == high, "softmax_loss %lld: peak %g, not %g", (long long)j, peak[j], high);
        check_sum("softmax_loss", m + 8, j, mass[j], total, total);
    }
    check_end(start, m * n, "losses");
    check_end(bias, m, "losses");
    check_end(loss, n, "bce_loss");
    check_end(peak, n, "softmax_loss");
    check_end(mass, n, "softmax_loss");
    check_end(z, m * n, "bce_loss");
    check_end(y, m * n, "softmax_loss");
    check_end(x, m * n, "add_bias");
}

/* Where float has full precision: relative error of a few units; below: about the least normal number. */
static void check_units(const char *what, float x, float got, double want, double units) {
    CHECK(fabs(got - want) <= units * 2 * UNIT * want + 2 * FLT_MIN, "%s(%.9g): %.9g, not %.9g", what, x, got, want);
}

static void test_exp(void) {
    enum { N = 32768 };
    float *z = floats(N, 17), *s = floats(N, 18), zero[16] __attribute__((aligned(64))) = {0};
    for (int i = 0; i < N; i++) z[i] = s[i] = (float)((i - N / 2) * (178.0 / N)); /* -89 .. 89 */
    k->exp_shift(z, zero, N / 16, 16);
    k->sigmoid(s, N);
    for (int i = 0; i < N; i++) {
        float x = (float)((i - N / 2) * (178.0 / N));
        if (x < 88.7f) check_units("exp", x, z[i], exp(x), 2);
        check_units("sigmoid", x, s[i], 1 / (1 + exp(-(double)x)), 4);
    }
    check_end(z, N, "exp_shift");
    check_end(s, N, "sigmoid");
}

static void test_log1p(void) {
    float z[16] __attribute__((aligned(64))), loss[16] __attribute__((aligned(64))), zero = 0;
    for (int i = 0; i < 6000; i++) {
        for (int j = 0; j < 16; j++) z[j] = -(float)(i * 16 + j) * (90.0f / 96000);
        k->bce_loss(z, &zero, 1, 16, loss);
        for (int j = 0; j < 16; j++) check_units("softplus", z[j], loss[j], log1p(exp((double)z[j])), 6);
    }
}

/* What the loss must not hide: NaN and overflow stay visible; what cannot happen has probability 0. */
static void test_extremes(void) {
    const float x[16] = {0, -0.0f, 100, -100, INFINITY, -INFINITY, NAN, -NAN, 3e38f, -3e38f, 1e-40f, -1e-40f, 88.8f, -87.4f, 1, -1};
    float z[16] __attribute__((aligned(64))), loss[16] __attribute__((aligned(64))), mass[16] __attribute__((aligned(64)));
    float shift[16] __attribute__((aligned(64))), zero = 0;
    memcpy(z, x, sizeof z);
    k->sigmoid(z, 16);
    for (int j = 0; j < 16; j++) {
        if (isnan(x[j])) CHECK(isnan(z[j]), "sigmoid(nan) is %g", z[j]);
        else CHECK(fabs(z[j] - 1 / (1 + exp(-(double)x[j]))) < 1e-6, "sigmoid(%g) is %g", x[j], z[j]);
    }
    memcpy(z, x, sizeof z);
    k->bce_loss(z, &zero, 1, 16, loss);
    for (int j = 0; j < 16; j++) {
        if (isnan(x[j])) CHECK(isnan(loss[j]), "bce_loss(nan) is %g", loss[j]);
        else if (x[j] > 80) CHECK(loss[j] == x[j], "bce_loss(%g) is %g", x[j], loss[j]);
        else check_units("bce_loss", x[j], loss[j], log1p(exp((double)x[j])), 6);
    }
    memcpy(z, x, sizeof z);
    k->softmax_loss(z, &zero, 1, 16, loss, mass);
    for (int j = 0; j < 16; j++) {
        if (isfinite(x[j])) CHECK(loss[j] == x[j] && mass[j] == 1, "softmax_loss(%g): %g, %g", x[j], loss[j], mass[j]);
        else CHECK(!isfinite(loss[j]) || isnan(mass[j]), "softmax_loss(%g) hides it: %g, %g", x[j], loss[j], mass[j]);
    }
    memcpy(z, x, sizeof z);
    for (int j = 0; j < 16; j++) shift[j] = INFINITY;
    k->exp_shift(z, shift, 1, 16);
    for (int j = 0; j < 16; j++) {
        if (isfinite(x[j])) CHECK(z[j] == 0, "exp(%g - inf) is %g", x[j], z[j]);
        if (isnan(x[j])) CHECK(isnan(z[j]), "exp(nan - inf) is %g", z[j]);
    }
}

/* One NaN among many scores makes mass or peak NaN wherever it stands. */
static void test_nan_anywhere(void) {
    enum { M = 5 };
    float bias[M] = {0}, peak[16] __attribute__((aligned(64))), mass[16] __attribute__((aligned(64)));
    for (int at = 0; at < M; at++) {
        float z[M * 16] __attribute__((aligned(64))) = {0};
        for (int j = 0; j < 16; j++) z[at * 16 + j] = NAN;
        k->softmax_loss(z, bias, M, 16, peak, mass);
        for (int j = 0; j < 16; j++) CHECK(isnan(mass[j]) || isnan(peak[j]), "a NaN at %d of %d is lost", at, M);
    }
}

static void test_adam(int64_t n) {
    const float rate = 0.1f, scale = 2.5f, beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-3f;
    float *w = floats(n, 20), *m = floats(n, 21), *v = floats(n, 22), *g = floats(n, 23);
    for (int64_t i = 0; i < n; i++) v[i] = fabsf(v[i]);
    k->adam_row(w, m, v, g, rate, scale, beta1, beta2, epsilon, n);
    for (int64_t i = 0; i < n; i++) {
        double first = (double)beta1 * check_random(21, i) + (double)(1.0f - beta1) * g[i];
        double second = (double)beta2 * fabsf(check_random(22, i)) + (double)(1.0f - beta2) * g[i] * g[i];
        double step = rate * first / (sqrt(second) * scale + epsilon);
        check_sum("adam m", 3, i, m[i], first, fabs(beta1 * check_random(21, i)) + fabsf(g[i]));
        check_sum("adam v", 3, i, v[i], second, second);
        double mass = rate * (fabs((double)check_random(21, i)) + fabsf(g[i])) / (sqrt(second) * scale + epsilon);
        check_sum("adam w", 8, i, w[i], check_random(20, i) - step, fabs(check_random(20, i)) + mass);
    }
    check_end(w, n, "adam_row");
    check_end(m, n, "adam_row");
    check_end(v, n, "adam_row");
    check_end(g, n, "adam_row");
}

static void test_above(int64_t n) {
    float *z = floats(n, 24), *bound = floats(n, 25);
    for (int64_t i = 0; i < n; i++) {
        if (i % 5 == 0) bound[i] = z[i];
        if (i % 11 == 0) z[i] = NAN;
        if (i % 13 == 0) bound[i] = i % 2 ? -INFINITY : INFINITY;
    }
    int32_t got[MAX_N], want[MAX_N];
    int64_t n_got = k->above(z, bound, n, got), n_want = plain->above(z, bound, n, want);
    CHECK(n_got == n_want && memcmp(got, want, (size_t)n_want * sizeof *want) == 0, "above, %lld", (long long)n);
    check_end(z, n, "above");
    check_end(bound, n, "above");
}

static void test_dwta(int64_t n_dims, int64_t n_bins, float floor) {
    float *x = floats(n_dims * 16, 26);
    int32_t *bins = xcl_alloc(n_bins * XCL_DWTA_BIN, sizeof *bins);
    uint8_t *got = xcl_alloc(n_bins * 16 + 1, 1), *want = xcl_alloc(n_bins * 16 + 1, 1);
    for (int64_t i = 0; i < n_bins * XCL_DWTA_BIN; i++)
        bins[i] = (int32_t)xcl_below(xcl_random(1, 27, 0, (uint64_t)i), (uint32_t)n_dims);
    for (int64_t i = 0; i < n_dims * 16; i++)
        x[i] = i % 3 == 0 ? 0.0f : i % 17 == 0 ? -INFINITY : roundf(x[i] * 4) / 4; /* many ties */
    got[n_bins * 16] = 99;
    k->dwta(x, bins, n_bins, floor, got);
    plain->dwta(x, bins, n_bins, floor, want);
    CHECK(memcmp(got, want, (size_t)(n_bins * 16)) == 0, "dwta, %lld dims, %lld bins", (long long)n_dims, (long long)n_bins);
    CHECK(got[n_bins * 16] == 99, "dwta wrote beyond its end");
    check_end(x, n_dims * 16, "dwta");
    xcl_free(bins);
    xcl_free(got);
    xcl_free(want);
}

int main(void) {
    xcl_engine *engine = check_engine(1);
    k = engine->kernels;
    plain = xcl_kernels_portable();
    for (int64_t n = 0; n <= MAX_N; n += 16) {
        test_sums(n);
        test_axpy(n);
        test_bag(n);
        test_adam(n);
        test_above(n);
        test_losses(7, n);
    }
    for (int64_t m = 0; m <= 33; m++) test_losses(m, 32);
    test_products();
    test_exp();
    test_log1p();
    test_extremes();
    test_nan_anywhere();
    for (int64_t n_bins = 0; n_bins < 40; n_bins += 3)
        for (int64_t n_dims = 1; n_dims < 40; n_dims += 9) {
            test_dwta(n_dims, n_bins, 0.0f);
            test_dwta(n_dims, n_bins, -INFINITY);
        }
    xcl_engine_free(engine);
    return check_result();
}
