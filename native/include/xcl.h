/* xcl.h - the whole public interface of the engine, and its manual.
 *
 * Conventions: functions are xcl_<noun>_<verb>. A function that can fail returns xcl_status; the reason is then in
 * xcl_error_text() of the same thread. create/free own, get borrows; free accepts NULL. Counts and offsets are
 * int64_t, ids int32_t, real numbers float. The library never prints, exits or keeps a pointer it was lent, except
 * where "attach" says so. A handle serves one thread at a time; different handles are independent.
 *
 * SPDX-License-Identifier: MIT */
#ifndef XCL_H
#define XCL_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
/* cffi: begin: no preprocessor lines from here to "cffi: end", so that cffi reads the same text. */

typedef enum {
    XCL_OK = 0,
    XCL_ERR_ARG = -1,      /* an argument is out of its range */
    XCL_ERR_MEMORY = -2,   /* an allocation failed */
    XCL_ERR_IO = -3,       /* the operating system refused */
    XCL_ERR_FORMAT = -4,   /* the text is not what it should be */
    XCL_ERR_ISA = -5,      /* unknown or unsupported instruction set */
    XCL_ERR_STATE = -6,    /* not possible now (a forked child, a model without optimiser state) */
    XCL_ERR_DIVERGED = -7  /* the loss is not finite */
} xcl_status;

/* Why the last call of this thread failed: one line, valid until the next failure. */
const char *xcl_error_text(void);
const char *xcl_version(void);

/* ---- Engine: threads and kernels ------------------------------------------------------------------------------ */

typedef struct xcl_engine xcl_engine;

/* Start n_threads - 1 workers (the caller is the other one) and choose the kernels.
 * isa: a name from xcl_isa_list(), or NULL for the best one here.
 * XCL_ERR_ISA: the name is unknown or this CPU lacks it. */
xcl_status xcl_engine_create(int32_t n_threads, const char *isa, xcl_engine **out);
void xcl_engine_free(xcl_engine *engine);
const char *xcl_engine_isa(const xcl_engine *engine);
int32_t xcl_engine_threads(const xcl_engine *engine);
/* The instruction sets usable here, best first, separated by blanks. */
const char *xcl_isa_list(void);

/* Sparse rows, borrowed. Row i has ids indices[indptr[i] .. indptr[i+1]) in ascending order and, unless values is
 * NULL, as many values. */
typedef struct {
    int64_t n_rows;
    const int64_t *indptr;
    const int32_t *indices;
    const float *values;
} xcl_csr;

/* ---- Hash index: (K, L) tables over the rows of a matrix ------------------------------------------------------ */

typedef enum {
    XCL_HASH_DWTA = 0,    /* densified winner-take-all, bins of 8, 3 bits a code */
    XCL_HASH_SIMHASH = 1, /* signs of sparse random projections, 1 bit a code */
    XCL_HASH_DOPH = 2     /* densified one-permutation min-hash of the largest coordinates */
} xcl_hash_kind;

typedef enum {
    XCL_POLICY_VANILLA = 0,  /* whole buckets of tables in random order until enough ids are collected */
    XCL_POLICY_TOPK = 1,     /* the ids seen in most tables */
    XCL_POLICY_THRESHOLD = 2 /* the ids seen in at least min_count tables */
} xcl_policy;

typedef struct {
    int32_t kind;             /* xcl_hash_kind */
    int32_t n_tables;         /* L, 1 to 4,096 */
    int32_t hashes_per_table; /* K, 1 to 16 */
    int32_t overlap_packing;  /* DWTA: 1 shifts codes by 2 bits, not 3, as SLIDE was published */
    int32_t policy;           /* xcl_policy */
    int32_t min_count;        /* XCL_POLICY_THRESHOLD: at least 1 */
    int32_t positive_queries; /* DWTA, DOPH: 1 lets only the positive coordinates of a query compete (after a ReLU) */
    uint64_t seed;
} xcl_index_options;

