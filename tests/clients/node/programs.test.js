// Procedures, several results and LOAD DATA LOCAL with mysql2, as its own tests use them.
const test = require("node:test");
const assert = require("node:assert");
const { Readable } = require("node:stream");
const mysql = require("mysql2/promise");

const host = process.env.CLIENTS_MYSQL_HOST;
const port = Number(process.env.CLIENTS_MYSQL_PORT);
const database = "steps_node_programs";

async function connect(options) {
  const root = await mysql.createConnection({ host, port, user: "root", multipleStatements: true });
  await root.query(`DROP DATABASE IF EXISTS ${database}; CREATE DATABASE ${database}`);
  await root.end();
  return mysql.createConnection({ host, port, user: "root", database, ...options });
}

const plain = (rows) => rows.map((row) => ({ ...row }));

test("a procedure's results are followed by the state of the call", async () => {
  const c = await connect();
  await c.query(
    "CREATE PROCEDURE p(IN a INT, OUT b INT) BEGIN SELECT a AS x; SELECT a + 1 AS y, NULL AS z; SET b = a * 2; END",
  );
  const [[first, second, state], fields] = await c.query("CALL p(?, @b)", [20]);
  assert.deepStrictEqual([plain(first), plain(second)], [[{ x: 20 }], [{ y: 21, z: null }]]);
  assert.strictEqual(state.constructor.name, "ResultSetHeader");
  assert.deepStrictEqual(fields.map((set) => set?.map((field) => field.name)), [["x"], ["y", "z"], undefined]);
  assert.deepStrictEqual(plain((await c.query("SELECT @b AS b"))[0]), [{ b: 40 }]);

  // Prepared: results of the binary protocol, by the same statement twice.
  await c.query("CREATE PROCEDURE q(IN a INT) BEGIN SELECT a AS x, 1.5 AS y; SELECT 'last' AS z; END");
  for (const a of [1, 2]) {
    const [[rows, last]] = await c.execute("CALL q(?)", [a]);
    assert.deepStrictEqual([plain(rows), plain(last)], [[{ x: a, y: "1.5" }], [{ z: "last" }]]);
  }
  await c.end();
});

test("an error inside a procedure rejects the call, and the connection lives", async () => {
  const c = await connect();
  await c.query("CREATE PROCEDURE p() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'enough', MYSQL_ERRNO = 5001; END");
  await assert.rejects(c.query("CALL p()"), { errno: 5001, sqlState: "45000", sqlMessage: "enough" });
  await assert.rejects(c.query("CALL missing()"), { errno: 1305 });
  assert.deepStrictEqual(plain((await c.query("SELECT 1 AS x"))[0]), [{ x: 1 }]);
  await c.end();
});

test("rows of several results are read as a stream", async () => {
  const c = await connect({ multipleStatements: true });
  const rows = [];
  await new Promise((resolve, reject) => {
    c.connection
      .query("SELECT 1 AS a UNION ALL SELECT 2; DO 1; SELECT 'x' AS b")
      .on("result", (row) => rows.push(row.a ?? row.b ?? "ok"))
      .on("error", reject)
      .on("end", resolve);
  });
  assert.deepStrictEqual(rows, [1, 2, "ok", "x"]);
  await c.end();
});

test("a stream is loaded", async () => {
  const c = await connect();
  const [[{ allowed }]] = await c.query("SELECT @@global.local_infile AS allowed");
  await c.query("SET GLOBAL local_infile = 1");
  await c.query("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40))");
  const load = (infileStreamFactory) =>
    c.query({ sql: "LOAD DATA LOCAL INFILE 'some name' INTO TABLE t FIELDS TERMINATED BY ',' (id, name)", infileStreamFactory });
  function* pieces() {
    for (let id = 1; id <= 5000; id++) {
      yield Buffer.from(`${id},na`);
      yield Buffer.from(`me ${id}\n`);
    }
  }
  const asked = [];
  const [done] = await load((path) => {
    asked.push(path);
    return Readable.from(pieces());
  });
  assert.deepStrictEqual([asked, done.affectedRows, done.warningStatus], [["some name"], 5000, 0]);
  assert.deepStrictEqual(plain((await c.query("SELECT name FROM t WHERE id = 4999"))[0]), [{ name: "name 4999" }]);

  // Without a stream the client sends no file, whatever the statement names.
  await assert.rejects(c.query("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t"));
  const again = await connect();
  await again.query(`SET GLOBAL local_infile = ${allowed}`);
  await again.end();
  c.destroy();
});
