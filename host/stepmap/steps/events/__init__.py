"""The step with events: strings that go slack, contacts, impacts."""
