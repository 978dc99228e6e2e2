"""The site's migrations."""
