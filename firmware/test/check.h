/* Checks for tests in C. A test is a program with its own main:
 *
 *   int main(void) {
 *     port_init();
 *     CHECK_RUN(test_something);
 *     return check_done();
 *   }
 *
 * It reports over the serial port, so it runs on every board: "ok NAME" or "not ok NAME: FILE:LINE: WHAT" for each
 * function, then "done". */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>

#define CHECK(condition) check_that((condition), __FILE__, __LINE__, #condition)
#define CHECK_RUN(function) check_run(#function, (function))

/* Notes the first failure of a function; the function goes on. */
void check_that(bool condition, const char *file, int line, const char *text);

void check_run(const char *name, void (*function)(void));

/* Says that this was all; returns how many functions failed. */
int check_done(void);

#endif
