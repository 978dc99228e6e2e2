// The parts of the console. A part loads data and renders them; `view` is its state.

import * as api from "./api.js";
import { chart } from "./charts.js";
import { announce, bytes, count, dialog, el, micros, rate, seconds, table, tiles } from "./dom.js";
import { lockGraph } from "./graph.js";

/** Rows of a part, or the error that refused them. */
async function rowsOf(part) {
  try {
    return { rows: await api.rows(part) };
  } catch (error) {
    if (error.status === 401 || error.status === 0) throw error;
    return { rows: [], error };
  }
}

/** Renders rows, or why there are none. */
function shown({ rows, error }, render) {
  if (!error) return render(rows);
  const what = error.status === 403 ? "This account may not see this: " : "";
  return el("p", { class: "error" }, what + error.message);
}

function filterBox(view, label) {
  const input = el("input", { type: "search", value: view.filter ?? "", "data-key": "filter", on: {
    input: (event) => { view.filter = event.target.value; view.render(); },
  } });
  return el("label", null, `${label} `, input);
}

function filtered(rows, view, names) {
  const wanted = (view.filter ?? "").toLowerCase();
  if (!wanted) return rows;
  return rows.filter((row) => names.some((name) => String(row[name] ?? "").toLowerCase().includes(wanted)));
}

/** A table whose headings sort it; the order is kept in the view under this name. */
function sortable(view, name, by, options) {
  view.sorts ??= {};
  view.sorts[name] ??= { by, descending: true };
  return table({ ...options, sort: view.sorts[name], changed: () => view.render() });
}

const text = (name, title) => ({ name, title });
const code = (name, title) => ({ name, title, kind: "code" });
const number = (name, title, format = count) => ({ name, title, kind: "number", format });

const place = (row) => (row.table ? `${row.schema}.${row.table}` : "");

const button = (key, label, name, press, kind = "small") =>
  el("button", { type: "button", class: kind, "data-key": key, "aria-label": name, on: { click: press } }, label);

// Overview

async function loadOverview() {
  const [history, status] = await Promise.all([api.history(), rowsOf("status")]);
  return { history, status };
}

const valuesOf = (rows) => Object.fromEntries(rows.map((row) => [row.variable_name.toLowerCase(), row.value]));

function renderOverview({ history, status }) {
  const { samples, interval_ms: interval } = history;
  const times = samples.map((sample) => sample.time);
  const span = 180 * interval;
  const last = samples.at(-1);
  const figures = (rows) => {
    const values = valuesOf(rows);
    return tiles([
      ["Uptime", seconds(values.uptime ?? 0)],
      ["SQL statements / s", last ? rate(last.sql.per_second) : "–"],
      ["memcached commands / s", last ? rate(last.memcached.per_second) : "–"],
      ["SQL sessions", count(values.threads_connected)],
      ["Slow statements", count(values.slow_queries)],
      ["Refused logins", count(values.aborted_connects)],
      ["Received", bytes(values.bytes_received)],
      ["Sent", bytes(values.bytes_sent)],
    ]);
  };
  const latency = (protocol, title) => chart({ title, times, span, format: micros, lines: [
    ["p50", samples.map((sample) => sample[protocol].p50_us)],
    ["p95", samples.map((sample) => sample[protocol].p95_us)],
    ["p99", samples.map((sample) => sample[protocol].p99_us)],
  ] });
  const throughput = (protocol, title) => chart({ title, times, span, format: rate, lines: [
    ["rate", samples.map((sample) => sample[protocol].per_second)],
  ] });
  return [
    shown(status, figures),
    el("div", { class: "charts" },
      throughput("sql", "SQL statements per second"), latency("sql", "SQL latency"),
      throughput("memcached", "memcached commands per second"), latency("memcached", "memcached latency")),
    samples.length < 2 ? el("p", { class: "quiet" }, "The charts begin a few seconds after the server's start.") : null,
  ];
}

// Statements

