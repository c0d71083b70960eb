"""What a plan takes: seconds and bytes, measured where its stages ran before, else estimated."""
