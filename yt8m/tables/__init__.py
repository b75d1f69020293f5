"""Tables that people wrote: any file of rows, what its columns mean, and how its labels are written.

`open_source` reads a file into rows; `understand` finds what they mean, and says it; `open_columns` reads the columns
of a small table, such as one of decisions, by their names. No part of it needs TensorFlow.
"""
