// A button that copies a text and says that it did.

import { h, s } from "./dom.js";

const SHOWN = 2_000;

/** A copy button. ``what`` names the text for those who cannot see it, ``label`` is shown beside the icon. */
export function copyButton(visit, text, what, { label = null } = {}) {
  const shown = label ? h("span", {}, label) : null;
  const button = h(
    "button",
    {
      type: "button",
      class: label ? "copy" : "copy small",
      "aria-label": `Copy ${what}`,
      "data-focus": `copy ${what}`,
      title: label ? null : `Copy ${what}`,
      onclick: async () => {
        const done = await copied(text, button);
        button.classList.toggle("done", done);
        if (shown) shown.textContent = done ? "Copied" : "Not copied";
        visit.announce(done ? `Copied ${what}` : `The browser did not copy ${what}: select it and copy it by hand`);
        setTimeout(() => {
          button.classList.remove("done");
          if (shown) shown.textContent = label;
        }, SHOWN);
      },
    },
    icon(),
    shown,
  );
  return button;
}

/** Whether the text is on the clipboard now. Pages on plain HTTP have no clipboard API, but the old command. */
async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "visually-hidden", readonly: true, "aria-hidden": "true", tabindex: "-1" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    button.focus({ preventScroll: true });
    return done;
  }
}

function icon() {
  return s(
    "svg",
    { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    s("path", { class: "sheets", d: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" }),
    s("path", { class: "tick-mark", d: "M3 8.5l3.5 3.5L13 4.5" }),
  );
}
