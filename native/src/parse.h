/* One piece of text and the rows parsed from it. SPDX-License-Identifier: MIT */
#ifndef XCL_PARSE_H
#define XCL_PARSE_H
#include "internal.h"

#define XCL_PARSE_ERRORS 3 /* kept as text; the others are counted */

/* What ids may be, as written. */
typedef struct {
    int64_t lowest, highest;
    int64_t declared; /* number of them by the header; -1 without */
    int32_t base;     /* -1: not known; then highest is the number declared, right only if ids count from 1 */
} xcl_id_range;

typedef struct {
    int64_t line; /* from 0 within the piece, then from 1 within the text; 0: none */
    int64_t column;
    char what[192];
} xcl_parse_error;

/* Lines that one task parses, and its output. Every line ends in '\n'. Buffers only grow. */
typedef struct {
    const char *text[2], *end[2]; /* two stretches of whole lines: one carried over, one in the block */
    bool first;                   /* the text's first row is here and there is no header: errors there have a hint */
    xcl_ints features, labels;
    xcl_floats values;
    xcl_ints row_features, row_labels, row_lines; /* a row: counts, line within the piece */
    struct {
        uint64_t *data;
        int64_t capacity;
    } keys; /* sorting */
    int64_t n_features, n_labels, n_rows, n_lines;
    int64_t n_unsorted_rows, n_duplicate_features, n_duplicate_labels, n_qid, n_malformed_rows;
    xcl_parse_error errors[XCL_PARSE_ERRORS];
    xcl_parse_error feature_at_limit, label_at_limit; /* the first id that is the number declared, base unknown */
    bool out_of_memory;
} xcl_piece;

/* What all pieces of a block share. */
typedef struct {
    xcl_id_range features, labels;
    int32_t on_error; /* xcl_on_error */
} xcl_row_rules;

/* Parse the lines of a piece. Stops at the first malformed row if the rules say so. */
void xcl_piece_parse(xcl_piece *piece, const xcl_row_rules *rules);
void xcl_piece_free(xcl_piece *piece);

static inline bool xcl_is_blank(char c) { return c == ' ' || c == '\t'; }
/* The first character that is no blank; a '\r' counts as one before the line end. */
static inline const char *xcl_blanks_skip(const char *p) {
    while (xcl_is_blank(*p)) p++;
    if (*p == '\r') {
        const char *q = p;
        while (*q == '\r' || xcl_is_blank(*q)) q++;
        if (*q == '\n') return q;
    }
    return p;
}
static inline bool xcl_ends_token(char c) { return xcl_is_blank(c) || c == '\n' || c == '\r' || c == '#'; }
/* The token at p for a message: printable, at most 24 characters. */
typedef struct {
    char text[32];
} xcl_quote;
xcl_quote xcl_token_quote(const char *p);

#endif
