"""Text and files from outside:
read within bounds (`files`), written by one rule (`encoding`), made visible (`visible`).
"""
