"""What everything else may use; it imports nothing of ours."""
