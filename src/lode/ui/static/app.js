// The console: from an address behind the # to a page, and from one page to the next.

import { get, keepToken, Problem } from "./api.js";
import { dataset } from "./dataset.js";
import { h } from "./dom.js";
import { health } from "./health.js";
import { overview } from "./overview.js";
import { heading, notice } from "./parts.js";
import { pipelines } from "./pipelines.js";
import { snapshot } from "./snapshot.js";
import { streams } from "./streams.js";
import { volume } from "./volume.js";

const main = document.getElementById("main");
const announcer = document.getElementById("announcer");
let current = null;

const PAGES = [
  [/^$/, "overview", overview],
  [/^datasets\/([^/]+)$/, "overview", dataset],
  [/^datasets\/([^/]+)\/([^/]+)$/, "overview", snapshot],
  [/^volumes\/([^/]+)$/, "overview", volume],
  [/^volumes\/([^/]+)\/([^/]+)$/, "overview", volume],
  [/^pipelines$/, "pipelines", pipelines],
  [/^streams$/, "streams", streams],
  [/^health$/, "health", health],
];

/** What a page may use while it is shown; all of it ends when the next page comes. */
class Visit {
  #leaving = new AbortController();
  #chores = [];

  get signal() {
    return this.#leaving.signal;
  }

  get = (segments, parameters) => get(segments, parameters, this.signal);

  /** Announce a change to screen readers. */
  announce(text) {
    if (!this.signal.aborted) announcer.textContent = text;
  }

  /** Do something again and again, but only while somebody looks. */
  every(milliseconds, task) {
    const timer = setInterval(async () => {
      if (document.hidden || this.signal.aborted) return;
      try {
        await task();
        this.#warn(null);
      } catch (error) {
        if (!this.signal.aborted) this.#warn(error);
      }
    }, milliseconds);
    this.leave(() => clearInterval(timer));
    return () => clearInterval(timer);
  }

  leave(chore) {
    this.#chores.push(chore);
  }

  end() {
    this.#leaving.abort();
    for (const chore of this.#chores) chore();
  }

  #warn(error) {
    main.querySelector(".stale")?.remove();
    if (error) main.prepend(h("p", { class: "notice bad stale", role: "alert" }, `This page is not up to date: ${error.message}`));
  }
}

function find(hash) {
  const path = hash.replace(/^#?\/?/, "").replace(/\/$/, "");
  for (const [pattern, view, page] of PAGES) {
    const match = path.match(pattern);
    if (match) {
      try {
        return { view, page, parameters: match.slice(1).map(decodeURIComponent) };
      } catch {
        return null; // a broken escape names nothing
      }
    }
  }
  return null;
}

async function show({ first = false } = {}) {
  current?.end();
  const visit = (current = new Visit());
  const found = find(location.hash);
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === found?.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  // Most pages are there at once; only those that are not say that they are coming.
  const patience = setTimeout(() => main.replaceChildren(h("p", { class: "loading", role: "status" }, "Loading…")), 300);
  let content;
  try {
    if (!found) throw new Problem("There is no such page here.", 404);
    content = await found.page(visit, ...found.parameters);
  } catch (error) {
    content = visit.signal.aborted ? null : failure(error);
  } finally {
    clearTimeout(patience);
  }
  if (visit.signal.aborted) return;
  main.replaceChildren(...content);
  const title = main.querySelector("h1");
  document.title = title.textContent === "Overview" ? "Lode" : `${title.textContent} · Lode`;
  if (!first) {
    title.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function failure(error) {
  if (error.status === 401) return askForToken(error);
  if (!(error instanceof Problem)) console.error(error);
  const titles = { 0: "No answer", 404: "Not found" };
  return [
    heading(titles[error.status] ?? "This did not work", { trail: [["Overview", "#/"]] }),
    notice(error.message, "bad"),
    h("p", {}, h("button", { type: "button", onclick: () => show() }, "Try again")),
  ];
}

function askForToken(error) {
  const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    begin();
  };
  return [
    heading("A token, please"),
    notice(error.message),
    h(
      "form",
      { class: "token", onsubmit: submit },
      h("label", { for: "token" }, "Token"),
      field,
      h("button", { type: "submit" }, "Go on"),
      h("p", { class: "note" }, "It is kept until this tab is closed, and sent to this server only."),
    ),
  ];
}

async function about() {
  const status = await get(["status"]);
  document.getElementById("about").textContent = `Lode ${status.version} · ${status.store} · read only`;
  document.querySelector('[data-view="streams"]').parentElement.hidden = !status.live;
  document.querySelector('[data-view="pipelines"]').parentElement.hidden = !status.pipelines;
}

async function begin({ first = false } = {}) {
  await Promise.all([show({ first }), about().catch(() => null)]);
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind the # is the page's address here
  main.focus();
});
addEventListener("hashchange", () => show());
begin({ first: true });
