/* A fixed set of threads that share out numbered tasks.
 *
 * run() opens a job, wakes the workers and takes tasks itself; a task is claimed by incrementing one counter. When none is
 * left it closes the job and waits for the workers that joined, not for those that were too slow to: a busy machine must
 * not delay small jobs. Between jobs workers spin briefly (a training step has a dozen jobs, microseconds apart), then sleep.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <unistd.h>
#include "internal.h"

#define SPIN 4000

struct xcl_pool {
    int32_t n_threads;
    int32_t n_started;
    pid_t owner;
    pthread_t *workers;
    struct worker *seats;
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    _Atomic uint64_t job; /* number of the current job; 0: none yet */
    bool is_open;         /* workers may join it; guarded by mutex */
    atomic_bool stop;
    xcl_task fn;
    void *arg;
    int64_t n_tasks;
    _Atomic int64_t next;
    _Atomic int32_t n_busy; /* workers that have joined and not finished; changed under mutex */
};

struct worker {
    xcl_pool *pool;
    int32_t thread;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_tasks(xcl_pool *pool, int32_t thread) {
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->n_tasks) return;
        pool->fn(pool->arg, task, thread);
    }
}

/* Wait for an open job other than `seen` and join it; 0 when the pool stops. */
static uint64_t join_job(xcl_pool *pool, uint64_t seen) {
    for (int i = 0; i < SPIN; i++) {
        if (atomic_load_explicit(&pool->job, memory_order_acquire) != seen) break;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (!(pool->is_open && atomic_load(&pool->job) != seen) && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    uint64_t job = atomic_load(&pool->stop) ? 0 : atomic_load(&pool->job);
    if (job != 0) atomic_fetch_add(&pool->n_busy, 1);
    pthread_mutex_unlock(&pool->mutex);
    return job;
}

static void *worker_main(void *arg) {
    struct worker *seat = arg;
    xcl_pool *pool = seat->pool;
    uint64_t seen = 0;
    while ((seen = join_job(pool, seen)) != 0) {
        take_tasks(pool, seat->thread);
        pthread_mutex_lock(&pool->mutex);
        if (atomic_fetch_sub(&pool->n_busy, 1) == 1) pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
    return NULL;
}

void xcl_pool_run(xcl_pool *pool, int64_t n_tasks, xcl_task fn, void *arg) {
    if (n_tasks <= 1 || pool->n_threads == 1) {
        for (int64_t i = 0; i < n_tasks; i++) fn(arg, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    pool->is_open = true;
    atomic_store(&pool->next, 0);
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    take_tasks(pool, 0);
    for (int i = 0; i < SPIN && atomic_load_explicit(&pool->n_busy, memory_order_acquire) != 0; i++) relax();
    pthread_mutex_lock(&pool->mutex);
    pool->is_open = false;
    while (atomic_load(&pool->n_busy) != 0) pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

xcl_status xcl_pool_check(const xcl_pool *pool) {
    if (pool->owner == getpid()) return XCL_OK;
    return xcl_fail(XCL_ERR_STATE, "the engine was created in another process (%ld); create one after the fork",
                    (long)pool->owner);
}

int32_t xcl_pool_threads(const xcl_pool *pool) { return pool->n_threads; }

xcl_status xcl_pool_create(int32_t n_threads, xcl_pool **out) {
    *out = NULL;
    if (n_threads < 1 || n_threads > 1024) return xcl_fail(XCL_ERR_ARG, "threads: %d is not in 1..1024", n_threads);
    xcl_pool *pool = xcl_alloc(1, sizeof *pool);
    if (pool == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a thread pool");
    pool->n_threads = n_threads;
    pool->owner = getpid();
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->workers = xcl_alloc(n_threads, sizeof *pool->workers);
    pool->seats = xcl_alloc(n_threads, sizeof *pool->seats);
    if (pool->workers == NULL || pool->seats == NULL) {
        xcl_pool_free(pool);
        return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a thread pool");
    }
    for (int32_t i = 1; i < n_threads; i++) {
        pool->seats[i] = (struct worker){pool, i};
        if (pthread_create(&pool->workers[i], NULL, worker_main, &pool->seats[i]) != 0) {
            xcl_pool_free(pool);
            return xcl_fail(XCL_ERR_MEMORY, "cannot start thread %d of %d", i + 1, n_threads);
        }
        pool->n_started = i;
    }
    *out = pool;
    return XCL_OK;
}

void xcl_pool_free(xcl_pool *pool) {
    if (pool == NULL) return;
    if (pool->owner == getpid()) {
        pthread_mutex_lock(&pool->mutex);
        atomic_store(&pool->stop, true);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
        for (int32_t i = 1; i <= pool->n_started; i++) pthread_join(pool->workers[i], NULL);
        pthread_cond_destroy(&pool->done);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->mutex);
    }
    xcl_free(pool->workers);
    xcl_free(pool->seats);
    xcl_free(pool);
}
