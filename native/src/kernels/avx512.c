/* AVX-512 (F, BW, DQ, VL): 16 floats a register, 32 registers. SPDX-License-Identifier: MIT */
#include "kernels.h"
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define NAME "avx512"
#define WIDTH 16
#define TILE_ROWS 8
#define TILE_VECS 3
typedef __m512 vec;
#define v_zero() _mm512_setzero_ps()
#define v_set(x) _mm512_set1_ps(x)
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_div(a, b) _mm512_div_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b)
#define v_min(a, b) _mm512_min_ps(a, b)
#define v_sqrt(a) _mm512_sqrt_ps(a)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_fnma(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define v_sum(v) _mm512_reduce_add_ps(v)
#define v_round(v) _mm512_roundscale_ps(v, 0)
#define v_scale2(v, i) _mm512_scalef_ps(v, i)
#define v_abs(v) _mm512_abs_ps(v)
#define v_above(a, b) ((uint32_t)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define v_choose_above(a, b, x, y) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x)
#include "generic.inl"
const xcl_kernels *xcl_kernels_avx512(void) { return &kernels; }
#else
#include <stddef.h>
const xcl_kernels *xcl_kernels_avx512(void) { return NULL; }
#endif
