"""The report: a plan and its search as text, as JSON and as HTML, from records alone."""
