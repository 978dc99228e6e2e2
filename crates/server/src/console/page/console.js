// Login, navigation by the fragment of the address, and refreshing the part that is shown.

import * as api from "./api.js";
import { announce, el, replace } from "./dom.js";
import { PARTS } from "./parts.js";

const REFRESH = 5000;

const byId = (id) => document.getElementById(id);

/** What a part remembers, by its id. */
const views = new Map();
let current = null;
let timer = 0;
let paused = false;

function showHealth(problems) {
  const health = byId("health");
  health.className = problems.length ? "bad" : "good";
  const text = problems.length ? `Health: ${problems.join("; ")}` : "Health: ok";
  if (health.textContent !== text) health.textContent = text;
}

/** Renders, keeping the focus, the caret and the scroll positions. */
function render(part, data) {
  const content = byId("content");
  const active = document.activeElement;
  const key = content.contains(active) ? (active.dataset.key ?? null) : null;
  const sort = content.contains(active) ? (active.dataset.sort ?? null) : null;
  const caret = active?.selectionStart;
  const scrolled = [...content.querySelectorAll(".scroll")].map((node) => node.scrollLeft);
  const focusedRegion = [...content.querySelectorAll(".scroll")].indexOf(active);
  const pause = el("input", { type: "checkbox", "data-key": "refresh", checked: !paused, on: {
    change: (event) => { paused = !event.target.checked; schedule(); },
  } });
  replace(content,
    el("div", { class: "tools" }, el("h2", { id: "part-title" }, part.title),
      el("label", { class: "quiet" }, pause, " refresh every 5 s")),
    part.render(data, views.get(part.id)));
  const regions = [...content.querySelectorAll(".scroll")];
  regions.forEach((node, at) => { node.scrollLeft = scrolled[at] ?? 0; });
  const again = key !== null ? [...content.querySelectorAll("[data-key]")].find((node) => node.dataset.key === key)
    : sort !== null ? content.querySelector(`[data-sort="${CSS.escape(sort)}"]`) : regions[focusedRegion];
  again?.focus({ preventScroll: true });
  if (again && typeof caret === "number" && again.type === "search") again.setSelectionRange(caret, caret);
}

function viewOf(part) {
  if (!views.has(part.id)) {
    views.set(part.id, { data: null, reload: () => refresh(part), render: () => render(part, views.get(part.id).data) });
  }
  return views.get(part.id);
}

/** Loads and shows a part, if it is still the one to show. */
async function refresh(part) {
  const view = viewOf(part);
  try {
    const [data, problems] = await Promise.all([part.load(), api.healthProblems()]);
    showHealth(problems);
    view.data = data;
    if (current !== part) return;
    if (!byId("dialog").open) render(part, data);
    byId("content").dataset.shown = part.id;
  } catch (error) {
    if (error.status === 401) {
      showLogin("The login has ended.");
    } else if (error instanceof api.ApiError) {
      showHealth([error.message]);
    } else {
      throw error;
    }
  }
}

function schedule() {
  clearTimeout(timer);
  if (paused || !current) return;
  timer = setTimeout(async () => {
    if (current && !document.hidden) await refresh(current);
    schedule();
  }, REFRESH);
}

/** Shows the part that the address names. */
async function navigate() {
  if (byId("console").hidden) return;
  const id = location.hash.slice("#/".length);
  const part = PARTS.find((known) => known.id === id) ?? PARTS[0];
  const moved = current !== null && current !== part;
  current = part;
  for (const link of byId("parts").querySelectorAll("a")) {
    if (link.dataset.part === part.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${part.title} – Porpoise console`;
  if (moved) {
    replace(byId("content"), el("p", { class: "quiet" }, "Loading…"));
    announce(part.title);
  }
  await refresh(part);
  schedule();
}

function showLogin(message) {
  current = null;
  clearTimeout(timer);
  views.clear();
  replace(byId("content"));
  for (const id of ["console", "account", "logout"]) byId(id).hidden = true;
  byId("login").hidden = false;
  byId("login-error").textContent = message ?? "";
  document.title = "Log in – Porpoise console";
  byId("user").focus();
}

async function showConsole(login) {
  byId("login").hidden = true;
  byId("account").textContent = `${login.account} · Porpoise ${login.version}`;
  for (const id of ["console", "account", "logout"]) byId(id).hidden = false;
  current = null;
  await navigate();
  byId("content").focus();
}

async function submit(event) {
  event.preventDefault();
  const [user, password, error] = ["user", "password", "login-error"].map(byId);
  const send = byId("login-form").querySelector("button");
  error.textContent = "";
  send.disabled = true;
  try {
    const login = await api.logIn(user.value, password.value);
    password.value = "";
    await showConsole(login);
  } catch (failure) {
    error.textContent = failure.message;
    password.focus();
    password.select();
  } finally {
    send.disabled = false;
  }
}

async function leave() {
  await api.logOut().catch(() => {});
  showLogin("");
}

async function begin() {
  replace(byId("parts"), PARTS.map((part) =>
    el("li", null, el("a", { href: `#/${part.id}`, "data-part": part.id }, part.title))));
  byId("login-form").addEventListener("submit", submit);
  byId("logout").addEventListener("click", leave);
  window.addEventListener("hashchange", navigate);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && current && !paused) refresh(current); });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId(byId("login").hidden ? "content" : "user").focus();
  });
  showHealth(await api.healthProblems());
  const login = await api.session();
  if (login.account === null) showLogin("");
  else await showConsole(login);
}

begin();
