"""A site of Wagtail with one type of page, for test_wagtail.py."""
