"""Records of many runs -> figures: medians and ranges, comparisons, gates, baselines, the history.

Pure but for files that it reads and the history that it writes. Imports `records` and `evidence`; renderers stand in
`report`.
"""