/* What the tables look like and how queries went since the last reset. */
typedef struct {
    int64_t n_ids, n_buckets, n_buckets_used; /* buckets over all tables */
    double ids_per_used_bucket;
    int64_t largest_bucket;
    int64_t n_probes, n_probes_empty; /* buckets looked at, of these without ids */
    int64_t n_queries, n_candidates;  /* distinct ids returned over all queries */
} xcl_index_stats;

typedef struct xcl_index xcl_index;

/* An empty index for vectors of n_dims floats; the functions are drawn from (seed, generation 0). */
xcl_status xcl_index_create(xcl_engine *engine, const xcl_index_options *options, int64_t n_dims, xcl_index **out);
void xcl_index_free(xcl_index *index);
/* Insert rows 0..n_rows-1 of data (stride floats apart) into new tables; ids are row numbers. The data are not kept.
 * generation: which draw of hash functions to use. */
xcl_status xcl_index_build(xcl_index *index, const float *data, int64_t n_rows, int64_t stride, int64_t generation);
/* Candidates for n_queries vectors, at most max_ids each, by the index' policy, each id once. Order: as met in the
 * tables; by number of tables with TOPK, ties as met.
 * counter: any number; the random table order of query i is a function of (seed, counter + i).
 * ids: (n_queries, max_ids) out, ended by -1 where fewer. n_ids: (n_queries) out. */
xcl_status xcl_index_query(xcl_index *index, const float *queries, int64_t n_queries, int64_t stride, int64_t counter,
                           int64_t max_ids, int32_t *ids, int64_t *n_ids);
/* Codes of n vectors after densification, and the K codes of each table packed to its address before folding to the
 * number of buckets. queries: 1 treats the vectors as queries. A vector in which nothing competes has codes -1.
 * codes: (n, n_tables * hashes_per_table) out; addresses: (n, n_tables) out; either may be NULL. */
xcl_status xcl_index_hash(xcl_index *index, const float *vectors, int64_t n, int64_t stride, int32_t queries,
                          int32_t *codes, uint64_t *addresses);
/* Read the counters; reset: 1 sets the query counters to zero. */
void xcl_index_get_stats(xcl_index *index, int32_t reset, xcl_index_stats *out);

/* ---- Model: a sparse-input network with one row of output weights a label -------------------------------------
 *
 * h = dropout(relu(b1 + sum_j x_j E[j])), dense layers of the same kind, z_l = b_l + <W_l, h>.
 * Softmax: cross-entropy over the active set with target 1/|Y| on each true label; a row without labels adds no loss and
 * no gradient. Binary cross-entropy: summed over the active set. Both are means over the rows of the batch.
 * SGD: w -= rate g. Adagrad: one sum s of mean squared gradients a row (each output bias its own),
 * w -= rate g / (sqrt(s) + epsilon). Adam: bias correction by the row's own number of updates.
 * Members: the last hidden layer in equal parts, each scored and trained as if it were alone, with the labels' biases and
 * negatives in common; the loss is the mean of theirs, a hidden gradient that of the part's own loss. Prediction divides
 * the hidden units by the number of members, so that a score is the mean of the members' scores.
 * First values: E ~ N(0, init_scale^2), W ~ N(0, output_scale^2), dense layer l ~ N(0, 2 / width below), biases 0 but
 * the output's. */

typedef enum { XCL_LOSS_SOFTMAX = 0, XCL_LOSS_BCE = 1 } xcl_loss;
typedef enum { XCL_OPTIMIZER_SGD = 0, XCL_OPTIMIZER_ADAGRAD = 1, XCL_OPTIMIZER_ADAM = 2 } xcl_optimizer;
typedef enum { XCL_SCOPE_ROW = 0, XCL_SCOPE_BATCH = 1 } xcl_scope;
typedef enum { XCL_SAMPLER_FULL = 0, XCL_SAMPLER_RANDOM = 1, XCL_SAMPLER_LSH = 2 } xcl_sampler;

