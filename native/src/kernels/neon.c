/* NEON on aarch64: 4 floats a register, 32 registers. SPDX-License-Identifier: MIT */
#include "kernels.h"
#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#define NAME "neon"
#define WIDTH 4
#define TILE_ROWS 6
#define TILE_VECS 4
typedef float32x4_t vec;
#define v_zero() vdupq_n_f32(0.0f)
#define v_set(x) vdupq_n_f32(x)
#define v_load(p) vld1q_f32(p)
#define v_store(p, v) vst1q_f32(p, v)
#define v_add(a, b) vaddq_f32(a, b)
#define v_sub(a, b) vsubq_f32(a, b)
#define v_mul(a, b) vmulq_f32(a, b)
#define v_div(a, b) vdivq_f32(a, b)
#define v_max(a, b) vmaxq_f32(a, b)
#define v_min(a, b) vminq_f32(a, b)
#define v_sqrt(a) vsqrtq_f32(a)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_fnma(a, b, c) vfmsq_f32(c, a, b)
#define v_sum(v) vaddvq_f32(v)
#define v_round(v) vrndnq_f32(v)
#define v_abs(v) vabsq_f32(v)
#define v_choose_above(a, b, x, y) vbslq_f32(vcgtq_f32(a, b), x, y)

static inline uint32_t v_above(vec a, vec b) {
    const uint32x4_t place = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgtq_f32(a, b), place));
}

/* In two factors, so that 2^128 and 2^-127 (the ends of v_exp's range) come out right. */
static inline vec v_scale2(vec v, vec i) {
    int32x4_t n = vcvtnq_s32_f32(i);
    int32x4_t half = vshrq_n_s32(n, 1);
    int32x4_t rest = vsubq_s32(n, half);
    int32x4_t one = vdupq_n_s32(127);
    v = vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, one), 23)));
    return vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, one), 23)));
}
#include "generic.inl"
const xcl_kernels *xcl_kernels_neon(void) { return &kernels; }
#else
#include <stddef.h>
const xcl_kernels *xcl_kernels_neon(void) { return NULL; }
#endif
