"""What is made to go wrong in a run: the file, the moment, the faulty port. Judging the reaction belongs to runs."""
