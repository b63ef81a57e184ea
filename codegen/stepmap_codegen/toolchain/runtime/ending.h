/* How a program ends: its exit codes, mirrored in run.py. */
#ifndef ENDING_H
#define ENDING_H

enum ending {
  ENDING_WELL = 10, /* not 0, with which QEMU also ends when it is told to quit; its own failures are 1 */
  ENDING_APP,       /* app() returned something other than 0 */
  ENDING_FAULT,     /* the processor trapped */
  ENDING_STACK,     /* the stack left its place */
  ENDING_IO,        /* input or output failed */
  ENDING_COUNT      /* an interval was too long to count */
};

#endif
