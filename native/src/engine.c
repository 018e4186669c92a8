/* Threads and the choice of kernels. SPDX-License-Identifier: MIT */
#include <string.h>
#include <time.h>
#include "internal.h"

/* In order of preference. Each function returns NULL when the compiler could not build the set. */
static const xcl_kernels *(*const kernel_sets[])(void) = {xcl_kernels_avx512, xcl_kernels_avx2, xcl_kernels_neon,
                                                          xcl_kernels_portable};
#define N_SETS ((int)(sizeof kernel_sets / sizeof *kernel_sets))

/* x86: __builtin_cpu_supports also asks whether the operating system saves the registers. */
static bool cpu_supports(const char *name) {
#if defined(__x86_64__) || defined(__i386__)
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return strcmp(name, "portable") == 0 || strcmp(name, "neon") == 0;
}

static const xcl_kernels *usable(int i) {
    const xcl_kernels *kernels = kernel_sets[i]();
    return kernels != NULL && cpu_supports(kernels->name) ? kernels : NULL;
}

const char *xcl_isa_list(void) {
    static _Thread_local char names[64];
    names[0] = '\0';
    for (int i = 0; i < N_SETS; i++) {
        const xcl_kernels *kernels = usable(i);
        if (kernels == NULL) continue;
        if (names[0] != '\0') strcat(names, " ");
        strcat(names, kernels->name);
    }
    return names;
}

static xcl_status choose_kernels(const char *isa, const xcl_kernels **out) {
    for (int i = 0; i < N_SETS; i++) {
        const xcl_kernels *kernels = usable(i);
        if (kernels == NULL || (isa != NULL && strcmp(isa, kernels->name) != 0)) continue;
        *out = kernels;
        return XCL_OK;
    }
    return xcl_fail(XCL_ERR_ISA, "instruction set '%.40s' is not one of those usable here: %s", isa, xcl_isa_list());
}

xcl_status xcl_engine_create(int32_t n_threads, const char *isa, xcl_engine **out) {
    *out = NULL;
    const xcl_kernels *kernels = NULL;
    XCL_TRY(choose_kernels(isa, &kernels));
    xcl_pool *pool = NULL;
    XCL_TRY(xcl_pool_create(n_threads, &pool));
    xcl_engine *engine = xcl_alloc(1, sizeof *engine);
    if (engine == NULL) {
        xcl_pool_free(pool);
        return xcl_fail(XCL_ERR_MEMORY, "cannot allocate an engine");
    }
    engine->pool = pool;
    engine->kernels = kernels;
    *out = engine;
    return XCL_OK;
}

void xcl_engine_free(xcl_engine *engine) {
    if (engine == NULL) return;
    xcl_pool_free(engine->pool);
    xcl_free(engine);
}

const char *xcl_engine_isa(const xcl_engine *engine) { return engine->kernels->name; }
int32_t xcl_engine_threads(const xcl_engine *engine) { return xcl_pool_threads(engine->pool); }

double xcl_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
