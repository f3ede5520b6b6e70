"""What a user writes: YAML with file and line for every complaint, catalogues of ids, the plan of a sweep."""
