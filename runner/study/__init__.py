"""The published study, claim by claim, measured on a sweep's runs; `rules` holds one module a group of claims."""
