/* The hash families.
 *
 * dwta     Random permutations of the coordinates, laid end to end and cut into bins of 8; a code is the place of the
 *          largest coordinate in its bin (Chen and Shrivastava 2018). Bins in which nothing competes borrow from others.
 * simhash  A code is the sign of a sum over a random third of the coordinates with random signs (Charikar 2002).
 * doph     The 30 largest coordinates as a set; each coordinate falls into one bin and the one with the smallest random
 *          priority is the bin's code; empty bins borrow (Shrivastava 2017).
 *
 * The codes of a table are packed side by side in base 2 (dwta 3 bits, simhash 1 bit). With overlap_packing dwta codes
 * are added at a distance of 2 bits, as SLIDE was published. doph codes are mixed.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include "hash.h"
#include "rng.h"

#define DWTA_BITS 3
#define OVERLAP_BITS 2
#define DOPH_TOP 30
#define BORROW_ATTEMPTS 100
#define EMPTY (-1)

xcl_status xcl_hash_check(const xcl_index_options *options) {
    if (options->kind < 0 || options->kind > XCL_HASH_DOPH)
        return xcl_fail(XCL_ERR_ARG, "hash kind: %d is unknown", options->kind);
    if (options->n_tables < 1 || options->n_tables > 4096)
        return xcl_fail(XCL_ERR_ARG, "tables: %d is not in 1..4096", options->n_tables);
    if (options->hashes_per_table < 1 || options->hashes_per_table > 16)
        return xcl_fail(XCL_ERR_ARG, "hashes_per_table: %d is not in 1..16", options->hashes_per_table);
    if (options->min_count < 1) return xcl_fail(XCL_ERR_ARG, "min_count: %d is below 1", options->min_count);
    if (options->policy < 0 || options->policy > XCL_POLICY_THRESHOLD)
        return xcl_fail(XCL_ERR_ARG, "policy: %d is unknown", options->policy);
    return XCL_OK;
}

xcl_status xcl_hash_create(xcl_hash *hash, const xcl_index_options *options, const xcl_kernels *kernels, int64_t n_dims) {
    *hash = (xcl_hash){.options = *options, .kernels = kernels, .n_dims = n_dims};
    XCL_TRY(xcl_hash_check(options));
    hash->n_codes = (int64_t)options->n_tables * options->hashes_per_table;
    bool whole = false;
    switch (options->kind) {
    case XCL_HASH_DWTA:
        whole = (hash->bins = xcl_alloc(hash->n_codes * XCL_DWTA_BIN, sizeof(int32_t))) != NULL;
        break;
    case XCL_HASH_SIMHASH:
        whole = (hash->projections = xcl_alloc(n_dims * xcl_pad(hash->n_codes), sizeof(float))) != NULL;
        break;
    default: /* XCL_HASH_DOPH */
        hash->bin_of = xcl_alloc(n_dims, sizeof(int32_t));
        hash->priority = xcl_alloc(n_dims, sizeof(uint64_t));
        whole = hash->bin_of != NULL && hash->priority != NULL;
        break;
    }
    if (!whole) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate %lld hash functions", (long long)hash->n_codes);
    return xcl_hash_draw(hash, 0);
}

void xcl_hash_free(xcl_hash *hash) {
    xcl_free(hash->bins);
    xcl_free(hash->projections);
    xcl_free(hash->bin_of);
    xcl_free(hash->priority);
}

static uint64_t function_key(const xcl_hash *hash, int64_t function) {
    return xcl_random_key(hash->options.seed, XCL_RNG_HASH, hash->generation << 32 | (uint64_t)function);
}

