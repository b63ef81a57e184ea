"""What a controller computes, as data: the program, number formats, and the machines that run it exactly. No C."""
