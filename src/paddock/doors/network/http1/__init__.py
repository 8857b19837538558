"""HTTP/1 on both sides of the door.

`messages` reads, checks and writes heads, `bodies` frames bodies. `server` reads the requests of a
client and makes each an `exchange`; `client` sends requests to a server. Nothing is relayed as it
came: each message is parsed and written anew.
"""
