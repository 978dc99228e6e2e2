"""Wagtail: its migrations create FULLTEXT indexes, and its search uses them. Runs in the environment of
the applications, apart from test_applications.py, for Django can be configured once in a process."""

import unittest
import warnings

import pymysql

import where

DATABASE = "wagtail"
WAGTAIL = ("", ".contrib.forms", ".contrib.redirects", ".embeds", ".sites", ".users", ".snippets", ".documents")
WAGTAIL += (".images", ".search", ".admin")
CONTRIB = ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")
WORDS = {
    "Dolphins": "<p>Dolphins and porpoises are toothed whales of the sea.</p>",
    "Lighthouse keepers": "<p>A keeper lights the lamp; the sea is dark, the harbour far.</p>",
    "Zoë's harbour": "<p>Ships rest in the harbour, and the porpoises swim around them.</p>",
    "Mountains": "<p>Granite, snow and thin air.</p>",
}


def configure():
    """Django with Wagtail's applications on an empty database."""
    import django
    from django.conf import settings

    with where.mysql() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    host, port = where.mysql_address()
    # Django asks for mysqlclient, which PyMySQL can stand for.
    pymysql.version_info = (2, 2, 8, "final", 0)
    pymysql.install_as_MySQLdb()
    database = {"ENGINE": "django.db.backends.mysql", "NAME": DATABASE, "USER": "root", "HOST": host, "PORT": port}
    context = ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth"]
    context += ["django.contrib.messages.context_processors.messages"]
    backend = "django.template.backends.django.DjangoTemplates"
    settings.configure(
        SECRET_KEY="secret",
        USE_TZ=True,
        ROOT_URLCONF="wagtail_site.urls",
        STATIC_URL="/static/",
        WAGTAIL_SITE_NAME="first",
        WAGTAILADMIN_BASE_URL="http://localhost",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        WAGTAILSEARCH_BACKENDS={"default": {"BACKEND": "wagtail.search.backends.database"}},
        INSTALLED_APPS=[
            "wagtail_site",
            *(f"wagtail{name}" for name in WAGTAIL),
            "modelcluster",
            "taggit",
            "treebeard",
            *(f"django.contrib.{name}" for name in CONTRIB),
        ],
        TEMPLATES=[{"BACKEND": backend, "APP_DIRS": True, "OPTIONS": {"context_processors": context}}],
        DATABASES={"default": database},
    )
    django.setup()


class Wagtail(unittest.TestCase):
    def test_migrations_run_and_pages_are_found_by_their_words(self):
        warnings.simplefilter("ignore")
        configure()
        from django.core.management import call_command
        from django.db import connection

        self.addCleanup(connection.close)
        call_command("migrate", verbosity=0, skip_checks=True)
        self.write_pages()
        self.search_pages()
        self.revise_a_page()
        call_command("rebuild_references_index", verbosity=0)
        call_command("update_index", verbosity=0)
        self.assertEqual(self.found("harbour"), ["Lighthouse keepers", "Zoë's harbour"])

    def found(self, words, **options):
        from wagtail_site.models import Article

        return sorted(page.title for page in Article.objects.search(words, **options))

    def write_pages(self):
        from wagtail.models import Page
        from wagtail_site.models import Article

        home = Page.objects.get(depth=2)
        for title, body in WORDS.items():
            home.add_child(instance=Article(title=title, body=body))
        self.assertEqual(Page.objects.child_of(home).type(Article).count(), len(WORDS))

    def search_pages(self):
        from wagtail.models import Page
        from wagtail.search.query import Phrase, PlainText
        from wagtail_site.models import Article

        self.assertEqual(self.found("porpoises"), ["Dolphins", "Zoë's harbour"])
        self.assertEqual(self.found("porpoises harbour"), ["Zoë's harbour"])
        self.assertEqual(self.found("granite dolphins", operator="or"), ["Dolphins", "Mountains"])
        self.assertEqual(self.found(Phrase("toothed whales")), ["Dolphins"])
        self.assertEqual(self.found(Phrase("whales toothed")), [])
        self.assertEqual(self.found(PlainText("porpoises") & ~PlainText("dolphins")), ["Zoë's harbour"])
        self.assertEqual(self.found("nowhere"), [])
        # Words of a title weigh more than those of a text.
        first = Article.objects.search("harbour")[0]
        self.assertEqual(first.title, "Zoë's harbour")
        filtered = Page.objects.filter(title__startswith="Z").search("harbour")
        self.assertEqual([page.title for page in filtered], ["Zoë's harbour"])
        self.assertEqual([page.title for page in Page.objects.autocomplete("light")], ["Lighthouse keepers"])

    def revise_a_page(self):
        from wagtail_site.models import Article

        page = Article.objects.get(title="Mountains")
        page.body = "<p>Valleys, and a harbour in the fjord.</p>"
        page.save_revision().publish()
        self.assertEqual(self.found("granite"), [])
        self.assertEqual(self.found("fjord"), ["Mountains"])
        page.get_parent().get_first_child().move(page, pos="last-child")
        page.refresh_from_db()
        self.assertEqual([child.title for child in page.get_children()], ["Dolphins"])
        page.delete()
        self.assertEqual(self.found("fjord whales", operator="or"), [])
        home = Article.objects.get(title="Lighthouse keepers").get_parent().specific
        home.add_child(instance=Article(title="Mountains", body=WORDS["Mountains"]))
        self.assertEqual(self.found("granite"), ["Mountains"])


if __name__ == "__main__":
    unittest.main()
