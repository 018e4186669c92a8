/* Hash tables over rows of a matrix, inside the engine. SPDX-License-Identifier: MIT */
#ifndef XCL_INDEX_H
#define XCL_INDEX_H
#include "bitset.h"
#include "hash.h"

/* One thread's room for queries. */
typedef struct {
    xcl_hash_room hash;
    uint64_t *addresses; /* (16, n_tables) */
    int32_t *order;      /* (n_tables) tables in the order to visit */
    uint16_t *count;     /* (n_ids) in how many tables an id was met; zero between queries */
    int32_t *met;        /* (n_ids) ids met, in order */
    int64_t n_probes, n_probes_empty, n_queries, n_candidates;
} xcl_index_room;

struct xcl_index {
    xcl_engine *engine;
    int32_t n_threads; /* of the engine, which may be gone when the index is freed */
    xcl_hash hash;
    int64_t n_ids;
    int32_t bits;       /* log2 of the buckets of a table */
    int32_t *offsets;   /* (n_tables, 2^bits + 1) */
    int32_t *ids;       /* (n_tables, n_ids) ascending in each bucket */
    xcl_words addresses; /* (tables of a group, rows to hash) while building */
    xcl_index_room *rooms; /* one a thread */
    uint32_t **place;      /* one a thread: (n_ids) address of each id while a table is rebuilt */
};

/* Bytes of the tables over n_ids rows, and of the rooms of n_threads threads. */
void xcl_index_bytes(const xcl_index_options *options, int64_t n_ids, int64_t n_dims, int64_t n_threads, double *tables,
                     double *scratch);
/* Room for n_ids rows; the tables are empty. */
xcl_status xcl_index_size(xcl_index *index, int64_t n_ids);
/* Whether tables that were overwritten hold every id once, as all others here take for granted. XCL_ERR_ARG: they do not. */
xcl_status xcl_index_check(xcl_index *index);
/* Re-insert the rows of data in `changed`; generation other than the current one draws new functions and re-inserts all. */
xcl_status xcl_index_refresh(xcl_index *index, const float *data, int64_t stride, const xcl_bitset *changed, int64_t generation);
/* Candidates of one hashed query. Returns their number, at most max_ids.
 * n_found: how many of labels[0..n_labels) were in the buckets probed; n_met: distinct ids in them, before the policy. */
int64_t xcl_index_candidates(xcl_index *index, xcl_index_room *room, const uint64_t *addresses, int64_t counter, int64_t max_ids,
                             int32_t *out, const int32_t *labels, int64_t n_labels, int64_t *n_found, int64_t *n_met);
#endif
