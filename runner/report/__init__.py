"""Renderers alone: a report, a comparison, findings or a history as table, Markdown, HTML, JUnit, CSV, annotations."""
