"""Containers of ours through the engine:
images, volumes, streams, the guest's channel and its typed client, the reaper.
"""
