/* AVX2 and FMA: 8 floats a register, 16 registers. SPDX-License-Identifier: MIT */
#include "kernels.h"
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define NAME "avx2"
#define WIDTH 8
#define TILE_ROWS 6
#define TILE_VECS 2
typedef __m256 vec;
#define v_zero() _mm256_setzero_ps()
#define v_set(x) _mm256_set1_ps(x)
#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_add(a, b) _mm256_add_ps(a, b)
#define v_sub(a, b) _mm256_sub_ps(a, b)
#define v_mul(a, b) _mm256_mul_ps(a, b)
#define v_div(a, b) _mm256_div_ps(a, b)
#define v_max(a, b) _mm256_max_ps(a, b)
#define v_min(a, b) _mm256_min_ps(a, b)
#define v_sqrt(a) _mm256_sqrt_ps(a)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_fnma(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define v_round(v) _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define v_abs(v) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)
#define v_above(a, b) ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)))
#define v_choose_above(a, b, x, y) _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ))

static inline float v_sum(vec v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* In two factors, so that 2^128 and 2^-127 (the ends of v_exp's range) come out right. */
static inline vec v_scale2(vec v, vec i) {
    __m256i n = _mm256_cvtps_epi32(i);
    __m256i half = _mm256_srai_epi32(n, 1);
    __m256i rest = _mm256_sub_epi32(n, half);
    __m256i one = _mm256_set1_epi32(127);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, one), 23)));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23)));
}
#include "generic.inl"
const xcl_kernels *xcl_kernels_avx2(void) { return &kernels; }
#else
#include <stddef.h>
const xcl_kernels *xcl_kernels_avx2(void) { return NULL; }
#endif
