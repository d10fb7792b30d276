"""Reports: their contents as values, as Markdown and as web pages. The layout shared by all pages is in `pages`."""
