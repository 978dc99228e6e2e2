"""Applications of Python: the installer or the migrations of each create its tables, then the
application itself writes and reads. Runs in an environment of its own (applications.txt)."""

import getpass
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings

import pymysql

import where

STEP_SECONDS = 120
TEMPLATE = "{% load cms_tags sekizai_tags %}{% render_block 'css' %}{% render_block 'js' %}"
MASTER = """
from buildbot.plugins import schedulers, steps, util, worker
c = BuildmasterConfig = {{
    "workers": [worker.Worker("first-worker", "password")],
    "protocols": {{"pb": {{"port": "tcp:0:interface=127.0.0.1"}}}},
    "schedulers": [schedulers.ForceScheduler(name="by-hand", builderNames=["first-builder"])],
    "builders": [
        util.BuilderConfig(
            name="first-builder", workernames=["first-worker"], tags=["tag"], factory=util.BuildFactory([])
        )
    ],
    "db": {{"db_url": {url!r}}},
    "buildbotNetUsageData": None,
}}
"""
KEYSTONE = """
[DEFAULT]
log_file = {folder}/log
[database]
connection = {url}
[fernet_tokens]
key_repository = {folder}/tokens
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credentials
"""


def create_database(name):
    """An empty database; gives its address as SQLAlchemy reads it."""
    with where.mysql() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    host, port = where.mysql_address()
    return f"mysql+pymysql://root@{host}:{port}/{name}"


def rows(database, query):
    with where.mysql(database=database) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def program(name):
    return str(pathlib.Path(sys.executable).parent / name)


def run(name, *arguments, **options):
    """Runs a program of the environment; gives what it printed."""
    command = [program(name), *map(str, arguments)]
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, timeout=STEP_SECONDS, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout[-8000:]}")
    return done.stdout


class Application(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="porpoise-application-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")


class Optuna(Application):
    def test_trials_of_a_study_are_stored(self):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        url = create_database("optuna")

        def objective(trial):
            x = trial.suggest_float("x", -5, 5)
            kind = trial.suggest_categorical("kind", ["a", "b"])
            trial.set_user_attr("note", {"x": x})
            for step in range(3):
                trial.report(x * x + step, step)
            if trial.number == 1:
                raise optuna.TrialPruned
            return x * x + (kind == "a")

        sampler = optuna.samplers.RandomSampler(seed=7)
        study = optuna.create_study(storage=url, study_name="first", sampler=sampler)
        study.optimize(objective, n_trials=5)
        with self.assertRaises(optuna.exceptions.DuplicatedStudyError):
            optuna.create_study(storage=url, study_name="first")

        found = optuna.load_study(storage=url, study_name="first")
        self.assertEqual(found.best_value, min(t.value for t in study.trials if t.value is not None))
        self.assertEqual(found.trials[1].state, optuna.trial.TrialState.PRUNED)
        self.assertEqual(sorted(found.trials[4].intermediate_values), [0, 1, 2])
        self.assertEqual(found.trials[4].user_attrs["note"], {"x": found.trials[4].params["x"]})
        optuna.delete_study(storage=url, study_name="first")
        self.assertEqual(rows("optuna", "SELECT COUNT(*) FROM trials"), [(0,)])


