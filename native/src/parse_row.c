/* One line of multi-label libsvm text to one row:
 *
 *     row      = [labels] {blank (feature | qid)} [comment]
 *     labels   = id {"," id}          in the first column; none if the line starts with a blank or a feature
 *     feature  = id ":" number        qid = "qid:" number, ignored
 *
 * A line whose first character is '#' is no row; an empty line is a row with nothing. Labels come out sorted and
 * distinct, features sorted, duplicates summed in the order of the text.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parse.h"
#include "parse_number.h"

#define INSERTION_LIMIT 24

/* The row under way: where it starts, and what to undo if it fails. */
typedef struct {
    xcl_piece *piece;
    const xcl_row_rules *rules;
    const char *line;
    int64_t n_qid;
    const char *feature_at_limit, *label_at_limit;
    xcl_parse_error error; /* column 0: none */
} row;

xcl_quote xcl_token_quote(const char *p) {
    xcl_quote quote;
    size_t n = 0;
    for (; n < 24 && !xcl_is_blank(p[n]) && p[n] != '\n' && p[n] != '\r'; n++)
        quote.text[n] = p[n] > 32 && p[n] < 127 ? p[n] : '?';
    bool more = n == 24 && !xcl_ends_token(p[n]);
    memcpy(quote.text + n, more ? "..." : "", more ? 4 : 1);
    return quote;
}
#define QUOTE(p) (xcl_token_quote(p).text)

/* Note an error at a character of the line; returns NULL so that a reader can return it. */
#define FAIL(r, at, ...) (snprintf((r)->error.what, sizeof(r)->error.what, __VA_ARGS__), fail(r, at))
static const char *fail(row *r, const char *at) {
    r->error.column = at - r->line + 1;
    return NULL;
}

static const char *fail_token(row *r, const char *p, const char *expected) {
    unsigned char c = (unsigned char)*p;
    if (c == '\r') return FAIL(r, p, "a carriage return within a line");
    if (c < 32 || c > 126) return FAIL(r, p, "byte 0x%02x: this is not libsvm text", c);
    return FAIL(r, p, "'%s': expected %s", QUOTE(p), expected);
}

static inline bool in_range(const xcl_id_range *range, uint64_t id) {
    return (int64_t)id >= range->lowest && (int64_t)id <= range->highest;
}

/* The id at `at` is outside its range. */
static const char *fail_id(row *r, const char *at, const char *noun, const xcl_id_range *range) {
    uint64_t id;
    const char *digits = at + (*at == '+' || *at == '-');
    int n = (int)xcl_min(xcl_digits_read(digits, &id) - digits, 24);
    if (*at == '-') return FAIL(r, at, "%s -%.*s is negative; %ss are ids from 0 up", noun, n, digits, noun);
    if ((int64_t)id < range->lowest) return FAIL(r, at, "%s 0, but the training file counts %ss from 1", noun, noun);
    if (range->declared < 0)
        return FAIL(r, at, "%s %.*s is above the limit of %lld; hash or renumber the %ss", noun, n, digits,
                    (long long)range->highest, noun);
    long long declared = (long long)range->declared;
    if (range->base < 0) return FAIL(r, at, "%s %.*s, but the header declares %lld %ss", noun, n, digits, declared, noun);
    return FAIL(r, at, "%s %.*s, but the header declares %lld %ss, counted from %d", noun, n, digits, declared, noun,
                range->base);
}

/* ---- labels ---- */

