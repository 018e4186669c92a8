/* Sets of ids and the regrouping of pairs, against the obvious loops; allocation. SPDX-License-Identifier: MIT */
#include "check.h"
#include "group.h"

static uint32_t draw(uint64_t sequence, int64_t i, uint32_t n) { return xcl_below(xcl_random(2, sequence, 0, (uint64_t)i), n); }

static void test_group(xcl_pool *pool, int64_t n_ids, int64_t n_pairs, uint64_t sequence) {
    xcl_group group = {0};
    CHECK(xcl_group_create(&group, n_ids) == XCL_OK, "%s", xcl_error_text());
    for (int round = 0; round < 3; round++, n_pairs = n_pairs * 2 / 3) { /* buffers are used again */
        int32_t *keys = xcl_alloc(n_pairs, sizeof *keys);
        bool *member = xcl_alloc(n_ids, sizeof *member);
        xcl_bitset_clear(&group.set);
        for (int64_t i = 0; i < n_pairs; i++) {
            keys[i] = (int32_t)draw(sequence, i + round, (uint32_t)n_ids);
            CHECK(xcl_bitset_add(&group.set, keys[i]) == !member[keys[i]], "add %d", keys[i]);
            member[keys[i]] = true;
        }
        int32_t lonely = (int32_t)draw(sequence, -1, (uint32_t)n_ids); /* perhaps a member without pairs */
        xcl_bitset_add(&group.set, lonely);
        member[lonely] = true;
        CHECK(xcl_group_list(&group) == XCL_OK && xcl_group_sort(&group, pool, keys, n_pairs) == XCL_OK, "%s", xcl_error_text());
        int64_t u = 0, at = 0;
        for (int32_t id = 0; id < n_ids; id++) {
            CHECK(xcl_bitset_has(&group.set, id) == member[id], "has %d", id);
            if (!member[id]) continue;
            CHECK(group.ids.data[u] == id && xcl_bitset_place(&group.set, id) == u, "id %d at %lld", id, (long long)u);
            CHECK(group.starts.data[u] == at, "start of %d", id);
            for (int64_t i = 0; i < n_pairs; i++)
                if (keys[i] == id) CHECK(group.order.data[at++] == i, "pair %lld of id %d", (long long)i, id);
            u++;
        }
        CHECK(u == group.n_ids && xcl_bitset_count(&group.set) == u && xcl_bitset_rank(&group.set, NULL) == u, "%lld ids", (long long)u);
        CHECK(group.starts.data[u] == n_pairs, "end");
        xcl_free(keys);
        xcl_free(member);
    }
    xcl_group_free(&group);
}

static void test_memory(void) {
    for (int64_t n = 0; n < 5000; n += 37) {
        unsigned char *memory = xcl_alloc(n, 3);
        CHECK(memory != NULL && (uintptr_t)memory % 64 == 0, "%lld x 3", (long long)n);
        for (int64_t i = 0; i < 3 * n; i++) CHECK(memory[i] == 0, "byte %lld of %lld", (long long)i, (long long)n);
        xcl_free(memory);
    }
    unsigned char *large = xcl_alloc(9 << 20, 1);
    CHECK(large != NULL && (uintptr_t)large % (2 << 20) == 0 && large[(9 << 20) - 1] == 0, "a large block");
    xcl_free(large);
    CHECK(xcl_alloc(-1, 1) == NULL && xcl_alloc(INT64_MAX, 8) == NULL && xcl_alloc(INT64_MAX, 1) == NULL, "impossible sizes");
    xcl_floats buffer = {0};
    CHECK(XCL_RESERVE(buffer, 10) == XCL_OK && buffer.capacity == 10, "%lld", (long long)buffer.capacity);
    float *before = buffer.data;
    CHECK(XCL_RESERVE(buffer, 7) == XCL_OK && buffer.data == before, "moved without need");
    CHECK(XCL_RESERVE(buffer, 11) == XCL_OK && buffer.capacity >= 15, "%lld: grows by half", (long long)buffer.capacity);
    CHECK(XCL_RESERVE(buffer, INT64_MAX / 8) == XCL_ERR_MEMORY && buffer.data == NULL && buffer.capacity == 0, "left something");
    CHECK(XCL_RESERVE(buffer, 5) == XCL_OK && buffer.capacity == 5, "usable again");
    xcl_free(buffer.data);
}

int main(void) {
    const int64_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000};
    for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
        xcl_pool *pool = NULL;
        CHECK(xcl_pool_create(n_threads, &pool) == XCL_OK, "%s", xcl_error_text());
        for (int i = 0; i < 9; i++)
            for (int64_t n_pairs = 0; n_pairs < 400; n_pairs += 57) test_group(pool, sizes[i], n_pairs, (uint64_t)i);
        test_group(pool, 300, 60000, 20); /* several pieces and ranges */
        test_group(pool, 5, 20000, 21);
        xcl_pool_free(pool);
    }
    test_memory();
    return check_result();
}
