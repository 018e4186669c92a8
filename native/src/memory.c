/* The one place that allocates. SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#include "internal.h"

#define ALIGNMENT 64
#define HUGE_BYTES ((size_t)2 << 20)

void *xcl_alloc(int64_t count, size_t size) {
    if (count < 0 || (uint64_t)count > (SIZE_MAX - HUGE_BYTES) / size) return NULL;
    size_t bytes = (size_t)count * size;
    bool huge = bytes >= 4 * HUGE_BYTES;
    size_t alignment = huge ? HUGE_BYTES : ALIGNMENT;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    if (bytes == 0) bytes = alignment;
    void *memory = aligned_alloc(alignment, bytes);
    if (memory == NULL) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (huge) madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: refusal changes nothing */
#endif
    memset(memory, 0, bytes);
    return memory;
}

void xcl_free(void *memory) { free(memory); }

xcl_status xcl_reserve(void **memory, int64_t *capacity, int64_t count, size_t size) {
    if (count <= *capacity) return XCL_OK;
    int64_t wanted = xcl_max(count, *capacity + *capacity / 2);
    xcl_free(*memory);
    *capacity = 0;
    *memory = xcl_alloc(wanted, size);
    if (*memory == NULL)
        return xcl_fail(XCL_ERR_MEMORY, "cannot allocate %lld elements of %zu bytes", (long long)wanted, size);
    *capacity = wanted;
    return XCL_OK;
}
