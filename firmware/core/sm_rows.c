#include "sm_rows.h"

#include "sm_fixed.h"

#define PLACE_BITS 14U     /* an operand: its place in the upper 2 bits of 16, its index in the lower 14 */
#define INDEX_MASK 0x3FFFU /* of the index */
#define TO_FIELD 0x4000U   /* the place "field" in an operand that is written */
#define SHIFT_BITS 6       /* of one operand's shift in `amount`: 0 … 63 */
#define SHIFT_MASK 63      /* of the same */
#define WORD 32U           /* bits: tables are generated for words of 32 bits only */

static int32_t shifted(int32_t v, int right, int is_cut, uint32_t *overflowed) {
  if (right > 31) { /* nothing is left of 32 bits */
    return 0;
  }
  if (right > 0) {
    return is_cut ? v >> right : sm_right(v, (unsigned)right);
  }
  return right < 0 ? sm_left(v, (unsigned)-right, overflowed) : v;
}

static int32_t multiplied(int32_t a, int32_t b, unsigned amount, int is_cut, uint32_t *overflowed) {
  const unsigned right = amount & SHIFT_MASK;
  const unsigned bits = amount >> SHIFT_BITS;
  return is_cut ? sm_mul_cut(a, b, right, bits, overflowed) : sm_mul(a, b, right, bits, overflowed);
}

int sm_rows_run(const sm_row *rows, unsigned count, int32_t *fields, const int32_t *constants, int32_t *work,
                uint32_t *overflows) {
  const int32_t *const places[3] = {work, fields, constants};
  int held = 0; /* whether a <= b in the last test */
  uint32_t overflowed = 0;
  sm_watch();
  for (const sm_row *row = rows; row < rows + count; row++) {
    int32_t a = places[row->a >> PLACE_BITS][row->a & INDEX_MASK];
    int32_t b = places[row->b >> PLACE_BITS][row->b & INDEX_MASK];
    const int amount = row->amount;
    const int is_cut = (row->op & SM_ROW_CUT) != 0U;
    const unsigned op = row->op & ~SM_ROW_CUT;
    if (op <= SM_ROW_MAX || op >= SM_ROW_GUARD) {
      a = shifted(a, amount & SHIFT_MASK, is_cut, &overflowed);
      b = shifted(b, (amount >> SHIFT_BITS) & SHIFT_MASK, is_cut, &overflowed);
    }
    int32_t v = 0;
    switch ((sm_row_op)op) {
    case SM_ROW_ADD:
      v = sm_add(a, b, &overflowed);
      break;
    case SM_ROW_SUB:
      v = sm_sub(a, b, &overflowed);
      break;
    case SM_ROW_ADD_FAST:
      v = a + b;
      break;
    case SM_ROW_SUB_FAST:
      v = a - b;
      break;
    case SM_ROW_MIN:
      v = a < b ? a : b;
      break;
    case SM_ROW_MAX:
      v = a > b ? a : b;
      break;
    case SM_ROW_MUL:
      v = multiplied(a, b, (unsigned)amount, is_cut, &overflowed);
      break;
    case SM_ROW_MUL_WIDE:
      v = is_cut ? sm_mul_wide_cut(a, b, (unsigned)amount) : sm_mul_wide(a, b, (unsigned)amount);
      break;
    case SM_ROW_HIGH:
      v = is_cut ? sm_high_cut(a, b) : sm_high(a, b);
      break;
    case SM_ROW_RECIPROCAL:
      v = sm_reciprocal(a, amount, WORD, &overflowed);
      break;
    case SM_ROW_ROOT:
      v = sm_sqrt(a, amount, WORD, &overflowed);
      break;
    case SM_ROW_SIN:
      v = sm_sin(a, amount);
      break;
    case SM_ROW_COS:
      v = sm_cos(a, amount);
      break;
    case SM_ROW_ABS:
      v = sm_abs(a, &overflowed);
      break;
    case SM_ROW_SIGN:
      v = a > 0 ? INT32_C(1) << amount : a < 0 ? -(INT32_C(1) << amount) : 0;
      break;
    case SM_ROW_MOVE:
      v = shifted(a, amount, is_cut, &overflowed);
      break;
    case SM_ROW_GUARD:
      if (a > b) {
        *overflows += sm_noted(overflowed);
        return 0;
      }
      continue;
    case SM_ROW_TEST:
      held = a <= b;
      continue;
    case SM_ROW_PICK:
      v = held ? a : b;
      break;
    }
    if (row->to & TO_FIELD) {
      fields[row->to & INDEX_MASK] = v;
    } else {
      work[row->to] = v;
    }
  }
  *overflows += sm_noted(overflowed);
  return 1;
}
