"""What is read before anything is made, so that bad input is refused at once."""
