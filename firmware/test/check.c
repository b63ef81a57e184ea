#include "check.h"

#include <string.h>

#include "port.h"

static int failures;
static const char *failed_file;
static const char *failed_text;
static int failed_line;

static void say(const char *text) {
  for (size_t left = strlen(text); left > 0U;) {
    const size_t sent = port_send((const uint8_t *)text, left);
    text += sent;
    left -= sent;
  }
}

static void say_number(int number) {
  char digits[12];
  char *at = digits + sizeof digits - 1;
  *at = '\0';
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  say(at);
}

void check_that(bool condition, const char *file, int line, const char *text) {
  if (!condition && !failed_file) {
    failed_file = file;
    failed_line = line;
    failed_text = text;
  }
}

void check_run(const char *name, void (*function)(void)) {
  failed_file = NULL;
  function();
  say(failed_file ? "not ok " : "ok ");
  say(name);
  if (failed_file) {
    failures += 1;
    say(": ");
    say(failed_file);
    say(":");
    say_number(failed_line);
    say(": ");
    say(failed_text);
  }
  say("\n");
}

int check_done(void) {
  say("done\n");
  return failures;
}
