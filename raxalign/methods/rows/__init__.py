"""What training reads, as flat rows: sentences, linked words, masks, packed rows, and one forward
over them.
"""
