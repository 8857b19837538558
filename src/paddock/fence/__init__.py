"""Where an agent runs: the drivers, and the guest that is pid 1 inside each of them."""
