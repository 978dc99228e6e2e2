// First steps with mysql2 and Sequelize: typed rows, prepared statements, errors, an ORM's life.
const test = require("node:test");
const assert = require("node:assert");
const mysql = require("mysql2/promise");
const { DataTypes, Op, Sequelize } = require("sequelize");

const host = process.env.CLIENTS_MYSQL_HOST;
const port = Number(process.env.CLIENTS_MYSQL_PORT);

async function database(name) {
  const root = await mysql.createConnection({ host, port, user: "root", multipleStatements: true });
  await root.query(`DROP DATABASE IF EXISTS ${name}; CREATE DATABASE ${name}`);
  await root.end();
}

test("mysql2", async () => {
  await database("steps_node");
  const c = await mysql.createConnection({ host, port, user: "root", database: "steps_node", multipleStatements: true });
  await c.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, d DECIMAL(10,2), t DATETIME(3), j JSON, b BIGINT, bl BLOB, y YEAR)");
  const at = new Date(Date.UTC(2020, 0, 2, 3, 4, 5, 678));
  const values = ["1.50", at, JSON.stringify({ q: [1] }), Number.MAX_SAFE_INTEGER, Buffer.from([0, 255]), 2020];
  const [done] = await c.execute("INSERT INTO t (d, t, j, b, bl, y) VALUES (?, ?, ?, ?, ?, ?)", values);
  assert.deepStrictEqual([done.insertId, done.affectedRows], [1, 1]);
  const expected = { id: 1, d: "1.50", t: at, j: { q: [1] }, b: Number.MAX_SAFE_INTEGER, bl: Buffer.from([0, 255]), y: 2020 };
  for (const how of ["query", "execute"]) {
    const [[row]] = await c[how]("SELECT * FROM t WHERE id = ?", [1]);
    assert.deepStrictEqual({ ...row }, expected);
  }
  const [sets] = await c.query("SELECT 1 a; SELECT 2 b");
  assert.deepStrictEqual(sets.map(([row]) => ({ ...row })), [{ a: 1 }, { b: 2 }]);
  await c.beginTransaction();
  await c.query("DELETE FROM t");
  await c.rollback();
  await c.changeUser({ user: "root", database: "steps_node" });
  await assert.rejects(c.query("SELECT * FROM nothing"), { errno: 1146, sqlState: "42S02" });
  await c.end();
});

test("sequelize", async () => {
  await database("orm_node");
  const s = new Sequelize("orm_node", "root", "", { host, port, dialect: "mysql", logging: false });
  const User = s.define("User", {
    name: { type: DataTypes.STRING, unique: true },
    data: DataTypes.JSON,
    money: DataTypes.DECIMAL(10, 2),
    kind: DataTypes.ENUM("a", "b"),
  });
  const Post = s.define("Post", { title: DataTypes.STRING });
  User.hasMany(Post, { onDelete: "CASCADE" });
  Post.belongsTo(User);
  await s.sync({ force: true });
  await s.sync({ alter: true });
  const made = { name: "n", data: { a: { b: 1 } }, money: "1.5", kind: "a", Posts: [{ title: "t1" }, { title: "t2" }] };
  const user = await User.create(made, { include: Post });
  const [found] = await User.findAll({ include: Post, where: { name: { [Op.like]: "n%" } }, limit: 3 });
  assert.strictEqual(found.Posts.length, 2);
  assert.strictEqual((await User.findAll({ where: { "data.a.b": 1 } })).length, 1);
  await s.transaction(async (t) => {
    await User.upsert({ name: "n", money: "3" }, { transaction: t });
  });
  await found.reload();
  assert.strictEqual(found.money, "3.00");
  const described = await s.getQueryInterface().describeTable("Users");
  assert.strictEqual(described.kind.type, "ENUM('a','b')");
  await user.destroy();
  assert.strictEqual(await Post.count(), 0);
  await s.close();
});
