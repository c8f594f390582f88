"""LED and RED on long papers."""
