"""From a step map, a filter and gains to a program. Knows expressions, not number formats."""
