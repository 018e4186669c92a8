/* K * L hash functions over vectors: their codes, and the addresses they make. SPDX-License-Identifier: MIT */
#ifndef XCL_HASH_H
#define XCL_HASH_H
#include "internal.h"

#define XCL_HASH_BLOCK 16  /* vectors hashed together */
#define XCL_NO_ADDRESS UINT64_MAX

typedef struct {
    xcl_index_options options;
    const xcl_kernels *kernels;
    int64_t n_dims;
    int64_t n_codes;    /* K * L */
    uint64_t generation;
    int32_t *bins;      /* dwta: (n_codes, 8) coordinates */
    float *projections; /* simhash: (n_dims, pad(n_codes)) of -1, 0, 1 */
    int32_t *bin_of;    /* doph: (n_dims) the bin of each coordinate */
    uint64_t *priority; /* doph: (n_dims) the smallest of a bin wins */
} xcl_hash;

/* One thread's room for a block. */
typedef struct {
    float *columns;  /* (n_dims, 16) the block transposed */
    float *sums;     /* simhash: (16, pad(n_codes)) */
    uint8_t *places; /* dwta: (n_codes, 16) */
    int32_t *codes;  /* (n_codes) of one vector */
    int32_t *filled; /* (n_codes) before densification */
} xcl_hash_room;

/* XCL_ERR_ARG: an option is out of range. */
xcl_status xcl_hash_check(const xcl_index_options *options);
xcl_status xcl_hash_create(xcl_hash *hash, const xcl_index_options *options, const xcl_kernels *kernels, int64_t n_dims);
void xcl_hash_free(xcl_hash *hash);
/* Draw the functions of a generation. XCL_ERR_MEMORY: they stay as they were. */
xcl_status xcl_hash_draw(xcl_hash *hash, int64_t generation);
/* Bits that a packed address can use; 64 where codes are mixed. */
int32_t xcl_hash_address_bits(const xcl_hash *hash);
xcl_status xcl_hash_room_create(xcl_hash_room *room, const xcl_hash *hash);
void xcl_hash_room_free(xcl_hash_room *room);
/* Hash up to 16 vectors. ids: which rows of vectors, or NULL for 0..n-1. codes: (n, n_codes) or NULL. addresses: (n, L). */
void xcl_hash_block(const xcl_hash *hash, xcl_hash_room *room, const float *vectors, int64_t stride, const int32_t *ids,
                    int64_t n, bool queries, int32_t *codes, uint64_t *addresses);
#endif
