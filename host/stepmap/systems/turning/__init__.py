"""Systems that turn freely: bodies in flight and on ball joints."""
