/* What the C tests share: CHECK, its count of failures, and the kernels that XCL_ISA names.
 * A test is a main() that ends with `return check_result();`: 0, 1 after a failure, 77 if the CPU lacks the set.
 * SPDX-License-Identifier: MIT */
#ifndef XCL_CHECK_H
#define XCL_CHECK_H
#include <stdio.h>
#include <stdlib.h>
#include "internal.h"
#include "rng.h"

static int check_failures;

/* CHECK(condition, format, ...): the message says with what the condition failed. Stops after 20. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fprintf(stderr, "\n");                                                                                         \
        if (++check_failures == 20) exit(1);                                                                           \
    } while (0)

static inline int check_result(void) { return check_failures > 0; }

/* An engine with the kernels of XCL_ISA; ends the test with 77 where they cannot be used. */
static inline xcl_engine *check_engine(int32_t n_threads) {
    xcl_engine *engine = NULL;
    xcl_status status = xcl_engine_create(n_threads, getenv("XCL_ISA"), &engine);
    if (status == XCL_ERR_ISA) exit(77);
    if (status != XCL_OK) exit(1);
    return engine;
}

/* Number i of a fixed random sequence, in [-1, 1). */
static inline float check_random(uint64_t sequence, int64_t i) { return 2 * xcl_unit(xcl_random(1, sequence, 0, (uint64_t)i)) - 1; }

#endif
