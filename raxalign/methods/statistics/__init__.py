"""Sums over pairs and text that closed forms need, anchors, and Procrustes."""
