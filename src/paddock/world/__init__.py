"""The world: stand-ins with a memory that answer in place of the real systems. Nothing in it dials
out, and the same seed and the same requests give the same state."""
