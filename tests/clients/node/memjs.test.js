// First steps with memjs, which speaks the binary protocol.
const test = require("node:test");
const assert = require("node:assert");
const memjs = require("memjs");

const address = `${process.env.CLIENTS_MEMCACHED_HOST}:${process.env.CLIENTS_MEMCACHED_PORT}`;
const prefix = `memjs-${process.pid}-${Date.now()}-`;

function steps(name, body) {
  test(name, async () => {
    const client = memjs.Client.create(address, { timeout: 30, retries: 1 });
    try {
      await body(client, (key) => `${prefix}${name.replaceAll(" ", "-")}-${key}`);
    } finally {
      client.close();
    }
  });
}

steps("set get delete", async (client, key) => {
  assert.strictEqual((await client.get(key("a"))).value, null);
  assert.strictEqual(await client.set(key("a"), "one", {}), true);
  assert.strictEqual((await client.get(key("a"))).value.toString(), "one");
  assert.strictEqual(await client.delete(key("a")), true);
  assert.strictEqual(await client.delete(key("a")), false);
});

steps("conditions", async (client, key) => {
  assert.strictEqual(await client.replace(key("a"), "x", {}), false);
  assert.strictEqual(await client.add(key("a"), "x", {}), true);
  assert.strictEqual(await client.add(key("a"), "y", {}), false);
  assert.strictEqual(await client.append(key("a"), "y"), true);
  assert.strictEqual((await client.get(key("a"))).value.toString(), "xy");
});

steps("counting", async (client, key) => {
  assert.strictEqual((await client.increment(key("n"), 5, { initial: 10 })).value, 10);
  assert.strictEqual((await client.increment(key("n"), 5, {})).value, 15);
  assert.strictEqual((await client.decrement(key("n"), 20, {})).value, 0);
});

steps("touch and large values", async (client, key) => {
  const value = Buffer.alloc(1_000_000, "v");
  assert.strictEqual(await client.set(key("a"), value, { expires: 100 }), true);
  assert.strictEqual(await client.touch(key("a"), 200), true);
  assert.strictEqual(await client.touch(key("none"), 200), false);
  assert.deepStrictEqual((await client.get(key("a"))).value, value);
});

steps("stats", async (client) => {
  const stats = await new Promise((resolve, reject) => {
    client.stats((error, _server, found) => (error ? reject(error) : resolve(found)));
  });
  assert.ok("curr_connections" in stats);
});
