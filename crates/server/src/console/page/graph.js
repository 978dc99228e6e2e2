// Lock waits as a graph: an arrow from each waiting session to the one that blocks it.

import { el, micros, svg } from "./dom.js";

const WIDTH = 190;
const HEIGHT = 46;
const GAP_X = 120;
const GAP_Y = 18;

/** Columns of the drawing: blockers that do not wait themselves are in column 0. */
function columnsOf(nodes, edges) {
  const depth = new Map([...nodes.keys()].map((id) => [id, 0]));
  // Deadlocks are cycles, and short-lived: the number of rounds is limited.
  for (let round = 0; round < nodes.size; round += 1) {
    let moved = false;
    for (const { waiting, blocking } of edges) {
      const least = Math.min(depth.get(blocking) + 1, nodes.size);
      if (depth.get(waiting) < least && waiting !== blocking) {
        depth.set(waiting, least);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return depth;
}

function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** The graph of the rows of part "locks". */
export function lockGraph(rows) {
  const nodes = new Map();
  const edges = rows.map((row) => {
    const blocking = row.blocking ?? `transaction ${row.blocking_transaction}`;
    nodes.set(row.waiting, { title: `#${row.waiting} ${row.waiting_user ?? ""}`, text: row.waiting_statement });
    if (!nodes.has(blocking)) {
      const title = row.blocking === null ? blocking : `#${blocking} ${row.blocking_user ?? ""}`;
      nodes.set(blocking, { title, text: row.blocking_statement });
    }
    return { waiting: row.waiting, blocking, row };
  });
  const depth = columnsOf(nodes, edges);
  const used = [];
  const places = new Map();
  for (const id of nodes.keys()) {
    const column = depth.get(id);
    used[column] = (used[column] ?? 0) + 1;
    places.set(id, { x: column * (WIDTH + GAP_X) + 2, y: (used[column] - 1) * (HEIGHT + GAP_Y) + 2 });
  }
  const width = Math.max(...[...places.values()].map((p) => p.x)) + WIDTH + 4;
  const height = Math.max(...[...places.values()].map((p) => p.y)) + HEIGHT + 4;
  const drawnNodes = [...nodes].map(([id, node]) => {
    const { x, y } = places.get(id);
    return svg("g", null,
      svg("title", null, `${node.title}: ${node.text ?? "no statement"}`),
      svg("rect", { class: depth.get(id) === 0 ? "node blocker" : "node", x, y, width: WIDTH, height: HEIGHT, rx: 7 }),
      svg("text", { class: "node-title", x: x + 10, y: y + 19 }, shorten(node.title.trim(), 24)),
      svg("text", { x: x + 10, y: y + 36 }, shorten(node.text ?? "idle in transaction", 26)));
  });
  const drawnEdges = edges.map(({ waiting, blocking, row }) => {
    const [from, to] = [places.get(waiting), places.get(blocking)];
    const [x1, y1, x2, y2] = [from.x, from.y + HEIGHT / 2, to.x + WIDTH + 8, to.y + HEIGHT / 2];
    const middle = (x1 + x2) / 2;
    return [
      svg("path", { class: "edge", d: `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}` }),
      svg("path", { class: "arrow", d: `M${x2 - 8},${y2} l9,-5 v10 z` }),
      svg("text", { x: x1 - 8, y: y1 - 6, "text-anchor": "end" }, micros(row.waited_us)),
    ];
  });
  const label = edges.map(({ waiting, blocking, row }) =>
    `connection ${waiting} waits for ${blocking} on ${row.table ?? "a lock"}`).join("; ");
  return el("div", { class: "card graph" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
      drawnEdges, drawnNodes));
}
