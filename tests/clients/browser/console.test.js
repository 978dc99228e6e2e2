// The console in headless Chromium, with load on both protocols: what an operator does and sees.
//
// Any error on the page's own console, any violation of its Content-Security-Policy and any failed request fails
// the test. CONSOLE_SCREENSHOTS names a directory for screenshots in light, dark and narrow.
const test = require("node:test");
const assert = require("node:assert");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { chromium } = require("playwright-core");
const mysql = require("mysql2/promise");

const host = process.env.CLIENTS_MYSQL_HOST;
const port = Number(process.env.CLIENTS_MYSQL_PORT);
const address = `http://${process.env.CLIENTS_HTTP_HOST}:${process.env.CLIENTS_HTTP_PORT}/`;
const screenshots = process.env.CONSOLE_SCREENSHOTS;
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const HOSTILE = "<img src=x onerror=alert(1)>";

let browser;
let root;
const closing = [];

async function connection(options) {
  const opened = await mysql.createConnection({ host, port, user: "root", ...options });
  // Connections that the test kills report it.
  opened.on("error", () => {});
  closing.push(() => opened.destroy());
  return opened;
}

/** Reads and writes on both protocols until the test ends. */
async function startLoad() {
  const c = await connection({ database: "shop" });
  let ended = false;
  closing.push(() => { ended = true; });
  (async () => {
    for (let n = 1; !ended; n += 1) {
      await c.query("SELECT * FROM orders WHERE id = ?", [n % 200]).catch(() => {});
      await c.query("UPDATE orders SET amount = amount + 1 WHERE id = ?", [n % 150 + 1]).catch(() => {});
      await new Promise((done) => setTimeout(done, 2));
    }
  })();
  const cache = net.connect(Number(process.env.CLIENTS_MEMCACHED_PORT), process.env.CLIENTS_MEMCACHED_HOST);
  closing.push(() => cache.destroy());
  cache.on("data", () => setTimeout(() => cache.write("get hot\r\n"), 1));
  cache.on("error", () => {});
  cache.write("set hot 0 0 1\r\nx\r\n");
}

test.before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: OPTIONS });
  root = await connection({ multipleStatements: true });
  await root.query(`DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop;
    CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer VARCHAR(40), amount INT, KEY (customer), KEY (amount));
    INSERT INTO orders (customer, amount) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
      SELECT CONCAT('customer ', i), i FROM n;
    CREATE TABLE \`${HOSTILE}\` (id INT PRIMARY KEY);
    CREATE USER IF NOT EXISTS operator@localhost IDENTIFIED BY 'right'; GRANT ALL ON *.* TO operator@localhost;
    CREATE USER IF NOT EXISTS guest@localhost IDENTIFIED BY 'guest';
    SET GLOBAL statement_sample_values = ON`);
  await root.query(`SELECT customer, '${HOSTILE}' FROM orders WHERE customer = 'customer 7'`);
  await startLoad();
});

test.after(async () => {
  closing.reverse().forEach((close) => close());
  await browser?.close();
});

/** A page that collects what must not happen. */
async function open(t, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  t.after(() => context.close());
  const page = await context.newPage();
  const problems = [];
  const expected = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith(address)) problems.push(`foreign: ${request.url()}`); });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
  });
  await page.goto(address);
  const check = async () => {
    assert.deepStrictEqual(problems.filter((text) => !expected.some((allowed) => text.includes(allowed))), []);
    assert.deepStrictEqual(await page.evaluate(() => window.violations), []);
  };
  return { page, expected, check, context };
}

async function logIn(page, user = "operator", password = "right") {
  await page.getByLabel("User").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

async function show(page, title) {
  await page.getByRole("navigation").getByRole("link", { name: title, exact: true }).click();
  await page.getByRole("heading", { level: 2, name: title }).waitFor();
  await page.locator("#content").getByText("Loading…").waitFor({ state: "detached" });
}

const content = (page) => page.locator("#content");

async function shot(page, name) {
  if (screenshots) await page.screenshot({ path: path.join(screenshots, `${name}.png`), fullPage: true });
}

/** Serious findings of axe-core. The page's policy forbids injected scripts, so that it is evaluated by the driver. */
async function accessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const found = violations.map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html} ${n.failureSummary}`).join(" | ")}`);
  assert.deepStrictEqual(found, []);
}

const TITLES = ["Overview", "Statements", "Processes", "Lock waits", "Hot keys", "Tables", "memcached", "Backups and changes", "Configuration"];

