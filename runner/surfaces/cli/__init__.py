"""An agent driven by its plain command line: the driver, and the parsers of what such programs print."""
