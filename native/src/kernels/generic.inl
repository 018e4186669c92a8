/* Every kernel once, over the vector primitives that the including file defines:
 *
 *   vec, WIDTH, TILE_ROWS, TILE_VECS, NAME
 *   v_zero() v_set(float) v_load(p) v_store(p, v) v_add v_sub v_mul v_div v_max v_min v_sqrt
 *   v_fma(a, b, c) = a b + c     v_fnma(a, b, c) = c - a b
 *   v_sum(v): over the lanes     v_round(v): to the nearest integer     v_scale2(v, i): v * 2^i for integral i
 *   v_abs(v)                     v_above(a, b): bit j is a[j] > b[j]     v_choose_above(a, b, x, y): a > b ? x : y
 *
 * See kernels.h for what each kernel computes. SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include "kernels.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* exp by Cody-Waite reduction to [-ln2/2, ln2/2] and the Taylor polynomial of degree 6 (relative error 1.2e-7 at the
 * ends). The argument is clamped to [EXP_LEAST, 88.72283], where the result is normal. The constant is the first operand
 * of min and max because x86 returns the second one when either is NaN: NaN must come out as NaN. */
#define EXP_LEAST (-87.33654f)
INLINE vec v_exp(vec x) {
    x = v_min(v_set(88.72283f), v_max(v_set(EXP_LEAST), x));
    vec i = v_round(v_mul(x, v_set(1.44269504f)));
    vec r = v_fnma(i, v_set(0.693359375f), x);
    r = v_fnma(i, v_set(-2.12194440e-4f), r);
    vec p = v_set(1.0f / 720);
    p = v_fma(p, r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return v_scale2(p, i);
}

/* log(1 + t) for t in [0, 1]: 2 atanh(s) with s = t / (2 + t) <= 1/3, odd series to s^13. */
INLINE vec v_log1p_unit(vec t) {
    vec s = v_div(t, v_add(t, v_set(2.0f)));
    vec q = v_mul(s, s);
    vec p = v_set(2.0f / 13);
    p = v_fma(p, q, v_set(2.0f / 11));
    p = v_fma(p, q, v_set(2.0f / 9));
    p = v_fma(p, q, v_set(2.0f / 7));
    p = v_fma(p, q, v_set(2.0f / 5));
    p = v_fma(p, q, v_set(2.0f / 3));
    p = v_fma(p, q, v_set(2.0f));
    return v_mul(p, s);
}

static float dot(const float *a, const float *b, int64_t n) {
    vec s0 = v_zero(), s1 = v_zero();
    int64_t i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        s0 = v_fma(v_load(a + i), v_load(b + i), s0);
        s1 = v_fma(v_load(a + i + WIDTH), v_load(b + i + WIDTH), s1);
    }
    for (; i < n; i += WIDTH) s0 = v_fma(v_load(a + i), v_load(b + i), s0);
    return v_sum(v_add(s0, s1));
}

static float sum(const float *x, int64_t n) {
    vec s = v_zero();
    for (int64_t i = 0; i < n; i += WIDTH) s = v_add(s, v_load(x + i));
    return v_sum(s);
}

static void axpy(float *y, const float *x, float alpha, int64_t n) {
    vec a = v_set(alpha);
    for (int64_t i = 0; i < n; i += WIDTH) v_store(y + i, v_fma(a, v_load(x + i), v_load(y + i)));
}

/* One pass over the ids for a strip of vecs registers; the rows of the next ids are asked for early. */
INLINE void bag_strip(const int vecs, float *out, const float *bias, const float *table, int64_t stride, const int32_t *ids,
                      const float *values, int64_t n_ids) {
    vec s[8];
    UNROLL for (int v = 0; v < vecs; v++) s[v] = bias != NULL ? v_load(bias + v * WIDTH) : v_zero();
    for (int64_t j = 0; j < n_ids; j++) {
        if (j + 4 < n_ids) {
            const float *next = table + ids[j + 4] * stride;
            UNROLL for (int v = 0; v < vecs; v++) __builtin_prefetch(next + v * WIDTH);
        }
        const float *row = table + ids[j] * stride;
        vec x = v_set(values[j]);
        UNROLL for (int v = 0; v < vecs; v++) s[v] = v_fma(x, v_load(row + v * WIDTH), s[v]);
    }
    UNROLL for (int v = 0; v < vecs; v++) v_store(out + v * WIDTH, s[v]);
}