/* The labels at p, if it is a label list; p itself if it is a feature or nothing. */
static const char *read_labels(row *r, const char *p) {
    xcl_piece *piece = r->piece;
    const xcl_id_range *range = &r->rules->labels;
    int64_t first = piece->n_labels;
    if (xcl_ends_token(*p) || *p == 'q') return p;
    for (;;) {
        const char *start = p;
        uint64_t id;
        if (*p == '+' || *p == '-') p++;
        const char *digits = p;
        p = xcl_digits_read(p, &id);
        if (p == digits && piece->n_labels > first && xcl_ends_token(*p))
            return FAIL(r, start, xcl_is_blank(*p) ? "a blank after a comma; labels are joined by commas without blanks"
                                                   : "a comma without a label after it");
        if (p == digits) return fail_token(r, start, "a label id (a whole number), or features as id:value");
        if (*p == ':' && piece->n_labels == first) return r->line;
        if (*p != ',' && !xcl_ends_token(*p))
            return fail_token(r, start, "labels as whole numbers joined by commas, then a blank");
        if (*start == '-' || !in_range(range, id)) return fail_id(r, start, "label", range);
        if ((int64_t)id == range->highest && r->label_at_limit == NULL) r->label_at_limit = start;
        piece->labels.data[piece->n_labels++] = (int32_t)id;
        if (*p != ',') return p;
        p++;
    }
}