async function showPlan(row) {
  let content;
  try {
    const { statement, parameters, plan } = await api.explain(row.digest, row.schema);
    const note = parameters === 0 ? null
      : el("p", { class: "quiet" }, "Planned without values (?): SET GLOBAL statement_sample_values = ON records them.");
    content = [el("pre", { tabindex: "0", "aria-label": "Statement" }, statement), note,
      el("pre", { tabindex: "0", "aria-label": "Plan" }, plan)];
  } catch (error) {
    content = el("p", { class: "error" }, error.message);
  }
  await dialog("Plan", content, [["", "Close"]]);
}

function renderStatements(data, view) {
  return shown(data, (rows) => [
    el("div", { class: "tools" }, filterBox(view, "Filter")),
    sortable(view, "statements", "total_us", {
      caption: "Statements by digest, of all sessions since the start or the last reset",
      columns: [code("text", "Statement"), text("schema", "Schema"), number("count", "Count"),
        number("errors", "Errors"), number("total_us", "Total time", micros), number("avg_us", "Average", micros),
        number("p95_us", "p95", micros), number("p99_us", "p99", micros), number("lock_us", "Lock time", micros),
        number("examined", "Rows examined"), number("sent", "Rows sent"), number("scans", "Full scans")],
      rows: filtered(rows, view, ["text", "schema"]),
      actions: (row) => (row.digest
        ? [button(`plan-${row.schema}-${row.digest}`, "Plan", `Plan of ${row.text?.slice(0, 80)}`, () => showPlan(row))] : []),
    }),
  ]);
}

// Processes

async function killProcess(row, query, view) {
  const what = query ? `the statement of connection ${row.id}` : `connection ${row.id}`;
  const content = [el("p", null, `End ${what} of ${row.user}@${row.host}?`),
    row.statement ? el("pre", { tabindex: "0" }, row.statement) : null];
  const answer = await dialog("Kill", content, [["", "Cancel"], ["kill", "Kill", "danger"]]);
  if (answer !== "kill") return;
  try {
    await api.kill(row.id, query);
    view.message = `Ended ${what}.`;
  } catch (error) {
    view.message = error.message;
  }
  announce(view.message);
  await view.reload();
}

function renderProcesses(data, view) {
  return shown(data, (rows) => [
    view.message ? el("p", null, view.message) : null,
    sortable(view, "processes", null, {
      caption: "Connections and what they execute",
      columns: [number("id", "Id", String), text("user", "User"), text("host", "Host"), text("schema", "Schema"),
        text("command", "Command"), number("seconds", "Time", seconds), text("state", "State"), code("statement", "Statement")],
      rows,
      actions: (row) => [
        row.statement ? button(`query-${row.id}`, "Kill statement", `Kill statement of connection ${row.id}`,
          () => killProcess(row, true, view), "small danger") : null,
        button(`kill-${row.id}`, "Kill", `Kill connection ${row.id}`, () => killProcess(row, false, view), "small danger"),
      ].filter(Boolean),
    }),
  ]);
}

// Locks

async function loadLocks() {
  const [waits, deadlocks] = await Promise.all([rowsOf("locks"), rowsOf("deadlocks")]);
  return { waits, deadlocks };
}

function renderLocks({ waits, deadlocks }) {
  return [
    shown(waits, (rows) => [
      rows.length ? lockGraph(rows) : null,
      table({
        caption: "Sessions that wait for locks",
        columns: [number("waiting", "Waits", String), text("waiting_user", "User"), number("waited_us", "For", micros),
          { ...text("table", "Table"), cell: place }, text("index", "Index"), code("key", "Key"), text("mode", "Mode"),
          { ...number("blocking", "Blocked by"), cell: (row) => row.blocking ?? `transaction ${row.blocking_transaction}` },
          code("waiting_statement", "Statement"), code("blocking_statement", "Statement of the blocker")],
        rows,
        empty: "No session waits for a lock.",
      })]),
    el("h3", null, "Last deadlocks"),
    shown(deadlocks, (rows) => table({
      caption: "Waits of the last deadlocks",
      columns: [number("deadlock", "No."), text("time", "Time (UTC)"), text("victim", "Victim"), number("thread", "Connection", String),
        text("user", "User"), { ...text("table", "Table"), cell: place }, text("index", "Index"), code("key", "Key"),
        code("statement", "Statement")],
      rows,
      empty: "None since the start.",
    })),
  ];
}