typedef struct {
    int64_t n_features, n_labels; /* d, N; at least 1 */
    int32_t n_hidden_layers;      /* 1 to 8 */
    int32_t hidden[8];            /* widths, each at least 1 */
    int32_t n_members;            /* 1, or a divisor of the last width into multiples of 16; scope BATCH only */
    int32_t normalize;            /* 1 scales every row to unit length (over the features the model knows) */
    float dropout;                /* on every hidden layer, in [0, 1) */
    float input_dropout;          /* on the features of a row, in [0, 1) */
    int32_t loss;                 /* xcl_loss */
    int32_t optimizer;            /* xcl_optimizer */
    float beta1, beta2, epsilon;  /* Adam: decay of the moments; Adam, Adagrad: floor of the denominator */
    float init_scale;             /* standard deviation of the first input weights */
    float output_scale;           /* standard deviation of the first output weights */
    float output_bias;            /* first value of every output bias */
    uint64_t seed;
    int32_t sampler;         /* xcl_sampler */
    int32_t scope;           /* xcl_scope; FULL implies BATCH */
    int64_t n_active;        /* A: labels scored beside the true ones, a row (ROW) or for the batch (BATCH); above N / 3: all */
    int32_t random_fill;     /* LSH: 1 tops a short set up with random labels. Scope BATCH asks for ceil(A / B) candidates a row */
    xcl_index_options index; /* LSH */
    int64_t rehash_rows;     /* LSH: changed labels are re-inserted after so many training rows; 0 never */
    int64_t rebuild_rows;    /* LSH: new hash functions after so many training rows; 0 never */
    float rehash_growth;     /* LSH: after the t-th rehash the period is rehash_rows * exp(rehash_growth * t) */
    int32_t trainable;       /* 0: no optimiser state; parameters wait for xcl_model_attach */
} xcl_model_options;

typedef enum { XCL_TYPE_F32 = 0, XCL_TYPE_I32 = 1, XCL_TYPE_I64 = 2, XCL_TYPE_U32 = 3, XCL_TYPE_U64 = 4 } xcl_type;
typedef enum { XCL_ROLE_WEIGHT = 0, XCL_ROLE_OPTIMIZER = 1, XCL_ROLE_INDEX = 2, XCL_ROLE_COUNTER = 3 } xcl_role;

/* A named block of the model. Rows are stride elements apart; columns n_cols..stride are zero and stay so. */
typedef struct {
    char name[48];
    int32_t type; /* xcl_type */
    int32_t role; /* xcl_role */
    int64_t n_rows, n_cols, stride;
    void *data;
} xcl_tensor;

/* Seconds of wall time by phase. */
enum { XCL_PHASE_EMBED, XCL_PHASE_SELECT, XCL_PHASE_SCORE, XCL_PHASE_OUTPUT, XCL_PHASE_INPUT, XCL_PHASE_INDEX, XCL_N_PHASES };

/* What one call of xcl_model_train did. */
typedef struct {
    double loss;             /* mean over rows, in nats, over the active set */
    int64_t n_rows;          /* rows in the batch */
    int64_t n_active;        /* sum over rows of the labels scored */
    int64_t n_union;         /* distinct labels whose weights were updated */
    int64_t n_features;      /* distinct features whose weights were updated */
    int64_t n_labels;        /* true labels of the batch */
    int64_t n_labels_found;  /* LSH: of these, in the buckets probed, that is found without being forced in */
    int64_t n_candidates;    /* LSH: distinct ids in the buckets probed, summed over rows, before policy and cap */
    int32_t rehashed;        /* 1 if tables were refreshed in this call, 2 if with new functions */
    double phase_seconds[6]; /* by XCL_PHASE_* */
} xcl_step;

typedef struct xcl_model xcl_model;

