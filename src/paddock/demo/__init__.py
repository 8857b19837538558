"""The demo: an agent with its project (`files/`), the story it is put through, and what of it is
told. It is played with what every user has, and prints nothing itself."""
