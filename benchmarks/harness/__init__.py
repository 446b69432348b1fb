"""What all tables share: parts kept on disk, figures, Markdown tables, where recordings lie."""
