"""VALUE: the files of the web pages, served as they lie here; there is no build step."""
