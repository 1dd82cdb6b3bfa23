"""Pictures of a timeline: a page for a browser, and a trace for Perfetto."""
