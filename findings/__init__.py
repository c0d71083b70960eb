"""What the papers claim, asked again on real text with a small encoder.

``python -m findings --data DATA --encoder ENCODER --storage STORAGE --run`` runs the grids of this
folder and writes docs/explanation/findings.md from the stored results. Without ``--run`` it only
writes the page.
"""
