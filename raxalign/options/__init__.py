"""What a plug-in needs to declare options, below all plug-ins."""