/* Bytes that a model and a step on batches of n_rows rows with n_row_features features and n_row_labels labels a row
 * will take. parts: (6) out: weights, optimiser state, hash tables, batch scratch, index scratch, total.
 * XCL_ERR_ARG: an option is out of range. */
xcl_status xcl_model_plan(const xcl_model_options *options, int64_t n_threads, int64_t n_rows, double n_row_features,
                          double n_row_labels, double parts[6]);
xcl_model_options xcl_model_options_default(void);
/* XCL_ERR_ARG: an option is out of range. XCL_ERR_MEMORY: it did not fit. The engine must outlive the model. */
xcl_status xcl_model_create(xcl_engine *engine, const xcl_model_options *options, xcl_model **out);
void xcl_model_free(xcl_model *model);

/* Block number i, borrowed until the next call that trains. XCL_ERR_ARG: there is no block i (the end of the list).
 * The blocks with role WEIGHT are the model; all blocks together are the state from which training goes on to the
 * same bytes. */
xcl_status xcl_model_get_tensor(xcl_model *model, int32_t i, xcl_tensor *out);
/* Untrainable models: use data (n_rows, stride), 64-byte aligned rows, for the weights called name; it must outlive the model. */
xcl_status xcl_model_attach(xcl_model *model, const char *name, const float *data, int64_t n_rows, int64_t stride);
/* After tensors were overwritten: rebuild whatever is derived from them. XCL_ERR_ARG: hash tables that are none. */
xcl_status xcl_model_restore(xcl_model *model);

/* What is added to each label's score in training only, for example minus the log of its chance of being scored, so
 * that a sampled loss does not favour labels that are rarely sampled. offsets: (n_labels) finite, copied; NULL: none.
 * They are not among the tensors: set them again when training is resumed. */
xcl_status xcl_model_set_offsets(xcl_model *model, const float *offsets);

/* One step on the rows rows[0..n_rows) of x: (*, n_features) and y: (*, n_labels), y.values ignored.
 * Blocks until done; same bytes for any number of threads. Tables are built at the first call and refreshed, when
 * due, at the beginning of a call.
 * XCL_ERR_ARG: an id is out of range, or a row's labels do not ascend. XCL_ERR_DIVERGED: the loss or a feature value is
 * not finite; weights are then as before the step in all layers but may be unusable. XCL_ERR_MEMORY: the batch scratch did not fit. */
xcl_status xcl_model_train(xcl_model *model, const xcl_csr *x, const xcl_csr *y, const int64_t *rows, int64_t n_rows,
                           float learning_rate, xcl_step *out);

/* Label prototypes as first output weights: W[l] = scale * unit(mean of the hidden vectors of l's rows - mean of all), each
 * member by itself.
 * Labels without rows get zeros. Call add for all rows in any number of calls, then finish once, before training. */
xcl_status xcl_model_prototypes_add(xcl_model *model, const xcl_csr *x, const xcl_csr *y, const int64_t *rows, int64_t n_rows);
xcl_status xcl_model_prototypes_finish(xcl_model *model, float scale);

/* Top k labels of the rows rows[0..n_rows) of x, best first, equal scores by label id.
 * rows may be NULL: the first n_rows rows. Features >= n_features are ignored and counted.
 * lsh: 0 scores all labels, 1 those the tables return, at most 65,536 (needs a trainable LSH model or xcl_model_restore).
 * label_ids, scores: (n_rows, k) out, logits; where there are fewer than k, -1 and -infinity.
 * n_unknown: out, ignored features. */
xcl_status xcl_model_predict(xcl_model *model, const xcl_csr *x, const int64_t *rows, int64_t n_rows, int32_t k,
                             int32_t lsh, int32_t *label_ids, float *scores, int64_t *n_unknown);
