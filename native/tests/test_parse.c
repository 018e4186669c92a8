/* Text to rows and back: the same rows in blocks of any size on any number of threads. SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include "check.h"
#include "parse_number.h"

/* All rows of a text, collected. */
typedef struct {
    xcl_status status;
    char error[512];
    int64_t n_rows, n_features, n_labels;
    int64_t x_ends[4096], y_ends[4096];
    int32_t features[16384], labels[16384];
    float values[16384];
    xcl_text_stats stats;
} rows;

static void collect(rows *all, const xcl_csr *x, const xcl_csr *y) {
    int64_t n_features = x->indptr[x->n_rows], n_labels = y->indptr[y->n_rows];
    CHECK(x->n_rows == y->n_rows && x->indptr[0] == 0 && y->indptr[0] == 0, "offsets");
    for (int64_t i = 0; i < x->n_rows; i++, all->n_rows++) {
        all->x_ends[all->n_rows] = all->n_features + x->indptr[i + 1];
        all->y_ends[all->n_rows] = all->n_labels + y->indptr[i + 1];
    }
    for (int64_t i = 0; i < n_features; i++, all->n_features++) {
        all->features[all->n_features] = x->indices[i];
        all->values[all->n_features] = x->values[i];
    }
    for (int64_t i = 0; i < n_labels; i++) all->labels[all->n_labels++] = y->indices[i];
}

static void parse(xcl_engine *engine, const char *text, int64_t n, int64_t block, int32_t on_error, rows *all) {
    xcl_parser_options options = {-1, -1, on_error};
    xcl_parser *parser = NULL;
    xcl_csr x, y;
    memset(all, 0, sizeof *all);
    CHECK(xcl_parser_create(engine, &options, &parser) == XCL_OK, "%s", xcl_error_text());
    for (int64_t at = 0; at < n && all->status == XCL_OK; at += block) {
        int64_t size = xcl_min(block, n - at);
        char *copy = malloc((size_t)size); /* exact, so that a sanitizer sees a read beyond it */
        memcpy(copy, text + at, (size_t)size);
        all->status = xcl_parser_feed(parser, copy, size, &x, &y);
        if (all->status == XCL_OK) collect(all, &x, &y);
        free(copy);
    }
    if (all->status == XCL_OK && (all->status = xcl_parser_finish(parser, &x, &y)) == XCL_OK) collect(all, &x, &y);
    if (all->status != XCL_OK) snprintf(all->error, sizeof all->error, "%s", xcl_error_text());
    xcl_parser_get_stats(parser, &all->stats);
    xcl_parser_free(parser);
}

static bool same(const rows *a, const rows *b) {
    if (a->status != XCL_OK) return a->status == b->status && strcmp(a->error, b->error) == 0;
    return memcmp(a, b, sizeof *a) == 0;
}

static xcl_engine *engines[3];
static rows one, other;

/* Parse in every way; the result is in `one`. */
static void parse_alike(const char *text, int64_t n, int32_t on_error) {
    parse(engines[0], text, n, n + 1, on_error, &one);
    int64_t blocks[] = {1, 2, 3, 7, 64, 1000};
    for (int e = 0; e < 3; e++)
        for (int b = 0; b < 6; b++) {
            parse(engines[e], text, n, blocks[b], on_error, &other);
            CHECK(same(&one, &other), "%d: blocks of %lld: %s / %s: %.60s", e, (long long)blocks[b], one.error, other.error, text);
        }
}

static void test_rows(void) {
    const char *text = "# c\r\n5 10 8\n1,0 3:0.5 1:2 3:.25\r\n\n 9:1e-3#x\n7\tqid:3 0:+1 \n2 8:-0";
    parse_alike(text, (int64_t)strlen(text), XCL_ON_ERROR_STOP);
    CHECK(one.status == XCL_OK && one.n_rows == 5, "%s", one.error);
    int32_t features[] = {1, 3, 9, 0, 8}, labels[] = {0, 1, 7, 2};
    float values[] = {2, 0.75f, 1e-3f, 1, -0.0f};
    CHECK(one.n_features == 5 && memcmp(one.features, features, sizeof features) == 0, "features");
    CHECK(memcmp(one.values, values, sizeof values) == 0, "values");
    CHECK(one.n_labels == 4 && memcmp(one.labels, labels, sizeof labels) == 0, "labels");
    CHECK(one.stats.n_unsorted_rows == 1 && one.stats.n_duplicate_features == 1 && one.stats.n_qid == 1, "counts");
    CHECK(one.stats.n_lines == 7 && one.stats.feature_base == 0 && one.stats.label_base == 0, "lines and bases");
}