/* Coordinate i of the identity permutation swaps with one of those not yet placed (Fisher, Yates). */
static void permute(int32_t *order, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t j = i + xcl_below(xcl_random_at(key, (uint64_t)i), (uint32_t)(n - i));
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static void draw_dwta(xcl_hash *hash, int32_t *order) {
    int64_t n_slots = hash->n_codes * XCL_DWTA_BIN;
    for (int64_t first = 0, p = 0; first < n_slots; first += hash->n_dims, p++) {
        permute(order, hash->n_dims, function_key(hash, p));
        memcpy(hash->bins + first, order, (size_t)xcl_min(hash->n_dims, n_slots - first) * sizeof *order);
    }
}

static void draw_simhash(xcl_hash *hash, int32_t *order) {
    int64_t width = xcl_pad(hash->n_codes), n_picked = xcl_ceil_div(hash->n_dims, 3);
    memset(hash->projections, 0, (size_t)(hash->n_dims * width) * sizeof *hash->projections);
    for (int64_t f = 0; f < hash->n_codes; f++) {
        uint64_t key = function_key(hash, f);
        permute(order, hash->n_dims, key);
        for (int64_t i = 0; i < n_picked; i++) {
            bool minus = xcl_random_at(key, (uint64_t)(hash->n_dims + i)) >> 63;
            hash->projections[order[i] * width + f] = minus ? -1.0f : 1.0f;
        }
    }
}

static void draw_doph(xcl_hash *hash) {
    uint64_t key = function_key(hash, 0);
    for (int64_t i = 0; i < hash->n_dims; i++) {
        hash->bin_of[i] = (int32_t)xcl_below(xcl_random_at(key, (uint64_t)(2 * i)), (uint32_t)hash->n_codes);
        hash->priority[i] = xcl_random_at(key, (uint64_t)(2 * i + 1));
    }
}

xcl_status xcl_hash_draw(xcl_hash *hash, int64_t generation) {
    /* projections are overwritten last row first, so their own memory cannot serve as the permutation's */
    int32_t *order = xcl_alloc(hash->n_dims, sizeof *order);
    if (order == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a permutation of %lld coordinates", (long long)hash->n_dims);
    hash->generation = (uint64_t)generation;
    if (hash->bins != NULL) draw_dwta(hash, order);
    if (hash->projections != NULL) draw_simhash(hash, order);
    if (hash->bin_of != NULL) draw_doph(hash);
    xcl_free(order);
    return XCL_OK;
}

int32_t xcl_hash_address_bits(const xcl_hash *hash) {
    int32_t k = hash->options.hashes_per_table;
    if (hash->options.kind == XCL_HASH_SIMHASH) return k;
    if (hash->options.kind == XCL_HASH_DOPH) return 64;
    return hash->options.overlap_packing ? OVERLAP_BITS * (k - 1) + DWTA_BITS + 1 : DWTA_BITS * k;
}

xcl_status xcl_hash_room_create(xcl_hash_room *room, const xcl_hash *hash) {
    *room = (xcl_hash_room){
        .columns = xcl_alloc(hash->n_dims * XCL_HASH_BLOCK, sizeof(float)),
        .sums = xcl_alloc(XCL_HASH_BLOCK * xcl_pad(hash->n_codes), sizeof(float)),
        .places = xcl_alloc(XCL_HASH_BLOCK * hash->n_codes, sizeof(uint8_t)),
        .codes = xcl_alloc(hash->n_codes, sizeof(int32_t)),
        .filled = xcl_alloc(hash->n_codes, sizeof(int32_t)),
    };
    if (room->columns && room->sums && room->places && room->codes && room->filled) return XCL_OK;
    return xcl_fail(XCL_ERR_MEMORY, "cannot allocate room for hashing");
}

void xcl_hash_room_free(xcl_hash_room *room) {
    xcl_free(room->columns);
    xcl_free(room->sums);
    xcl_free(room->places);
    xcl_free(room->codes);
    xcl_free(room->filled);
}

/* Empty bins take the code of a random other bin. False if all are empty. */
static bool densify(const xcl_hash *hash, int32_t *codes, int32_t *filled) {
    bool any = false, all = true;
    for (int64_t b = 0; b < hash->n_codes; b++) {
        if (codes[b] == EMPTY) all = false;
        else any = true;
    }
    if (!any || all) return any;
    memcpy(filled, codes, (size_t)hash->n_codes * sizeof *codes);
    for (int64_t b = 0; b < hash->n_codes; b++) {
        if (filled[b] != EMPTY) continue;
        uint64_t key = function_key(hash, (int64_t)1 << 31 | b);
        for (uint64_t attempt = 1; attempt <= BORROW_ATTEMPTS && codes[b] == EMPTY; attempt++)
            codes[b] = filled[xcl_below(xcl_random_at(key, attempt), (uint32_t)hash->n_codes)];
        if (codes[b] == EMPTY) codes[b] = 0;
    }
    return true;
}

/* The 30 largest coordinates (of a query: positive ones), ties to the lower coordinate, as one code a bin. */
static void doph_codes(const xcl_hash *hash, const float *vector, bool positive, int32_t *codes) {
    int32_t top[DOPH_TOP];
    int32_t n_top = 0;
    for (int64_t i = 0; i < hash->n_dims; i++) {
        if (positive && !(vector[i] > 0)) continue;
        if (n_top == DOPH_TOP && !(vector[i] > vector[top[n_top - 1]])) continue;
        int32_t at = n_top < DOPH_TOP ? n_top++ : n_top - 1;
        for (; at > 0 && vector[i] > vector[top[at - 1]]; at--) top[at] = top[at - 1];
        top[at] = (int32_t)i;
    }
    for (int64_t b = 0; b < hash->n_codes; b++) codes[b] = EMPTY;
    for (int32_t t = 0; t < n_top; t++) {
        int32_t *code = &codes[hash->bin_of[top[t]]];
        if (*code == EMPTY || hash->priority[top[t]] < hash->priority[*code]) *code = top[t];
    }
}

static uint64_t pack(const xcl_hash *hash, const int32_t *codes) {
    uint64_t address = 0;
    int32_t kind = hash->options.kind;
    for (int32_t k = 0; k < hash->options.hashes_per_table; k++) {
        uint64_t code = (uint64_t)codes[k];
        if (kind == XCL_HASH_SIMHASH) address = address << 1 | code;
        else if (kind == XCL_HASH_DOPH) address = xcl_mix(address + code);
        else if (hash->options.overlap_packing) address = (address << OVERLAP_BITS) + code;
        else address = address << DWTA_BITS | code;
    }
    return address == XCL_NO_ADDRESS ? 0 : address;
}

static void transpose(const xcl_hash *hash, float *columns, const float *vectors, int64_t stride, const int32_t *ids, int64_t n) {
    if (n < XCL_HASH_BLOCK) memset(columns, 0, (size_t)(hash->n_dims * XCL_HASH_BLOCK) * sizeof *columns);
    for (int64_t v = 0; v < n; v++) {
        const float *vector = vectors + (ids != NULL ? ids[v] : v) * stride;
        for (int64_t i = 0; i < hash->n_dims; i++) columns[i * XCL_HASH_BLOCK + v] = vector[i];
    }
}

/* sums: (16, width) = columns^T projections */
static void project(const xcl_hash *hash, const float *columns, float *sums, int64_t n) {
    int64_t width = xcl_pad(hash->n_codes);
    hash->kernels->product(sums, width, columns, 1, XCL_HASH_BLOCK, hash->projections, width, n, hash->n_dims, width, 0);
}

void xcl_hash_block(const xcl_hash *hash, xcl_hash_room *room, const float *vectors, int64_t stride, const int32_t *ids,
                    int64_t n, bool queries, int32_t *codes, uint64_t *addresses) {
    bool positive = queries && hash->options.positive_queries;
    int32_t kind = hash->options.kind, n_tables = hash->options.n_tables;
    if (kind != XCL_HASH_DOPH) transpose(hash, room->columns, vectors, stride, ids, n);
    if (kind == XCL_HASH_DWTA)
        hash->kernels->dwta(room->columns, hash->bins, hash->n_codes, positive ? 0.0f : -INFINITY, room->places);
    if (kind == XCL_HASH_SIMHASH) project(hash, room->columns, room->sums, n);
    for (int64_t v = 0; v < n; v++) {
        int32_t *out = codes != NULL ? codes + v * hash->n_codes : room->codes;
        if (kind == XCL_HASH_DOPH) {
            doph_codes(hash, vectors + (ids != NULL ? ids[v] : v) * stride, positive, out);
        } else if (kind == XCL_HASH_DWTA) {
            for (int64_t b = 0; b < hash->n_codes; b++) {
                uint8_t place = room->places[b * XCL_HASH_BLOCK + v];
                out[b] = place == XCL_DWTA_EMPTY ? EMPTY : place;
            }
        } else {
            const float *sums = room->sums + v * xcl_pad(hash->n_codes);
            for (int64_t b = 0; b < hash->n_codes; b++) out[b] = sums[b] >= 0.0f ? 0 : 1;
        }
        bool any = densify(hash, out, room->filled);
        for (int32_t t = 0; t < n_tables; t++)
            addresses[v * n_tables + t] = any ? pack(hash, out + (int64_t)t * hash->options.hashes_per_table) : XCL_NO_ADDRESS;
    }
}
