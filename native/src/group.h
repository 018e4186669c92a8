/* Regrouping of (row, id) pairs by id: which ids occur, and for each the pairs that have it, in their first order.
 * SPDX-License-Identifier: MIT */
#ifndef XCL_GROUP_H
#define XCL_GROUP_H
#include "bitset.h"

typedef struct {
    xcl_bitset set;      /* over all ids */
    xcl_ints ids;        /* (n_ids) the distinct ids, ascending */
    xcl_longs starts;    /* (n_ids + 1) pairs of id number u are order[starts[u] .. starts[u + 1]) */
    xcl_ints order;      /* (n_pairs) pair numbers */
    xcl_ints places, dealt; /* (n_pairs) room for sorting */
    int64_t n_ids, n_pairs;
} xcl_group;

xcl_status xcl_group_create(xcl_group *group, int64_t n_ids);
void xcl_group_free(xcl_group *group);
/* List the members of group->set; group->n_ids and ids are then valid. */
xcl_status xcl_group_list(xcl_group *group);
/* Sort pairs by id. keys: (n_pairs) ids, all of them members of the listed set. Ids without pairs get empty ranges. */
xcl_status xcl_group_sort(xcl_group *group, xcl_pool *pool, const int32_t *keys, int64_t n_pairs);
#endif
