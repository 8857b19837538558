"""Runs side by side: which steps belong together, where they part, and how they ended."""