static void test_errors(void) {
    struct {
        const char *text, *error;
    } cases[] = {
        {"0 1:x", "1:5: "}, {"0 1:1\n0 1:1 2:nan\n", "2:9: "}, {"0 1:1 2:3:4\n", "1:7: "}, {"0 -1:1", "1:3: "},
        {"2 3 1\n0 1:1", "1:1: "}, {"1 3 1\n0 4:1", "2:3: "}, {"1 3 1\n0 0:1\n0 0:1", "3:1: "}, {"\1", "1:1: "},
        {"0 1:1\r0", "1:6: "}, {"0 4294967296:1", "1:3: "}, {"0 1:1e39", "1:5: "}, {"qid:", "1:1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse_alike(cases[i].text, (int64_t)strlen(cases[i].text), XCL_ON_ERROR_STOP);
        CHECK(one.status == XCL_ERR_FORMAT && strncmp(one.error, cases[i].error, strlen(cases[i].error)) == 0, "%s: %s",
              cases[i].text, one.error);
        parse_alike(cases[i].text, (int64_t)strlen(cases[i].text), XCL_ON_ERROR_BLANK);
        CHECK(one.status == XCL_OK, "%s: %s", cases[i].text, one.error);
    }
}

/* Texts of pieces that fit together more or less. */
static void test_any_text(void) {
    const char *parts[] = {"0", "1", "17", ",", ":", ": ", " ", "\n", "\n", "\r\n", "#", "-", "+", ".", "e", "5", "1:2 ", "3,4 ",
                           "qid:1 ", "2 9 9\n", "0.5", "1e9", "9999999999", "\t", "x"};
    for (int64_t t = 0; t < 3000; t++) {
        char text[256];
        int64_t n = 0;
        for (int64_t i = 0; n < 200 && i < 30; i++) {
            const char *part = parts[xcl_below(xcl_random(7, 1, (uint64_t)t, (uint64_t)i), sizeof parts / sizeof *parts)];
            memcpy(text + n, part, strlen(part));
            n += (int64_t)strlen(part);
        }
        text[n] = 0;
        parse_alike(text, n, (int32_t)(t % 3));
    }
}

static void test_format(void) {
    enum { N = 4000 };
    static int32_t ids[N];
    static float values[N];
    static char text[64 * N];
    int64_t x_indptr[2] = {0, N}, y_indptr[2] = {0, 2}, n_bytes;
    int32_t labels[] = {0, INT32_MAX};
    for (int32_t i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)xcl_random(3, 1, 0, (uint64_t)i);
        if (i % 3 == 0) bits &= 0x807fffff; /* subnormal */
        memcpy(&values[i], &bits, 4);
        if (!isfinite(values[i])) values[i] = (float)i / 10;
        ids[i] = i;
    }
    xcl_csr x = {1, x_indptr, ids, values}, y = {1, y_indptr, labels, NULL};
    CHECK(xcl_rows_format(&x, &y, 0, 1, 0, 0, text, 28 * N + 23, &n_bytes) == XCL_ERR_ARG, "too little room");
    CHECK(xcl_rows_format(&x, &y, 0, 2, 0, 0, text, sizeof text, &n_bytes) == XCL_ERR_ARG, "no such row");
    CHECK(xcl_rows_format(&x, &y, 0, 1, 0, 0, text, sizeof text, &n_bytes) == XCL_OK, "%s", xcl_error_text());
    parse(engines[1], text, n_bytes, n_bytes, XCL_ON_ERROR_STOP, &one);
    CHECK(one.status == XCL_OK && one.n_features == N && one.n_labels == 2, "%s", one.error);
    for (int32_t i = 0; i < N; i++)
        CHECK(memcmp(&one.values[i], &values[i], 4) == 0, "%a is read as %a", (double)values[i], (double)one.values[i]);
}

int main(void) {
    engines[0] = check_engine(1);
    engines[1] = check_engine(2);
    engines[2] = check_engine(4);
    test_rows();
    test_errors();
    test_any_text();
    test_format();
    for (int e = 0; e < 3; e++) xcl_engine_free(engines[e]);
    return check_result();
}
