"""Many cells: what is checked before, resources, order, retries, interrupts, progress; nightly runs and bisecting."""
