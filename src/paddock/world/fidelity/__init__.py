"""How close a stand-in is to what it stands in for: recorded traffic, asked of the stand-in again,
and the answers compared. Nothing here reaches a real host."""
