/* Random numbers as a function of what they are for.
 *
 * xcl_random(seed, purpose, a, b) mixes its four arguments to 64 bits: each is added to the state, which then goes
 * through the finaliser of SplitMix64 (Steele, Lea, Flood 2014). Nothing is stored, so a number does not depend on who
 * asks first, on threads or on where a run was resumed.
 * SPDX-License-Identifier: MIT */
#ifndef XCL_RNG_H
#define XCL_RNG_H
#include <math.h>
#include <stdint.h>

enum xcl_purpose {
    XCL_RNG_INIT_INPUT = 1,  /* a: feature, b: unit */
    XCL_RNG_INIT_HIDDEN = 2, /* a: layer << 32 | input unit, b: unit */
    XCL_RNG_INIT_OUTPUT = 3, /* a: label, b: unit */
    XCL_RNG_SHUFFLE = 4,     /* a: epoch, b: place */
    XCL_RNG_DROPOUT = 5,     /* a: step << 8 | layer, b: row in the batch << 32 | unit / 2; low half for even units */
    XCL_RNG_INPUT_DROPOUT = 6, /* a: step, b: row in the batch << 32 | feature */
    XCL_RNG_SAMPLE = 7,      /* a: step, b: row in the batch << 32 | draw (scope batch: draw) */
    XCL_RNG_HASH = 8,        /* a: generation << 32 | function (or 2^31 + bin that borrows), b: draw */
    XCL_RNG_TABLE_ORDER = 9  /* a: query number, b: table */
};

static inline uint64_t xcl_mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The part that is constant in an inner loop over b. */
static inline uint64_t xcl_random_key(uint64_t seed, uint64_t purpose, uint64_t a) {
    return xcl_mix(xcl_mix(xcl_mix(seed) + purpose) + a);
}
static inline uint64_t xcl_random_at(uint64_t key, uint64_t b) { return xcl_mix(key + b); }
static inline uint64_t xcl_random(uint64_t seed, uint64_t purpose, uint64_t a, uint64_t b) {
    return xcl_random_at(xcl_random_key(seed, purpose, a), b);
}

/* 0 .. n-1 from 64 random bits (multiply-shift; the bias is below n / 2^32). n below 2^32. */
static inline uint32_t xcl_below(uint64_t bits, uint32_t n) { return (uint32_t)(((bits >> 32) * (uint64_t)n) >> 32); }
/* [0, 1) with 24 bits. */
static inline float xcl_unit(uint64_t bits) { return (float)(bits >> 40) * 0x1p-24f; }

/* About N(0, 1): the sum of four 16-bit uniforms (Irwin-Hall), centred and scaled. Exact integer arithmetic up to one
 * product, so it is the same number everywhere, which libm's logarithm would not promise. */
static inline float xcl_normal(uint64_t bits) {
    int32_t sum = (int32_t)((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    return (float)(sum - 2 * 0xffff) * (1.7320508f / 65536.0f);
}
#endif
