"""From expressions to C to a cached shared library; runtime/ is the C it is linked with. Knows no kind of step."""
