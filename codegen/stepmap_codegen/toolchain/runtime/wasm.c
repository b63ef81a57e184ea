/* One controller of a library for hosts of WebAssembly, which pass plain numbers only: compiled with -DPREFIX=crane,
 * -DUPPER=CRANE and -DHEADER='"crane.h"'. The header says what the functions do. */
#include HEADER

#define JOIN_(prefix, name) prefix##_##name
#define JOIN(prefix, name) JOIN_(prefix, name)
#define LIB(name) JOIN(PREFIX, name)
#define SIZE(name) ((unsigned)JOIN(UPPER, name))
/* A function that a host finds by `name`: `result name(parameters)` */
#define EXPORT(result, name, ...)                                                                                      \
  __attribute__((export_name(#name))) result exported_##name(__VA_ARGS__);                                             \
  result exported_##name(__VA_ARGS__)

typedef LIB(real) real;

static LIB(controller) c;

EXPORT(unsigned, period_us, void) { return SIZE(PERIOD_US); }
EXPORT(unsigned, states, void) { return SIZE(STATES); }
EXPORT(unsigned, measurements, void) { return SIZE(MEASUREMENTS); }
EXPORT(unsigned, commands, void) { return SIZE(COMMANDS); }
EXPORT(int, self_test, void) { return LIB(self_test)(&c); }
EXPORT(int, start, void) { return LIB(start)(&c); }
EXPORT(int, measure, unsigned channel, double value) { return LIB(measure_si)(&c, channel, value); }
EXPORT(int, measure_raw, unsigned channel, real raw) { return LIB(measure)(&c, channel, raw); }
EXPORT(unsigned, update, void) { return LIB(update)(&c); }
EXPORT(void, law, void) { LIB(law)(&c); }
EXPORT(void, hold, void) { LIB(hold)(&c); }
EXPORT(double, command, unsigned index) { return LIB(command_si)(&c, index); }
EXPORT(real, command_raw, unsigned index) { return LIB(command)(&c, index); }
EXPORT(int, applied, unsigned index, double value) { return LIB(applied)(&c, index, LIB(u_raw)(index, value)); }
EXPORT(void, predict, void) { LIB(predict)(&c); }
EXPORT(double, estimate, unsigned index) { return LIB(estimate_si)(&c, index); }
EXPORT(real, estimate_raw, unsigned index) { return LIB(estimate)(&c, index); }
EXPORT(unsigned, row, void) { return LIB(row)(&c); }
EXPORT(unsigned, rows, void) { return LIB(rows)(&c); }
EXPORT(void, set_row, unsigned row) { LIB(set_row)(&c, row); }
EXPORT(unsigned, overflows, void) { return LIB(overflows)(&c); }
EXPORT(unsigned, fields, void) { return sizeof c.controller.all / sizeof(real); }
EXPORT(real, field, unsigned index) { return index < exported_fields() ? c.controller.all[index] : 0; }

#ifdef WITH_SET_POINTS
EXPORT(int, set_point, unsigned index, double value) { return LIB(set_point_si)(&c, index, value); }
#endif
#ifdef WITH_CONTACTS
EXPORT(void, contact, double age) { LIB(contact_si)(&c, age); }
EXPORT(int, is_overdue, void) { return LIB(is_overdue)(&c); }
#endif
