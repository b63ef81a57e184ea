#include "sm_rows.h"

#include "sm_fixed.h"

static int32_t moved(int32_t v, int right, uint32_t *lost) {
  if (right > 31) {
    return 0;
  }
  if (right > 0) {
    return sm_right(v, (unsigned)right);
  }
  return right < 0 ? sm_left(v, (unsigned)-right, lost) : v;
}

int sm_rows_run(const sm_row *rows, unsigned count, int32_t *fields, const int32_t *constants, int32_t *work,
                uint32_t *lost) {
  const int32_t *const places[3] = {work, fields, constants};
  for (const sm_row *row = rows; row < rows + count; row++) {
    int32_t a = places[row->a >> 14][row->a & 0x3FFFU];
    int32_t b = places[row->b >> 14][row->b & 0x3FFFU];
    const int amount = row->amount;
    if (row->op <= SM_ROW_MAX || row->op == SM_ROW_GUARD) {
      a = moved(a, amount & 63, lost);
      b = moved(b, (amount >> 6) & 63, lost);
    }
    int32_t v = 0;
    switch ((sm_row_op)row->op) {
    case SM_ROW_ADD:
      v = sm_add(a, b, lost);
      break;
    case SM_ROW_SUB:
      v = sm_sub(a, b, lost);
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
      v = sm_mul(a, b, (unsigned)amount, lost);
      break;
    case SM_ROW_MUL_WIDE:
      v = sm_mul_wide(a, b, (unsigned)amount);
      break;
    case SM_ROW_HIGH:
      v = sm_high(a, b);
      break;
    case SM_ROW_RECIPROCAL:
      v = sm_reciprocal(a, amount, 32U, lost);
      break;
    case SM_ROW_ROOT:
      v = sm_sqrt(a, amount, 32U, lost);
      break;
    case SM_ROW_SIN:
      v = sm_sin(a, amount);
      break;
    case SM_ROW_COS:
      v = sm_cos(a, amount);
      break;
    case SM_ROW_ABS:
      v = sm_abs(a, lost);
      break;
    case SM_ROW_SIGN:
      v = a > 0 ? INT32_C(1) << amount : a < 0 ? -(INT32_C(1) << amount) : 0;
      break;
    case SM_ROW_MOVE:
      v = moved(a, amount, lost);
      break;
    case SM_ROW_GUARD:
      if (a > b) {
        return 0;
      }
      continue;
    }
    if (row->to & 0x4000U) {
      fields[row->to & 0x3FFFU] = v;
    } else {
      work[row->to] = v;
    }
  }
  return 1;
}
