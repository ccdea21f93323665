"""VALUE: the libraries that are hosted: what each is, and its adapter in the child."""
