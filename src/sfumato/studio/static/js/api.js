// The only door to the server. Every failure becomes one sentence that can be shown.
import { useCallback, useEffect, useState } from "./html.js";

let csrf = "";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const GONE = "The studio's server does not answer. Start `sfumato studio` again and open the address it prints.";
const SIGNED_OUT = "This window is not signed in (any more). Open the address that `sfumato studio` printed.";

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(GONE, 0);
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  const usual = answer.status === 401 ? SIGNED_OUT : `The server refused this (status ${answer.status}).`;
  throw new ApiError(said?.error || usual, answer.status);
}

export async function get(path, signal) {
  return (await ask(path, { signal })).json();
}

export async function getBlob(path, signal) {
  return (await ask(path, { signal })).blob();
}

export async function getText(path) {
  return (await ask(path)).text();
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-Sfumato-CSRF": csrf };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

export async function openSession() {
  const session = await get("api/session");
  csrf = session.csrf;
  return session;
}

/** What is at `path`, read again whenever it changes or `reload` is called; nothing while `path` is null. */
export function useResource(path) {
  const [state, setState] = useState({ data: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    setState((old) => (old.path === path ? old : { data: null, error: null, path }));
    if (path === null) return undefined;
    const stop = new AbortController();
    get(path, stop.signal).then(
      (data) => setState({ data, error: null, path }),
      (error) => error.name !== "AbortError" && setState((old) => ({ ...old, error, path })),
    );
    return () => stop.abort();
  }, [path, round]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  const put = useCallback((data) => setState({ data, error: null, path }), [path]);
  return { data: state.path === path ? state.data : null, error: state.error, reload, put };
}
