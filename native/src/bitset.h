/* A set of ids below n_ids as bits, with ranks: it lists its members in ascending order and tells the place of each.
 * 1.5 bits an id; filling and listing cost n_ids / 64 word reads whatever is in it. SPDX-License-Identifier: MIT */
#ifndef XCL_BITSET_H
#define XCL_BITSET_H
#include <string.h>
#include "internal.h"

typedef struct {
    int64_t n_words;
    uint64_t *words;
    int32_t *rank; /* members before each word; valid after xcl_bitset_rank */
} xcl_bitset;

static inline xcl_status xcl_bitset_create(xcl_bitset *set, int64_t n_ids) {
    set->n_words = xcl_ceil_div(n_ids, 64);
    set->words = xcl_alloc(set->n_words, sizeof *set->words);
    set->rank = xcl_alloc(set->n_words, sizeof *set->rank);
    if (set->words != NULL && set->rank != NULL) return XCL_OK;
    return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a set over %lld ids", (long long)n_ids);
}
static inline void xcl_bitset_free(xcl_bitset *set) {
    xcl_free(set->words);
    xcl_free(set->rank);
}
static inline void xcl_bitset_clear(xcl_bitset *set) { memset(set->words, 0, (size_t)set->n_words * sizeof *set->words); }
static inline bool xcl_bitset_has(const xcl_bitset *set, int32_t id) { return set->words[id >> 6] >> (id & 63) & 1; }
/* Drop what is not below n_ids. */
static inline void xcl_bitset_trim(xcl_bitset *set, int64_t n_ids) {
    if (n_ids % 64 != 0) set->words[n_ids / 64] &= ((uint64_t)1 << n_ids % 64) - 1;
}
/* Returns whether id is new. */
static inline bool xcl_bitset_add(xcl_bitset *set, int32_t id) {
    uint64_t *word = &set->words[id >> 6], bit = (uint64_t)1 << (id & 63);
    bool is_new = (*word & bit) == 0;
    *word |= bit;
    return is_new;
}
/* Count the members, ready the ranks, and write the members to list (unless NULL), which must be large enough. */
static inline int64_t xcl_bitset_rank(xcl_bitset *set, int32_t *list) {
    int64_t count = 0;
    for (int64_t w = 0; w < set->n_words; w++) {
        set->rank[w] = (int32_t)count;
        uint64_t word = set->words[w];
        if (list == NULL) {
            count += __builtin_popcountll(word);
            continue;
        }
        for (; word != 0; word &= word - 1) list[count++] = (int32_t)(w * 64 + __builtin_ctzll(word));
    }
    return count;
}
static inline int64_t xcl_bitset_count(const xcl_bitset *set) {
    int64_t count = 0;
    for (int64_t w = 0; w < set->n_words; w++) count += __builtin_popcountll(set->words[w]);
    return count;
}
/* The place of a member in the list. */
static inline int32_t xcl_bitset_place(const xcl_bitset *set, int32_t id) {
    uint64_t below = set->words[id >> 6] & (((uint64_t)1 << (id & 63)) - 1);
    return set->rank[id >> 6] + __builtin_popcountll(below);
}
#endif
