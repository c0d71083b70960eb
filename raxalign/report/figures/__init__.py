"""Figures: panels as plain values, and their drawing."""
