/* Counting sort of pairs by id. SPDX-License-Identifier: MIT */
#include "group.h"

xcl_status xcl_group_create(xcl_group *group, int64_t n_ids) { return xcl_bitset_create(&group->set, n_ids); }

void xcl_group_free(xcl_group *group) {
    xcl_bitset_free(&group->set);
    xcl_free(group->ids.data);
    xcl_free(group->starts.data);
    xcl_free(group->order.data);
}

xcl_status xcl_group_list(xcl_group *group) {
    XCL_TRY(XCL_RESERVE(group->ids, xcl_bitset_count(&group->set)));
    group->n_ids = xcl_bitset_rank(&group->set, group->ids.data);
    return XCL_OK;
}

xcl_status xcl_group_sort(xcl_group *group, const int32_t *keys, int64_t n_pairs) {
    if (n_pairs > INT32_MAX) return xcl_fail(XCL_ERR_ARG, "a batch of %lld (row, id) pairs is too large", (long long)n_pairs);
    XCL_TRY(XCL_RESERVE(group->starts, group->n_ids + 2));
    XCL_TRY(XCL_RESERVE(group->order, n_pairs));
    group->n_pairs = n_pairs;
    /* Counts go one place to the right of their final offset, so that filling moves each start to its own place. */
    int64_t *next = group->starts.data;
    memset(next, 0, (size_t)(group->n_ids + 2) * sizeof *next);
    for (int64_t i = 0; i < n_pairs; i++) next[xcl_bitset_place(&group->set, keys[i]) + 2]++;
    for (int64_t u = 0; u < group->n_ids; u++) next[u + 2] += next[u + 1];
    for (int64_t i = 0; i < n_pairs; i++) group->order.data[next[xcl_bitset_place(&group->set, keys[i]) + 1]++] = (int32_t)i;
    return XCL_OK;
}
