/* Table-driven fixed-point code: each row of a table is one operation, and one loop runs them all. Generated for
 * systems whose straight-line code would not fit into a chip's flash; the results are the same, bit for bit.
 *
 * The upper two bits of an operand tell where it lives, the lower 14 are its index there:
 * 0 work memory, 1 a field of the controller, 2 the constants. */
#ifndef SM_ROWS_H
#define SM_ROWS_H

#include <stdint.h>

typedef struct {
  uint8_t op;     /* sm_row_op, with SM_ROW_CUT where bits that are lost are cut off rather than rounded */
  int16_t amount; /* shift of the result; for sums the right shifts of operands a (bits 0 … 5) and b (6 … 11); for
                     SM_ROW_MUL its shift, and the bits it saturates at (6 … 11) */
  uint16_t to;    /* operand that is written: work memory or a field */
  uint16_t a;     /* operand */
  uint16_t b;     /* operand; of operations with one operand not used */
} sm_row;

typedef enum {
  SM_ROW_ADD = 0,
  SM_ROW_SUB,
  SM_ROW_ADD_FAST, /* cannot overflow */
  SM_ROW_SUB_FAST, /* cannot overflow */
  SM_ROW_MIN,
  SM_ROW_MAX,
  SM_ROW_MUL,
  SM_ROW_MUL_WIDE, /* cannot overflow */
  SM_ROW_HIGH,     /* upper word of the product */
  SM_ROW_RECIPROCAL,
  SM_ROW_ROOT,
  SM_ROW_SIN,
  SM_ROW_COS,
  SM_ROW_ABS,
  SM_ROW_SIGN,
  SM_ROW_MOVE,  /* shifts right, or left by a negative amount */
  SM_ROW_GUARD, /* ends the run where a > b */
  SM_ROW_TEST,  /* remembers whether a <= b */
  SM_ROW_PICK   /* a where the last test held, else b */
} sm_row_op;

#define SM_ROW_CUT 0x80U

/* Runs `count` rows. Returns 1 when all were run, 0 where a guard ended them early. Adds 1 to *overflows where something
 * saturated. `fields` is sm_controller.all, `work` has the size that the generated code gives it; the rows are
 * trusted. */
int sm_rows_run(const sm_row *rows, unsigned count, int32_t *fields, const int32_t *constants, int32_t *work,
                uint32_t *overflows);

#endif
