"""What to run (`grid`), where and how to run it (`run`), and the shapes that plug-ins' options
share (`params`, `sources`).
"""
