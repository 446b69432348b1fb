"""Does sfumato see everybody? Finished releases against people labelled by eye."""
