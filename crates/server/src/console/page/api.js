// Requests of the JSON interface below /api/v1/.

/** An answer with an error; `code` is MySQL's number, 0 for errors of the request itself. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let csrf = "";

async function request(path, options) {
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { ...options, credentials: "same-origin" });
  } catch {
    throw new ApiError(0, 0, "The server does not answer.");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = body.error ?? { code: 0, message: `HTTP status ${response.status}` };
    throw new ApiError(response.status, error.code, error.message);
  }
  return body;
}

async function post(path, body) {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify(body),
  });
}

async function asLogin(answer) {
  const login = await answer;
  csrf = login.csrf;
  return login;
}

export const session = () => asLogin(request("session"));
export const logIn = (user, password) => asLogin(post("login", { user, password }));
export const logOut = () => post("logout", {});
export const history = () => request("history");
export const explain = (digest, schema) => post("explain", { digest, schema });
export const kill = (id, query) => post("kill", { id, query });

/** Rows of a part as objects, by the names of the columns. */
export async function rows(part) {
  const { columns, rows, missing } = await request(part);
  if (missing) throw new ApiError(404, 1146, "This server has no such part.");
  const names = columns.map((name) => name.toLowerCase());
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])));
}

/** The reasons for which the server is not healthy; none if it is. */
export async function healthProblems() {
  try {
    const response = await fetch("/health", { cache: "no-store" });
    const text = await response.text();
    return response.ok ? [] : text.trim().split("\n");
  } catch {
    return ["the server does not answer"];
  }
}
