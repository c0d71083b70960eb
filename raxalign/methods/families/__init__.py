"""What methods of a family share: trained ones, contrasts, masked language models, maps of words,
text.
"""
