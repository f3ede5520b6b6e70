"""Keys struck out of what leaves a run: in every form that text takes on its way, in files as streams."""
