/* Around the firmware, for tests/bench/flood.py: a serial line and motors that belong to the emulated time.
 *
 * At the end of every millisecond the line hands over the bytes that 460 800 baud bring in one, through the port's own
 * interrupt, and takes as many. Which ones is in the file flood.in: one record for each millisecond, a length and room
 * for 47 bytes. What the board sends goes to flood.out, transitions of the supervisor and what was longest to
 * flood.log. Reading and writing files takes no emulated time, so a run does not depend on the computer it runs on.
 *
 * The motors turn 60 000 counts/s at full effort; while they are off somebody pushes the robot back to where it was
 * calibrated. */
#include <stdbool.h>

#include "registers.h"

/* The port's own serial.c, but its registers are memory: this file is the line. */
static usart_registers line;
#undef USART1
#define USART1 (&line)
#include "serial.c" /* NOLINT */

#include "sm_loop.h"

#define LINE_BYTES 47U /* in a millisecond, at most */
#define COUNTS_PER_MS 60
#define PUSHED 10      /* counts per millisecond */
#define SEND_LOOPS 12U /* as many instructions as the interrupt that sends a byte, about */

enum { OPEN = 0x01, WRITE = 0x05, READ = 0x06, EXIT = 0x18 };
enum { STATE = 1, LONGEST = 2 };

void __real_tick_handler(void);
void __wrap_tick_handler(void);
void __real_sm_loop_turn(sm_loop *l);
void __wrap_sm_loop_turn(sm_loop *l);
void __real_port_idle(void);
void __wrap_port_idle(void);
sm_state __real_sm_supervisor_handle(sm_supervisor *s, uint32_t now_us, sm_event event);
sm_state __wrap_sm_supervisor_handle(sm_supervisor *s, uint32_t now_us, sm_event event);

static int input = -1;
static int output = -1;
static int events = -1;
static volatile uint32_t milliseconds;
static uint32_t slept;
static uint32_t slept_us; /* while motors are on */
static uint32_t on_us;
static uint32_t on_since_us;
static uint32_t longest_turn;
static uint32_t longest_gap;
static uint32_t driven_at;
static uint32_t transitions;
static bool enabled;
static bool was_driven;
static int32_t efforts[PORT_MOTORS];
static int32_t positions[PORT_ENCODERS]; /* thousandths of a count */

static int ask_host(int operation, const void *arguments) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static int open_file(const char *name, uint32_t length, uint32_t mode) {
  const uint32_t arguments[] = {(uint32_t)(uintptr_t)name, mode, length};
  return ask_host(OPEN, arguments);
}

static void write_file(int file, const void *from, uint32_t size) {
  const uint32_t arguments[] = {(uint32_t)file, (uint32_t)(uintptr_t)from, size};
  (void)ask_host(WRITE, arguments);
}

/* Counts of SysTick since the start. */
static uint32_t counts(void) {
  const uint32_t mask = interrupts_mask();
  uint32_t ms = milliseconds;
  uint32_t left = SYST_CVR;
  if (SCB_ICSR & SCB_ICSR_PENDSTSET) {
    left = SYST_CVR;
    ms += 1U;
  }
  interrupts_restore(mask);
  const uint32_t period = SYST_RVR + 1U;
  return ms * period + (left == 0U ? 0U : period - left);
}

static void log_event(uint32_t kind, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const uint32_t record[6] = {kind, port_micros(), a, b, c, d};
  write_file(events, record, sizeof record);
}

static void end(void) {
  log_event(LONGEST, longest_turn, longest_gap, overruns,
            on_us == 0U ? 0U : (uint32_t)(1000U - 1000ULL * slept_us / on_us));
  const uint32_t arguments = 0x20026U;
  (void)ask_host(EXIT, (const void *)(uintptr_t)arguments);
}

static void bring_bytes(void) {
  static uint8_t slot[1U + LINE_BYTES];
  const uint32_t arguments[] = {(uint32_t)input, (uint32_t)(uintptr_t)slot, sizeof slot};
  if (ask_host(READ, arguments) != 0) {
    end();
  }
  for (unsigned i = 1; i <= slot[0]; i++) {
    line.DR = slot[i];
    line.SR = USART_SR_RXNE;
    serial_handler();
  }
  line.SR = 0;
}

static void take_bytes(void) {
  static uint8_t bytes[LINE_BYTES - 1U];
  const size_t count = ring_take(&sent, bytes, sizeof bytes);
  for (unsigned i = 0; i < count; i++) {
    for (volatile unsigned spent = 0; spent < SEND_LOOPS / 4U; spent++) {
    }
  }
  if (count > 0U) {
    write_file(output, bytes, (uint32_t)count);
  }
}

static void turn(void) {
  for (unsigned i = 0; i < PORT_MOTORS; i++) {
    if (enabled) {
      positions[i] += efforts[i] * COUNTS_PER_MS;
    } else {
      const int32_t step = positions[i] > PUSHED * 1000    ? -PUSHED * 1000
                           : positions[i] < -PUSHED * 1000 ? PUSHED * 1000
                                                           : -positions[i];
      positions[i] += step;
    }
  }
}

void __wrap_tick_handler(void) {
  milliseconds = milliseconds + 1U;
  __real_tick_handler();
  if (input < 0) {
    input = open_file("flood.in", 8, 1);
    output = open_file("flood.out", 9, 5);
    events = open_file("flood.log", 9, 5);
  }
  bring_bytes();
  take_bytes();
  turn();
}

void __wrap_port_idle(void) {
  const uint32_t begin = counts();
  const uint32_t begin_us = port_micros();
  __real_port_idle();
  slept += counts() - begin;
  slept_us += enabled ? port_micros() - begin_us : 0U;
}

void __wrap_sm_loop_turn(sm_loop *l) {
  const uint32_t begin = counts();
  const uint32_t before = slept;
  __real_sm_loop_turn(l);
  const uint32_t took = counts() - begin - (slept - before);
  longest_turn = took > longest_turn ? took : longest_turn;
}

sm_state __wrap_sm_supervisor_handle(sm_supervisor *s, uint32_t now_us, sm_event event) {
  const sm_state state = __real_sm_supervisor_handle(s, now_us, event);
  if (s->transitions != transitions && events >= 0) {
    transitions = s->transitions;
    log_event(STATE, (uint32_t)state, (uint32_t)s->reason, (uint32_t)s->overruns, 0);
  }
  return state;
}

/* In place of motors.c. */
void motors_init(uint32_t timers_hz) { (void)timers_hz; }
void motors_off(void) { enabled = false; }
void encoders_sample(void) {}
uint32_t encoders_lost(void) { return 0; }
int32_t port_encoder(unsigned axis) { return axis < PORT_ENCODERS ? positions[axis] / 1000 : 0; }

void port_enable(bool on) {
  const uint32_t now = port_micros();
  on_us += enabled ? now - on_since_us : 0U;
  on_since_us = now;
  was_driven = was_driven && on;
  enabled = on;
}

void port_drive(unsigned axis, int32_t effort) {
  if (enabled && axis < PORT_MOTORS) {
    efforts[axis] = effort;
  }
  if (enabled && axis == 0U) {
    const uint32_t now = counts();
    longest_gap = was_driven && now - driven_at > longest_gap ? now - driven_at : longest_gap;
    driven_at = now;
    was_driven = true;
  }
}
