"""Run executables on a device with its own memory. `device` is the interface that a driver must implement."""
