"""The simulated robot: mechanism and motors with the errors that the model does not know. No sensor, no board."""