static int compare_ints(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sort the n labels at ids and drop duplicates; returns how many are left. */
static int64_t sort_labels(int32_t *ids, int64_t n) {
    bool sorted = true;
    for (int64_t i = 1; i < n; i++) sorted &= ids[i - 1] < ids[i];
    if (sorted) return n;
    qsort(ids, (size_t)n, sizeof *ids, compare_ints);
    int64_t kept = 1;
    for (int64_t i = 1; i < n; i++)
        if (ids[i] != ids[kept - 1]) ids[kept++] = ids[i];
    return kept;
}

/* ---- features ---- */

static const char *read_qid(row *r, const char *p) {
    uint64_t id;
    if (strncmp(p, "qid:", 4) != 0) return fail_token(r, p, "a feature as id:value");
    const char *end = xcl_digits_read(p + 4, &id);
    if (end == p + 4 || !xcl_ends_token(*end)) return fail_token(r, p, "qid:number");
    r->n_qid++;
    return end;
}

/* Why the token at start, whose id ends at p, is no feature. */
static const char *fail_feature(row *r, const char *start, const char *p, uint64_t id) {
    if (*p == ':' && (*start == '-' || !in_range(&r->rules->features, id)))
        return fail_id(r, start, "feature", &r->rules->features);
    if (!xcl_ends_token(*p)) return fail_token(r, start, "a feature as id:value");
    bool header = r->piece->first && r->piece->n_rows == 0 && r->piece->n_malformed_rows == 0;
    return FAIL(r, start, "'%s' has no value; features are id:value%s", QUOTE(start),
                header ? ", and a header is three numbers: rows features labels" : "");
}

static const char *fail_value(row *r, const char *start, const char *value, const char *p) {
    if (xcl_ends_token(*value)) return FAIL(r, value, "no value after the colon; features are id:value");
    if (p == NULL) return fail_token(r, value, "a finite decimal number");
    if (*p == ':') return FAIL(r, start, "'%s': a blank is missing between two features", QUOTE(start));
    if (!xcl_ends_token(*p)) return fail_token(r, value, "a decimal number, then a blank");
    return FAIL(r, value, "'%s' is too large for a 32-bit float", QUOTE(value));
}

/* All features of the row from p on. *sorted: out, whether their ids ascend. */
static const char *read_features(row *r, const char *p, bool *sorted) {
    xcl_piece *piece = r->piece;
    const xcl_id_range range = r->rules->features;
    int32_t *ids = piece->features.data + piece->n_features;
    float *values = piece->values.data + piece->n_features;
    int64_t n = 0, last = -1;
    *sorted = true;
    for (;;) {
        p = xcl_blanks_skip(p);
        if (*p == '\n' || *p == '#') break;
        const char *start = p;
        uint64_t id = 0;
        float value = 0;
        if (*p == '+' || *p == '-') p++;
        const char *digits = p;
        p = xcl_digits_read(p, &id);
        if (p == digits) {
            if ((p = read_qid(r, start)) == NULL) return NULL;
            continue;
        }
        if (*p != ':' || *start == '-' || !in_range(&range, id)) return fail_feature(r, start, p, id);
        const char *number = p + 1;
        p = xcl_float_read(number, &value);
        if (p == NULL || !xcl_ends_token(*p) || isinf(value)) return fail_value(r, start, number, p);
        if ((int64_t)id == range.highest && r->feature_at_limit == NULL) r->feature_at_limit = start;
        *sorted &= (int64_t)id > last;
        last = (int64_t)id;
        ids[n] = (int32_t)id;
        values[n++] = value;
    }
    piece->n_features += n;
    return p;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A key is id << 32 | place in the row, so that equal ids keep the order of the text. */
static void sort_keys(uint64_t *keys, int64_t n) {
    if (n > INSERTION_LIMIT) {
        qsort(keys, (size_t)n, sizeof *keys, compare_keys);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        uint64_t key = keys[i];
        int64_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

/* Sort the row's features from first on and sum duplicates. Returns false if a sum is not finite. */
static bool sort_features(row *r, int64_t first) {
    xcl_piece *piece = r->piece;
    int32_t *ids = piece->features.data + first;
    float *values = piece->values.data + first;
    int64_t n = piece->n_features - first, kept = 0;
    uint64_t *keys = piece->keys.data;
    float *unsorted = (float *)(keys + n);
    memcpy(unsorted, values, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) keys[i] = (uint64_t)(uint32_t)ids[i] << 32 | (uint64_t)i;
    sort_keys(keys, n);
    for (int64_t i = 0; i < n;) {
        uint64_t id = keys[i] >> 32;
        double sum = unsorted[keys[i] & UINT32_MAX];
        for (i++; i < n && keys[i] >> 32 == id; i++) sum += unsorted[keys[i] & UINT32_MAX];
        ids[kept] = (int32_t)id;
        values[kept] = (float)sum;
        if (isinf(values[kept++])) {
            FAIL(r, r->line, "the values of feature %llu sum to more than a 32-bit float", (unsigned long long)id);
            return false;
        }
    }
    bool in_order = true;
    for (int64_t i = 1; i < n; i++) in_order &= (keys[i - 1] & UINT32_MAX) < (keys[i] & UINT32_MAX);
    piece->n_unsorted_rows += !in_order;
    piece->n_duplicate_features += n - kept;
    piece->n_features = first + kept;
    return true;
}

/* ---- rows ---- */

static bool grow(void **memory, int64_t *capacity, int64_t used, int64_t wanted, size_t size) {
    if (wanted <= *capacity) return true;
    int64_t larger = xcl_max(wanted, xcl_max(2 * *capacity, 1024));
    void *copy = xcl_alloc(larger, size);
    if (copy == NULL) return false;
    if (used > 0) memcpy(copy, *memory, (size_t)used * size);
    xcl_free(*memory);
    *memory = copy;
    *capacity = larger;
    return true;
}
#define GROW(buffer, used, extra)                                                                                      \
    grow((void **)&(buffer).data, &(buffer).capacity, used, (used) + (extra), sizeof *(buffer).data)

/* Room for any row in n_bytes of text: the shortest feature is "1:1 ", the shortest label "1,". */
static bool reserve(xcl_piece *piece, int64_t n_bytes) {
    int64_t n = n_bytes / 4 + 1;
    return GROW(piece->features, piece->n_features, n) && GROW(piece->values, piece->n_features, n) &&
           GROW(piece->labels, piece->n_labels, n_bytes / 2 + 1) && GROW(piece->row_features, piece->n_rows, 1) &&
           GROW(piece->row_labels, piece->n_rows, 1) && GROW(piece->row_lines, piece->n_rows, 1);
}

static bool read_row(row *r) {
    xcl_piece *piece = r->piece;
    int64_t first_feature = piece->n_features, first_label = piece->n_labels;
    bool sorted;
    const char *p = read_labels(r, r->line);
    if (p == NULL || read_features(r, p, &sorted) == NULL) return false;
    int64_t n = piece->n_labels - first_label;
    int64_t distinct = sort_labels(piece->labels.data + first_label, n);
    piece->n_labels = first_label + distinct;
    if (!sorted) {
        int64_t n_row = piece->n_features - first_feature;
        if (!GROW(piece->keys, 0, n_row + n_row / 2 + 1)) {
            piece->out_of_memory = true;
            return false;
        }
        if (!sort_features(r, first_feature)) return false;
    }
    piece->n_duplicate_labels += n - distinct;
    piece->n_qid += r->n_qid;
    return true;
}

static void note_limit(xcl_parse_error *place, const row *r, const char *at, const char *noun, const xcl_id_range *range) {
    if (at == NULL || place->line > 0 || range->declared < 0 || range->base >= 0) return;
    place->line = r->piece->n_lines + 1;
    place->column = at - r->line + 1;
    snprintf(place->what, sizeof place->what, "%s %lld, but the header declares %lld %ss, counted from 0", noun,
             (long long)range->highest, (long long)range->highest, noun);
}

/* Parse the row at r->line of n_bytes and append it, or undo it. Returns false if the parse must stop. */
static bool append_row(row *r, int64_t n_bytes) {
    xcl_piece *piece = r->piece;
    int64_t first_feature = piece->n_features, first_label = piece->n_labels;
    if (!reserve(piece, n_bytes)) {
        piece->out_of_memory = true;
        return false;
    }
    bool good = read_row(r);
    if (piece->out_of_memory) return false;
    if (good) {
        note_limit(&piece->feature_at_limit, r, r->feature_at_limit, "feature", &r->rules->features);
        note_limit(&piece->label_at_limit, r, r->label_at_limit, "label", &r->rules->labels);
    } else {
        piece->n_features = first_feature;
        piece->n_labels = first_label;
        r->error.line = piece->n_lines + 1;
        if (piece->n_malformed_rows < XCL_PARSE_ERRORS) piece->errors[piece->n_malformed_rows] = r->error;
        piece->n_malformed_rows++;
        if (r->rules->on_error == XCL_ON_ERROR_STOP) return false;
        if (r->rules->on_error == XCL_ON_ERROR_DROP) return true;
    }
    piece->row_features.data[piece->n_rows] = (int32_t)(piece->n_features - first_feature);
    piece->row_labels.data[piece->n_rows] = (int32_t)(piece->n_labels - first_label);
    piece->row_lines.data[piece->n_rows++] = (int32_t)piece->n_lines;
    return true;
}

static void reset(xcl_piece *piece) {
    piece->n_features = piece->n_labels = piece->n_rows = piece->n_lines = 0;
    piece->n_unsorted_rows = piece->n_duplicate_features = piece->n_duplicate_labels = piece->n_qid = 0;
    piece->n_malformed_rows = 0;
    piece->feature_at_limit.line = piece->label_at_limit.line = 0;
    piece->out_of_memory = false;
}

void xcl_piece_parse(xcl_piece *piece, const xcl_row_rules *rules) {
    reset(piece);
    for (int part = 0; part < 2; part++) {
        const char *line = piece->text[part], *end = piece->end[part];
        while (line < end) {
            const char *next = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
            row r;
            r.piece = piece;
            r.rules = rules;
            r.line = line;
            r.n_qid = 0;
            r.feature_at_limit = r.label_at_limit = NULL;
            if (*line != '#' && !append_row(&r, next - line)) return;
            piece->n_lines++;
            line = next;
        }
    }
}

void xcl_piece_free(xcl_piece *piece) {
    xcl_free(piece->features.data);
    xcl_free(piece->labels.data);
    xcl_free(piece->values.data);
    xcl_free(piece->row_features.data);
    xcl_free(piece->row_labels.data);
    xcl_free(piece->row_lines.data);
    xcl_free(piece->keys.data);
}
