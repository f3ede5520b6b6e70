"""One run's logs -> metrics and findings about it.

Pure: it reads frames, the model's journal and the record's facts.
"""