test("a wrong password is refused, the right one is accepted, and logging out ends the login", async (t) => {
  const { page, expected, check, context } = await open(t);
  await page.getByText("Health: ok").waitFor();
  expected.push("403");
  await logIn(page, "operator", "wrong");
  await page.getByRole("alert").getByText("Access denied for user 'operator'@'localhost'").waitFor();
  assert.strictEqual((await context.cookies()).length, 0);
  await accessible(page, "login");
  await shot(page, "login");
  await logIn(page);
  await page.getByText("operator@localhost").waitFor();
  const [cookie] = await context.cookies();
  assert.deepStrictEqual([cookie.httpOnly, cookie.sameSite, cookie.value.length], [true, "Strict", 64]);
  await page.reload();
  await page.getByText("operator@localhost").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("User").waitFor();
  await context.addCookies([cookie]);
  await page.reload();
  await page.getByLabel("User").waitFor();
  await check();
});

test("each part shows what the server does", async (t) => {
  const { page, check } = await open(t);
  await logIn(page);
  await page.getByRole("img", { name: /^SQL statements per second, now: rate [1-9]/ }).waitFor({ timeout: 20000 });
  await page.getByRole("img", { name: /^memcached commands per second, now: rate [1-9]/ }).waitFor({ timeout: 20000 });
  await page.getByRole("img", { name: /^SQL latency, now: p50 [1-9]/ }).waitFor();
  await page.getByRole("img", { name: /^memcached latency, now: p50 [1-9]/ }).waitFor();

  await show(page, "Statements");
  await page.getByLabel("Filter").fill("`amount` + ?");
  const update = content(page).getByRole("row").filter({ hasText: "UPDATE `orders`" });
  await update.first().waitFor();
  await page.getByLabel("Filter").fill("`customer` = ?");
  await content(page).getByRole("row").filter({ hasText: "SELECT `customer`" }).getByRole("button", { name: /Plan/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(HOSTILE).waitFor();
  await dialog.getByText(/Index lookup|using customer/).first().waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByLabel("Filter").fill("");
  await content(page).getByRole("button", { name: "Count", exact: true }).click();
  await content(page).getByRole("columnheader", { name: "Count" }).and(page.locator("[aria-sort=descending]")).waitFor();

  await show(page, "Tables");
  await content(page).getByRole("row").filter({ hasText: HOSTILE }).waitFor();
  const orders = content(page).getByRole("row").filter({ hasText: "orders" });
  assert.match(await orders.innerText(), /shop\s+orders\s+BASE TABLE\s+200/);
  await orders.getByRole("button", { name: "Indexes of shop.orders" }).click();
  await page.getByRole("dialog").getByRole("row").filter({ hasText: "customer" }).waitFor();
  await page.keyboard.press("Escape");

  await show(page, "memcached");
  await content(page).getByRole("row").filter({ hasText: "b:" }).filter({ hasText: "demo_table_large" }).first().waitFor();
  await show(page, "Backups and changes");
  await content(page).getByText("No backup is running.").waitFor();
  await show(page, "Configuration");
  await page.getByLabel("only those that differ").check();
  const sample = content(page).getByRole("row").filter({ hasText: "statement_sample_values" });
  assert.match(await sample.innerText(), /ON\s+DYNAMIC/);
  await show(page, "Hot keys");
  await check();
});

test("a lock wait is drawn, and killing the blocker ends it", async (t) => {
  const { page, check } = await open(t);
  const blocker = await connection({ database: "shop" });
  const waiter = await connection({ database: "shop" });
  await waiter.query("SET innodb_lock_wait_timeout = 60");
  await blocker.query("BEGIN");
  await blocker.query("UPDATE orders SET amount = 0 WHERE id = 180");
  const [[{ id }]] = await blocker.query("SELECT CONNECTION_ID() AS id");
  const [[{ id: waiting }]] = await waiter.query("SELECT CONNECTION_ID() AS id");
  const waited = waiter.query("UPDATE orders SET amount = 1 WHERE id = 180");
  await logIn(page);
  await show(page, "Lock waits");
  await page.getByRole("img", { name: `connection ${waiting} waits for ${id} on orders` }).waitFor({ timeout: 20000 });
  await accessible(page, "Lock waits");
  await shot(page, "light-locks-graph");

  await show(page, "Processes");
  await page.getByRole("button", { name: `Kill connection ${id}`, exact: true }).click();
  await page.getByRole("dialog").getByText(`End connection ${id} of root@localhost?`).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await blocker.query("SELECT 1");
  await page.getByRole("button", { name: `Kill connection ${id}`, exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Kill", exact: true }).click();
  await content(page).getByText(`Ended connection ${id}.`).waitFor();
  await waited;
  await assert.rejects(blocker.query("SELECT 1"));
  await check();
});

/** Builds an index until the build waits for a row that `holder` has locked; resolves to the ALTER TABLE, which goes on. */
async function startHeldBuild(altering, holder) {
  await root.query(`CREATE TABLE shop.big (id INT PRIMARY KEY, v INT);
    INSERT INTO shop.big SELECT a.id * 1000 + b.id, b.amount FROM shop.orders a, shop.orders b`);
  const ended = altering.query("ALTER TABLE shop.big ADD INDEX by_v (v)");
  // While others use the table, the build goes slowly: the last row is locked long before the build is there.
  for (let building = false; !building;) {
    await holder.query("SELECT v FROM shop.big WHERE id = 1001");
    [[building]] = await holder.query("SELECT * FROM performance_schema.events_stages_current WHERE EVENT_NAME = 'stage/sql/altering table'");
  }
  await holder.query("BEGIN");
  await holder.query("SELECT v FROM shop.big WHERE id = (SELECT MAX(id) FROM shop.big) FOR UPDATE");
  return { ended };
}

test("a schema change is shown with the part that is done", async (t) => {
  const { page, check } = await open(t);
  const altering = await connection({ database: "shop" });
  const holder = await connection({ database: "shop" });
  const [[{ id }]] = await altering.query("SELECT CONNECTION_ID() AS id");
  const { ended } = await startHeldBuild(altering, holder);
  await logIn(page);
  await show(page, "Backups and changes");
  const row = content(page).getByRole("row").filter({ hasText: "ALTER TABLE shop.big" });
  await row.getByRole("progressbar", { name: `Statement of connection ${id}` }).waitFor({ timeout: 20000 });
  await row.getByText(/altering table \(by_v\), \d+ of about \d+ rows done \(\d+ %\)/).waitFor();
  assert.match(await row.innerText(), /\s[1-9]\d? %\s/);
  await accessible(page, "Backups and changes");
  await shot(page, "light-schema-change");
  await page.emulateMedia({ colorScheme: "dark" });
  await shot(page, "dark-schema-change");
  await page.setViewportSize({ width: 390, height: 844 });
  await accessible(page, "narrow, Backups and changes");
  await shot(page, "narrow-schema-change");
  await holder.query("COMMIT");
  await ended;
  await row.waitFor({ state: "detached", timeout: 20000 });
  await check();
});

test("an account without privileges sees that it may not", async (t) => {
  const { page, check, expected } = await open(t);
  await logIn(page, "guest", "guest");
  await page.getByText("guest@localhost").waitFor();
  expected.push("403", "422");
  await show(page, "Statements");
  await content(page).getByText("This account may not see this").waitFor();
  await show(page, "Lock waits");
  await content(page).getByText("This account may not see this").first().waitFor();
  await show(page, "Processes");
  const users = await content(page).locator("tbody td:nth-child(2)").allInnerTexts();
  assert.deepStrictEqual([...new Set(users)], ["guest"]);
  await show(page, "Tables");
  await content(page).getByText("There are no tables, or none that this account may see.").waitFor();
  await check();
});

test("the keyboard alone is enough", async (t) => {
  const { page, check } = await open(t);
  await page.getByLabel("User").waitFor();
  await page.keyboard.type("operator");
  await page.keyboard.press("Tab");
  await page.keyboard.type("right");
  await page.keyboard.press("Enter");
  await page.getByText("operator@localhost").waitFor();
  /** Presses Tab until an element with this name has the focus, which must be visible. */
  const reach = async (name) => {
    for (let n = 0; n < 200; n += 1) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const { activeElement: node } = document;
        return { name: node.getAttribute("aria-label") ?? node.textContent.trim(), outline: getComputedStyle(node).outlineStyle };
      });
      if (focus.name === name) {
        assert.notStrictEqual(focus.outline, "none", `${name}: the focus is not visible`);
        return;
      }
    }
    assert.fail(`${name} is not reached by Tab`);
  };
  await reach("Skip to content");
  await reach("Processes");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 2, name: "Processes" }).waitFor();
  const [[{ id }]] = await root.query("SELECT CONNECTION_ID() AS id");
  await reach(`Kill connection ${id}`);
  // The focus survives a refresh of the part.
  await page.waitForTimeout(6000);
  assert.strictEqual(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), `Kill connection ${id}`);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.strictEqual(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), `Kill connection ${id}`);
  await check();
});

for (const [name, options] of [
  ["light", {}],
  ["dark", { colorScheme: "dark" }],
  ["narrow", { viewport: { width: 390, height: 844 } }],
]) {
  test(`all parts are accessible: ${name}`, async (t) => {
    const { page, check } = await open(t, options);
    await logIn(page);
    for (const title of TITLES) {
      await show(page, title);
      await accessible(page, `${name}, ${title}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${title} is ${wide} pixels too wide`);
      await shot(page, `${name}-${title.toLowerCase().replaceAll(" ", "-")}`);
    }
    await check();
  });
}
