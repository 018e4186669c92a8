/* The model and the batch it is working on. One file a phase: embed.c, select.c, score.c, update.c, in step.c's order.
 *
 * B rows of the batch, H units of the last hidden layer, U labels in the union, A labels sampled.
 * SPDX-License-Identifier: MIT */
#ifndef XCL_MODEL_H
#define XCL_MODEL_H
#include "group.h"
#include "index.h"
#include "table.h"

#define XCL_MAX_HIDDEN 8

/* What a resumed run must know beside the parameters. In the order of the tensor "counters". */
typedef struct {
    uint64_t n_steps, n_rows_seen, n_rehashes, next_rehash, generation, next_rebuild, index_built;
} xcl_counters;

/* One thread's room. */
typedef struct {
    float *pack, *gradient; /* (block, pad(H)) label rows side by side, and their gradients */
    float *bias;            /* (block) */
    xcl_floats values;      /* the pairs of one feature or label */
    xcl_ints rows;
    uint32_t *stamp;        /* scope row: (N) number of the last set an id was put into */
    uint32_t last_stamp;
} xcl_room;

/* The rows being worked on and everything a step computes for them. Buffers only grow. */
typedef struct {
    int64_t n_rows, n_padded;             /* B, pad(B) */
    bool training;
    bool overflow;                        /* a hidden unit is not finite */
    xcl_longs feature_starts;             /* (B + 1) */
    xcl_ints feature_ids, feature_rows;   /* (nnz) features left after input dropout */
    xcl_floats feature_values;
    int64_t n_unknown;                    /* features ignored because the model has no such row */
    xcl_longs label_starts;               /* (B + 1) */
    xcl_ints labels, label_rows;          /* true labels */
    xcl_floats hidden[XCL_MAX_HIDDEN];    /* (B, pad(width)) after ReLU and dropout */
    xcl_floats gradient[XCL_MAX_HIDDEN];  /* (B, pad(width)) of the loss by the sums before the ReLU */
    xcl_floats turned;                    /* (H, pad(B)) last hidden layer transposed; also (width, pad(width below)) */
    xcl_floats scaled;                    /* (B, pad(H)) last hidden layer / B */
    xcl_group active;                     /* union of the active sets */
    xcl_group features;                   /* distinct features of the batch */
    int64_t block;                        /* labels scored together */
    xcl_floats scores;                    /* batch: (U, M, pad(B)) for M members; row: (pairs) */
    xcl_floats block_peak, block_mass;    /* (blocks, M, pad(B)) */
    xcl_floats shift, row_loss;           /* (M, pad(B)) log of the normaliser; loss */
    xcl_longs true_places;                /* where in scores each true label of each row stands, for the first member */
    xcl_floats shards;                    /* (XCL_SHARDS, B, pad(H)) shares of the hidden gradient */
    xcl_longs pair_starts;                /* scope row: (B + 1) */
    xcl_ints pair_labels, pair_rows;      /* scope row: (pairs), a row's true labels first */
    xcl_ints slots;                       /* scope row: lists before they are put side by side */
    xcl_ints proposals;                   /* LSH: (B, wanted) candidates */
    xcl_longs n_proposals;                /* LSH: (B) */
    xcl_longs candidates, found;          /* LSH: (B) distinct candidates met, true labels among them */
} xcl_batch;

struct xcl_model {
    xcl_engine *engine;
    int32_t n_threads; /* of the engine, which may be gone when the model is freed */
    xcl_model_options options;
    xcl_counters counters;
    int32_t n_layers;                       /* hidden layers */
    int64_t width[XCL_MAX_HIDDEN], padded[XCL_MAX_HIDDEN];
    xcl_table input;                        /* (d, H_0) */
    xcl_table input_bias;                   /* (1, H_0) */
    xcl_table between[XCL_MAX_HIDDEN];      /* [l]: (H_l-1, H_l) for l >= 1 */
    xcl_table between_bias[XCL_MAX_HIDDEN]; /* [l]: (1, H_l) */
    xcl_table output;                       /* (N, H) */
    xcl_table output_bias;                  /* (N, 1) */
    float *offsets;                         /* (N) added to scores in training, or NULL */
    xcl_index *index;                       /* LSH only */
    xcl_bitset changed;                     /* LSH: labels updated since they were last hashed */
    xcl_batch batch;
    xcl_room *rooms;
    double *prototype_mean;                 /* (H) sum over rows while prototypes are collected */
    int32_t *prototype_counts;              /* (N) */
    int64_t n_prototype_rows;
};

static inline int64_t xcl_model_width(const xcl_model *model) { return model->width[model->n_layers - 1]; }
static inline int64_t xcl_model_padded(const xcl_model *model) { return model->padded[model->n_layers - 1]; }
/* Columns of the last hidden layer and of output weights that belong to one member. */
static inline int64_t xcl_model_part(const xcl_model *model) { return xcl_model_padded(model) / model->options.n_members; }
static inline float *xcl_model_top(const xcl_model *model) { return model->batch.hidden[model->n_layers - 1].data; }

/* embed.c */
/* Copy the rows' features (with input dropout in training) into the batch. Unknown ones are an error in training. */
xcl_status xcl_embed_load(xcl_model *model, const xcl_csr *x, const int64_t *rows, int64_t n_rows, bool training);
/* Hidden layers of the batch. */
xcl_status xcl_embed_forward(xcl_model *model);
/* batch->turned = last hidden layer transposed, zeros from B to pad(B). */
xcl_status xcl_embed_turn(xcl_model *model);

/* select.c */
xcl_status xcl_select_labels(xcl_model *model, const xcl_csr *y, const int64_t *rows);
/* A sample of more than a third of the labels is all of them: drawing without repetition would cost more. */
bool xcl_select_takes_all(const xcl_model *model);
/* The active sets and their union. */
xcl_status xcl_select_active(xcl_model *model, xcl_step *step);

/* score.c: scores over the active sets and the loss. Leaves scores, and for softmax the normalisers. */
xcl_status xcl_score(xcl_model *model, double *loss);
/* Bias of a label in training. */
static inline float xcl_score_bias(const xcl_model *model, int32_t label) {
    return model->output_bias.weight[label] + (model->offsets != NULL ? model->offsets[label] : 0.0f);
}
/* Labels u0..u1-1 of the union as contiguous rows: in place where their ids are consecutive, else copied into the room. */
const float *xcl_score_rows(const xcl_model *model, xcl_room *room, int64_t u0, int64_t u1);

/* update.c */
xcl_status xcl_update_output(xcl_model *model, const xcl_updater *updater);
xcl_status xcl_update_hidden(xcl_model *model, const xcl_updater *updater);
xcl_status xcl_update_input(xcl_model *model, const xcl_updater *updater);

/* model.c */
/* How many labels to score together for batches of n_padded rows: a function of sizes only, never of threads. */
int64_t xcl_model_block(int64_t n_padded, int64_t width);
xcl_status xcl_model_refresh_index(xcl_model *model, xcl_step *step);
#endif
