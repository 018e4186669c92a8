/* Fixed values, so that models can be repeated by any later version, and the shape of the distributions.
 * SPDX-License-Identifier: MIT */
#include "check.h"

/* By an independent computation with Python's integers. */
static void test_values(void) {
    CHECK(xcl_mix(0) == 0xe220a8397b1dcdafu, "%llx", (unsigned long long)xcl_mix(0));
    CHECK(xcl_random(1, 2, 3, 4) == 0x336c3255cbcc01feu, "%llx", (unsigned long long)xcl_random(1, 2, 3, 4));
    CHECK(xcl_random(UINT64_MAX, 9, UINT64_MAX, UINT64_MAX) == 0x8a5ddc16ce9d190du, "the largest arguments");
    CHECK(xcl_below(UINT64_MAX, 7) == 6 && xcl_below(0, 7) == 0 && xcl_below(UINT64_MAX, 1) == 0, "below");
    CHECK(xcl_unit(UINT64_MAX) == 1 - 0x1p-24f && xcl_unit(0) == 0, "unit");
    CHECK(xcl_normal(0) == -xcl_normal(UINT64_MAX), "normal is even");
    CHECK(fabsf(xcl_normal(0) + 2 * 1.7320508f) < 1e-3f, "normal ends at two roots of three: %g", xcl_normal(0));
}

/* Mean and variance of 10^6 numbers within 5 standard deviations of what they should be. */
static void test_shape(void) {
    enum { N = 1000000 };
    double sum = 0, square = 0, fourth = 0, unit = 0;
    int64_t counts[10] = {0};
    for (int64_t i = 0; i < N; i++) {
        uint64_t bits = xcl_random(3, XCL_RNG_INIT_INPUT, (uint64_t)(i / 100), (uint64_t)(i % 100));
        double z = xcl_normal(bits);
        sum += z;
        square += z * z;
        fourth += z * z * z * z;
        unit += xcl_unit(bits);
        counts[xcl_below(bits, 10)]++;
    }
    CHECK(fabs(sum / N) < 5e-3, "mean %g", sum / N);
    CHECK(fabs(square / N - 1) < 7e-3, "variance %g", square / N);
    CHECK(fabs(fourth / N - 2.7) < 0.03, "fourth moment %g: that of four uniforms is 2.7", fourth / N);
    CHECK(fabs(unit / N - 0.5) < 1.5e-3, "mean of unit %g", unit / N);
    for (int i = 0; i < 10; i++) CHECK(fabs((double)counts[i] / N - 0.1) < 1.5e-3, "share of %d: %lld", i, (long long)counts[i]);
}

int main(void) {
    test_values();
    test_shape();
    return check_result();
}
