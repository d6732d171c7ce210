// Ask the console's own API. A server that wants a token is given the one that was typed in.

const TOKEN = "lode-token";

export class Problem extends Error {
  constructor(message, status, damaged = false) {
    super(message);
    this.status = status;
    // Whether what was asked for is on the store, but is not what it should be.
    this.damaged = damaged;
  }
}

export function keepToken(token) {
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    throw new Problem("This browser forbids the page to keep a token, even for a while.", 401);
  }
}

function kept() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/** The JSON at ``api/…``: path segments are escaped, a parameter that is null is left out. */
export async function get(segments, parameters = {}, signal = undefined) {
  const url = new URL(`api/${segments.map(encodeURIComponent).join("/")}`, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  const token = kept();
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(url, { headers, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem("The server does not answer. It may have stopped.", 0);
  }
  if (response.ok) return response.json();
  const body = await response.json().catch(() => null);
  throw new Problem(body?.error?.message ?? `The server answered ${response.status}.`, response.status, body?.error?.damaged);
}
