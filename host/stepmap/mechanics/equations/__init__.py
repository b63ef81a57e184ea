"""Terms of the equation of motion, M q̈ + bias + slope of the potential = forces, evaluated at a pose."""
