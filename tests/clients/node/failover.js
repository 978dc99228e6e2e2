// Writes rows through a pool cluster of mysql2 to whichever of two servers takes writes, until standard input ends.
const mysql = require("mysql2/promise");

const PATIENCE = 3000;
const cluster = mysql.createPoolCluster({ removeNodeErrorCount: Infinity, restoreNodeTimeout: 500, defaultSelector: "RR", canRetry: true });
process.env.FAILOVER_MYSQL.split(",").forEach((address, at) => {
  const [host, port] = address.split(":");
  cluster.add(`server${at}`, { host, port: Number(port), user: "root", database: "d", connectTimeout: PATIENCE });
});

let ended = false;
process.stdin.on("end", () => (ended = true)).resume();

async function insert(id) {
  const connection = await cluster.getConnection("server*", "RR");
  try {
    await connection.query({ sql: "INSERT INTO node VALUES (?)", timeout: PATIENCE }, [id]);
    connection.release();
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

(async () => {
  for (let id = 0; !ended; id++) {
    try {
      await insert(id);
      console.log(`ack ${id}`);
    } catch (error) {
      console.log(`error ${error.errno ?? ""} ${error.code} ${error.message}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  process.exit(0);
})();
