"""The rules of the study: each reads runs and says what became of a claim, with its evidence."""
