"""What tasks with a training of their own share: the task, its models, selection, and the
outcome.
"""
