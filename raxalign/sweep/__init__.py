"""Running a plan on Ray; the only folder that imports it."""
