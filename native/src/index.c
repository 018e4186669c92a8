/* Hash tables in compressed form: for each table the ids sorted by bucket and the offsets of the buckets.
 *
 * A table is one counting sort, so it is the same bytes however it came about, has no overflow policy, and costs 4 bytes
 * an id. Packed addresses wider than the number of ids warrants are folded by mixing. SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include "index.h"
#include "rng.h"

#define MIN_BITS 8
#define GROUP_BYTES ((int64_t)256 << 20) /* addresses kept at a time while building */

static int32_t bucket_bits(const xcl_hash *hash, int64_t n_ids) {
    int32_t enough = MIN_BITS;
    while (enough < 30 && ((int64_t)1 << enough) < n_ids) enough++;
    int32_t bits = xcl_hash_address_bits(hash);
    return bits < enough ? bits : enough;
}

static uint32_t fold(const xcl_index *index, uint64_t address) {
    if (xcl_hash_address_bits(&index->hash) <= index->bits) return (uint32_t)address;
    return (uint32_t)(xcl_mix(address) >> (64 - index->bits));
}

static int64_t n_buckets(const xcl_index *index) { return (int64_t)1 << index->bits; }

xcl_status xcl_index_create(xcl_engine *engine, const xcl_index_options *options, int64_t n_dims, xcl_index **out) {
    *out = NULL;
    if (n_dims < 1 || n_dims > INT32_MAX) return xcl_fail(XCL_ERR_ARG, "n_dims: %lld is out of range", (long long)n_dims);
    xcl_index *index = xcl_alloc(1, sizeof *index);
    if (index == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate an index");
    index->engine = engine;
    index->n_threads = xcl_pool_threads(engine->pool);
    xcl_status status = xcl_hash_create(&index->hash, options, engine->kernels, n_dims);
    if (status != XCL_OK) {
        xcl_index_free(index);
        return status;
    }
    *out = index;
    return XCL_OK;
}

static void free_rooms(xcl_index *index) {
    int32_t n_threads = index->n_threads;
    for (int32_t i = 0; i < n_threads && index->rooms != NULL; i++) {
        xcl_index_room *room = &index->rooms[i];
        xcl_hash_room_free(&room->hash);
        xcl_free(room->addresses);
        xcl_free(room->order);
        xcl_free(room->count);
        xcl_free(room->met);
    }
    for (int32_t i = 0; i < n_threads && index->place != NULL; i++) xcl_free(index->place[i]);
    xcl_free(index->rooms);
    xcl_free(index->place);
    xcl_free(index->offsets);
    xcl_free(index->ids);
    index->rooms = NULL;
    index->place = NULL;
    index->offsets = index->ids = NULL;
    index->n_ids = 0;
}

void xcl_index_free(xcl_index *index) {
    if (index == NULL) return;
    free_rooms(index);
    xcl_hash_free(&index->hash);
    xcl_free(index->addresses.data);
    xcl_free(index);
}

static bool create_room(xcl_index *index, int32_t thread) {
    int64_t n_tables = index->hash.options.n_tables;
    xcl_index_room *room = &index->rooms[thread];
    if (xcl_hash_room_create(&room->hash, &index->hash) != XCL_OK) return false;
    room->addresses = xcl_alloc(XCL_HASH_BLOCK * n_tables, sizeof *room->addresses);
    room->order = xcl_alloc(n_tables, sizeof *room->order);
    room->count = xcl_alloc(index->n_ids, sizeof *room->count);
    room->met = xcl_alloc(index->n_ids, sizeof *room->met);
    index->place[thread] = xcl_alloc(index->n_ids, sizeof **index->place);
    return room->addresses && room->order && room->count && room->met && index->place[thread];
}

xcl_status xcl_index_size(xcl_index *index, int64_t n_ids) {
    if (n_ids < 0 || n_ids > INT32_MAX) return xcl_fail(XCL_ERR_ARG, "an index over %lld rows is too large", (long long)n_ids);
    free_rooms(index);
    int64_t n_tables = index->hash.options.n_tables;
    int32_t n_threads = index->n_threads;
    index->n_ids = n_ids;
    index->bits = bucket_bits(&index->hash, n_ids);
    index->ids = xcl_alloc(n_tables * n_ids, sizeof *index->ids);
    if (index->ids != NULL) index->offsets = xcl_alloc(n_tables * (n_buckets(index) + 1), sizeof *index->offsets);
    index->rooms = xcl_alloc(n_threads, sizeof *index->rooms);
    index->place = xcl_alloc(n_threads, sizeof *index->place);
    bool whole = index->offsets && index->ids && index->rooms && index->place;
    for (int32_t i = 0; i < n_threads && whole; i++) whole = create_room(index, i);
    if (whole) return XCL_OK;
    free_rooms(index);
    return xcl_fail(XCL_ERR_MEMORY, "cannot allocate %lld hash tables over %lld rows", (long long)n_tables, (long long)n_ids);
}

void xcl_index_bytes(const xcl_index_options *options, int64_t n_ids, int64_t n_dims, int64_t n_threads, double *tables,
                     double *scratch) {
    xcl_hash hash = {.options = *options};
    double l = options->n_tables, codes = l * options->hashes_per_table, n = (double)n_ids, d = (double)n_dims;
    double buckets = (double)((int64_t)1 << bucket_bits(&hash, n_ids));
    *tables = 4 * l * (n + buckets + 1);
    double functions = options->kind == XCL_HASH_SIMHASH ? 4 * d * codes : options->kind == XCL_HASH_DWTA ? 32 * codes : 12 * d;
    *scratch = functions + (double)n_threads * (10 * n + 64 * d + 88 * codes + 132 * l);
    *scratch += n * l * 4 < (double)GROUP_BYTES ? n * l * 4 : (double)GROUP_BYTES;
}

/* ---- Building: hash the rows, then sort each table ---- */

typedef struct {
    xcl_index *index;
    const float *data;
    int64_t stride;
    const int32_t *rows; /* which rows to hash, or NULL: all */
    int64_t n_rows;
    int32_t first_table, n_group; /* tables whose addresses are kept */
} build_job;

static void hash_task(void *arg, int64_t task, int32_t thread) {
    build_job *job = arg;
    xcl_index *index = job->index;
    xcl_index_room *room = &index->rooms[thread];
    int64_t first = task * XCL_HASH_BLOCK, n = xcl_min(XCL_HASH_BLOCK, job->n_rows - first);
    const int32_t *ids = job->rows != NULL ? job->rows + first : NULL;
    const float *data = job->rows != NULL ? job->data : job->data + first * job->stride;
    xcl_hash_block(&index->hash, &room->hash, data, job->stride, ids, n, false, NULL, room->addresses);
    for (int32_t t = 0; t < job->n_group; t++)
        for (int64_t v = 0; v < n; v++) {
            uint64_t address = room->addresses[v * index->hash.options.n_tables + job->first_table + t];
            index->addresses.data[t * job->n_rows + first + v] = address == XCL_NO_ADDRESS ? 0 : fold(index, address);
        }
}

/* Bucket of every id of a table as it stands. */
static void read_places(const xcl_index *index, int32_t table, uint32_t *place) {
    const int32_t *offsets = index->offsets + table * (n_buckets(index) + 1), *ids = index->ids + table * index->n_ids;
    for (int64_t b = 0; b < n_buckets(index); b++)
        for (int32_t i = offsets[b]; i < offsets[b + 1]; i++) place[ids[i]] = (uint32_t)b;
}

static void sort_table(xcl_index *index, int32_t table, const uint32_t *place) {
    int32_t *offsets = index->offsets + table * (n_buckets(index) + 1), *ids = index->ids + table * index->n_ids;
    memset(offsets, 0, (size_t)(n_buckets(index) + 1) * sizeof *offsets);
    for (int64_t i = 0; i < index->n_ids; i++) offsets[place[i]]++;
    int32_t end = 0;
    for (int64_t b = 0; b <= n_buckets(index); b++) offsets[b] = end += offsets[b];
    for (int64_t i = index->n_ids - 1; i >= 0; i--) ids[--offsets[place[i]]] = (int32_t)i;
}

static void table_task(void *arg, int64_t task, int32_t thread) {
    build_job *job = arg;
    xcl_index *index = job->index;
    int32_t table = job->first_table + (int32_t)task;
    const uint32_t *addresses = index->addresses.data + task * job->n_rows;
    if (job->rows == NULL) {
        sort_table(index, table, addresses);
        return;
    }
    uint32_t *place = index->place[thread];
    read_places(index, table, place);
    for (int64_t i = 0; i < job->n_rows; i++) place[job->rows[i]] = addresses[i];
    sort_table(index, table, place);
}

static xcl_status insert_rows(xcl_index *index, const float *data, int64_t stride, const int32_t *rows, int64_t n_rows) {
    int32_t n_tables = index->hash.options.n_tables;
    int32_t n_group = (int32_t)xcl_min(n_tables, xcl_max(1, GROUP_BYTES / 4 / xcl_max(n_rows, 1)));
    XCL_TRY(XCL_RESERVE(index->addresses, n_group * n_rows));
    for (int32_t first = 0; first < n_tables; first += n_group) {
        build_job job = {index, data, stride, rows, n_rows, first, (int32_t)xcl_min(n_group, n_tables - first)};
        xcl_pool_run(index->engine->pool, xcl_ceil_div(n_rows, XCL_HASH_BLOCK), hash_task, &job);
        xcl_pool_run(index->engine->pool, job.n_group, table_task, &job);
    }
    return XCL_OK;
}

xcl_status xcl_index_build(xcl_index *index, const float *data, int64_t n_rows, int64_t stride, int64_t generation) {
    XCL_TRY(xcl_pool_check(index->engine->pool));
    if (n_rows != index->n_ids || index->ids == NULL) XCL_TRY(xcl_index_size(index, n_rows));
    XCL_TRY(xcl_hash_draw(&index->hash, generation));
    return insert_rows(index, data, stride, NULL, n_rows);
}

xcl_status xcl_index_refresh(xcl_index *index, const float *data, int64_t stride, const xcl_bitset *changed, int64_t generation) {
    if ((uint64_t)generation != index->hash.generation) return xcl_index_build(index, data, index->n_ids, stride, generation);
    int64_t n_rows = xcl_bitset_count(changed);
    if (n_rows * 4 > index->n_ids * 3) return insert_rows(index, data, stride, NULL, index->n_ids);
    int32_t *rows = xcl_alloc(n_rows, sizeof *rows);
    if (rows == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate %lld row numbers", (long long)n_rows);
    int64_t count = 0;
    for (int64_t w = 0; w < changed->n_words; w++)
        for (uint64_t word = changed->words[w]; word != 0; word &= word - 1)
            rows[count++] = (int32_t)(w * 64 + __builtin_ctzll(word));
    xcl_status status = insert_rows(index, data, stride, rows, n_rows);
    xcl_free(rows);
    return status;
}

xcl_status xcl_index_check(xcl_index *index) {
    uint16_t *seen = index->rooms[0].count; /* tables that an id was seen in: all before the one looked at */
    bool sound = true;
    for (int32_t t = 0; t < index->hash.options.n_tables && sound; t++) {
        const int32_t *offsets = index->offsets + t * (n_buckets(index) + 1), *ids = index->ids + t * index->n_ids;
        sound = offsets[0] == 0 && offsets[n_buckets(index)] == index->n_ids;
        for (int64_t b = 0; b < n_buckets(index); b++) sound = sound && offsets[b] <= offsets[b + 1];
        for (int64_t i = 0; i < index->n_ids && sound; i++)
            sound = ids[i] >= 0 && ids[i] < index->n_ids && seen[ids[i]]++ == t;
    }
    memset(seen, 0, (size_t)index->n_ids * sizeof *seen);
    return sound ? XCL_OK : xcl_fail(XCL_ERR_ARG, "the hash tables do not hold every label once");
}

/* ---- Queries ---- */

static void order_tables(const xcl_index *index, int32_t *order, int64_t counter) {
    int32_t n = index->hash.options.n_tables;
    bool shuffle = index->hash.options.policy == XCL_POLICY_VANILLA;
    uint64_t key = shuffle ? xcl_random_key(index->hash.options.seed, XCL_RNG_TABLE_ORDER, (uint64_t)counter) : 0;
    for (int32_t t = 0; t < n; t++) order[t] = t;
    for (int32_t t = 0; shuffle && t < n - 1; t++) {
        int32_t other = t + (int32_t)xcl_below(xcl_random_at(key, (uint64_t)t), (uint32_t)(n - t));
        int32_t keep = order[t];
        order[t] = order[other];
        order[other] = keep;
    }
}

/* Count the ids of the buckets; stop once n_wanted distinct ones are met. Returns the number met. */
static int64_t probe(xcl_index *index, xcl_index_room *room, const uint64_t *addresses, int64_t n_wanted) {
    int64_t n_met = 0;
    for (int32_t i = 0; i < index->hash.options.n_tables && n_met < n_wanted; i++) {
        int32_t table = room->order[i];
        if (addresses[table] == XCL_NO_ADDRESS) continue;
        const int32_t *bucket = index->offsets + table * (n_buckets(index) + 1) + fold(index, addresses[table]);
        const int32_t *ids = index->ids + table * index->n_ids;
        room->n_probes++;
        room->n_probes_empty += bucket[0] == bucket[1];
        for (int32_t j = bucket[0]; j < bucket[1]; j++)
            if (room->count[ids[j]]++ == 0) room->met[n_met++] = ids[j];
    }
    return n_met;
}

/* The ids met most often, at most max_ids, by falling count and then as met: a counting sort by count. */
static int64_t most_frequent(xcl_index *index, xcl_index_room *room, int64_t n_met, int64_t max_ids, int32_t *out) {
    memset(room->order, 0, (size_t)index->hash.options.n_tables * sizeof *room->order);
    for (int64_t i = 0; i < n_met; i++) room->order[room->count[room->met[i]] - 1]++;
    /* order[c - 1] becomes the first place of the ids met c times */
    int64_t place = 0;
    for (int32_t c = index->hash.options.n_tables; c >= 1; c--) {
        int32_t n = room->order[c - 1];
        room->order[c - 1] = (int32_t)place;
        place += n;
    }
    for (int64_t i = 0; i < n_met; i++) {
        int64_t at = room->order[room->count[room->met[i]] - 1]++;
        if (at < max_ids) out[at] = room->met[i];
    }
    return xcl_min(n_met, max_ids);
}

int64_t xcl_index_candidates(xcl_index *index, xcl_index_room *room, const uint64_t *addresses, int64_t counter, int64_t max_ids,
                             int32_t *out, const int32_t *labels, int64_t n_labels, int64_t *n_found, int64_t *n_met) {
    const xcl_index_options *options = &index->hash.options;
    order_tables(index, room->order, counter);
    *n_met = probe(index, room, addresses, options->policy == XCL_POLICY_VANILLA ? max_ids : INT64_MAX);
    *n_found = 0;
    for (int64_t i = 0; i < n_labels; i++) *n_found += room->count[labels[i]] > 0;
    int64_t n = 0;
    if (options->policy == XCL_POLICY_TOPK) {
        n = most_frequent(index, room, *n_met, max_ids, out);
    } else {
        int32_t least = options->policy == XCL_POLICY_THRESHOLD ? options->min_count : 1;
        for (int64_t i = 0; i < *n_met && n < max_ids; i++)
            if (room->count[room->met[i]] >= least) out[n++] = room->met[i];
    }
    for (int64_t i = 0; i < *n_met; i++) room->count[room->met[i]] = 0;
    room->n_queries++;
    room->n_candidates += n;
    return n;
}

typedef struct {
    xcl_index *index;
    const float *queries;
    int64_t n_queries, stride, counter, max_ids;
    int32_t *ids;
    int64_t *n_ids;
} query_job;

static void query_task(void *arg, int64_t task, int32_t thread) {
    query_job *job = arg;
    xcl_index_room *room = &job->index->rooms[thread];
    int64_t first = task * XCL_HASH_BLOCK, n = xcl_min(XCL_HASH_BLOCK, job->n_queries - first), n_found, n_met;
    xcl_hash_block(&job->index->hash, &room->hash, job->queries + first * job->stride, job->stride, NULL, n, true, NULL,
                   room->addresses);
    for (int64_t v = 0; v < n; v++) {
        int32_t *out = job->ids + (first + v) * job->max_ids;
        int64_t found = xcl_index_candidates(job->index, room, room->addresses + v * job->index->hash.options.n_tables,
                                             job->counter + first + v, job->max_ids, out, NULL, 0, &n_found, &n_met);
        job->n_ids[first + v] = found;
        if (found < job->max_ids) out[found] = -1;
    }
}

xcl_status xcl_index_query(xcl_index *index, const float *queries, int64_t n_queries, int64_t stride, int64_t counter,
                           int64_t max_ids, int32_t *ids, int64_t *n_ids) {
    XCL_TRY(xcl_pool_check(index->engine->pool));
    if (index->ids == NULL) return xcl_fail(XCL_ERR_STATE, "the index has not been built");
    query_job job = {index, queries, n_queries, stride, counter, max_ids, ids, n_ids};
    xcl_pool_run(index->engine->pool, xcl_ceil_div(n_queries, XCL_HASH_BLOCK), query_task, &job);
    return XCL_OK;
}

xcl_status xcl_index_hash(xcl_index *index, const float *vectors, int64_t n, int64_t stride, int32_t queries, int32_t *codes,
                          uint64_t *addresses) {
    xcl_hash_room room;
    int64_t n_tables = index->hash.options.n_tables;
    uint64_t *block = xcl_alloc(XCL_HASH_BLOCK * n_tables, sizeof *block);
    xcl_status status = block == NULL ? xcl_fail(XCL_ERR_MEMORY, "cannot allocate room for hashing") : XCL_OK;
    if (status == XCL_OK) status = xcl_hash_room_create(&room, &index->hash);
    if (status != XCL_OK) {
        xcl_free(block);
        return status;
    }
    for (int64_t first = 0; first < n; first += XCL_HASH_BLOCK) {
        int64_t count = xcl_min(XCL_HASH_BLOCK, n - first);
        xcl_hash_block(&index->hash, &room, vectors + first * stride, stride, NULL, count, queries != 0,
                       codes != NULL ? codes + first * index->hash.n_codes : NULL, block);
        if (addresses != NULL) memcpy(addresses + first * n_tables, block, (size_t)(count * n_tables) * sizeof *block);
    }
    xcl_hash_room_free(&room);
    xcl_free(block);
    return XCL_OK;
}

void xcl_index_get_stats(xcl_index *index, int32_t reset, xcl_index_stats *out) {
    *out = (xcl_index_stats){.n_ids = index->n_ids};
    if (index->ids == NULL) return;
    int64_t n_tables = index->hash.options.n_tables;
    out->n_buckets = n_tables * n_buckets(index);
    for (int64_t t = 0; t < n_tables; t++) {
        const int32_t *offsets = index->offsets + t * (n_buckets(index) + 1);
        for (int64_t b = 0; b < n_buckets(index); b++) {
            int64_t n = offsets[b + 1] - offsets[b];
            out->n_buckets_used += n > 0;
            out->largest_bucket = xcl_max(out->largest_bucket, n);
        }
    }
    if (out->n_buckets_used > 0) out->ids_per_used_bucket = (double)(n_tables * index->n_ids) / (double)out->n_buckets_used;
    for (int32_t i = 0; i < index->n_threads; i++) {
        xcl_index_room *room = &index->rooms[i];
        out->n_probes += room->n_probes;
        out->n_probes_empty += room->n_probes_empty;
        out->n_queries += room->n_queries;
        out->n_candidates += room->n_candidates;
        if (reset) room->n_probes = room->n_probes_empty = room->n_queries = room->n_candidates = 0;
    }
}
