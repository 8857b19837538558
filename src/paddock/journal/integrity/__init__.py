"""Evidence that a journal is what was written: the Merkle tree over its records (`merkle`), the
signed heads of it (`heads`, `keys`, `head_timer`), the signed number of records of each step
(`step_counts`), the check of a whole journal (`verify`, `findings`) and the proof of one step
(`proof`)."""
