"""What happened in a run, as a record that nobody can quietly edit: write, read, verify, export."""