/* Hidden vectors without dropout, divided by the number of members. hidden: (n_rows, width of the last hidden layer) out. */
xcl_status xcl_model_hidden(xcl_model *model, const xcl_csr *x, const int64_t *rows, int64_t n_rows, float *hidden);
/* State of the tables; zeros for a model without. */
void xcl_model_get_index_stats(xcl_model *model, int32_t reset, xcl_index_stats *out);

/* A permutation of 0..n-1, a function of (seed, epoch) alone: for ascending i, place i is swapped with place
 * i + random(seed, XCL_RNG_SHUFFLE, epoch, i) mod (n - i). order: (n) out. */
void xcl_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t *order);

/* ---- Text: multi-label libsvm rows ---------------------------------------------------------------------------- */

typedef enum {
    XCL_ON_ERROR_STOP = 0, /* the first malformed row ends the parse */
    XCL_ON_ERROR_DROP = 1, /* malformed rows are left out and counted */
    XCL_ON_ERROR_BLANK = 2 /* malformed rows become rows with nothing and are counted: row i of the text stays row i */
} xcl_on_error;

typedef struct {
    int32_t feature_base, label_base; /* what ids count from: 0 or 1, or -1: find out */
    int32_t on_error;                 /* xcl_on_error */
} xcl_parser_options;

/* What was read so far. */
typedef struct {
    int64_t n_lines, n_rows;
    int64_t n_features, n_labels;                     /* entries of x and of y */
    int64_t declared_rows, declared_features, declared_labels; /* by the header; -1 without */
    int64_t min_feature, max_feature, min_label, max_label;    /* ids as written; -1 if there is none */
    int64_t n_rows_without_features, n_rows_without_labels;
    int64_t n_unsorted_rows;       /* their features were sorted */
    int64_t n_duplicate_features;  /* their values were summed */
    int64_t n_duplicate_labels;    /* removed */
    int64_t n_qid;                 /* ignored */
    int64_t n_malformed_rows;      /* left out or blanked */
    int32_t feature_base, label_base; /* final after xcl_parser_finish */
    char malformed[3][224];        /* the first of them, as "line:column: what" */
} xcl_text_stats;

typedef struct xcl_parser xcl_parser;

/* A parser of one text that comes in blocks. The rows it gives do not depend on where blocks end nor on the number of
 * threads. The engine must outlive it. */
xcl_status xcl_parser_create(xcl_engine *engine, const xcl_parser_options *options, xcl_parser **out);
void xcl_parser_free(xcl_parser *parser);
/* Take the next n_bytes of text, below 2^31, and give the rows that it completes. Ids are as written in the text.
 * x, y: out, borrowed until the next call; y.values is NULL.
 * XCL_ERR_FORMAT: the text is wrong; the reason starts with "line:column: ". The parser is of no use after an error. */
xcl_status xcl_parser_feed(xcl_parser *parser, const char *text, int64_t n_bytes, xcl_csr *x, xcl_csr *y);
/* The text has ended: give a last row without a line end, check the header, settle the bases.
 * XCL_ERR_FORMAT: as for feed. A base stays -1 if errors are skipped and the ids contradict the header: 0 and the number
 * declared both occur. Then parse again with that base given as 0. */
xcl_status xcl_parser_finish(xcl_parser *parser, xcl_csr *x, xcl_csr *y);
void xcl_parser_get_stats(const xcl_parser *parser, xcl_text_stats *out);

/* Write rows first_row .. first_row + n_rows of x and y as text: labels, features, no header. Values are written with
 * the fewest digits that give the same float back. Bases are added to the ids.
 * text: (capacity) out. n_bytes: out. XCL_ERR_ARG: capacity is below 28 bytes a feature + 12 a label + 2 a row. */
xcl_status xcl_rows_format(const xcl_csr *x, const xcl_csr *y, int64_t first_row, int64_t n_rows, int32_t feature_base,
                           int32_t label_base, char *text, int64_t capacity, int64_t *n_bytes);

/* cffi: end */
#ifdef __cplusplus
}
#endif
#endif
