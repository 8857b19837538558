"""The state that outlives a call: the home of a user and everything in it. Nothing here knows the
fence.
"""