class Buildbot(Application):
    def test_a_master_creates_its_tables_and_stores_its_configuration(self):
        url = create_database("buildbot")
        run("buildbot", "create-master", f"--db={url}", self.folder)
        (self.folder / "master.cfg").write_text(MASTER.format(url=url))
        self.assertIn("upgrade complete", run("buildbot", "upgrade-master", self.folder))
        master = subprocess.Popen(
            [program("buildbot"), "start", "--nodaemon", str(self.folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            active = (
                "SELECT b.name, m.active FROM builders b JOIN builder_masters bm ON bm.builderid = b.id"
                " JOIN masters m ON m.id = bm.masterid"
            )
            deadline = time.monotonic() + STEP_SECONDS
            while rows("buildbot", active) != [("first-builder", 1)]:
                self.assertIsNone(master.poll(), "the master ended")
                self.assertLess(time.monotonic(), deadline, "the master did not store its builders")
                time.sleep(0.1)
            self.assertEqual(rows("buildbot", "SELECT name FROM workers"), [("first-worker",)])
        finally:
            master.terminate()
            master.wait(STEP_SECONDS)
        self.assertEqual(rows("buildbot", "SELECT active FROM masters"), [(0,)])


class Keystone(Application):
    def test_migrations_run_and_users_log_in(self):
        settings = self.folder / "keystone.conf"
        settings.write_text(KEYSTONE.format(folder=self.folder, url=create_database("keystone")))
        user = ("--keystone-user", getpass.getuser(), "--keystone-group", str(os.getgid()))
        for step in (
            ["db_sync"],
            ["fernet_setup", *user],
            ["credential_setup", *user],
            ["bootstrap", "--bootstrap-password", "first password"],
            ["db_sync", "--check"],
        ):
            run("keystone-manage", "--config-file", settings, *step)

        from keystone.server import wsgi
        from werkzeug.test import Client

        os.environ["OS_KEYSTONE_CONFIG_FILES"] = str(settings)
        # It reads the command line, which is the test's own.
        with unittest.mock.patch.object(sys, "argv", sys.argv[:1]):
            client = Client(wsgi.initialize_public_application())

        def token(name, password):
            account = {"name": name, "password": password, "domain": {"id": "default"}}
            identity = {"methods": ["password"], "password": {"user": account}}
            scope = {"project": {"name": "admin", "domain": {"id": "default"}}} if name == "admin" else "unscoped"
            return client.post("/v3/auth/tokens", json={"auth": {"identity": identity, "scope": scope}})

        logged_in = token("admin", "first password")
        self.assertEqual(logged_in.status_code, 201, logged_in.text)
        headers = {"X-Auth-Token": logged_in.headers["X-Subject-Token"]}
        zoe = {"user": {"name": "Zoë", "password": "another password"}}
        created = client.post("/v3/users", json=zoe, headers=headers)
        self.assertEqual(created.status_code, 201, created.text)
        self.assertEqual(client.post("/v3/users", json=zoe, headers=headers).status_code, 409)
        found = client.get("/v3/users?name=Zo%C3%AB", headers=headers).json["users"]
        self.assertEqual([one["id"] for one in found], [created.json["user"]["id"]])
        self.assertEqual(token("Zoë", "another password").status_code, 201)
        self.assertEqual(token("Zoë", "wrong").status_code, 401)


class MLflow(Application):
    def test_migrations_run_and_runs_are_tracked_and_found(self):
        import mlflow
        from mlflow.entities import Metric, Param, RunTag, ViewType

        logging.getLogger("mlflow").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        url = create_database("mlflow")
        client = mlflow.MlflowClient(tracking_uri=url, registry_uri=url)
        experiment = client.create_experiment("Prüfung", self.folder.as_uri(), tags={"team": "a"})
        with self.assertRaises(mlflow.MlflowException):
            client.create_experiment("Prüfung")
        self.assertEqual([e.name for e in client.search_experiments(filter_string="tags.team = 'a'")], ["Prüfung"])

        runs = [client.create_run(experiment, run_name=f"run {n}").info.run_id for n in range(4)]
        for n, run in enumerate(runs):
            metrics = [Metric("loss", (n + 1) / (step + 1), 1000 * step, step) for step in range(20)]
            client.log_batch(run, metrics, [Param("rate", str(n / 10)), Param("kind", "ab"[n % 2])], [RunTag("n", str(n))])
            client.set_terminated(run, "FINISHED" if n else "FAILED")
        with self.assertRaises(mlflow.MlflowException):
            client.log_param(runs[0], "rate", "another")
        self.assertEqual([m.step for m in client.get_metric_history(runs[3], "loss")], list(range(20)))

        def search(filter_string, order="metrics.loss DESC", **options):
            found = client.search_runs([experiment], filter_string, order_by=[order], **options)
            return [runs.index(run.info.run_id) for run in found]

        self.assertEqual(search("metrics.loss > 0.06 AND params.kind = 'b'"), [3, 1])
        self.assertEqual(search("attributes.status = 'FINISHED' AND tags.n != '2'", "tags.n ASC"), [1, 3])
        self.assertEqual(search("params.rate LIKE '0.%'", "params.rate ASC", max_results=2), [0, 1])
        client.delete_run(runs[3])
        self.assertEqual(search("", run_view_type=ViewType.ACTIVE_ONLY), [2, 1, 0])
        client.restore_run(runs[3])
        self.assertEqual(search(""), [3, 2, 1, 0])
        self.use_registry(client, runs[0])

        # A trigger of the migrations refuses to rename a secret.
        columns = "secret_id, secret_name, encrypted_value, wrapped_dek, kek_version, masked_value, created_at, last_updated_at"
        with where.mysql(database="mlflow", autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO secrets ({columns}) VALUES ('1', 'a', 'x', 'y', 1, '{{}}', 1, 1)")
            cursor.execute("UPDATE secrets SET last_updated_at = 2")
            with self.assertRaisesRegex(pymysql.MySQLError, "immutable"):
                cursor.execute("UPDATE secrets SET secret_name = 'b'")

    def use_registry(self, client, run):
        client.create_registered_model("model", description="first")
        versions = [client.create_model_version("model", self.folder.as_uri(), run).version for _ in range(3)]
        self.assertEqual([int(version) for version in versions], [1, 2, 3])
        client.set_registered_model_alias("model", "best", versions[1])
        self.assertEqual(client.get_model_version_by_alias("model", "best").run_id, run)
        client.rename_registered_model("model", "renamed")
        found = client.search_model_versions("name = 'renamed'", order_by=["version_number DESC"])
        self.assertEqual([int(version.version) for version in found], [3, 2, 1])
        client.delete_registered_model("renamed")
        self.assertEqual(rows("mlflow", "SELECT COUNT(*) FROM model_versions"), [(0,)])


class DjangoCms(Application):
    def test_migrations_run_and_pages_form_a_tree(self):
        import django
        from django.conf import settings

        create_database("cms")
        host, port = where.mysql_address()
        database = {"ENGINE": "django.db.backends.mysql", "NAME": "cms", "USER": "root", "HOST": host, "PORT": port}
        contrib = ("admin", "auth", "contenttypes", "sessions", "sites", "messages")
        context = ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth"]
        context += ["django.contrib.messages.context_processors.messages"]
        context += ["sekizai.context_processors.sekizai", "cms.context_processors.cms_settings"]
        loaders = [("django.template.loaders.locmem.Loader", {"page.html": TEMPLATE})]
        loaders += ["django.template.loaders.app_directories.Loader"]
        backend = "django.template.backends.django.DjangoTemplates"
        # Django asks for mysqlclient, which PyMySQL can stand for.
        pymysql.version_info = (2, 2, 8, "final", 0)
        pymysql.install_as_MySQLdb()
        settings.configure(
            SECRET_KEY="secret",
            SITE_ID=1,
            USE_TZ=True,
            LANGUAGE_CODE="en",
            LANGUAGES=[("en", "English")],
            CMS_CONFIRM_VERSION4=True,
            CMS_TEMPLATES=[("page.html", "Page")],
            X_FRAME_OPTIONS="SAMEORIGIN",
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            INSTALLED_APPS=[*(f"django.contrib.{name}" for name in contrib), "cms", "menus", "treebeard", "sekizai"],
            TEMPLATES=[{"BACKEND": backend, "OPTIONS": {"context_processors": context, "loaders": loaders}}],
            DATABASES={"default": database},
        )
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0, skip_checks=True)
        self.use_pages()

    def use_pages(self):
        from cms.api import create_page
        from cms.models import Page, PageContent
        from django.contrib.auth import get_user_model
        from django.db import connection, transaction

        self.addCleanup(connection.close)
        user = get_user_model().objects.create_superuser("admin", "admin@example.com", "password")
        home = create_page("Home", "page.html", "en", created_by=user)
        first = create_page("First", "page.html", "en", created_by=user, parent=home)
        second = create_page("Second", "page.html", "en", created_by=user, parent=home)
        with transaction.atomic():
            second.move_page(first)
        found = Page.objects.get(pk=second.pk)
        self.assertEqual(found.get_path("en"), "home/first/second")
        self.assertEqual([page.pk for page in found.get_ancestor_pages()], [home.pk, first.pk])
        titles = PageContent.admin_manager.filter(page__in=home.get_descendant_pages()).order_by("title")
        self.assertEqual([content.title for content in titles], ["First", "Second"])
        Page.objects.get(pk=first.pk).delete()
        self.assertEqual(rows("cms", "SELECT COUNT(*) FROM cms_page"), [(1,)])


if __name__ == "__main__":
    unittest.main()
