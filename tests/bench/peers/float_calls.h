/* For CasADi's C with casadi_real float, which calls double functions all the same: included before it, they are float. */
#ifndef FLOAT_CALLS_H
#define FLOAT_CALLS_H

#include <math.h>

#define sin sinf
#define cos cosf
#define sqrt sqrtf
#define fabs fabsf
#define fmin fminf
#define fmax fmaxf

#endif
