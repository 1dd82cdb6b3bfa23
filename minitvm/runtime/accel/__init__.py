"""The simulated tensor accelerator as a device: programs that the compiler wrote, run by their interpreter."""
