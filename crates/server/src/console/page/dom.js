// Elements, tables and formats. Text becomes text nodes, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (value !== undefined && value !== null && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (name, properties, ...children) =>
  fill(document.createElement(name), properties, children);

export const svg = (name, properties, ...children) =>
  fill(document.createElementNS(SVG, name), properties, children);

/** Replaces the content of an element. */
export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

export function count(value) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en");
}

export function rate(value) {
  return value >= 100 ? count(Math.round(value)) : String(Math.round(value * 10) / 10);
}

export function micros(value) {
  if (value === null || value === undefined) return "–";
  const number = Number(value);
  if (number < 1000) return `${Math.round(number)} µs`;
  if (number < 1e6) return `${(number / 1e3).toPrecision(3)} ms`;
  if (number < 6e7) return `${(number / 1e6).toPrecision(3)} s`;
  return seconds(number / 1e6);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let number = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024) return `${number >= 10 || unit === "B" ? Math.round(number) : number.toFixed(1)} ${unit}`;
    number /= 1024;
  }
  return `${number.toFixed(1)} TiB`;
}

export function seconds(value) {
  let left = Math.floor(Number(value));
  if (left < 60) return `${left} s`;
  const days = Math.floor(left / 86400);
  left %= 86400;
  const parts = [[days, "d"], [Math.floor(left / 3600), "h"], [Math.floor((left % 3600) / 60), "min"]];
  return parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

/**
 * A table. Columns: { name, title, format, kind: "number" | "code", cell }. `actions` makes buttons
 * for a row. `sort` = { by, descending } is kept by the caller and changed by the headings.
 */
export function table({ caption, columns, rows, actions, sort, changed, empty }) {
  if (rows.length === 0) return el("p", { class: "quiet" }, empty ?? "None.");
  const heading = (column) => {
    const by = sort && sort.by === column.name;
    const order = by ? (sort.descending ? "descending" : "ascending") : undefined;
    const press = () => {
      sort.descending = by ? !sort.descending : column.kind === "number";
      sort.by = column.name;
      changed(column.name);
    };
    const title = sort
      ? el("button", { type: "button", "data-sort": column.name, on: { click: press } }, column.title)
      : column.title;
    return el("th", { scope: "col", class: column.kind === "number" ? "number" : null, "aria-sort": order }, title);
  };
  const cell = (row, column) => {
    const value = row[column.name];
    const shown = column.cell ? column.cell(row)
      : column.format ? column.format(value) : value === null ? "" : String(value);
    const inner = column.kind === "code" && typeof shown === "string"
      ? el("div", { class: "clip", title: shown.length > 160 ? shown : null }, shown) : shown;
    return el("td", { class: column.kind }, inner);
  };
  const line = (row) => el("tr", null, columns.map((column) => cell(row, column)),
    actions ? el("td", { class: "actions" }, actions(row)) : null);
  const body = sort ? sorted(rows, sort) : rows;
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", null,
      el("caption", null, caption),
      el("thead", null, el("tr", null, columns.map(heading),
        actions ? el("th", { scope: "col", class: "actions" }, el("span", { class: "visually-hidden" }, "Actions")) : null)),
      el("tbody", null, body.map(line))));
}

function sorted(rows, { by, descending }) {
  const order = (a, b) => {
    const [x, y] = [a[by], b[by]];
    if (x === y) return 0;
    if (x === null || x === undefined) return -1;
    if (y === null || y === undefined) return 1;
    return x < y ? -1 : 1;
  };
  return [...rows].sort((a, b) => (descending ? -order(a, b) : order(a, b)));
}

/** Named figures. */
export const tiles = (list) =>
  el("dl", { class: "tiles" }, list.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));

/** Shows a dialog; resolves to the value of the button pressed, "" if it was closed otherwise. */
export function dialog(title, content, buttons) {
  const box = document.getElementById("dialog");
  const former = document.activeElement;
  replace(document.getElementById("dialog-title"), title);
  replace(document.getElementById("dialog-content"), content);
  const form = box.querySelector("form");
  replace(form, buttons.map(([value, text, kind]) => el("button", { value, class: kind }, text)));
  box.returnValue = "";
  box.showModal();
  return new Promise((done) => {
    box.addEventListener("close", () => {
      if (former?.isConnected) former.focus();
      done(box.returnValue);
    }, { once: true });
  });
}

/** Tells users of screen readers. */
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}
