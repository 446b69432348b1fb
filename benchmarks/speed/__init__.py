"""What a private step costs, beside plain SGD and Opacus."""
