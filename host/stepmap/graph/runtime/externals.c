/* Rows and a cost of some variables as functions that CasADi calls: its interface of external functions.
 *
 * model.h defines the sizes
 *   NY variables, NP data, NR rows, NJ entries of the slopes of the rows, NF parts of the cost (one or none),
 *   NG entries of its gradient, NH entries of the Hessian, SM_SCRATCH,
 * and the generated functions sm_residual, sm_slopes, sm_value, sm_gradient and sm_bends, as far as they have outputs.
 * These never store structural zeros, so outputs are cleared here. */
#include "model.h"
#include "trig.h"

#include <string.h>

#define SM_EXPORT __attribute__((visibility("default")))

typedef long long sm_index; /* CasADi's casadi_int */

/* Dense columns, as CasADi tells them; the last two are arguments of sm_bends alone. */
static const sm_index SIZES[4][3] = {{NY, 1, 1}, {NP, 1, 1}, {NR, 1, 1}, {1, 1, 1}};
static const double NOTHING[NY + NP + NR + 1] = {0}; /* CasADi passes no pointer where an argument is zero */

/* The function `name` of the first COUNT arguments, with one output of SIZE numbers; nothing to do where nobody asks
 * for that. */
#define EXTERNAL(name, COUNT, SIZE)                                                                                    \
  SM_EXPORT sm_index name##_n_in(void) { return COUNT; }                                                               \
  SM_EXPORT sm_index name##_n_out(void) { return 1; }                                                                  \
  SM_EXPORT const sm_index *name##_sparsity_in(sm_index i) { return SIZES[i]; }                                        \
  SM_EXPORT const sm_index *name##_sparsity_out(sm_index i) {                                                          \
    static const sm_index size[3] = {SIZE, 1, 1};                                                                      \
    (void)i;                                                                                                           \
    return size;                                                                                                       \
  }                                                                                                                    \
  SM_EXPORT int name##_work(sm_index *arguments, sm_index *results, sm_index *integers, sm_index *numbers) {           \
    *arguments = COUNT;                                                                                                \
    *results = 1;                                                                                                      \
    *integers = 0;                                                                                                     \
    *numbers = SM_SCRATCH;                                                                                             \
    return 0;                                                                                                          \
  }                                                                                                                    \
  SM_EXPORT int name(const double **arguments, double **results, const sm_index *integers, double *scratch,            \
                     int memory) {                                                                                     \
    const double *in[COUNT];                                                                                           \
    (void)integers, (void)memory;                                                                                      \
    if (!results[0]) {                                                                                                 \
      return 0;                                                                                                        \
    }                                                                                                                  \
    for (int i = 0; i < COUNT; i++) {                                                                                  \
      in[i] = arguments[i] ? arguments[i] : NOTHING;                                                                   \
    }                                                                                                                  \
    memset(results[0], 0, (SIZE) * sizeof(double));                                                                    \
    sm_##name(in, results, scratch);                                                                                   \
    return 0;                                                                                                          \
  }

#if NR > 0
EXTERNAL(residual, 2, NR)
#endif
#if NJ > 0
EXTERNAL(slopes, 2, NJ)
#endif
#if NF > 0
EXTERNAL(value, 2, 1)
#endif
#if NG > 0
EXTERNAL(gradient, 2, NG)
#endif
#if NH > 0
EXTERNAL(bends, 4, NH)
#endif
