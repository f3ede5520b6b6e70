"""Package registries and pins: what they say of an adapter's packages, and how a new version is pinned."""