static void bag(float *out, const float *bias, const float *table, int64_t stride, const int32_t *ids, const float *values,
                int64_t n_ids, int64_t n) {
    int64_t i = 0;
    for (; i + 8 * WIDTH <= n; i += 8 * WIDTH)
        bag_strip(8, out + i, bias != NULL ? bias + i : NULL, table + i, stride, ids, values, n_ids);
    for (; i < n; i += WIDTH)
        bag_strip(1, out + i, bias != NULL ? bias + i : NULL, table + i, stride, ids, values, n_ids);
}

/* rows x vecs registers of C stay in registers while l runs over one block of k. */
INLINE void tile(const int rows, const int vecs, float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col,
                 const float *b, int64_t ldb, int64_t k, bool accumulate) {
    vec s[TILE_ROWS][TILE_VECS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vecs; v++) s[i][v] = accumulate ? v_load(c + i * ldc + v * WIDTH) : v_zero();
    for (int64_t l = 0; l < k; l++) {
        vec x[TILE_VECS];
        UNROLL for (int v = 0; v < vecs; v++) x[v] = v_load(b + l * ldb + v * WIDTH);
        UNROLL for (int i = 0; i < rows; i++) {
            vec y = v_set(a[i * a_row + l * a_col]);
            UNROLL for (int v = 0; v < vecs; v++) s[i][v] = v_fma(y, x[v], s[i][v]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vecs; v++) v_store(c + i * ldc + v * WIDTH, s[i][v]);
}

INLINE void tile_column(const int vecs, float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col, const float *b,
                        int64_t ldb, int64_t m, int64_t k, bool accumulate) {
    int64_t i = 0;
    for (; i + TILE_ROWS <= m; i += TILE_ROWS)
        tile(TILE_ROWS, vecs, c + i * ldc, ldc, a + i * a_row, a_row, a_col, b, ldb, k, accumulate);
    for (; i + 2 <= m; i += 2) tile(2, vecs, c + i * ldc, ldc, a + i * a_row, a_row, a_col, b, ldb, k, accumulate);
    if (i < m) tile(1, vecs, c + i * ldc, ldc, a + i * a_row, a_row, a_col, b, ldb, k, accumulate);
}

#define PRODUCT_BLOCK 256 /* rows of B at a time: a strip of them stays in the first or second cache */

static void product(float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col, const float *b, int64_t ldb, int64_t m,
                    int64_t k, int64_t n, int accumulate) {
    int64_t l = 0;
    do {
        int64_t depth = k - l < PRODUCT_BLOCK ? k - l : PRODUCT_BLOCK;
        const float *a_l = a + l * a_col, *b_l = b + l * ldb;
        bool add = accumulate || l > 0;
        int64_t j = 0;
        for (; j + TILE_VECS * WIDTH <= n; j += TILE_VECS * WIDTH)
            tile_column(TILE_VECS, c + j, ldc, a_l, a_row, a_col, b_l + j, ldb, m, depth, add);
        for (; j < n; j += WIDTH) tile_column(1, c + j, ldc, a_l, a_row, a_col, b_l + j, ldb, m, depth, add);
        l += depth;
    } while (l < k);
}

static void add_bias(float *z, const float *bias, int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; i++) {
        vec b = v_set(bias[i]);
        for (int64_t j = 0; j < n; j += WIDTH) v_store(z + i * n + j, v_add(v_load(z + i * n + j), b));
    }
}

static void bce_loss(float *z, const float *bias, int64_t m, int64_t n, float *loss) {
    for (int64_t j = 0; j < n; j += WIDTH) {
        vec total = v_zero();
        for (int64_t i = 0; i < m; i++) {
            vec x = v_add(v_load(z + i * n + j), v_set(bias[i]));
            v_store(z + i * n + j, x);
            vec tail = v_log1p_unit(v_exp(v_sub(v_zero(), v_abs(x))));
            total = v_add(total, v_add(v_max(v_zero(), x), tail));
        }
        v_store(loss + j, total);
    }
}

static void softmax_loss(float *z, const float *bias, int64_t m, int64_t n, float *peak, float *mass) {
    for (int64_t j = 0; j < n; j += WIDTH) {
        vec high = v_set(-INFINITY), total = v_zero();
        for (int64_t i = 0; i < m; i++) {
            vec x = v_add(v_load(z + i * n + j), v_set(bias[i]));
            v_store(z + i * n + j, x);
            high = v_max(high, x);
        }
        for (int64_t i = 0; i < m; i++) total = v_add(total, v_exp(v_sub(v_load(z + i * n + j), high)));
        v_store(peak + j, high);
        v_store(mass + j, total);
    }
}

static void sigmoid(float *z, int64_t n) {
    vec one = v_set(1.0f);
    for (int64_t i = 0; i < n; i += WIDTH)
        v_store(z + i, v_div(one, v_add(one, v_exp(v_sub(v_zero(), v_load(z + i))))));
}

static void exp_shift(float *z, const float *shift, int64_t m, int64_t n) {
    for (int64_t j = 0; j < n; j += WIDTH) {
        vec s = v_load(shift + j);
        for (int64_t i = 0; i < m; i++) {
            vec x = v_sub(v_load(z + i * n + j), s); /* below the range of v_exp: 0, not its least value */
            v_store(z + i * n + j, v_choose_above(v_set(EXP_LEAST), x, v_zero(), v_exp(x)));
        }
    }
}

static void sgd_row(float *w, const float *g, float rate, int64_t n) { axpy(w, g, -rate, n); }

static void adam_row(float *w, float *m, float *v, const float *g, float rate, float scale, float beta1, float beta2,
                     float epsilon, int64_t n) {
    vec b1 = v_set(beta1), b2 = v_set(beta2), c1 = v_set(1.0f - beta1), c2 = v_set(1.0f - beta2);
    for (int64_t i = 0; i < n; i += WIDTH) {
        vec x = v_load(g + i);
        vec first = v_fma(b1, v_load(m + i), v_mul(c1, x));
        vec second = v_fma(b2, v_load(v + i), v_mul(c2, v_mul(x, x)));
        vec step = v_div(v_mul(v_set(rate), first), v_fma(v_sqrt(second), v_set(scale), v_set(epsilon)));
        v_store(m + i, first);
        v_store(v + i, second);
        v_store(w + i, v_sub(v_load(w + i), step));
    }
}

static int64_t above(const float *z, const float *bound, int64_t n, int32_t *places) {
    int64_t count = 0;
    for (int64_t j = 0; j < n; j += WIDTH) {
        uint32_t bits = v_above(v_load(z + j), v_load(bound + j));
        for (; bits != 0; bits &= bits - 1) places[count++] = (int32_t)(j + __builtin_ctz(bits));
    }
    return count;
}

static void dwta(const float *x, const int32_t *bins, int64_t n_bins, float floor, uint8_t *codes) {
    for (int64_t b = 0; b < n_bins; b++) {
        const int32_t *bin = bins + b * XCL_DWTA_BIN;
        for (int v = 0; v < 16; v += WIDTH) {
            vec best = v_set(floor), code = v_set((float)XCL_DWTA_EMPTY);
            UNROLL for (int j = 0; j < XCL_DWTA_BIN; j++) {
                vec value = v_load(x + bin[j] * (int64_t)16 + v);
                code = v_choose_above(value, best, v_set((float)j), code);
                best = v_max(value, best);
            }
            float lanes[WIDTH] __attribute__((aligned(64)));
            v_store(lanes, code);
            for (int i = 0; i < WIDTH; i++) codes[b * 16 + v + i] = (uint8_t)lanes[i];
        }
    }
}

static const xcl_kernels kernels = {
    .name = NAME, .width = WIDTH,
    .dot = dot, .sum = sum, .axpy = axpy, .bag = bag, .product = product,
    .bce_loss = bce_loss, .softmax_loss = softmax_loss, .add_bias = add_bias, .sigmoid = sigmoid, .exp_shift = exp_shift,
    .sgd_row = sgd_row, .adam_row = adam_row, .above = above, .dwta = dwta,
};