// Hot keys

function renderHotKeys(data, view) {
  if (data.error?.status === 404) return el("p", { class: "quiet" }, "This server does not record hot keys.");
  return shown(data, (rows) => sortable(view, "keys", "lookups", {
    caption: "Most frequently used keys, by sampling",
    columns: [{ ...text("table", "Table"), cell: place }, text("index", "Index"), text("interface", "Interface"),
      text("prefix", "Prefix"), code("key", "Key"), number("lookups", "Lookups"), number("writes", "Writes"),
      number("max_error", "At most too many"), number("share", "Share", (value) => `${(value * 100).toFixed(2)} %`)],
    rows,
    empty: "No keys were used yet.",
  }));
}

// Tables

async function loadTables() {
  const [tables, indexes, redundant] = await Promise.all(["tables", "indexes", "redundant_indexes"].map(rowsOf));
  return { tables, indexes, redundant };
}

async function showIndexes(row, indexes) {
  const own = indexes.rows.filter((index) => index.schema === row.schema && index.table === row.table);
  const content = shown(indexes, () => table({
    caption: `Indexes of ${place(row)}`,
    columns: [text("index", "Index"), code("columns", "Columns"), { name: "is_unique", title: "Unique", format: (n) => (n ? "yes" : "no") },
      number("cardinality", "Cardinality"), text("type", "Type")],
    rows: own,
  }));
  await dialog(place(row), content, [["", "Close"]]);
}

function renderTables({ tables, indexes, redundant }, view) {
  // Engines without sizes of tables leave them NULL.
  const sizes = [number("data_bytes", "Data", bytes), number("index_bytes", "Index data", bytes)]
    .filter(({ name }) => tables.rows.some((row) => row[name] !== null));
  const numbers = new Map();
  for (const { schema, table } of indexes.rows) {
    const key = `${schema}.${table}`;
    numbers.set(key, (numbers.get(key) ?? 0) + 1);
  }
  return [
    shown(tables, (rows) => [
      el("div", { class: "tools" }, filterBox(view, "Filter")),
      sortable(view, "tables", "table_rows", {
        caption: "Tables; rows and sizes are estimates",
        columns: [text("schema", "Schema"), text("table", "Table"), text("type", "Type"), number("table_rows", "Rows"),
          ...sizes, number("index_count", "Indexes")],
        rows: filtered(rows, view, ["schema", "table"]).map((row) => ({ ...row, index_count: numbers.get(place(row)) ?? 0 })),
        actions: (row) => (row.index_count
          ? [button(`indexes-${place(row)}`, "Indexes", `Indexes of ${place(row)}`, () => showIndexes(row, indexes))] : []),
        empty: "There are no tables, or none that this account may see.",
      })]),
    redundant.rows.length ? [el("h3", null, "Redundant indexes"), table({
      caption: "Indexes whose columns another index begins with",
      columns: [text("schema", "Schema"), text("table", "Table"), text("index", "Index"), text("dominant", "Contained in")],
      rows: redundant.rows,
    })] : null,
  ];
}

// memcached

function renderPrefixes(data) {
  return shown(data, (rows) => table({
    caption: "Prefixes of memcached keys, and the tables to which they are mapped",
    columns: [text("role", "Role"), { ...text("prefix", "Prefix"), format: (value) => value || "(any other)" },
      text("container", "Container"), { ...text("table", "Table"), cell: place }, text("policy", "Policy"),
      text("get_policy", "Get"), text("set_policy", "Set"), text("state", "State"), text("reason", "Reason")],
    rows,
    empty: "There is no memcached listener, or this account may not see its mapping.",
  }));
}

// Backups and schema changes

async function loadProgress() {
  const [status, processes, stages] = await Promise.all(["status", "processes", "stages"].map(rowsOf));
  return { status, processes, stages };
}

