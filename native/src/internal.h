/* Structs and helpers that more than one file of the engine needs. SPDX-License-Identifier: MIT */
#ifndef XCL_INTERNAL_H
#define XCL_INTERNAL_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "xcl.h"
#include "kernels/kernels.h"

#define XCL_LANES 16 /* rows of floats are padded to a multiple of this: one AVX-512 register, one cache line */
#define XCL_SHARDS 16 /* fixed split of the union for the hidden gradient; see docs/design.md */

static inline int64_t xcl_pad(int64_t n) { return (n + XCL_LANES - 1) / XCL_LANES * XCL_LANES; }
static inline int64_t xcl_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t xcl_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t xcl_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- errors (error.c) ---- */
/* Store the reason for this thread and return code, so that a check is one line. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
xcl_status xcl_fail(xcl_status code, const char *format, ...);
#define XCL_TRY(call)                                                                                                  \
    do {                                                                                                               \
        xcl_status status_ = (call);                                                                                   \
        if (status_ != XCL_OK) return status_;                                                                         \
    } while (0)

/* ---- memory (memory.c) ---- */
/* count * size bytes, zeroed, 64-byte aligned, large ones advised to huge pages; NULL if it overflows or does not fit. */
void *xcl_alloc(int64_t count, size_t size);
void xcl_free(void *memory);
/* Make *memory hold at least count elements, contents lost when it grows. XCL_ERR_MEMORY leaves it empty. */
xcl_status xcl_reserve(void **memory, int64_t *capacity, int64_t count, size_t size);
#define XCL_RESERVE(buffer, count) xcl_reserve((void **)&(buffer).data, &(buffer).capacity, count, sizeof *(buffer).data)
/* Grow-only scratch. */
typedef struct { float *data; int64_t capacity; } xcl_floats;
typedef struct { int32_t *data; int64_t capacity; } xcl_ints;
typedef struct { int64_t *data; int64_t capacity; } xcl_longs;
typedef struct { uint32_t *data; int64_t capacity; } xcl_words;

/* ---- threads (pool.c) ---- */
typedef struct xcl_pool xcl_pool;
typedef void (*xcl_task)(void *arg, int64_t task, int32_t thread);
xcl_status xcl_pool_create(int32_t n_threads, xcl_pool **out);
void xcl_pool_free(xcl_pool *pool);
int32_t xcl_pool_threads(const xcl_pool *pool);
/* Call fn(arg, i, thread) once for every i in 0..n_tasks-1, on any thread in any order; return when all are done. */
void xcl_pool_run(xcl_pool *pool, int64_t n_tasks, xcl_task fn, void *arg);
/* XCL_ERR_STATE in a forked child, where the workers do not exist. */
xcl_status xcl_pool_check(const xcl_pool *pool);

struct xcl_engine {
    xcl_pool *pool;
    const xcl_kernels *kernels;
};

double xcl_seconds(void); /* a monotonic clock */

#endif
