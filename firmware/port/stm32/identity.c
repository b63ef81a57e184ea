/* The id of the chip: the 96 bits that ST wrote into it, or those of an emulated one. */
#include "registers.h"
#include "stm32.h"

/* An emulator has no such bits, and reading them is a fault there. Whoever starts it writes an id behind the mark, in its
 * copy of the image (stepmap_hil.boards.qemu). Not static, so that the compiler cannot know what is there. */
const struct {
  uint8_t mark[20];
  uint8_t id[PORT_BOARD_ID];
} emulated_chip = {.mark = "stepmap emulated id"};

/* Flash that can be written is a sign of a real chip: no emulator that we know of has it. */
const uint8_t *port_board_id(void) {
  return port_region_lasting() ? (const uint8_t *)CHIP_UNIQUE_ID : emulated_chip.id;
}
