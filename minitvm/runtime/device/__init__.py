"""Running executables on a device with memory of its own, whatever drives it: `device` is what a driver provides."""
