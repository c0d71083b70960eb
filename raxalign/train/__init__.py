"""Plain PyTorch training: no Ray, no MLflow."""
