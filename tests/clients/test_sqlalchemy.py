"""SQLAlchemy's ORM and its reflection: what an ordinary application does with them."""

import datetime
import decimal
import enum
import unittest

import sqlalchemy as sa
from sqlalchemy import orm

import where


class Kind(enum.Enum):
    guest = 1
    member = 2


class Base(orm.DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50), unique=True)
    born: orm.Mapped[datetime.datetime | None]
    money: orm.Mapped[decimal.Decimal | None] = orm.mapped_column(sa.Numeric(10, 2))
    kind: orm.Mapped[Kind | None]
    data: orm.Mapped[dict | None] = orm.mapped_column(sa.JSON)
    bio: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    blob: orm.Mapped[bytes | None] = orm.mapped_column(sa.LargeBinary)
    ok: orm.Mapped[bool] = orm.mapped_column(default=True)
    posts: orm.Mapped[list["Post"]] = orm.relationship(back_populates="user", cascade="all, delete-orphan")


class Post(Base):
    __tablename__ = "posts"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    user_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"), index=True)
    title: orm.Mapped[str] = orm.mapped_column(sa.String(100), index=True)
    user: orm.Mapped[User] = orm.relationship(back_populates="posts")


def user(number):
    return User(
        name=f"u{number}",
        born=datetime.datetime(2020, 1, 1 + number),
        money=decimal.Decimal("1.50") * number,
        kind=Kind.guest,
        data={"x": number, "list": [1, 2]},
        blob=b"\0\xff",
        posts=[Post(title=f"t{i}") for i in range(3)],
    )


class Orm(unittest.TestCase):
    def setUp(self):
        with where.mysql() as connection, connection.cursor() as cursor:
            cursor.execute("DROP DATABASE IF EXISTS orm_py")
            cursor.execute("CREATE DATABASE orm_py")
        host, port = where.mysql_address()
        self.engine = sa.create_engine(f"mysql+pymysql://root@{host}:{port}/orm_py?charset=utf8mb4")
        self.addCleanup(self.engine.dispose)
        Base.metadata.create_all(self.engine)
        self.session = orm.Session(self.engine)
        self.addCleanup(self.session.close)
        self.session.add_all([user(n) for n in range(5)])
        self.session.commit()

    def test_values_come_back(self):
        found = self.session.scalars(sa.select(User).where(User.name == "u3")).one()
        self.assertEqual(found.money, decimal.Decimal("4.50"))
        self.assertEqual(found.data, {"x": 3, "list": [1, 2]})
        self.assertEqual(found.blob, b"\0\xff")
        self.assertIs(found.kind, Kind.guest)
        self.assertIs(found.ok, True)
        self.assertEqual(found.born, datetime.datetime(2020, 1, 4))

    def test_relations_are_loaded_and_cascade(self):
        together = sa.select(User).options(orm.joinedload(User.posts)).order_by(User.id).limit(2)
        users = self.session.scalars(together).unique().all()
        self.assertEqual([len(u.posts) for u in users], [3, 3])
        self.session.delete(users[0])
        self.session.commit()
        self.assertEqual(self.session.scalar(sa.select(sa.func.count()).select_from(Post)), 12)

    def test_queries(self):
        count = sa.func.count(Post.id)
        grouped = sa.select(User.name, count).join(Post).group_by(User.name).having(count > 2)
        self.assertEqual(len(self.session.execute(grouped).all()), 5)
        in_json = sa.select(User.name).where(User.data["x"].as_integer() == 2)
        self.assertEqual(self.session.scalars(in_json).all(), ["u2"])
        exists = sa.select(User).where(User.posts.any(Post.title == "t1"))
        self.assertEqual(len(self.session.scalars(exists).all()), 5)
        last = sa.select(sa.func.max(Post.id)).where(Post.user_id == User.id).scalar_subquery()
        rows = self.session.execute(sa.select(User.id, last).order_by(User.id)).all()
        self.assertEqual([row[1] for row in rows], [3, 6, 9, 12, 15])

    def test_changes_by_statement(self):
        self.session.execute(sa.update(User).where(User.id > 2).values(money=User.money + 1))
        self.session.execute(sa.delete(Post).where(Post.title.like("t2%")))
        self.session.commit()
        self.assertEqual(self.session.scalar(sa.select(sa.func.sum(User.money))), decimal.Decimal("18.00"))
        self.assertEqual(self.session.scalar(sa.select(sa.func.count(Post.id))), 10)

    def test_a_duplicate_is_an_integrity_error(self):
        self.session.add(User(name="u0"))
        with self.assertRaises(sa.exc.IntegrityError):
            self.session.commit()
        self.session.rollback()
        with self.session.begin_nested():
            self.session.add(User(name="nested"))
        self.session.commit()
        self.assertEqual(self.session.scalar(sa.select(sa.func.count(User.id))), 6)

    def test_reflection(self):
        inspector = sa.inspect(self.engine)
        self.assertEqual(sorted(inspector.get_table_names()), ["posts", "users"])
        (key,) = inspector.get_foreign_keys("posts")
        self.assertEqual(
            (key["constrained_columns"], key["referred_table"], key["options"]),
            (["user_id"], "users", {"ondelete": "CASCADE"}),
        )
        self.assertEqual(inspector.get_pk_constraint("users")["constrained_columns"], ["id"])
        names = [index["name"] for index in inspector.get_indexes("posts")]
        self.assertEqual(sorted(names), ["ix_posts_title", "ix_posts_user_id"])
        metadata = sa.MetaData()
        metadata.reflect(self.engine)
        self.assertEqual(len(metadata.tables["users"].columns), 9)


if __name__ == "__main__":
    unittest.main()
