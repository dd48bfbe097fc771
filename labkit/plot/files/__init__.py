"""Figures as files: a page, a picture, and the browser that draws it."""
