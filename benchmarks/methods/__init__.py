"""What every release method costs."""
