"""VALUE: the names of everything that is logged and measured."""
