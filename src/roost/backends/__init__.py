"""VALUE: ways to produce tokens, each in one file behind one contract (`base`)."""
