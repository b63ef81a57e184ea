"""Mutation tests: small faults are put into the code one by one, and the tests should notice each."""
