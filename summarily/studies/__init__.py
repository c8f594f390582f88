"""The papers' experiments at our scale, and other tools that train and measure: for the command line only."""
