/* Every task runs exactly once on a thread that is its alone, for many small jobs. SPDX-License-Identifier: MIT */
#include <string.h>
#include "check.h"

#define MAX_TASKS 300
#define MAX_THREADS 8

typedef struct {
    int32_t n_threads;
    int32_t runs[MAX_TASKS];              /* written by the task alone */
    int64_t of_thread[MAX_THREADS][16];   /* plain memory of one thread: a race here is seen by TSan */
    _Atomic int32_t busy[MAX_THREADS];
} job;

static void count(void *arg, int64_t task, int32_t thread) {
    job *j = arg;
    CHECK(thread >= 0 && thread < j->n_threads, "thread %d of %d", thread, j->n_threads);
    CHECK(atomic_exchange(&j->busy[thread], 1) == 0, "thread %d runs two tasks", thread);
    j->runs[task]++;
    j->of_thread[thread][0] += task;
    atomic_store(&j->busy[thread], 0);
}

static void test_jobs(int32_t n_threads, int n_jobs) {
    xcl_pool *pool = NULL;
    CHECK(xcl_pool_create(n_threads, &pool) == XCL_OK, "%d threads: %s", n_threads, xcl_error_text());
    CHECK(xcl_pool_threads(pool) == n_threads, "%d threads", xcl_pool_threads(pool));
    CHECK(xcl_pool_check(pool) == XCL_OK, "%s", xcl_error_text());
    for (int i = 0; i < n_jobs; i++) {
        job j = {.n_threads = n_threads};
        int64_t n_tasks = i % 50 == 0 ? MAX_TASKS : i % 7, sum = 0;
        xcl_pool_run(pool, n_tasks, count, &j);
        for (int64_t t = 0; t < MAX_TASKS; t++)
            CHECK(j.runs[t] == (t < n_tasks), "task %lld of %lld ran %d times", (long long)t, (long long)n_tasks, j.runs[t]);
        for (int32_t t = 0; t < n_threads; t++) sum += j.of_thread[t][0];
        CHECK(sum == n_tasks * (n_tasks - 1) / 2, "sum %lld of %lld tasks", (long long)sum, (long long)n_tasks);
    }
    xcl_pool_free(pool);
}

int main(void) {
    for (int32_t n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        test_jobs(n_threads, 200);
        for (int i = 0; i < 20; i++) test_jobs(n_threads, i % 3); /* start and stop, with and without work */
    }
    xcl_pool *pool = NULL;
    CHECK(xcl_pool_create(0, &pool) == XCL_ERR_ARG && pool == NULL, "0 threads");
    CHECK(xcl_pool_create(1025, &pool) == XCL_ERR_ARG && pool == NULL, "1025 threads");
    xcl_pool_free(NULL);
    return check_result();
}
