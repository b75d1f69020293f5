"""What the columns of a table mean, by their names and their cells; what may mean two things is refused."""
