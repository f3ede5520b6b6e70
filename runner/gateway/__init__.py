"""The model gateway seen from outside its container:
its program, its journal, cassettes, and how it reaches a live model.
"""
