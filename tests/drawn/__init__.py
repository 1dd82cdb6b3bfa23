"""What the language and the passes can express, against what the strategies draw: `make drawn`."""
