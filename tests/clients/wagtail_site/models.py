"""The site's type of page: a title, and a text that can be searched."""

from wagtail.fields import RichTextField
from wagtail.models import Page
from wagtail.search import index


class Article(Page):
    body = RichTextField(blank=True)

    search_fields = [*Page.search_fields, index.SearchField("body")]
