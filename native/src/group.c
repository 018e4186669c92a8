/* Stable sort of pairs by id, in two levels so that it runs on all threads and in cache.
 *
 * The places of the ids are cut into ranges. Pieces of the pairs are first dealt out to the ranges in order, then each
 * range is counting-sorted on its own. The result does not depend on how many pieces and ranges there are.
 * SPDX-License-Identifier: MIT */
#include "group.h"

#define MAX_RANGES 64
#define MIN_PIECE 8192 /* pairs */

xcl_status xcl_group_create(xcl_group *group, int64_t n_ids) { return xcl_bitset_create(&group->set, n_ids); }

void xcl_group_free(xcl_group *group) {
    xcl_bitset_free(&group->set);
    xcl_free(group->ids.data);
    xcl_free(group->starts.data);
    xcl_free(group->order.data);
    xcl_free(group->places.data);
    xcl_free(group->dealt.data);
}

xcl_status xcl_group_list(xcl_group *group) {
    XCL_TRY(XCL_RESERVE(group->ids, xcl_bitset_count(&group->set)));
    group->n_ids = xcl_bitset_rank(&group->set, group->ids.data);
    return XCL_OK;
}

typedef struct {
    xcl_group *group;
    const int32_t *keys;
    int64_t n_pieces, n_ranges;
    int32_t shift;                          /* a place belongs to range place >> shift */
    int64_t counts[MAX_RANGES][MAX_RANGES]; /* [piece][range]; then where the piece's next pair of the range goes */
} sort_job;

static int64_t piece_start(const sort_job *job, int64_t piece) { return job->group->n_pairs * piece / job->n_pieces; }

static void count_task(void *arg, int64_t piece, int32_t thread) {
    (void)thread;
    sort_job *job = arg;
    for (int64_t i = piece_start(job, piece); i < piece_start(job, piece + 1); i++) {
        int32_t place = xcl_bitset_place(&job->group->set, job->keys[i]);
        job->group->places.data[i] = place;
        job->counts[piece][place >> job->shift]++;
    }
}

/* Counts become positions: ranges in order, in each range the pieces in order. */
static void place_pieces(sort_job *job) {
    int64_t at = 0;
    for (int64_t range = 0; range < job->n_ranges; range++) {
        for (int64_t piece = 0; piece < job->n_pieces; piece++) {
            int64_t count = job->counts[piece][range];
            job->counts[piece][range] = at;
            at += count;
        }
    }
}

static void deal_task(void *arg, int64_t piece, int32_t thread) {
    (void)thread;
    sort_job *job = arg;
    for (int64_t i = piece_start(job, piece); i < piece_start(job, piece + 1); i++)
        job->group->dealt.data[job->counts[piece][job->group->places.data[i] >> job->shift]++] = (int32_t)i;
}

static void range_task(void *arg, int64_t range, int32_t thread) {
    (void)thread;
    sort_job *job = arg;
    xcl_group *group = job->group;
    /* after dealing, the last piece's counters stand at the ends of the ranges */
    int64_t end = job->counts[job->n_pieces - 1][range], begin = range > 0 ? job->counts[job->n_pieces - 1][range - 1] : 0;
    int64_t first = range << job->shift, last = xcl_min((range + 1) << job->shift, group->n_ids);
    int64_t *starts = group->starts.data;
    memset(starts + first, 0, (size_t)(last - first) * sizeof *starts);
    for (int64_t i = begin; i < end; i++) starts[group->places.data[group->dealt.data[i]]]++;
    int64_t at = begin;
    for (int64_t u = first; u < last; u++) {
        int64_t count = starts[u];
        starts[u] = at;
        at += count;
    }
    for (int64_t i = begin; i < end; i++) group->order.data[starts[group->places.data[group->dealt.data[i]]]++] = group->dealt.data[i];
    for (int64_t u = last - 1; u > first; u--) starts[u] = starts[u - 1]; /* ends back to starts */
    if (first < last) starts[first] = begin;
}

xcl_status xcl_group_sort(xcl_group *group, xcl_pool *pool, const int32_t *keys, int64_t n_pairs) {
    if (n_pairs > INT32_MAX) return xcl_fail(XCL_ERR_ARG, "a batch of %lld (row, id) pairs is too large", (long long)n_pairs);
    XCL_TRY(XCL_RESERVE(group->starts, group->n_ids + 1));
    XCL_TRY(XCL_RESERVE(group->order, n_pairs));
    XCL_TRY(XCL_RESERVE(group->places, n_pairs));
    XCL_TRY(XCL_RESERVE(group->dealt, n_pairs));
    group->n_pairs = n_pairs;
    sort_job job = {.group = group, .keys = keys};
    int64_t wanted = xcl_min(MAX_RANGES, xcl_ceil_div(n_pairs + 1, MIN_PIECE));
    job.n_pieces = wanted;
    while ((group->n_ids >> job.shift) >= wanted) job.shift++;
    job.n_ranges = (group->n_ids >> job.shift) + 1;
    xcl_pool_run(pool, job.n_pieces, count_task, &job);
    place_pieces(&job);
    xcl_pool_run(pool, job.n_pieces, deal_task, &job);
    xcl_pool_run(pool, job.n_ranges, range_task, &job);
    group->starts.data[group->n_ids] = n_pairs;
    return XCL_OK;
}
