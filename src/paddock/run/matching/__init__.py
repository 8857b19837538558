"""Whether what a replayed agent proposes is what the record has. Pure: no I/O, clock or wait."""
