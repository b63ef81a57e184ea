"""A run for people: summary, sentences, plots, the HTML page, published figures. Reads runs and changes none."""
