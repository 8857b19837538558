"""The pen: how a stand-in that is a process is kept. It has no network but loopback, sees little of
the host's files and writes only its own."""
