"""What the person and the room say about the action."""
