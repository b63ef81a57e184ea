/* Table-driven fixed-point code: one row an operation, one loop for all of them. Generated for systems whose
 * straight-line code would be too large for a chip's flash; the results are the same, bit for bit.
 *
 * An operand's upper two bits say where it lives: 0 work memory, 1 a field of the controller, 2 the constants. */
#ifndef SM_ROWS_H
#define SM_ROWS_H

#include <stdint.h>

typedef struct {
  uint8_t op;     /* sm_row_op */
  int16_t amount; /* a shift; for sums those of both operands, 6 bits each */
  uint16_t to;
  uint16_t a;
  uint16_t b;
} sm_row;

typedef enum {
  SM_ROW_ADD = 0,
  SM_ROW_SUB,
  SM_ROW_ADD_FAST, /* cannot overflow */
  SM_ROW_SUB_FAST,
  SM_ROW_MIN,
  SM_ROW_MAX,
  SM_ROW_MUL,
  SM_ROW_MUL_WIDE, /* cannot overflow */
  SM_ROW_HIGH,
  SM_ROW_RECIPROCAL,
  SM_ROW_ROOT,
  SM_ROW_SIN,
  SM_ROW_COS,
  SM_ROW_ABS,
  SM_ROW_SIGN,
  SM_ROW_MOVE, /* shifts right, or left by a negative amount */
  SM_ROW_GUARD /* ends here where a > b */
} sm_row_op;

/* Runs the rows. 1 when all were run, 0 where a guard ended them early. Saturations are added to *lost. */
int sm_rows_run(const sm_row *rows, unsigned count, int32_t *fields, const int32_t *constants, int32_t *work,
                uint32_t *lost);

#endif
