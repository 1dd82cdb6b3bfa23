"""Pictures of a timeline: a page for a browser, and a trace for Perfetto."""

__all__ = ["chrome_trace", "page", "roofline"]
