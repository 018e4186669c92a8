/* The inner loops, one table of them an instruction set.
 *
 * All lengths along a row (n) are multiples of 16 and rows are 64-byte aligned unless a kernel says otherwise.
 * portable.c is plain C in the obvious order and the reference for the others, which come from generic.inl over a few
 * vector primitives. Sums run in `width` lanes and then over the lanes as a tree: they differ from the portable ones by at
 * most n * 2^-24 times the sum of absolute values. exp is accurate to 2 units in the last place, log1p to 4.
 * SPDX-License-Identifier: MIT */
#ifndef XCL_KERNELS_H
#define XCL_KERNELS_H
#include <stdint.h>

#define XCL_DWTA_BIN 8
#define XCL_DWTA_EMPTY 255

typedef struct xcl_kernels {
    const char *name;
    int32_t width; /* floats in a register */

    /* sum_i a[i] b[i] */
    float (*dot)(const float *a, const float *b, int64_t n);
    /* sum_i x[i] */
    float (*sum)(const float *x, int64_t n);
    /* y += alpha x */
    void (*axpy)(float *y, const float *x, float alpha, int64_t n);
    /* out = bias + sum_j values[j] table[ids[j]], rows of table stride floats apart; bias may be NULL (0) */
    void (*bag)(float *out, const float *bias, const float *table, int64_t stride, const int32_t *ids, const float *values,
                int64_t n_ids, int64_t n);
    /* C = A B, or C += A B if accumulate. C: (m, n), rows ldc apart. A[i][l] = a[i * a_row + l * a_col]: (m, k).
     * B: (k, n), rows ldb apart. Each element is summed in ascending l, in blocks of 256. */
    void (*product)(float *c, int64_t ldc, const float *a, int64_t a_row, int64_t a_col, const float *b, int64_t ldb, int64_t m,
                    int64_t k, int64_t n, int accumulate);

    /* z: (m, n), rows contiguous, one row a label, one column a batch row; z[i] += bias[i] in all three of these.
     * loss[j] = sum_i log(1 + exp(z[i][j])) */
    void (*bce_loss)(float *z, const float *bias, int64_t m, int64_t n, float *loss);
    /* peak[j] = max_i z[i][j];  mass[j] = sum_i exp(z[i][j] - peak[j]) */
    void (*softmax_loss)(float *z, const float *bias, int64_t m, int64_t n, float *peak, float *mass);
    /* bias only */
    void (*add_bias)(float *z, const float *bias, int64_t m, int64_t n);
    /* z = 1 / (1 + exp(-z)) */
    void (*sigmoid)(float *z, int64_t n);
    /* z[i][j] = exp(z[i][j] - shift[j]); exactly 0 where shift is infinite */
    void (*exp_shift)(float *z, const float *shift, int64_t m, int64_t n);

    /* w -= rate g */
    void (*sgd_row)(float *w, const float *g, float rate, int64_t n);
    /* m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= rate m / (sqrt(v) * scale + epsilon) */
    void (*adam_row)(float *w, float *m, float *v, const float *g, float rate, float scale, float beta1, float beta2,
                     float epsilon, int64_t n);

    /* The places j with z[j] > bound[j], ascending; returns how many. */
    int64_t (*above)(const float *z, const float *bound, int64_t n, int32_t *places);

    /* Winner-take-all for 16 vectors at once. x: (dims, 16), a column a vector. bins: (n_bins, 8) coordinates.
     * codes[b * 16 + v]: place of the first largest coordinate above `floor` in bin b, or XCL_DWTA_EMPTY. */
    void (*dwta)(const float *x, const int32_t *bins, int64_t n_bins, float floor, uint8_t *codes);
} xcl_kernels;

/* NULL where the compiler could not build the set. */
const xcl_kernels *xcl_kernels_portable(void);
const xcl_kernels *xcl_kernels_avx2(void);
const xcl_kernels *xcl_kernels_avx512(void);
const xcl_kernels *xcl_kernels_neon(void);

#endif
