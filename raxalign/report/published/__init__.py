"""Published tables: the cells of the grid that measure them, and the tables made of both."""
