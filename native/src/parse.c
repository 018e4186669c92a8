/* Text in blocks to rows: header, line ends across blocks, pieces for the threads, joining them in order.
 *
 * A block is cut at its last line end; what follows is carried to the next block. Whole lines are shared out in
 * pieces (parse_row.c), whose rows are joined in the order of the text. The header, if any, is the first line that is
 * no comment: three whole numbers. No row looks like that, for its second token would have a colon.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include "parse.h"
#include "parse_number.h"

#define PIECE_BYTES (64 << 10) /* less is not worth a task */
#define PIECES_PER_THREAD 4
#define MOST_BYTES INT32_MAX
#define MOST_DECLARED ((int64_t)INT32_MAX + 1)

struct xcl_parser {
    xcl_engine *engine;
    xcl_parser_options options;
    xcl_row_rules rules;
    xcl_text_stats stats;
    bool started;       /* the first line that is no comment was seen */
    int64_t header_line;
    struct {
        char *data;
        int64_t capacity, n;
    } carry; /* an unfinished line */
    int64_t n_pieces;
    xcl_piece *pieces; /* at most PIECES_PER_THREAD * threads */
    xcl_ints features, labels; /* joined */
    xcl_floats values;
    xcl_longs x_indptr, y_indptr;
    xcl_parse_error feature_at_limit, label_at_limit;
};

static int64_t most_pieces(const xcl_parser *parser) {
    return (int64_t)PIECES_PER_THREAD * xcl_pool_threads(parser->engine->pool);
}

static xcl_status fail_at(int64_t line, int64_t column, const char *what) {
    return xcl_fail(XCL_ERR_FORMAT, "%lld:%lld: %s", (long long)line, (long long)column, what);
}

/* ---- header ---- */

static void set_range(xcl_id_range *range, int32_t base, int64_t declared) {
    range->base = base;
    range->declared = declared;
    range->lowest = base == 1;
    range->highest = declared < 0 ? INT32_MAX : xcl_min(base == 0 ? declared - 1 : declared, INT32_MAX);
}

/* Three whole numbers and nothing else, or false. at: out, where each starts. */
static bool read_header(const char *p, int64_t numbers[3], const char *at[3]) {
    for (int i = 0; i < 3; i++) {
        uint64_t number;
        p = at[i] = xcl_blanks_skip(p);
        p = xcl_digits_read(p, &number);
        if (p == at[i] || !xcl_ends_token(*p)) return false;
        numbers[i] = (int64_t)number;
    }
    p = xcl_blanks_skip(p);
    return *p == '\n' || *p == '#';
}

/* Take comments and the header from the lines in front; *text: in, out. */
static xcl_status read_preamble(xcl_parser *parser, const char **text, const char *end) {
    xcl_text_stats *stats = &parser->stats;
    while (!parser->started && *text < end) {
        const char *line = *text, *at[3];
        if (stats->n_lines == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0) line += 3; /* byte-order mark */
        int64_t numbers[3];
        bool header = read_header(line, numbers, at);
        parser->started = *line != '#';
        if (parser->started && !header) {
            *text = line;
            return XCL_OK;
        }
        stats->n_lines++;
        *text = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        if (!header) continue;
        parser->header_line = stats->n_lines;
        for (int i = 1; i < 3; i++)
            if (numbers[i] > MOST_DECLARED)
                return xcl_fail(XCL_ERR_FORMAT, "%lld:%lld: the header declares %s %ss; the limit is %lld; hash or renumber them",
                                (long long)stats->n_lines, (long long)(at[i] - line + 1), xcl_token_quote(at[i]).text,
                                i == 1 ? "feature" : "label", (long long)MOST_DECLARED);
        stats->declared_rows = numbers[0];
        stats->declared_features = numbers[1];
        stats->declared_labels = numbers[2];
        set_range(&parser->rules.features, parser->options.feature_base, numbers[1]);
        set_range(&parser->rules.labels, parser->options.label_base, numbers[2]);
    }
    return XCL_OK;
}

