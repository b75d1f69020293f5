"""How labels are written in the cells of a column: names, lists, texts with a separator, vectors of 0 and 1."""
