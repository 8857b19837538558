"""The index of all runs: an SQLite file that is made from the journals (`index`), the rows in it
(`rows`), and the terms of a run that a fork may change (`terms`)."""
