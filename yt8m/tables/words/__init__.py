"""What words say: names of columns, cells that say yes, no or nothing, and times."""
