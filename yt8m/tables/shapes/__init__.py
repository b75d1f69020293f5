"""Rows of other shapes, such as a column for each video or several spans in a cell, become usual ones."""
