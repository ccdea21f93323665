"""VALUE: the bodies of every API as types, for whoever describes or checks them.

What is read is decided by the readers, who take more than one form of most things and say what is
wrong with others; these types say what is meant. Tests hold them to the readers' own lists of
fields, and every reply and streamed event to these types, which have no field too many.
"""
