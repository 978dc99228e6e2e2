"""The site's addresses: those of its pages."""

from django.urls import include, path

urlpatterns = [path("", include("wagtail.urls"))]
