"""Tasks that several tables train and test on."""
