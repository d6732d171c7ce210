// Lines that open what the page shows elsewhere, one language at a time.

import { copyButton } from "./copy.js";
import { freshId, h } from "./dom.js";

// The language that was chosen last in this tab.
let favourite = "Python";

/** Tabs over the lines of {snippets: [{label, text}], note}. */
export function snippets(visit, { snippets: all, note }) {
  const id = freshId("open");
  const tabs = all.map(({ label }, number) =>
    h("button", { type: "button", role: "tab", id: `${id}-tab-${number}`, "aria-controls": `${id}-panel`, onclick: () => choose(number) }, label),
  );
  const text = h("pre", { tabindex: "0" });
  const tools = h("div", { class: "tools" });
  const panel = h("div", { role: "tabpanel", id: `${id}-panel` }, text);

  function choose(number) {
    const { label, text: lines } = all[number];
    favourite = label;
    tabs.forEach((tab, place) => {
      tab.setAttribute("aria-selected", String(place === number));
      tab.tabIndex = place === number ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", tabs[number].id);
    text.setAttribute("aria-label", `${label} lines`);
    text.textContent = lines;
    tools.replaceChildren(copyButton(visit, lines, `the ${label} lines`, { label: "Copy" }));
  }

  function key(event) {
    const here = tabs.indexOf(document.activeElement);
    const moves = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: tabs.length - 1 };
    if (here === -1 || !(event.key in moves)) return;
    const next = (moves[event.key] + tabs.length) % tabs.length;
    choose(next);
    tabs[next].focus();
    event.preventDefault();
  }

  choose(Math.max(0, all.findIndex(({ label }) => label === favourite)));
  return h(
    "div",
    { class: "snippets" },
    h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": "Language", onkeydown: key }, tabs), tools),
    panel,
    note ? h("p", { class: "note" }, note) : null,
  );
}
