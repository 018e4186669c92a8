/* Any bytes are rows or an error, and the same ones in blocks of any size; rows written as text are read back alike.
 *
 *     clang -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Inative/include \
 *         -Inative/src native/fuzz/fuzz_parse.c native/src/{parse,parse_row,parse_number,format,memory,error,pool}.c \
 *         -lm -lpthread -o /tmp/fuzz_parse
 *     /tmp/fuzz_parse -max_len=400 -max_total_time=120 native/fuzz/corpus/parse
 *
 * The first byte chooses what to do with errors and the size of blocks.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include "internal.h"

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)

typedef struct {
    xcl_status status;
    char error[512];
    xcl_text_stats stats;
    char *text; /* the rows, written again */
    int64_t n_bytes;
} outcome;

static void append(outcome *out, const xcl_csr *x, const xcl_csr *y) {
    int64_t room = 28 * x->indptr[x->n_rows] + 12 * y->indptr[y->n_rows] + 2 * x->n_rows, n;
    out->text = realloc(out->text, (size_t)(out->n_bytes + room + 1));
    REQUIRE(xcl_rows_format(x, y, 0, x->n_rows, 0, 0, out->text + out->n_bytes, room, &n) == XCL_OK && n <= room);
    out->n_bytes += n;
}

static outcome parse(xcl_engine *engine, const char *text, int64_t n, int64_t block, int32_t on_error) {
    outcome out = {0};
    xcl_parser_options options = {-1, -1, on_error};
    xcl_parser *parser;
    xcl_csr x, y;
    REQUIRE(xcl_parser_create(engine, &options, &parser) == XCL_OK);
    for (int64_t at = 0; at < n && out.status == XCL_OK; at += block) {
        int64_t size = xcl_min(block, n - at);
        char *copy = malloc((size_t)size);
        memcpy(copy, text + at, (size_t)size);
        out.status = xcl_parser_feed(parser, copy, size, &x, &y);
        if (out.status == XCL_OK) append(&out, &x, &y);
        free(copy);
    }
    if (out.status == XCL_OK && (out.status = xcl_parser_finish(parser, &x, &y)) == XCL_OK) append(&out, &x, &y);
    if (out.status != XCL_OK) strncpy(out.error, xcl_error_text(), sizeof out.error - 1);
    xcl_parser_get_stats(parser, &out.stats);
    xcl_parser_free(parser);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static xcl_engine engine;
    if (engine.pool == NULL) REQUIRE(xcl_pool_create(2, &engine.pool) == XCL_OK);
    if (size < 1) return 0;
    int32_t on_error = data[0] % 3;
    const char *text = (const char *)data + 1;
    int64_t n = (int64_t)size - 1;
    outcome whole = parse(&engine, text, n, n + 1, on_error), parts = parse(&engine, text, n, 1 + data[0] / 3, on_error);
    REQUIRE(whole.status == parts.status && strcmp(whole.error, parts.error) == 0);
    if (whole.status == XCL_OK) {
        REQUIRE(memcmp(&whole.stats, &parts.stats, sizeof whole.stats) == 0);
        REQUIRE(whole.n_bytes == parts.n_bytes && memcmp(whole.text, parts.text, (size_t)whole.n_bytes) == 0);
        outcome again = parse(&engine, whole.text, whole.n_bytes, 64, XCL_ON_ERROR_STOP);
        REQUIRE(again.status == XCL_OK && again.stats.n_rows == whole.stats.n_rows);
        REQUIRE(again.n_bytes == whole.n_bytes && memcmp(again.text, whole.text, (size_t)again.n_bytes) == 0);
        free(again.text);
    } else {
        REQUIRE(on_error == XCL_ON_ERROR_STOP || whole.status == XCL_ERR_FORMAT);
    }
    free(whole.text);
    free(parts.text);
    return 0;
}