/** How much of a statement's stage is done, in percent; the number of rows is an estimate. */
function done(stage) {
  if (!stage?.estimated) return "";
  const percent = Math.min(100, Math.floor(stage.completed / stage.estimated * 100));
  return [el("progress", { value: percent, max: 100, "aria-label": `Statement of connection ${stage.id}` }), `${percent} %`];
}

const CHANGES = /^\s*(alter|create|drop|truncate|optimize|analyze|check|repair|backup|load|import)\b/i;

function renderProgress({ status, processes, stages }) {
  const backup = (rows) => {
    const values = valuesOf(rows);
    if (values.backup_bytes_total === undefined) return el("p", { class: "quiet" }, "This server makes no backups: its data are not in files of its own.");
    const [done, total] = [Number(values.backup_bytes_done), Number(values.backup_bytes_total)];
    const running = total > 0
      ? [el("p", null, `${bytes(done)} of ${bytes(total)}`), el("progress", { value: done, max: total, "aria-label": "Backup" })]
      : el("p", null, "No backup is running.");
    const list = Object.entries(values).filter(([name]) => /^(backup|archive)_/.test(name) && !/_bytes_(done|total)$/.test(name));
    return [running, tiles(list.map(([name, value]) => [name.replaceAll("_", " "), value]))];
  };
  return [
    el("h3", null, "Backups"),
    shown(status, backup),
    el("h3", null, "Schema changes and maintenance"),
    shown(processes, (rows) => table({
      caption: "Statements that change or check tables, and how far they are",
      columns: [number("id", "Id", String), text("user", "User"), text("schema", "Schema"), number("seconds", "Time", seconds),
        { ...number("done", "Done"), cell: (row) => done(stages.rows.find(({ id }) => id === row.id)) },
        text("state", "Progress"), code("statement", "Statement")],
      rows: rows.filter((row) => CHANGES.test(row.statement ?? "")),
      empty: "None is running.",
    })),
  ];
}

// Configuration

async function loadVariables() {
  const [variables, sources] = await Promise.all([rowsOf("variables"), rowsOf("variable_sources")]);
  const known = new Map(sources.rows.map((row) => [row.name, row]));
  const rows = variables.rows.map((row) => ({
    name: row.variable_name, value: row.value, source: "", set_user: null, set_time: null, ...known.get(row.variable_name),
  }));
  return { rows, error: variables.error, sources: sources.error };
}

function renderVariables(data, view) {
  const changed = el("input", { type: "checkbox", checked: view.changed, "data-key": "changed", on: {
    change: (event) => { view.changed = event.target.checked; view.render(); },
  } });
  return shown(data, (rows) => [
    el("div", { class: "tools" }, filterBox(view, "Filter"),
      data.sources ? null : el("label", null, changed, " only those that differ from the compiled value")),
    table({
      caption: "Global system variables, and where their values come from",
      columns: [text("name", "Variable"), code("value", "Value"), text("source", "Source"), text("set_user", "Set by"), text("set_time", "Set at (UTC)")],
      rows: filtered(rows, view, ["name", "value"]).filter((row) => !view.changed || row.source !== "COMPILED"),
      empty: "No variable matches.",
    }),
  ]);
}

/** All parts, in the order of the navigation. */
export const PARTS = [
  { id: "overview", title: "Overview", load: loadOverview, render: renderOverview },
  { id: "statements", title: "Statements", load: () => rowsOf("statements"), render: renderStatements },
  { id: "processes", title: "Processes", load: () => rowsOf("processes"), render: renderProcesses },
  { id: "locks", title: "Lock waits", load: loadLocks, render: renderLocks },
  { id: "hot-keys", title: "Hot keys", load: () => rowsOf("hot_keys"), render: renderHotKeys },
  { id: "tables", title: "Tables", load: loadTables, render: renderTables },
  { id: "memcached", title: "memcached", load: () => rowsOf("prefixes"), render: renderPrefixes },
  { id: "progress", title: "Backups and changes", load: loadProgress, render: renderProgress },
  { id: "variables", title: "Configuration", load: loadVariables, render: renderVariables },
];