/* ---- blocks ---- */

/* Append to the unfinished line. */
static xcl_status carry_append(xcl_parser *parser, const char *text, int64_t n) {
    int64_t wanted = parser->carry.n + n;
    if (wanted > MOST_BYTES)
        return fail_at(parser->stats.n_lines + 1, 1, "the line is longer than 2 GiB; this is not libsvm text");
    if (wanted > parser->carry.capacity) {
        int64_t capacity = xcl_max(wanted, 2 * parser->carry.capacity);
        char *larger = xcl_alloc(capacity, 1);
        if (larger == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate %lld bytes for a line", (long long)capacity);
        if (parser->carry.n > 0) memcpy(larger, parser->carry.data, (size_t)parser->carry.n);
        xcl_free(parser->carry.data);
        parser->carry.data = larger;
        parser->carry.capacity = capacity;
    }
    if (n > 0) memcpy(parser->carry.data + parser->carry.n, text, (size_t)n);
    parser->carry.n = wanted;
    return XCL_OK;
}

/* Share whole lines out: the carried one goes to the first piece. */
static void cut_pieces(xcl_parser *parser, const char *carried, const char *text, const char *end) {
    int64_t n = xcl_max(1, xcl_min(most_pieces(parser), (end - text) / PIECE_BYTES));
    if (xcl_pool_threads(parser->engine->pool) == 1) n = 1; /* one piece needs no joining */
    for (int64_t i = 0; i < n; i++) {
        xcl_piece *piece = &parser->pieces[i];
        const char *cut = end;
        if (i + 1 < n) {
            cut = text + (end - text) / (n - i);
            if (cut > text) cut = (const char *)memchr(cut - 1, '\n', (size_t)(end - cut + 1)) + 1;
        }
        bool with_carry = i == 0 && carried != NULL;
        piece->text[0] = with_carry ? carried : NULL;
        piece->end[0] = with_carry ? parser->carry.data + parser->carry.n : NULL;
        piece->text[1] = text;
        piece->end[1] = text = cut;
        piece->first = i == 0 && parser->header_line == 0 && parser->stats.n_rows + parser->stats.n_malformed_rows == 0;
    }
    parser->n_pieces = n;
}

static void parse_task(void *arg, int64_t task, int32_t thread) {
    xcl_parser *parser = arg;
    (void)thread;
    xcl_piece_parse(&parser->pieces[task], &parser->rules);
}

/* ---- joining ---- */

/* Count a malformed row, or fail. line: within the text. */
static xcl_status malformed(xcl_parser *parser, int64_t line, int64_t column, const char *what) {
    if (parser->options.on_error == XCL_ON_ERROR_STOP) return fail_at(line, column, what);
    if (parser->stats.n_malformed_rows < 3)
        snprintf(parser->stats.malformed[parser->stats.n_malformed_rows], sizeof parser->stats.malformed[0],
                 "%lld:%lld: %s", (long long)line, (long long)column, what);
    parser->stats.n_malformed_rows++;
    return XCL_OK;
}

/* Count the malformed rows of a piece, up to `before` lines, in the order of the text; *next: in, out. */
static xcl_status take_errors(xcl_parser *parser, const xcl_piece *piece, int64_t before, int64_t *next) {
    for (; *next < piece->n_malformed_rows; ++*next) {
        const xcl_parse_error *error = &piece->errors[xcl_min(*next, XCL_PARSE_ERRORS - 1)];
        if (error->line > before) break;
        XCL_TRY(malformed(parser, parser->stats.n_lines + error->line, error->column, error->what));
    }
    return XCL_OK;
}

/* Count what is wrong in a piece and cut the rows that the header does not know; rows with nothing at the end of a text
 * are no error. */
static xcl_status check_piece(xcl_parser *parser, xcl_piece *piece) {
    int64_t declared = parser->stats.declared_rows, n = piece->n_rows, room = declared - parser->stats.n_rows;
    int64_t next_error = 0;
    if (declared < 0 || parser->options.on_error == XCL_ON_ERROR_BLANK) room = n;
    for (int64_t i = room; i < n; i++) {
        int32_t n_features = piece->row_features.data[i], n_labels = piece->row_labels.data[i];
        int64_t line = piece->row_lines.data[i] + 1;
        piece->n_features -= n_features;
        piece->n_labels -= n_labels;
        if (n_features + n_labels == 0) continue;
        XCL_TRY(take_errors(parser, piece, line, &next_error));
        char what[96];
        snprintf(what, sizeof what, "the header declares %lld rows, but there are more", (long long)declared);
        XCL_TRY(malformed(parser, parser->stats.n_lines + line, 1, what));
    }
    piece->n_rows = xcl_min(n, room);
    return take_errors(parser, piece, INT64_MAX, &next_error);
}

static void note_place(xcl_parse_error *place, const xcl_parse_error *found, int64_t n_lines) {
    if (place->line > 0 || found->line == 0) return;
    *place = *found;
    place->line += n_lines;
}

/* Add a piece's counts to the totals. */
static xcl_status count_piece(xcl_parser *parser, xcl_piece *piece) {
    xcl_text_stats *stats = &parser->stats;
    if (piece->out_of_memory) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate memory for the rows of a block");
    XCL_TRY(check_piece(parser, piece));
    note_place(&parser->feature_at_limit, &piece->feature_at_limit, stats->n_lines);
    note_place(&parser->label_at_limit, &piece->label_at_limit, stats->n_lines);
    stats->n_lines += piece->n_lines;
    stats->n_rows += piece->n_rows;
    stats->n_features += piece->n_features;
    stats->n_labels += piece->n_labels;
    stats->n_unsorted_rows += piece->n_unsorted_rows;
    stats->n_duplicate_features += piece->n_duplicate_features;
    stats->n_duplicate_labels += piece->n_duplicate_labels;
    stats->n_qid += piece->n_qid;
    return XCL_OK;
}

/* Offsets of rows from their counts; smallest and largest id, rows with nothing. Ids ascend within a row. */
static void make_offsets(const xcl_ints *counts, const xcl_ints *ids, int64_t n_rows, int64_t *indptr, int64_t *lowest,
                         int64_t *highest, int64_t *n_empty) {
    int64_t at = 0;
    int32_t low = INT32_MAX, high = -1;
    for (int64_t i = 0; i < n_rows; i++) {
        int64_t n = counts->data[i];
        if (n == 0) {
            ++*n_empty;
        } else {
            if (ids->data[at] < low) low = ids->data[at];
            if (ids->data[at + n - 1] > high) high = ids->data[at + n - 1];
        }
        indptr[i] = at;
        at += n;
    }
    if (high < 0) return;
    if (*lowest < 0 || low < *lowest) *lowest = low;
    if (high > *highest) *highest = high;
}

static void join_task(void *arg, int64_t task, int32_t thread) {
    xcl_parser *parser = arg;
    (void)thread;
    int64_t row = 0, feature = 0, label = 0;
    for (int64_t i = 0; i < task; i++) {
        row += parser->pieces[i].n_rows;
        feature += parser->pieces[i].n_features;
        label += parser->pieces[i].n_labels;
    }
    const xcl_piece *piece = &parser->pieces[task];
    if (piece->n_features > 0) {
        memcpy(parser->features.data + feature, piece->features.data, (size_t)piece->n_features * sizeof(int32_t));
        memcpy(parser->values.data + feature, piece->values.data, (size_t)piece->n_features * sizeof(float));
    }
    if (piece->n_labels > 0)
        memcpy(parser->labels.data + label, piece->labels.data, (size_t)piece->n_labels * sizeof(int32_t));
    for (int64_t i = 0; i < piece->n_rows; i++) parser->x_indptr.data[row + i] += feature;
    for (int64_t i = 0; i < piece->n_rows; i++) parser->y_indptr.data[row + i] += label;
}

/* Give the rows of all pieces as two matrices. */
static xcl_status join(xcl_parser *parser, xcl_csr *x, xcl_csr *y) {
    xcl_text_stats *stats = &parser->stats;
    int64_t n_rows = 0, n_features = 0, n_labels = 0;
    for (int64_t i = 0; i < parser->n_pieces; i++) {
        XCL_TRY(count_piece(parser, &parser->pieces[i]));
        n_rows += parser->pieces[i].n_rows;
        n_features += parser->pieces[i].n_features;
        n_labels += parser->pieces[i].n_labels;
    }
    XCL_TRY(XCL_RESERVE(parser->x_indptr, n_rows + 1));
    XCL_TRY(XCL_RESERVE(parser->y_indptr, n_rows + 1));
    int64_t row = 0;
    for (int64_t i = 0; i < parser->n_pieces; row += parser->pieces[i++].n_rows) {
        const xcl_piece *p = &parser->pieces[i];
        make_offsets(&p->row_features, &p->features, p->n_rows, parser->x_indptr.data + row, &stats->min_feature,
                     &stats->max_feature, &stats->n_rows_without_features);
        make_offsets(&p->row_labels, &p->labels, p->n_rows, parser->y_indptr.data + row, &stats->min_label,
                     &stats->max_label, &stats->n_rows_without_labels);
    }
    parser->x_indptr.data[n_rows] = n_features;
    parser->y_indptr.data[n_rows] = n_labels;
    const xcl_piece *only = &parser->pieces[0];
    *x = (xcl_csr){n_rows, parser->x_indptr.data, only->features.data, only->values.data};
    *y = (xcl_csr){n_rows, parser->y_indptr.data, only->labels.data, NULL};
    if (parser->n_pieces == 1) return XCL_OK;
    XCL_TRY(XCL_RESERVE(parser->features, n_features));
    XCL_TRY(XCL_RESERVE(parser->values, n_features));
    XCL_TRY(XCL_RESERVE(parser->labels, n_labels));
    xcl_pool_run(parser->engine->pool, parser->n_pieces, join_task, parser);
    *x = (xcl_csr){n_rows, parser->x_indptr.data, parser->features.data, parser->values.data};
    *y = (xcl_csr){n_rows, parser->y_indptr.data, parser->labels.data, NULL};
    return XCL_OK;
}

/* ---- the end of the text ---- */

/* What ids count from: 1 if the header's number occurs, or, without a header, if the smallest id is 1. With a header,
 * both 0 and its number are a contradiction: an error, or left open where errors are skipped. */
static xcl_status settle_base(const xcl_parser *parser, const xcl_parse_error *at_limit, int64_t declared, int64_t lowest,
                              int64_t highest, int32_t *base) {
    if (*base >= 0) return XCL_OK;
    bool whole = declared >= 0 && highest == declared;
    if (whole && lowest == 0) {
        if (parser->options.on_error == XCL_ON_ERROR_STOP) return fail_at(at_limit->line, at_limit->column, at_limit->what);
        return XCL_OK; /* the caller may parse again, knowing that ids count from 0 */
    }
    *base = declared >= 0 ? whole : lowest == 1;
    return XCL_OK;
}

static xcl_status check_end(xcl_parser *parser) {
    xcl_text_stats *stats = &parser->stats;
    XCL_TRY(settle_base(parser, &parser->feature_at_limit, stats->declared_features, stats->min_feature, stats->max_feature,
                        &stats->feature_base));
    XCL_TRY(settle_base(parser, &parser->label_at_limit, stats->declared_labels, stats->min_label, stats->max_label,
                        &stats->label_base));
    if (stats->n_rows >= stats->declared_rows || parser->options.on_error != XCL_ON_ERROR_STOP) return XCL_OK;
    return xcl_fail(XCL_ERR_FORMAT, "%lld:1: the header declares %lld rows, but there are %lld",
                    (long long)parser->header_line, (long long)stats->declared_rows, (long long)stats->n_rows);
}

/* ---- the interface ---- */

xcl_status xcl_parser_create(xcl_engine *engine, const xcl_parser_options *options, xcl_parser **out) {
    *out = NULL;
    if (options->feature_base < -1 || options->feature_base > 1 || options->label_base < -1 || options->label_base > 1)
        return xcl_fail(XCL_ERR_ARG, "bases: %d, %d are not -1, 0 or 1", options->feature_base, options->label_base);
    if (options->on_error < XCL_ON_ERROR_STOP || options->on_error > XCL_ON_ERROR_BLANK)
        return xcl_fail(XCL_ERR_ARG, "on_error: %d is unknown", options->on_error);
    xcl_parser *parser = xcl_alloc(1, sizeof *parser);
    if (parser == NULL) return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a parser");
    parser->engine = engine;
    parser->options = *options;
    parser->pieces = xcl_alloc(most_pieces(parser), sizeof *parser->pieces);
    if (parser->pieces == NULL) {
        xcl_parser_free(parser);
        return xcl_fail(XCL_ERR_MEMORY, "cannot allocate a parser");
    }
    parser->rules.on_error = options->on_error;
    set_range(&parser->rules.features, options->feature_base, -1);
    set_range(&parser->rules.labels, options->label_base, -1);
    xcl_text_stats *stats = &parser->stats;
    stats->declared_rows = stats->declared_features = stats->declared_labels = -1;
    stats->min_feature = stats->max_feature = stats->min_label = stats->max_label = -1;
    stats->feature_base = options->feature_base;
    stats->label_base = options->label_base;
    *out = parser;
    return XCL_OK;
}

void xcl_parser_free(xcl_parser *parser) {
    if (parser == NULL) return;
    for (int64_t i = 0; parser->pieces != NULL && i < most_pieces(parser); i++) xcl_piece_free(&parser->pieces[i]);
    xcl_free(parser->pieces);
    xcl_free(parser->carry.data);
    xcl_free(parser->features.data);
    xcl_free(parser->labels.data);
    xcl_free(parser->values.data);
    xcl_free(parser->x_indptr.data);
    xcl_free(parser->y_indptr.data);
    xcl_free(parser);
}

static const char *last_line_end(const char *text, const char *end) {
    while (end > text && end[-1] != '\n') end--;
    return end;
}

xcl_status xcl_parser_feed(xcl_parser *parser, const char *text, int64_t n_bytes, xcl_csr *x, xcl_csr *y) {
    static const int64_t no_offsets[1] = {0};
    *x = *y = (xcl_csr){0, no_offsets, NULL, NULL};
    if (n_bytes < 0 || n_bytes > MOST_BYTES) return xcl_fail(XCL_ERR_ARG, "a block of %lld bytes", (long long)n_bytes);
    XCL_TRY(xcl_pool_check(parser->engine->pool));
    const char *end = text + n_bytes, *whole = last_line_end(text, end);
    if (whole == text) return carry_append(parser, text, n_bytes);
    const char *carried = NULL;
    if (parser->carry.n > 0) {
        const char *first = (const char *)memchr(text, '\n', (size_t)n_bytes) + 1;
        XCL_TRY(carry_append(parser, text, first - text));
        text = first;
        carried = parser->carry.data;
        XCL_TRY(read_preamble(parser, &carried, parser->carry.data + parser->carry.n));
    }
    XCL_TRY(read_preamble(parser, &text, whole));
    cut_pieces(parser, carried, text, whole);
    xcl_pool_run(parser->engine->pool, parser->n_pieces, parse_task, parser);
    XCL_TRY(join(parser, x, y));
    parser->carry.n = 0;
    return carry_append(parser, whole, end - whole);
}

xcl_status xcl_parser_finish(xcl_parser *parser, xcl_csr *x, xcl_csr *y) {
    XCL_TRY(xcl_parser_feed(parser, "\n", parser->carry.n > 0, x, y));
    return check_end(parser);
}

void xcl_parser_get_stats(const xcl_parser *parser, xcl_text_stats *out) { *out = parser->stats; }
